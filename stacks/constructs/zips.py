"""Zip files that depend on their content alone: fixed order, times and permissions.

The same files give the same bytes and the same content hash, so nothing is uploaded or updated
when nothing changed. Finished zips are kept in a folder under a key that names all that went in.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o100644
_ELF_MAGIC = b"\x7fELF"
_ELF_MACHINE = slice(18, 20)
_EM_AARCH64 = (183).to_bytes(2, "little")
_FOREIGN_SUFFIXES = (".pyd", ".dll", ".dylib", ".exe")
_MAKER_VERSION = 1
"""Raised when the way of making zips changes, so that kept ones are made anew."""


class BundleError(Exception):
    """A zip that could not be made or would not run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A finished zip."""

    path: Path
    content_hash: str
    """SHA-256 over names and uncompressed contents: independent of the compressor."""
    zipped_bytes: int
    unzipped_bytes: int


def content_hash(files: Mapping[str, bytes]) -> str:
    """SHA-256 over names and contents, in name order."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{len(name)}:{name}:{len(files[name])}:".encode())
        digest.update(files[name])
    return digest.hexdigest()


def write_zip(path: Path, files: Mapping[str, bytes]) -> Bundle:
    """Write `files` (name in the zip -> content) to `path`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".draft")
    try:
        with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w") as archive:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = _FILE_MODE << 16
                entry.create_system = 3  # Unix, wherever the zip is made
                archive.writestr(entry, files[name], compresslevel=6)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return Bundle(path, content_hash(files), path.stat().st_size, sum(map(len, files.values())))


def kept_zip(folder: Path, name: str, key: str, make: Callable[[], Mapping[str, bytes]]) -> Bundle:
    """The zip for `key`, from `folder` or made now.

    Args:
        key: names everything that went in (see `inputs_key`).
        make: returns the files; called only when no usable zip is kept.
    """
    path = folder / f"{name}-{key[:16]}.zip"
    record = path.with_suffix(".json")
    kept = _read_record(path, record)
    if kept is not None:
        return kept
    bundle = write_zip(path, make())
    facts = {**asdict(bundle), "path": path.name, "zip_sha256": _file_hash(path)}
    draft = record.with_suffix(f".{os.getpid()}.draft")
    draft.write_text(json.dumps(facts))
    draft.replace(record)
    return bundle


def inputs_key(files: Mapping[str, bytes], *facts: str) -> str:
    """Key of a zip that is made of these source files under these facts."""
    text = "\0".join([str(_MAKER_VERSION), content_hash(files), *facts])
    return hashlib.sha256(text.encode()).hexdigest()


def _read_record(path: Path, record: Path) -> Bundle | None:
    try:
        facts = json.loads(record.read_text())
        if facts.pop("zip_sha256") != _file_hash(path):
            return None
        return Bundle(**{**facts, "path": path})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _file_hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_tree(root: Path, keep: Callable[[Path], bool] = lambda path: True) -> dict[str, bytes]:
    """Files below `root` (name relative to it -> content) for which `keep` holds."""
    found = (path for path in root.rglob("*") if path.is_file())
    relative = ((path, path.relative_to(root)) for path in found)
    return {name.as_posix(): path.read_bytes() for path, name in relative if keep(name)}


def install_wheels(requirements: str, python: str) -> dict[str, bytes]:
    """Install a hashed requirements text for Linux on arm64, wheels only, into memory.

    Scripts (their first line names this machine's paths), bytecode and installer records are
    left out.

    Raises:
        BundleError: a package has no such wheel, or cannot be fetched.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "site"
        lock = Path(folder) / "requirements.txt"
        lock.write_text(requirements)
        command = [_uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--target", str(target), "--python-version", python]
        command += ["--python-platform", "aarch64-manylinux2014", "--only-binary=:all:"]
        command += ["-r", str(lock)]
        # What was fetched once is not asked for again, so that a later build needs no network.
        done = subprocess.run([*command, "--offline"], capture_output=True, text=True)
        if done.returncode:
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise BundleError(
                f"the arm64 wheels could not be installed: {done.stderr.strip()[-800:]}\n"
                "Every dependency needs a wheel for Linux on arm64 and Python "
                f"{python}; the first build needs the package index."
            )
        return read_tree(target, _wanted_from_wheel)


def _uv() -> str:
    """The uv of the environment that runs this; it is one of the project's own dependencies."""
    return str(Path(sys.executable).with_name("uv"))


def _wanted_from_wheel(name: Path) -> bool:
    installer_record = name.parent.suffix == ".dist-info" and name.name in {
        "RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json",
    }  # fmt: skip
    return not (
        name.parts[0] == "bin"
        or "__pycache__" in name.parts
        or name.suffix == ".pyc"
        or name.name == ".lock"
        or installer_record
    )


def foreign_objects(files: Mapping[str, bytes]) -> list[str]:
    """Names of native objects that Linux on arm64 cannot load."""
    return sorted(name for name, body in files.items() if _is_foreign(name, body))


def native_objects(files: Mapping[str, bytes]) -> list[str]:
    """Names of all ELF objects."""
    return sorted(name for name, body in files.items() if body.startswith(_ELF_MAGIC))


def _is_foreign(name: str, body: bytes) -> bool:
    if body.startswith(_ELF_MAGIC):
        return body[_ELF_MACHINE] != _EM_AARCH64
    return name.endswith(_FOREIGN_SUFFIXES)


def requirement_blocks(text: str, names: Iterable[str]) -> str:
    """The part of a hashed requirements text that pins the named distributions.

    Raises:
        BundleError: a name is not pinned there.
    """
    blocks: dict[str, str] = {}
    current = ""
    for line in text.splitlines(keepends=True):
        if line[:1].isalnum():
            current = line.split("==")[0].strip().lower()
        if current:
            blocks[current] = blocks.get(current, "") + line
    missing = sorted(set(names) - blocks.keys())
    if missing:
        raise BundleError(f"not pinned in the lock: {', '.join(missing)}. Run `make lock`.")
    return "".join(blocks[name] for name in sorted(names))
