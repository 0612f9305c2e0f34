"""Do the games of a group earn different rewards? If they tie, the group teaches nothing.

A policy that is still weak loses every game of most groups, a strong one wins them all: it is
there that a reward has to tell good play from bad.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from agent.audit import AuditHooks, Outcome
from agent.task import Task
from mtrl.audit.ordering import TIE, Finding
from mtrl.audit.search import score
from mtrl.job.hyperparameters import TRAINING

GROUPS = 12
"""Rows that are tried for each kind of group."""
GROUP_SIZE: int = TRAINING["group_size"].default


@dataclass(frozen=True, slots=True)
class GroupSpread:
    """How often groups of one kind tie."""

    name: str
    groups: int
    tied: int
    mean_spread: float
    """Largest less smallest reward of a group, on average."""


def spreads(hooks: AuditHooks, task: Task, draw: Random) -> list[GroupSpread]:
    """Sampled groups of every kind that the hooks name."""
    outcomes = {outcome.name: outcome for outcome in hooks.outcomes}
    return [
        _spread(hooks, task, name, [outcomes[member] for member in members], draw)
        for name, members in hooks.groups.items()
    ]


def judge_groups(found: Sequence[GroupSpread]) -> list[Finding]:
    """A kind of group that only ever ties."""
    return [
        Finding(
            "no-gradient",
            f"when {spread.name}, the rewards of a group tie ({spread.tied} of {spread.groups} "
            f"groups of {GROUP_SIZE}): a policy in that state learns nothing.",
        )
        for spread in found
        if spread.tied == spread.groups
    ]


def _spread(
    hooks: AuditHooks, task: Task, name: str, members: Sequence[Outcome], draw: Random
) -> GroupSpread:
    rows = hooks.rows()
    ranges = []
    for row in draw.sample(rows, min(GROUPS, len(rows))):
        rewards = [
            score(hooks, task, hooks.seed(draw.choice(members), row, draw)).reward
            for _ in range(GROUP_SIZE)
        ]
        ranges.append(max(rewards) - min(rewards))
    tied = sum(not spread >= TIE for spread in ranges)  # a NaN counts as a tie
    return GroupSpread(name, len(ranges), tied, math.fsum(ranges) / len(ranges))
