"""The rows of an evaluation: read once, checked by the task, and written anew per condition.

Reasoning effort is no parameter of an evaluation job. The service hands a row's text to the agent
verbatim, so each row carries the settings that it is to be played with, and the agent stays as it
is deployed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.task import Task, TaskFormatError
from mtrl.dataset.files import check_readable, read_records
from mtrl.errors import InputError
from mtrl.evaluate.plan import Conditions

SETTINGS = "settings"
"""The key of a row under which the agent looks for its settings."""


@dataclass(frozen=True, slots=True)
class RowSet:
    """Prompts in file order."""

    source: str
    """Where they were read from."""
    prompts: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Of the prompts alone."""
        return hashlib.sha256(json.dumps(self.prompts).encode()).hexdigest()


def read_rows(paths: Sequence[Path], source: str, limit: int | None = None) -> RowSet:
    """Read a data set's files.

    Args:
        limit: only so many rows, from the first.

    Raises:
        InputError: an unreadable file or row; names the file and line.
    """
    prompts: list[str] = []
    for path in paths:
        check_readable(path)
        for record in read_records(path):
            if record.prompt is None:
                raise InputError(
                    "bad-row",
                    f"{source}, line {record.line}: {record.fault}.",
                    "`mtrl dataset check` lists all faults.",
                )
            prompts.append(record.prompt)
    if not prompts:
        raise InputError("no-rows", f"{source} has no rows.")
    return RowSet(source, tuple(prompts[:limit]))


def written(rows: RowSet, conditions: Conditions) -> bytes:
    """The rows as JSON lines, with the conditions' settings in each.

    Raises:
        InputError: settings are wanted and a row is no JSON object that could carry them.
    """
    settings = conditions.row_settings
    lines = []
    for number, prompt in enumerate(rows.prompts, start=1):
        text = _with_settings(rows.source, number, prompt, settings) if settings else prompt
        lines.append(json.dumps({"prompt": text}))
    return ("\n".join(lines) + "\n").encode()


def check(rows: RowSet, conditions: Conditions, task: Task) -> None:
    """Let the task read every row as it will be played.

    Raises:
        InputError: a row that the agent would refuse; names the row and its fault.
    """
    body = written(rows, conditions).decode()
    for number, line in enumerate(body.splitlines(), start=1):
        try:
            task.start(json.loads(line)["prompt"])
        except TaskFormatError as error:
            raise InputError(
                "bad-row",
                f"{rows.source}, row {number}: {error}.",
                "`mtrl dataset check` lists all faults of a file; a hint must not name an answer.",
            ) from None


def _with_settings(source: str, number: int, prompt: str, settings: dict[str, str]) -> str:
    try:
        row = json.loads(prompt)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise InputError(
            "row-without-settings",
            f"{source}, row {number}: its text is no JSON object, so it cannot carry "
            f"{' and '.join(settings)}.",
            "Write rows as JSON objects, or evaluate without --effort and --hint.",
        )
    own = row.get(SETTINGS)
    merged = {**(own if isinstance(own, dict) else {}), **settings}
    return json.dumps({**row, SETTINGS: merged})
