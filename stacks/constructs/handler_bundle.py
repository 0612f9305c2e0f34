"""The Lambda handlers' zip: their sources, what they share with `mtrl.job`, and a pruned boto3.

Lambda's own boto3 may be too old to know SageMaker jobs, so the locked one is vendored, without
the descriptions of services that no handler calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stacks.constructs.zips import (
    Bundle,
    BundleError,
    inputs_key,
    install_wheels,
    kept_zip,
    native_objects,
    read_tree,
    requirement_blocks,
)

DISTRIBUTIONS = (
    "boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3",
)  # fmt: skip
SERVICES = ("bedrock-agentcore-control", "cloudwatch", "logs", "s3", "sagemaker", "sns")
"""All that the handlers call; a client for another service fails at once."""
SHARED = (
    "mtrl/__init__.py",
    "mtrl/job/__init__.py",
    "mtrl/job/builder.py",
    "mtrl/job/hyperparameters.py",
    "mtrl/job/identity.py",
    "mtrl/job/models.py",
)


def build_handler_bundle(root: Path, python: str) -> Bundle:
    """Make or find the zip; see `build_agent_bundle` for the arguments."""
    lock = requirement_blocks((root / "agent" / "requirements.txt").read_text(), DISTRIBUTIONS)
    sources = handler_sources(root)

    def make() -> Mapping[str, bytes]:
        wheels = {k: v for k, v in install_wheels(lock, python).items() if _needed(Path(k))}
        if native := native_objects(wheels):
            raise BundleError(f"handlers must be pure Python: {', '.join(native)}")
        return {**wheels, **sources}

    key = inputs_key(sources, lock, python, *SERVICES)
    return kept_zip(root / ".build", "handlers", key, make)


def handler_sources(root: Path) -> dict[str, bytes]:
    """Our own files as they lie in the zip, under the import paths they have here."""
    handlers = read_tree(root / "stacks" / "handlers", lambda name: name.suffix == ".py")
    files = {f"stacks/handlers/{name}": body for name, body in handlers.items()}
    files["stacks/__init__.py"] = b""
    return files | {name: (root / name).read_bytes() for name in SHARED}


def _needed(name: Path) -> bool:
    parts = name.parts
    if parts[:2] == ("boto3", "data") or parts[:2] == ("boto3", "examples"):
        return False
    if parts[:2] == ("botocore", "data") and len(parts) > 3:
        return parts[2] in SERVICES
    return True
