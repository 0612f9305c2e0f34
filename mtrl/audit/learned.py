"""What a policy learned from a reward: the report that `rehearsal.optimise` prints and the audit
reads. Frozen data and its JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """A policy on the held-out rows at temperature 1.0."""

    step: int | None
    """Updates before it; None for a yardstick."""
    games: int
    solve_rate: float
    turns_to_win: float | None
    """Mean over the games won; None without any."""
    reward: float
    """Mean."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A behaviour's weight: log-odds, so +1 makes it e times as likely, all else equal."""

    name: str
    meaning: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Learned:
    """What training on a reward did to a policy."""

    task: str
    reward: str
    steps: int
    games: int
    """Played to learn from; those of the measurements are not counted."""
    curve: tuple[Measured, ...]
    """Before training, now and then, and at the end."""
    yardstick: Measured | None
    """A player that plays well, paid by the same reward."""
    behaviours: tuple[Behaviour, ...]

    @property
    def before(self) -> Measured:
        """The untrained policy."""
        return self.curve[0]

    @property
    def after(self) -> Measured:
        """The trained policy."""
        return self.curve[-1]

    def to_json(self) -> str:
        """One line."""
        return json.dumps({"version": REPORT_VERSION, **asdict(self)})


def parse_learned(text: str) -> Learned:
    """Read `Learned.to_json`.

    Raises:
        ValueError: not such a report, or one of another version.
    """
    raw: Any = json.loads(text)
    if not isinstance(raw, dict) or raw.pop("version", None) != REPORT_VERSION:
        raise ValueError(f"not a report of version {REPORT_VERSION}")
    try:
        yardstick = raw["yardstick"]
        return Learned(
            **{
                **raw,
                "curve": tuple(Measured(**point) for point in raw["curve"]),
                "yardstick": Measured(**yardstick) if yardstick else None,
                "behaviours": tuple(Behaviour(**item) for item in raw["behaviours"]),
            }
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a report of what was learned: {error}") from None
