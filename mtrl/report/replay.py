"""The games as the page replays them: compressed blocks of JSON, within a size.

Compressed and in base64, nothing of what a model wrote can be read as markup. The page unpacks
the list of games at once and a block of games when one of them is opened. When not all games fit,
every set gives some before any gives more, and the page says how many are missing.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent.trace import Trace, Turn
from mtrl.report.answers import Answers
from mtrl.report.clusters import faults_of
from mtrl.report.games import Game, GameSet, Kind
from mtrl.report.run import Run
from mtrl.report.views import Place, board, places, reward_parts

MAX_BYTES = 4_200_000
"""Of the packed games in base64, which leaves room for the page within 5 MB."""
BLOCK = 64
"""Games in a block, and what a set gives before the next one is asked."""
MAX_TEXT = 20_000
"""Characters of one message; what is longer is cut, and says so."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What the page replays."""

    index: str
    """The list of games: packed JSON array, an entry a game."""
    blocks: tuple[str, ...]
    """The games themselves, `BLOCK` in each but the last, in the list's order."""
    games: int
    total: int
    """Games of the run, with those that are not in the blocks."""


def pack(run: Run, answers: Answers, max_bytes: int = MAX_BYTES) -> Replay:
    """Pack the games that have a trace, until `max_bytes` are full."""
    entries: list[dict[str, Any]] = []
    blocks: list[str] = []
    size = 0
    games = _in_turn(run.sets)
    while batch := list(islice(games, BLOCK)):
        block = _packed([_detail(trace) for _, _, trace in batch])
        listed = [_entry(index, game, trace, run, answers) for index, game, trace in batch]
        size += len(block) + len(_packed(listed))
        if size > max_bytes:
            break
        blocks.append(block)
        entries += listed
    total = sum(len(games.games) for games in run.sets)
    return Replay(_packed(entries), tuple(blocks), len(entries), total)


def _packed(value: Any) -> str:
    # ASCII: a model's text may hold halves of characters, which JSON can escape.
    text = json.dumps(value, separators=(",", ":")).encode("ascii")
    return base64.b64encode(zlib.compress(text, 6)).decode("ascii")


def _in_turn(sets: Sequence[GameSet]) -> Iterator[tuple[int, Game, Trace]]:
    """(index of its set, game, trace): some games of every set, then some more of every set."""
    order = sorted(range(len(sets)), key=lambda index: _urgency(sets[index]))
    left = {index: iter([g for g in sets[index].games if g.trace]) for index in order}
    while left:
        for index in list(left):
            batch = list(islice(left[index], BLOCK))
            if len(batch) < BLOCK:
                del left[index]
            for game in batch:
                if game.trace:
                    yield index, game, game.trace


def _urgency(games: GameSet) -> tuple[int, int]:
    """Evaluations before validations before training; later steps before earlier ones."""
    kinds = (Kind.EVALUATION, Kind.VALIDATION, Kind.TRAINING)
    return kinds.index(games.kind), -(games.step or 0)


def _entry(index: int, game: Game, trace: Trace, run: Run, answers: Answers) -> dict[str, Any]:
    return {
        "set": index,
        "row": game.row_id,
        "answer": answers.by_row.get(game.row_id),
        "id": trace.trajectory_id,
        "reward": game.reward,
        "solved": game.solved(run.threshold),
        "turns": game.turns,
        "outcome": game.outcome,
        "stop": game.stop_reason,
        "attempts": game.attempts,
        "failure": game.failure and _cut(game.failure),
        "seconds": round(game.seconds, 2),
        "faults": sorted(faults_of(game)),
    }


def _detail(trace: Trace) -> dict[str, Any]:
    episode, parts = reward_parts(trace.summary)
    at = places(trace)
    return {
        "board": board(trace.summary),
        "reward": episode,
        "parts": parts,
        "turns": [_turn(turn, where) for turn, where in zip(trace.turns, at, strict=True)],
    }


def _turn(turn: Turn, where: Sequence[Place]) -> dict[str, Any]:
    return {
        "text": _cut(turn.text),
        "reasoning": _cut(turn.reasoning),
        "finish": turn.finish_reason,
        "prefill": turn.prefill_tokens,
        "sample": turn.sample_tokens,
        "seconds": round(turn.seconds, 2),
        "moves": [
            {
                "tool": move.tool,
                "arguments": _cut(json.dumps(move.arguments, ensure_ascii=False)),
                "feedback": _cut(move.feedback),
                "recovered": move.recovered,
                "row": place.row,
                "part": place.part,
            }
            for move, place in zip(turn.moves, where, strict=True)
        ],
    }


def _cut(text: str) -> str:
    left_out = len(text) - MAX_TEXT
    return text if left_out <= 0 else f"{text[:MAX_TEXT]}\n[{left_out:,} characters left out]"
