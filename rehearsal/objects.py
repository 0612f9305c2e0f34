"""Where data sets, checkpoints and traces lie: objects under s3:// URIs.

Either files below the service's own folder, which the service also offers to clients over the S3
protocol, or an S3-compatible server that boto3 reaches.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object of a listing."""

    key: str
    size: int
    """Bytes."""
    modified: float
    """Seconds since the epoch."""


class ObjectStore(Protocol):
    """Reads and writes whole objects."""

    def read(self, uri: str) -> bytes:
        """The object's bytes. Raises FileNotFoundError."""
        ...

    def write(self, uri: str, body: bytes) -> None:
        """Write an object whole or not at all; its bucket is made when missing."""
        ...

    def list(self, uri: str) -> list[ObjectInfo]:
        """Objects whose key begins with the URI's key, in key order."""
        ...


def split_uri(uri: str) -> tuple[str, str]:
    """Bucket and key of an s3:// URI.

    Raises:
        ValueError: not such a URI.
    """
    scheme, _, place = uri.partition("://")
    bucket, _, key = place.partition("/")
    if scheme != "s3" or not bucket:
        raise ValueError(f"{uri!r} is not an s3:// URI")
    return bucket, key.lstrip("/")


class FileObjects:
    """Objects as files: <root>/<bucket>/<key>; a key that ends in / is a file in that folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, bucket: str, key: str) -> Path:
        """The file of an object.

        Raises:
            ValueError: the key would leave the bucket's folder, or is no name for a file.
        """
        if any(len(part.encode()) > NAME_MAX for part in (bucket, *key.split("/"))):
            raise ValueError(f"a part of the key is longer than {NAME_MAX} bytes")
        base = (self.root / bucket).resolve()
        path = (base / (f"{key}{_MARKER}" if key.endswith("/") else key)).resolve()
        if base.parent != self.root.resolve() or not path.is_relative_to(base):
            raise ValueError(f"key {key!r} is not usable as a path")
        return path

    def read(self, uri: str) -> bytes:
        """See ObjectStore."""
        path = self.path(*split_uri(uri))
        if not path.is_file():
            raise FileNotFoundError(f"no object at {uri}")
        return path.read_bytes()

    def write(self, uri: str, body: bytes) -> None:
        """See ObjectStore; the file appears by an atomic rename.

        Raises:
            ValueError: the key is a folder of other keys, or one of its folders is an object.
        """
        path = self.path(*split_uri(uri))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ValueError(f"a folder of {uri} is an object") from None
        if path.is_dir():
            raise ValueError(f"{uri} is a folder")
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    def delete(self, uri: str) -> None:
        """Remove an object if it is there, and the folders that it leaves empty."""
        bucket, key = split_uri(uri)
        path = self.path(bucket, key)
        if path.is_dir():
            return  # other keys lie below; there is no such object
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == (self.root / bucket).resolve() or not _removed_if_empty(folder):
                break

    def list(self, uri: str) -> list[ObjectInfo]:
        """See ObjectStore."""
        bucket, prefix = split_uri(uri)
        found = [info for info in self._walk(bucket) if info.key.startswith(prefix)]
        return sorted(found, key=lambda info: info.key)

    def _walk(self, bucket: str) -> Iterator[ObjectInfo]:
        base = self.root / bucket
        for path in base.rglob("*"):
            if path.is_file() and not path.name.startswith(_PARTIAL):
                stat = path.stat()
                key = path.relative_to(base).as_posix().removesuffix(_MARKER)
                yield ObjectInfo(key, stat.st_size, stat.st_mtime)


_PARTIAL = ".partial-"
_MARKER = ".folder-marker"
NAME_MAX = 200
"""Bytes in a file's name, with room for what is put around it; file systems allow 255."""


def _removed_if_empty(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


class S3Objects:
    """Objects on an S3-compatible server."""

    def __init__(self, client: Any) -> None:
        self._s3 = client

    def read(self, uri: str) -> bytes:
        """See ObjectStore."""
        bucket, key = split_uri(uri)
        try:
            return self._s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        except (self._s3.exceptions.NoSuchKey, self._s3.exceptions.NoSuchBucket):
            raise FileNotFoundError(f"no object at {uri}") from None

    def write(self, uri: str, body: bytes) -> None:
        """See ObjectStore; the bucket has to exist, as it does in a deployed environment."""
        bucket, key = split_uri(uri)
        self._s3.put_object(Bucket=bucket, Key=key, Body=body)

    def list(self, uri: str) -> list[ObjectInfo]:
        """See ObjectStore."""
        bucket, prefix = split_uri(uri)
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [
            ObjectInfo(item["Key"], item["Size"], item["LastModified"].timestamp())
            for page in pages
            for item in page.get("Contents", ())
        ]
