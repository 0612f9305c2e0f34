"""Joins what traces must not hold: each row's answer, and whether the row is training data.

The rows come with the run, or from the task's dataset on this machine when its files are those
that the run names by their hashes. An answer that contradicts a solved game is not shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.task import TASKS, Task, TaskFormatError, load_task
from mtrl.dataset.build import folder_of
from mtrl.dataset.check import split_of
from mtrl.dataset.files import check_readable, find_files, read_records
from mtrl.errors import InputError
from mtrl.report.games import Game
from mtrl.report.run import Run


@dataclass(frozen=True, slots=True)
class Answers:
    """What the dataset adds to the games."""

    by_row: Mapping[str, str]
    """Row id -> what the task says makes the row the game that it is: for Wordle the answer."""
    training: frozenset[str]
    """Ids of rows for training; empty when the training data is not known."""
    known: frozenset[str]
    """Ids of all rows found."""
    shared: int = 0
    """Held-out rows whose answer is a training row's too."""
    note: str = ""
    """Why answers are missing; empty when they are not."""


NOTHING = Answers({}, frozenset(), frozenset())


def join(run: Run, files: list[Path] | None = None) -> Answers:
    """Find the rows of a run's games.

    Args:
        files: data files to read instead of the task's own.

    Raises:
        InputError: one of `files` cannot be read.
    """
    if run.task not in TASKS:
        return _without(f"the task {run.task!r} is not known here")
    task = load_task(run.task)
    if files:
        return _checked(run, _read(task, _rows(files)))
    if run.rows is not None:
        return _checked(run, _read(task, run.rows))
    try:
        own = find_files(folder_of(run.task))
    except InputError as error:
        return _without(error.message)
    if run.data_hashes and not run.data_hashes <= {_hash(path) for path in own}:
        return _without("the dataset has changed since the run")
    return _checked(run, _read(task, _rows(own)))


def _without(reason: str) -> Answers:
    return Answers({}, frozenset(), frozenset(), note=f"Answers are not shown: {reason}.")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _rows(files: Iterable[Path]) -> Iterator[tuple[bool, str]]:
    for path in files:
        check_readable(path)
        training = split_of(path) == "train"
        for record in read_records(path):
            if record.prompt is not None:
                yield training, record.prompt


def _read(task: Task, rows: Iterable[tuple[bool, str]]) -> Answers:
    """Ids and answers of rows; rows that the task cannot read were never played."""
    identity = getattr(task, "identity", None)
    by_row: dict[str, str] = {}
    split: dict[bool, set[str]] = {True: set(), False: set()}
    for training, prompt in rows:
        try:
            row_id = getattr(task.start(prompt), "row_id", None)
            if row_id is None:
                continue
            split[training].add(str(row_id))
            if identity is not None:
                by_row[str(row_id)] = str(identity(prompt))
        except TaskFormatError:
            continue
    trained = {by_row.get(row) for row in split[True]} - {None}
    shared = sum(by_row.get(row) in trained for row in split[False] - split[True])
    return Answers(by_row, frozenset(split[True]), frozenset(split[True] | split[False]), shared)


def _checked(run: Run, answers: Answers) -> Answers:
    """Drop answers that a solved game contradicts: they are another dataset's."""
    for games in run.sets:
        for game in games.games:
            answer = answers.by_row.get(game.row_id)
            if answer is not None and _contradicts(game, answer):
                return _without("the rows found are not those that were played")
    return answers


def _contradicts(game: Game, answer: str) -> bool:
    summary = game.trace.summary if game.trace else {}
    guesses = summary.get("guesses")
    if not summary.get("solved") or not isinstance(guesses, list) or not guesses:
        return False
    last = guesses[-1]
    return isinstance(last, dict) and str(last.get("word")).lower() != answer.lower()
