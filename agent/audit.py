"""The seam between a task and its audit: what the task supplies, and the words for it.

A task that can be audited has a module `audit` that defines `AUDIT`, an object with the members of
`AuditHooks`. It may know the answers, so the deployed agent imports neither it nor this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from agent.task import Episode, Task

Move = Any
"""One move, in the task's own words; only `AuditHooks.send` has to understand it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way for an episode to end, as far as a reward has to tell them apart."""

    name: str
    """As a person says it: "solved in turn 3", "lost"."""
    success: bool
    rank: int
    """0 is best. Every game of a lower rank must earn more than any of a higher one; outcomes of
    one rank may overlap."""


@dataclass(frozen=True, slots=True)
class Play:
    """A whole episode: the row that it plays and the moves made in it."""

    row: str
    """The row's text, as `Task.start` takes it."""
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """Everything that a policy has been sent when it is asked for an answer."""

    system_prompt: str
    messages: Sequence[Mapping[str, Any]]
    """In the form of Strands: {"role", "content": [blocks]}."""
    tools: Sequence[Mapping[str, Any]]
    """Names, descriptions and input schemas."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an adversary answers: text, tool calls, or both."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    """(tool name, arguments); the arguments may be anything JSON can hold."""


Adversary = Callable[[Sent], Answer]


class AuditHooks(Protocol):
    """What `mtrl audit` asks of a task."""

    @property
    def rewards(self) -> Sequence[str]:
        """Names of the task's rewards; the first is the one that it trains with."""
        ...

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """Every outcome, best first."""
        ...

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """Groups in which a policy can get stuck ("every game is lost") -> their outcomes. Games
        of one row within such a group must not all earn the same, or nothing is learned there."""
        ...

    @property
    def adversaries(self) -> Mapping[str, Callable[[], Adversary]]:
        """What an adversary does -> one that plays a single episode."""
        ...

    @property
    def yardstick(self) -> str | None:
        """A player of the task (module `players`) that plays well, or None."""
        ...

    def task(self, reward: str) -> Task:
        """The task under one of `rewards`."""
        ...

    def rows(self) -> Sequence[str]:
        """Rows to play on; many and different."""
        ...

    def seed(self, outcome: Outcome, row: str, draw: Random) -> Play:
        """A game on `row` that ends in `outcome`; by the draw well or badly played."""
        ...

    def vary(self, play: Play, draw: Random) -> Play:
        """A game a little different from `play`, in its moves or its row."""
        ...

    def send(self, episode: Episode, move: Move) -> str | None:
        """Make a move in an episode, as a tool call or a recovered text does, and return what
        the policy would be told."""
        ...

    def outcome(self, episode: Episode) -> str:
        """Name of the outcome that an episode has come to."""
        ...

    def describe(self, play: Play) -> str:
        """A game in a line, for the operator; it may name the answer."""
        ...

    def secrets(self, row: str) -> Sequence[str]:
        """Strings of which none may reach a policy that has not played them itself."""
        ...

    def exploit_rows(self) -> Sequence[str]:
        """A few rows on which no adversary wins by luck."""
        ...

    def honest_loss(self, row: str) -> Play:
        """A game that is well played and lost."""
        ...

    def twins(self, draw: Random) -> Sequence[tuple[Play, Play]]:
        """Pairs of games with the same moves that a policy must not be able to tell apart,
        though their rows hide different things."""
        ...
