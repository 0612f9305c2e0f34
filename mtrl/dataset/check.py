"""Judges a task's dataset files: what the service, the agent or the experiment would stumble on.

Files and a task in, findings out; every fault is listed, not just the first. Knows no task: a row
is good when `Task.start` accepts it, and two rows are the same when the task's optional
`identity(prompt)` says so (without it: when their prompts are equal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.task import Task, TaskFormatError
from mtrl.dataset.files import MAX_FILE_BYTES, Record, check_readable, read_records
from mtrl.job.hyperparameters import TRAINING

RECOMMENDED_BATCHES = 10
"""Source: the service's developer guide."""
BATCH_SIZES: tuple[int, ...] = TRAINING["global_batch_size"].choices
DEFAULT_BATCH_SIZE: int = TRAINING["global_batch_size"].default

ERROR, WARNING = "error", "warning"
SPLITS = ("train", "validation")
"""A file's part in the experiment: to be trained on, or held out."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or (a warning) unwise, with a file."""

    path: str
    line: int | None
    """1-based; None when the whole file is meant."""
    severity: str
    """"error" or "warning"; a file with warnings alone passes."""
    code: str
    """Stable, for scripts."""
    message: str

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.severity}: {self.message}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that was read."""

    path: str
    split: str
    """"train" or "validation"; only a training file has to fill a batch."""
    rows: int
    """Rows that are fit to be played."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check."""

    files: tuple[Checked, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is an error."""
        return all(finding.severity != ERROR for finding in self.findings)


@dataclass(slots=True)
class _Seen:
    """Where each game and each id was first found, over all files."""

    games: dict[str, tuple[str, int]] = field(default_factory=dict)
    ids: dict[str, tuple[str, int]] = field(default_factory=dict)


def check(
    paths: Sequence[Path],
    task: Task,
    batch_size: int = DEFAULT_BATCH_SIZE,
    held_out: Callable[[Path], bool] | None = None,
) -> Report:
    """Check files that will be used together: duplicates and overlap are looked for across them.

    Args:
        batch_size: the job's global_batch_size, which the training file must fill.
        held_out: tells validation files from training files; by their names when absent.

    Raises:
        InputError: a file that cannot be read at all.
    """
    for path in paths:
        check_readable(path)
    seen, files, findings = _Seen(), [], []
    for path in paths:
        split = split_of(path) if held_out is None else SPLITS[held_out(path)]
        checked, found = _check_file(path, split, task, batch_size, seen)
        files.append(checked)
        findings.extend(found)
    return Report(tuple(files), tuple(findings))


def split_of(path: Path) -> str:
    """A file's part in the experiment, from its name: `val…`, `eval…` and `test…` are held out."""
    return SPLITS[path.stem.startswith(("val", "eval", "test"))]


def _check_file(
    path: Path, split: str, task: Task, batch_size: int, seen: _Seen
) -> tuple[Checked, list[Finding]]:
    name = str(path)
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        message = f"{size:,} bytes; the service takes at most {MAX_FILE_BYTES:,}"
        return Checked(name, split, 0), [Finding(name, None, ERROR, "file-too-large", message)]
    findings: list[Finding] = []
    rows = 0
    for record in read_records(path):
        found = list(_check_record(record, name, task, seen))
        findings.extend(found)
        rows += not found
    findings.extend(_check_count(name, split, rows, batch_size))
    return Checked(name, split, rows), findings


def _check_record(record: Record, name: str, task: Task, seen: _Seen) -> Iterable[Finding]:
    def finding(code: str, message: str) -> Finding:
        return Finding(name, record.line, ERROR, code, message)

    if record.prompt is None:
        yield finding("unreadable-row", record.fault)
        return
    try:
        episode = task.start(record.prompt)
    except TaskFormatError as error:
        yield finding("refused-row", str(error))
        return
    here = (name, record.line)
    first = seen.games.setdefault(_identity(task)(record.prompt), here)
    if first != here:
        code, what = ("duplicate", "repeats") if first[0] == name else ("overlap", "is also in")
        yield finding(code, f"{what} {_place(first, name)}: the same game")
    row_id = getattr(episode, "row_id", None)
    if row_id is not None:
        first = seen.ids.setdefault(row_id, here)
        if first != here:
            yield finding("duplicate-id", f"id {row_id!r} is also at {_place(first, name)}")


def _identity(task: Task) -> Callable[[str], Any]:
    return getattr(task, "identity", None) or (lambda prompt: prompt)


def _place(first: tuple[str, int], name: str) -> str:
    return f"line {first[1]}" if first[0] == name else f"{first[0]}:{first[1]}"


def _check_count(name: str, split: str, rows: int, batch_size: int) -> Iterable[Finding]:
    if rows == 0:
        yield Finding(name, None, ERROR, "no-rows", "no row is fit to be played")
    elif split == "train":
        yield from _check_batches(name, rows, batch_size)


def _check_batches(name: str, rows: int, batch_size: int) -> Iterable[Finding]:
    batches, left_over = divmod(rows, batch_size)
    if not batches:
        fitting = [size for size in BATCH_SIZES if size <= rows]
        remedy = f"; global_batch_size {max(fitting)} would be filled" if fitting else ""
        message = f"{rows} good rows do not fill a batch of {batch_size}{remedy}"
        yield Finding(name, None, ERROR, "batch-not-filled", message)
        return
    if left_over:
        message = (
            f"{rows} good rows are {batches} batches of {batch_size} and {left_over} more, "
            "which do not fill one"
        )
        yield Finding(name, None, WARNING, "last-batch-not-filled", message)
    if batches < RECOMMENDED_BATCHES:
        message = (
            f"{rows} good rows are {batches} batches of {batch_size}; "
            f"{RECOMMENDED_BATCHES} are recommended"
        )
        yield Finding(name, None, WARNING, "few-batches", message)
