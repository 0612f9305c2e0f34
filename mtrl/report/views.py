"""How a task's games are shown: its summary decides.

A summary with `guesses` of a `word` and as many `marks` is shown as a board of tiles; any other
task's games are replayed as moves and answers. The reward's parts are joined to the moves where
the summary has one entry a move, or where the board says which move a part is of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.trace import Move, Trace

MARKS = {"G": "right place", "Y": "elsewhere in the word", "X": "no further copy in the word"}
"""Mark -> what it says; the page has a colour, a letter and a pattern for each."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a move stands in the game: its row on the board and its part of the reward."""

    row: int | None = None
    part: int | None = None


def board(summary: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """The rows of tiles, as (word, marks); None when the summary has no board."""
    guesses = summary.get("guesses")
    if not isinstance(guesses, list):
        return None
    rows = [_row(guess) for guess in guesses]
    found = [row for row in rows if row is not None]
    return found if len(found) == len(rows) else None


def _row(guess: Any) -> tuple[str, str] | None:
    if not isinstance(guess, Mapping):
        return None
    word, marks = guess.get("word"), guess.get("marks")
    if not isinstance(word, str) or not isinstance(marks, str) or len(word) != len(marks):
        return None
    return (word, marks) if set(marks) <= MARKS.keys() else None


def reward_parts(summary: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The reward's parts: of the episode, and one group a scored move."""
    parts = summary.get("reward_parts")
    if not isinstance(parts, Mapping):
        return {}, []
    turns = parts.get("turns")
    own = {name: value for name, value in parts.items() if isinstance(value, int | float)}
    scored = turns if isinstance(turns, list) else []
    return own, [_flat(turn) for turn in scored if isinstance(turn, Mapping)]


def _flat(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as they are; a group of counts without its zeros."""
    flat: dict[str, Any] = {}
    for name, value in turn.items():
        if isinstance(value, Mapping):
            flat[name] = {key: count for key, count in value.items() if count}
        elif isinstance(value, int | float | str):
            flat[name] = value
    return flat


def places(trace: Trace) -> list[list[Place]]:
    """For every turn's moves, in order, where each stands."""
    rows = board(trace.summary) or []
    _, parts = reward_parts(trace.summary)
    moves = [move for turn in trace.turns for move in turn.moves]
    if rows:
        found = _by_board(moves, rows, parts)
    else:
        found = [Place(part=i) if len(parts) == len(moves) else Place() for i in range(len(moves))]
    taken = iter(found)
    return [[next(taken) for _ in turn.moves] for turn in trace.turns]


def _by_board(
    moves: Sequence[Move], rows: Sequence[tuple[str, str]], parts: Sequence[Mapping[str, Any]]
) -> list[Place]:
    """A move whose answer begins with the next row's word and marks played that row.

    The other scored parts, one a move that was answered but not played, go to the moves between
    when there are as many of them.
    """
    at, row = [], 0
    for move in moves:
        plays = row < len(rows) and _begins_with(move, rows[row])
        at.append(row if plays else None)
        row += plays
    if row < len(rows):  # the answers do not say which move played what
        return [Place() for _ in moves]
    if len(parts) == len(moves):
        return [Place(number, i) for i, number in enumerate(at)]
    if len(parts) == len(rows):
        return [Place(number, number) for number in at]
    return [Place(number) for number in at]


def _begins_with(move: Move, row: tuple[str, str]) -> bool:
    word, marks = row
    return move.feedback.lower().startswith(f"{word}: {marks}".lower())
