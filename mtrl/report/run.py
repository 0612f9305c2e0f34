"""What a report is about: the sets of games of one run, and what is known about the run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mtrl.pricing import TokenCounts
from mtrl.report.games import GameSet, Kind, Sampling


@dataclass(frozen=True, slots=True)
class MlflowTarget:
    """Where the report is logged as an artifact."""

    tracking_uri: str
    run_id: str | None = None
    experiment: str | None = None
    run_name: str | None = None
    """With `experiment`, names the run when its id is not known."""


@dataclass(frozen=True, slots=True)
class Point:
    """A figure that a metrics store recorded at a step."""

    kind: Kind
    step: int
    name: str
    """The service's metric name."""
    value: float
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that a report is written from."""

    title: str
    source: str
    """What kind of run it is, in words."""
    task: str
    sets: tuple[GameSet, ...]
    threshold: float
    """Reward from which a game counts as solved."""
    model: str
    """Base model whose prices apply; a key of `mtrl.job.models.BASE_MODELS`."""
    region: str
    billed: bool = True
    """False when nothing was paid, as in a rehearsal."""
    unpriced: frozenset[str] = frozenset()
    """Policies whose tokens have no known price."""
    tokens: TokenCounts | None = None
    """Of the whole run, where it states them."""
    facts: tuple[tuple[str, str], ...] = ()
    """What identifies the run: (name, value)."""
    learned: Sequence[Mapping[str, Any]] = ()
    """{behaviour, meaning, before, after} of a trained behaviour policy."""
    points: tuple[Point, ...] = ()
    """Recorded curves; used where the games' steps are not known."""
    data_hashes: frozenset[str] = frozenset()
    """SHA-256 of the data files that were played, where the run states them."""
    rows: tuple[tuple[bool, str], ...] | None = None
    """(for training, prompt) of the data that was played, when it came with the run."""
    mlflow: MlflowTarget | None = None
    notes: tuple[str, ...] = field(default=())
    """What the reader must know about what is missing."""

    def of(self, kind: Kind) -> list[GameSet]:
        """The sets of one kind."""
        return [games for games in self.sets if games.kind is kind]

    @property
    def compared(self) -> list[GameSet]:
        """The sets that figures are shown for side by side.

        The evaluations; a training job without any is judged by its first and last validation,
        and without those by its first and last step.
        """
        for kind in (Kind.EVALUATION, Kind.VALIDATION, Kind.TRAINING):
            found = self.of(kind)
            if found:
                return found if kind is Kind.EVALUATION else _ends(found)
        return []


def _ends(sets: Sequence[GameSet]) -> list[GameSet]:
    ordered = sorted(sets, key=lambda games: games.step or 0)
    first, last = ordered[0].step, ordered[-1].step
    return [games for games in ordered if games.step in (first, last)]
