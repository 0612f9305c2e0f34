"""Looks for the games that earn most and least within each outcome.

Hooks and a reward in, one band an outcome out. The games are played through the task itself, so
what is measured is the reward that a rollout would report. A search finds extremes, it does not
prove them: a band may be wider than found, never narrower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from agent.audit import AuditHooks, Outcome, Play
from agent.task import Task

SEEDS = 40
"""Games from which the search of an outcome starts, each on a row of its own."""
CLIMB = 500
"""Changes tried from the best and from the worst of them."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A played game, its reward and what it came to."""

    play: Play
    reward: float
    """The episode's reward; the sum when the task gives one a turn."""
    outcome: str


@dataclass(frozen=True, slots=True)
class Band:
    """The rewards found for one outcome."""

    outcome: Outcome
    low: Scored
    high: Scored
    mean: float
    """Over the games that the search started from."""


def score(hooks: AuditHooks, task: Task, play: Play) -> Scored:
    """Play a game and ask for its reward."""
    episode = task.start(play.row)
    for move in play.moves:
        if episode.done:
            break
        hooks.send(episode, move)
    reward = episode.reward()
    total = math.fsum(reward) if isinstance(reward, list) else float(reward)
    return Scored(play, total, hooks.outcome(episode))


def find_band(hooks: AuditHooks, task: Task, outcome: Outcome, draw: Random) -> Band | None:
    """The extreme games of an outcome, or None when no game came to it."""
    rows = hooks.rows()
    games = [
        game
        for row in draw.sample(rows, min(SEEDS, len(rows)))
        if (game := score(hooks, task, hooks.seed(outcome, row, draw))).outcome == outcome.name
    ]
    if not games:
        return None
    low, high = (_climb(hooks, task, games, sign, draw) for sign in (-1, 1))
    return Band(outcome, low, high, math.fsum(game.reward for game in games) / len(games))


def find_bands(hooks: AuditHooks, task: Task, draw: Random) -> list[Band | None]:
    """One band an outcome, in the order of the hooks."""
    return [find_band(hooks, task, outcome, draw) for outcome in hooks.outcomes]


def _climb(
    hooks: AuditHooks, task: Task, games: Sequence[Scored], sign: int, draw: Random
) -> Scored:
    """Hill climbing: keep every change that makes the reward more extreme."""
    best = max(games, key=lambda game: _extremity(game, sign))
    for _ in range(CLIMB):
        other = score(hooks, task, hooks.vary(best.play, draw))
        if other.outcome == best.outcome and _extremity(other, sign) > _extremity(best, sign):
            best = other
    return best


def _extremity(game: Scored, sign: int) -> float:
    """How far out a reward is; what is no number is as far as can be, so that it is found."""
    return sign * game.reward if math.isfinite(game.reward) else math.inf
