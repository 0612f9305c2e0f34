"""Trace files into sets of games, wherever the files lie.

A file of one training step or one validation says so in its lines; an evaluation is known by its
file's name. Every game is counted; of a long run only some steps' traces are kept for the replay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mtrl.errors import InputError
from mtrl.report.games import Game, GameSet, Kind, group, read_line

KEPT_STEPS = 8
"""Training steps whose traces are kept: the first, the last, and evenly spread ones between."""
KEPT_GAMES = 2_048
"""Games of one file whose traces are kept."""
_TRAINING_STEP = re.compile(r"train-(\d+)\Z")


@dataclass(frozen=True, slots=True)
class TraceFile:
    """One file of trace lines."""

    name: str
    """Shown in messages."""
    stem: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """What the files held."""

    sets: tuple[GameSet, ...]
    notes: tuple[str, ...]


def kept_stems(stems: Iterable[str]) -> frozenset[str]:
    """The files whose traces are kept: all but those of training steps between the kept ones."""
    stems = list(stems)
    steps = sorted(stem for stem in stems if _TRAINING_STEP.match(stem))
    dropped = set(steps) - set(spread(steps, KEPT_STEPS))
    return frozenset(stem for stem in stems if stem not in dropped)


def spread(items: Sequence[str], count: int) -> list[str]:
    """At most `count` items, evenly spread, with the first and the last."""
    if len(items) <= count:
        return list(items)
    places = {round(i * (len(items) - 1) / (count - 1)) for i in range(count)}
    return [items[place] for place in sorted(places)]


def read_files(
    files: Iterable[TraceFile], policy: str | None = None, keep: frozenset[str] | None = None
) -> Reading:
    """Read files one after the other, so that only kept traces stay in memory.

    Args:
        policy: who played an evaluation; the file's stem when None.
        keep: stems whose traces are kept; all when None.

    Raises:
        InputError: a line that is no trace; names file and line.
    """
    sets: list[GameSet] = []
    notes: list[str] = []
    for file in files:
        limit = KEPT_GAMES if keep is None or file.stem in keep else 0
        found: dict[tuple[Kind, int | None], list[Game]] = {}
        for game, kind, step in _games(file, notes):
            games = found.setdefault((kind or Kind.EVALUATION, step), [])
            games.append(game if len(games) < limit else replace(game, trace=None))
        for (kind, step), games in found.items():
            evaluated = kind is Kind.EVALUATION
            player = (policy or file.stem) if evaluated else ""
            sets += group(games, kind, player, None if evaluated else step)
    return Reading(tuple(sets), tuple(notes))


def _games(file: TraceFile, notes: list[str]) -> Iterable[tuple[Game, Kind | None, int | None]]:
    lines = file.body.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield read_line(line)
        except ValueError as error:
            if number == len(lines):  # no newline at its end: it is being written
                notes.append(f"The last line of {file.name} is cut and was left out.")
                return
            raise InputError(
                "bad-trace",
                f"{file.name}, line {number}: {error}.",
                "Give files as a job leaves them; a newer schema needs a newer mtrl.",
            ) from error
