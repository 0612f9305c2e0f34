"""Dataset files as they are deployed: checked, and named after their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mtrl.errors import InputError

PREFIX = "datasets/"


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """One file and where it lies in the bucket."""

    channel: str
    path: Path
    key: str
    """Holds the content's hash: a running job's rows never change under it."""
    rows: int


def read_datasets(root: Path, files: Mapping[str, str], batch: int) -> list[DatasetFile]:
    """Check the files and name them.

    Args:
        files: channel -> path below `root`.
        batch: global_batch_size; the training file needs at least so many rows.

    Raises:
        InputError: a file is missing, has too few rows, or repeats or lacks a prompt.
    """
    return [_dataset(root, channel, path, batch) for channel, path in sorted(files.items())]


def datasets_hash(files: list[DatasetFile]) -> str:
    """One name for all the files together."""
    return hashlib.sha256("\n".join(f.key for f in files).encode()).hexdigest()[:12]


def _dataset(root: Path, channel: str, name: str, batch: int) -> DatasetFile:
    path = root / name
    if not path.is_file():
        raise InputError("no-dataset", f"data.{channel}: there is no file {name}.")
    body = path.read_bytes()
    rows = _check_rows(f"data.{channel}: {name}", body) if path.suffix == ".jsonl" else 0
    if channel == "train" and 0 < rows < batch:
        raise InputError(
            "small-dataset",
            f"data.train: {name} has {rows} rows, fewer than one batch "
            f"(training.hyperparameters.global_batch_size {batch}).",
        )
    digest = hashlib.sha256(body).hexdigest()[:16]
    return DatasetFile(channel, path, f"{PREFIX}{digest}/{path.name}", rows)


def _check_rows(where: str, body: bytes) -> int:
    seen: dict[str, int] = {}
    for number, line in enumerate(body.decode().splitlines(), 1):
        try:
            prompt = json.loads(line)["prompt"]
        except (ValueError, KeyError, TypeError):
            message = f'{where}: line {number} is not a JSON object with a "prompt".'
            raise InputError("bad-dataset", message) from None
        if prompt in seen:
            message = f"{where}: line {number} repeats the prompt of line {seen[prompt]}."
            raise InputError("bad-dataset", message)
        seen[prompt] = number
    return len(seen)
