"""A job's task rows, read from a channel's data set as the service reads it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any

from mtrl.job.document import Channel
from rehearsal.objects import ObjectStore, split_uri

PROMPT_COLUMN = "prompt"


class RowsError(ValueError):
    """A data set that cannot be used; the message names the file and the line."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Prompts in file order, and the hash of the bytes they came from."""

    prompts: tuple[str, ...]
    sha256: str


def read_rows(store: ObjectStore, channel: Channel) -> Rows:
    """Read a channel's rows: .jsonl, .json (array) or .csv; the `prompt` column, else the first.

    Raises:
        RowsError: nothing there, an unknown format or an unreadable row.
    """
    source = channel.data_source.s3_data_source
    if source is None:
        raise RowsError(
            f"channel {channel.channel_name}: a registered data set cannot be read in a "
            "rehearsal; give an S3DataSource"
        )
    bucket, _ = split_uri(source.s3_uri)
    found = [info for info in store.list(source.s3_uri) if not info.key.endswith("/")]
    if not found:
        raise RowsError(f"channel {channel.channel_name}: no object under {source.s3_uri}")
    prompts: list[str] = []
    digest = hashlib.sha256()
    for info in found:
        body = store.read(f"s3://{bucket}/{info.key}")
        digest.update(body)
        prompts += _parse(info.key, body)
    if not prompts:
        raise RowsError(f"channel {channel.channel_name}: {source.s3_uri} holds no rows")
    return Rows(tuple(prompts), digest.hexdigest())


def _parse(key: str, body: bytes) -> list[str]:
    suffix = key.rsplit(".", 1)[-1].lower()
    if suffix not in ("jsonl", "json", "csv"):
        raise RowsError(f"{key}: a rehearsal reads .jsonl, .json and .csv, not .{suffix}")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RowsError(f"{key}: not UTF-8 at byte {error.start}") from None
    if suffix == "csv":
        rows = _csv(key, text)
    elif suffix == "json":
        rows = _json(key, text, None)
        if not isinstance(rows, list):
            raise RowsError(f"{key}: must be a JSON array of rows")
    else:
        rows = [
            _json(key, line, number)
            for number, line in enumerate(text.splitlines(), start=1)
            if line.strip()
        ]
    return [_prompt(key, number, row) for number, row in enumerate(rows, start=1)]


def _csv(key: str, text: str) -> list[Any]:
    try:
        return list(csv.DictReader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise RowsError(f"{key}: not CSV: {error}") from None


def _json(key: str, text: str, line: int | None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {line}" if line else f"line {error.lineno}"
        raise RowsError(f"{key}: {where} is not JSON: {error.msg}") from None
    except RecursionError:
        raise RowsError(f"{key}: nested too deeply to be rows") from None


def _prompt(key: str, number: int, row: Any) -> str:
    if not isinstance(row, dict) or not row:
        raise RowsError(f"{key}: row {number} is not an object with a {PROMPT_COLUMN!r} column")
    value = row[PROMPT_COLUMN] if PROMPT_COLUMN in row else next(iter(row.values()))
    if not isinstance(value, str) or not value:
        raise RowsError(f"{key}: row {number}: column {PROMPT_COLUMN!r} is not a text")
    return value
