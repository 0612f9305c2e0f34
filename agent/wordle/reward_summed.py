"""A sum of per-guess scores: an example of what not to do, kept for audits.

It looks reasonable guess by guess, and pays for a long game: a solve at once earns 0.99, a solve
in turn 3 about 1.6, and a careless loss about 0.5. A policy that optimises it learns to put the
answer off. docs/reward.md has the figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent.wordle.game import GREEN, SOLVED, YELLOW
from agent.wordle.reward import RewardParts, Turn, TurnScore, score_turns


@dataclass(frozen=True, slots=True)
class SummedTable:
    """Every constant of the summed reward. Chosen to pay as a published reward of this kind did:
    0.99 for a solve at once, 1.61 in turn 3, 0.49 for a loss, on average."""

    solve: float = 0.99
    """The guess that solves, whatever its turn."""
    green: float = 0.20
    """Per green of any other guess: the same clue is paid again at every guess."""
    yellow: float = 0.10
    """Per yellow of any other guess."""
    broken_clue: float = -0.03
    """Per known clue broken: far less than the marks earn."""
    repeat: float = -0.30
    """A word played before."""
    malformed: float = -0.30
    """A call that could not be played."""
    lost: float = -0.50
    """Once, when the game ends unsolved: less than its marks have earned by then."""


def summed_reward(turns: Sequence[Turn], table: SummedTable | None = None) -> RewardParts:
    """The sum over turns; `RewardParts.outcome` is all of it, shaping has no part of its own."""
    table = table or SummedTable()
    scores = score_turns(turns)
    shares = [_share(turn, score, table) for turn, score in zip(turns, scores, strict=True)] or [0]
    guesses = [turn.guess for turn in turns if turn.guess]
    if not guesses or guesses[-1].marks != SOLVED:
        shares[-1] += table.lost
    return RewardParts(math.fsum(shares), 0.0, 0.0, scores, tuple(shares))


def _share(turn: Turn, score: TurnScore, table: SummedTable) -> float:
    if turn.guess is None:
        return table.malformed
    marks, seen = turn.guess.marks, score.violations
    if marks == SOLVED:
        return table.solve
    broken = seen.broken_green + seen.lost_yellow + seen.reused_grey
    return (
        table.green * marks.count(GREEN)
        + table.yellow * marks.count(YELLOW)
        + table.broken_clue * broken
        + table.repeat * seen.repeat
    )
