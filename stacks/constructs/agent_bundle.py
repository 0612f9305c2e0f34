"""The agent's zip for AgentCore: the `agent/` folder, its locked arm64 wheels and a launcher.

Checked before anything is deployed, because AgentCore reports a crash at import only as a
start-up that took too long: size limits, foreign machine code, and imports that the zip cannot
satisfy.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent.task import TASKS
from stacks.constructs.secret_files import secrets_in
from stacks.constructs.zips import (
    Bundle,
    BundleError,
    foreign_objects,
    inputs_key,
    install_wheels,
    kept_zip,
    read_tree,
)

ENTRY_POINT = "main.py"
ENTRY_MODULE = "agent.main"
LAUNCHER = b'''"""AgentCore starts this file; the agent is the package beside it."""

import runpy

runpy.run_module("agent.main", run_name="__main__")
'''

MB = 1_000_000
ZIPPED_LIMIT = 250 * MB
UNZIPPED_LIMIT = 750 * MB
"""AgentCore's limits for direct code deployment."""
ZIPPED_GOAL = 40 * MB
"""Ours: what is larger is slower to start, for every session."""
LOCK = "requirements.txt"
POLICY_SIDE = "behaviours.py"
"""The trainable stand-in policy of a task: it knows the answer's candidates, so it stays out."""


def build_agent_bundle(root: Path, python: str) -> Bundle:
    """Make or find the zip.

    Args:
        root: the repository; zips are kept in its `.build` folder.
        python: version that the runtime runs, e.g. "3.13".

    Raises:
        BundleError: the zip would not run, breaks a limit or holds a secret.
    """
    sources = agent_sources(root / "agent")
    check_secrets(sources)
    lock = (root / "agent" / LOCK).read_text()

    def make() -> Mapping[str, bytes]:
        files = {**install_wheels(lock, python), **sources, ENTRY_POINT: LAUNCHER}
        check_files(files)
        return files

    key = inputs_key({**sources, ENTRY_POINT: LAUNCHER}, lock, python)
    bundle = kept_zip(root / ".build", "agent", key, make)
    check_sizes(bundle)
    return bundle


def agent_sources(folder: Path) -> dict[str, bytes]:
    """The agent's own files as they lie in the zip: data, and the modules it can reach.

    A module that nothing imports on the way from the entry point or a task stays out; so does
    POLICY_SIDE, whoever imports it.

    Raises:
        BundleError: there is no entry point.
    """
    files = {f"agent/{name}": body for name, body in read_tree(folder, _belongs).items()}
    if f"{ENTRY_MODULE.replace('.', '/')}.py" not in files:
        raise BundleError(f"{folder.name}/main.py is missing: it is what the launcher runs.")
    reachable = _reachable(files)
    return {name: body for name, body in files.items() if name in reachable or name[-3:] != ".py"}


def _belongs(name: Path) -> bool:
    unwanted = {"__pycache__", "tests", LOCK, POLICY_SIDE}
    hidden = any(part.startswith(".") for part in name.parts)
    return not (unwanted & set(name.parts) or hidden or name.suffix == ".pyc")


def _reachable(files: Mapping[str, bytes]) -> set[str]:
    """Module files that the entry point or a registered task imports, now or later."""
    found: set[str] = set()
    waiting = [ENTRY_MODULE, *(f"{package}.task" for package in TASKS.values())]
    while waiting:
        for name in _module_files(waiting.pop(), files) - found:
            found.add(name)
            waiting += _imports(ast.walk(ast.parse(files[name].decode())))
    return found


def _module_files(module: str, files: Mapping[str, bytes]) -> set[str]:
    """The files that importing `module` runs: itself and the packages that hold it."""
    parts = module.split(".")
    candidates = [f"{'/'.join(parts)}.py"]
    candidates += [f"{'/'.join(parts[:i])}/__init__.py" for i in range(1, len(parts) + 1)]
    return {name for name in candidates if name in files}


def check_secrets(sources: Mapping[str, bytes]) -> None:
    """Refuse to deploy what must stay at home.

    Raises:
        BundleError: names the files.
    """
    found = secrets_in(sources)
    if found:
        raise BundleError(
            f"these look like secrets: {', '.join(found)}. Everything in agent/ is deployed: move "
            "them out; the runtime has a role for its credentials."
        )


def check_files(files: Mapping[str, bytes]) -> None:
    """Refuse contents that AgentCore could not run.

    Raises:
        BundleError: names the files.
    """
    foreign = foreign_objects(files)
    if foreign:
        raise BundleError(f"not built for Linux on arm64: {', '.join(foreign)}")
    unmet = [
        f"{name} imports {module}"
        for name in sorted(files)
        if name.startswith("agent/") and name.endswith(".py")
        for module in _imported_modules(ast.parse(files[name].decode()).body)
        if not _provided(module, files)
    ]
    if unmet:
        raise BundleError(
            f"the agent would not start: {'; '.join(unmet)}, which the zip does not hold. "
            "Add it to the agent group in pyproject.toml and run `make lock`, or import it "
            "where it is used."
        )


def check_sizes(bundle: Bundle) -> None:
    """Refuse a zip over AgentCore's limits or our goal.

    Raises:
        BundleError: names the limit.
    """
    for what, size, limit in (
        ("unzipped", bundle.unzipped_bytes, UNZIPPED_LIMIT),
        ("zipped", bundle.zipped_bytes, ZIPPED_LIMIT),
        ("zipped", bundle.zipped_bytes, ZIPPED_GOAL),
    ):
        if size > limit:
            raise BundleError(
                f"the agent's zip is {size / MB:.0f} MB {what}, more than {limit // MB} MB: "
                "drop a dependency from the agent group."
            )


def _imported_modules(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Modules that must exist for these statements to run."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def _imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Modules that these statements import; `from package import name` may mean a module too."""
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield from _imported_modules([node])
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _provided(module: str, files: Mapping[str, bytes]) -> bool:
    top = module.split(".")[0]
    if top in sys.stdlib_module_names:
        return True
    if top == "agent":
        path = module.replace(".", "/")
        return f"{path}.py" in files or f"{path}/__init__.py" in files
    return any(name == f"{top}.py" or name.startswith(f"{top}/") for name in files)
