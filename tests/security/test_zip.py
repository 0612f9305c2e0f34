"""The agent's zip holds no secret, whatever lies about where it is built."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from stacks.constructs.agent_bundle import agent_sources, build_agent_bundle, check_secrets
from stacks.constructs.secret_files import secrets_in
from stacks.constructs.zips import BundleError

ROOT = Path(__file__).parents[2]
HIDDEN = {
    ".env": "AWS_SECRET_ACCESS_KEY=planted",
    ".aws/credentials": "aws_secret_access_key = planted",
    "wordle/.env.local": "TOKEN=planted",
    "__pycache__/main.cpython-311.pyc": "planted",
    ".git/config": "planted",
}
KEY = "wJalrXUtnFEMI/K7MDENGbPxRfiCY" + "4" * 11
REFUSED = {
    "key.pem": "anything",
    "credentials.json": "{}",
    "wordle/notes.txt": "AKIA" + "Z" * 16,
    "config.ini": f"aws_secret_access_key = {KEY}",
    "wordle/constants.py": f"AWS_SECRET_ACCESS_KEY = '{KEY}'",
    "host.txt": "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 64,
    "curl.txt": "Authorization: Bearer sagemaker-api-key-" + "A" * 40,
}


@pytest.fixture(scope="module")
def contents() -> dict[str, bytes]:
    """Name -> bytes of everything in the zip."""
    with zipfile.ZipFile(build_agent_bundle(ROOT, "3.13").path) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


def test_the_zip_holds_nothing_that_looks_like_a_secret(contents: dict[str, bytes]) -> None:
    # The certificates of public authorities, which HTTPS needs, are no secret.
    files = {name: body for name, body in contents.items() if not name.endswith("cacert.pem")}
    assert secrets_in(files) == []


def test_the_zip_holds_nothing_of_this_machine(contents: dict[str, bytes]) -> None:
    own = {str(ROOT), str(Path.home()), *(v for k, v in os.environ.items() if "SECRET" in k)}
    words = [word.encode() for word in own if len(word) > 5]
    assert [name for name, body in contents.items() if any(word in body for word in words)] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the agent's sources."""
    copy = tmp_path / "agent"
    shutil.copytree(ROOT / "agent", copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def plant(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_hidden_files_beside_the_sources_stay_out(folder: Path) -> None:
    before = agent_sources(folder)
    for name, text in HIDDEN.items():
        plant(folder, name, text)
    assert agent_sources(folder) == before


@pytest.mark.parametrize("name", REFUSED)
def test_a_secret_among_the_sources_is_refused_by_name_and_not_shown(
    folder: Path, name: str
) -> None:
    check_secrets(agent_sources(folder))
    plant(folder, name, REFUSED[name])
    if name.endswith(".py"):
        plant(folder, "wordle/task.py", f"import agent.{name[:-3].replace('/', '.')}")
    with pytest.raises(BundleError, match=re.escape(name)) as refused:
        check_secrets(agent_sources(folder))
    assert KEY not in str(refused.value)


def test_the_example_keys_of_documentation_are_no_secret() -> None:
    assert secrets_in({"a.rst": b"AKIAIOSFODNN7EXAMPLE"}) == []
