"""Reads dataset files as the training service does, and says where each row stands.

The service takes .jsonl, .json (an array of objects), .csv (with a header) and .parquet; it reads
the column `prompt`, or the first column when there is none. Parquet is not read here.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtrl.errors import InputError

FORMATS = (".jsonl", ".json", ".csv")
PROMPT = "prompt"

MAX_FILE_BYTES = 1024**3
"""Largest file that can be registered as a dataset. Source: sagemaker 3.27, `ai_registry`."""
MAX_PROMPT_BYTES = 100_000_000
"""Largest payload of InvokeAgentRuntime, which carries the prompt. Source: botocore 1.44.8."""

_GAP = re.compile(r"[\s,]*")
"""What stands between two elements of an array; matches everywhere, if only nothing."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a file: its prompt, or why there is none."""

    line: int
    """1-based; where the row begins."""
    prompt: str | None
    fault: str = ""
    """What is wrong with the row; empty when `prompt` is set."""


def find_files(folder: Path) -> list[Path]:
    """The dataset files directly in `folder`, training file first.

    Raises:
        InputError: there is none.
    """
    found = [path for path in sorted(folder.glob("*")) if path.suffix in FORMATS]
    if not found:
        raise InputError(
            "no-dataset-files",
            f"{folder} has no dataset files ({', '.join(FORMATS)}).",
            "Name the files, or run `mtrl dataset build` first.",
        )
    return sorted(found, key=lambda path: not path.stem.startswith("train"))


def check_readable(path: Path) -> None:
    """Refuse what cannot be read at all, before anything is read.

    Raises:
        InputError: no such file, not a regular file, or not a format that is read here.
    """
    if not path.is_file():
        raise InputError(
            "no-such-file",
            f"{path} is not a file.",
            "Give the path of a dataset file, a folder with such files, or a task's name.",
        )
    if path.suffix == ".parquet":
        raise InputError(
            "parquet-not-checked",
            f"{path}: the service takes Parquet, but it is not checked here.",
            "Export the same rows as .jsonl and check that.",
        )
    if path.suffix not in FORMATS:
        raise InputError(
            "unknown-format",
            f"{path}: the service does not read {path.suffix or 'a file without an extension'!r}.",
            f"Use one of {', '.join(FORMATS)} (or .parquet, which is not checked here).",
        )


def read_records(path: Path) -> Iterator[Record]:
    """Every row of a file, also those that cannot be used. `path` has passed `check_readable`."""
    if path.suffix == ".jsonl":
        rows = _json_lines(path)
    elif path.suffix == ".json":
        rows = _json_array(path)
    else:
        rows = _csv_rows(path)
    return _prompts(rows)


_Row = tuple[int, dict[str, Any] | str]
"""Line, and the row's columns or its fault."""


def _prompts(rows: Iterable[_Row]) -> Iterator[Record]:
    """Pick the prompt column, as the first usable row shows it."""
    column: str | None = None
    for line, row in rows:
        if isinstance(row, str):
            yield Record(line, None, row)
            continue
        if column is None:
            column = PROMPT if PROMPT in row else next(iter(row), PROMPT)
        value = row.get(column)
        if column not in row:
            yield Record(line, None, f"column {column!r} is missing")
        elif not isinstance(value, str):
            kind = "null" if value is None else type(value).__name__
            yield Record(line, None, f"column {column!r} must be a string, not {kind}")
        elif not value.strip():
            yield Record(line, None, f"column {column!r} is empty")
        else:
            fault = _prompt_fault(value)
            yield Record(line, None, f"column {column!r} {fault}") if fault else Record(line, value)


def _prompt_fault(prompt: str) -> str:
    """Why a prompt cannot travel to the agent; empty when it can."""
    try:
        size = len(prompt.encode("utf-8"))
    except UnicodeEncodeError:
        return "has half a surrogate pair, which is no character"
    return f"is over {MAX_PROMPT_BYTES:,} bytes" if size > MAX_PROMPT_BYTES else ""


def _json_lines(path: Path) -> Iterator[_Row]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                yield number, f"not UTF-8 (byte {error.start + 1} of the line)"
                continue
            if not text.strip():
                yield number, "the line is empty; remove it"
                continue
            yield number, _json_object(text)


def _json_object(text: str) -> dict[str, Any] | str:
    try:
        row = json.loads(text)
    except ValueError as error:
        return f"not JSON: {_reason(error)}"
    except RecursionError:
        return "not JSON: nested too deeply"
    return row if isinstance(row, dict) else _not_an_object(row)


def _json_array(path: Path) -> Iterator[_Row]:
    try:
        text = path.read_bytes().decode("utf-8")
        whole = json.loads(text)
    except UnicodeDecodeError as error:
        yield 1, f"not UTF-8 (byte {error.start + 1} of the file)"
        return
    except (ValueError, RecursionError) as error:
        yield getattr(error, "lineno", 1), f"not JSON: {_reason(error)}; no row is read"
        return
    if not isinstance(whole, list):
        yield 1, "the file must be a JSON array of objects"
        return
    for line, row in zip(_element_lines(text, len(whole)), whole, strict=True):
        yield line, row if isinstance(row, dict) else _not_an_object(row)


def _element_lines(text: str, count: int) -> Iterator[int]:
    """The line on which each element of a valid JSON array begins."""
    decoder, at, line, counted = json.JSONDecoder(), text.index("[") + 1, 1, 0
    for _ in range(count):
        at = _GAP.match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess]
        line, counted = line + text.count("\n", counted, at), at
        yield line
        _, at = decoder.raw_decode(text, at)


def _csv_rows(path: Path) -> Iterator[_Row]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield 1, f"not UTF-8 (byte {error.start + 1} of the file)"
        return
    # A prompt may be longer than csv's default limit on a field.
    csv.field_size_limit(MAX_PROMPT_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    line = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, f"not CSV: {error}; nothing after this is read"
            return
        if header is None:
            header = cells
        elif len(cells) != len(header):
            yield line, f"{len(cells)} columns, but the header has {len(header)}"
        else:
            yield line, dict(zip(header, cells, strict=True))
        line = reader.line_num + 1


def _not_an_object(row: Any) -> str:
    return f"a row must be a JSON object, not {type(row).__name__}"


def _reason(error: Exception) -> str:
    return getattr(error, "msg", "") or str(error)
