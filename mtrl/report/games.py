"""What a report is made of: games read from trace lines, and the sets they are compared in.

In: JSON lines, either as a job leaves them (a trace with its place in the job) or bare traces as
the agent logs them. Out: frozen games, grouped by what they were played for and under.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent.trace import Trace, trace_from_dict


class Kind(StrEnum):
    """What a set of games was played for."""

    TRAINING = "training"
    VALIDATION = "validation"
    EVALUATION = "evaluation"


PHASES = {"train": Kind.TRAINING, "val": Kind.VALIDATION, "eval": Kind.EVALUATION}
"""A trace line's `phase` -> kind."""


@dataclass(frozen=True, slots=True, order=True)
class Sampling:
    """What a game was sampled under. None: not recorded, or left to the model."""

    temperature: float | None = None
    effort: str | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    hint: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Sampling:
        """Read a trace's `settings`."""
        return cls(
            temperature=settings.get("temperature"),
            effort=settings.get("reasoning_effort"),
            top_p=settings.get("top_p"),
            max_tokens=settings.get("max_tokens"),
            hint=settings.get("prompt_hint"),
        )

    @property
    def label(self) -> str:
        """In words: always temperature and effort, the rest where it departs from the usual."""
        temperature = "not recorded" if self.temperature is None else f"{self.temperature:g}"
        parts = [f"temperature {temperature}", f"effort {self.effort or 'not set'}"]
        if self.top_p not in (None, 1, 1.0):
            parts.append(f"top-p {self.top_p:g}")
        if self.hint:
            parts.append("with a prompt hint")
        return ", ".join(parts)

    @property
    def short(self) -> str:
        """For an axis: `T 1` and the effort when one is set."""
        temperature = "?" if self.temperature is None else f"{self.temperature:g}"
        return f"T {temperature}" + (f", {self.effort}" if self.effort else "")


@dataclass(frozen=True, slots=True)
class Game:
    """One rollout."""

    row_id: str
    reward: float | None
    """None when there was nothing to report."""
    turns: int
    """The task's own count of turns, else the policy's."""
    outcome: str
    """The task's word for how it ended, else the stop reason."""
    stop_reason: str
    prefill_tokens: int
    """Over all attempts, as billed."""
    sample_tokens: int
    seconds: float
    sampling: Sampling
    faults: Mapping[str, int]
    """The summary's `violations` that happened, by name."""
    attempts: int = 1
    failure: str | None = None
    trace: Trace | None = field(default=None, repr=False)
    """None when the agent left none, or when it is not kept for the replay."""

    def solved(self, threshold: float) -> bool:
        """True when the reward reaches the success threshold."""
        return self.reward is not None and self.reward >= threshold


@dataclass(frozen=True, slots=True)
class GameSet:
    """Games that may be counted together: one purpose, one policy, one step, one sampling."""

    kind: Kind
    policy: str
    """Who played: `base`, `trained`, a package; empty for a job's own policy in training."""
    step: int | None
    sampling: Sampling
    games: tuple[Game, ...]

    @property
    def name(self) -> str:
        """What a person calls it, without the sampling."""
        if self.kind is Kind.EVALUATION:
            return self.policy
        return self.kind.capitalize() + ("" if self.step is None else f", step {self.step}")


def game_from_line(line: Mapping[str, Any]) -> Game:
    """Read a job's trace line or a bare trace.

    Raises:
        ValueError: neither of the two, or a trace of a newer schema.
    """
    if "schema_version" in line:
        return _from_trace(trace_from_dict(dict(line)), {})
    if "trace" not in line:
        raise ValueError("neither a trace nor a job's trace line")
    if line["trace"] is None:
        return _without_trace(line)
    return _from_trace(trace_from_dict(line["trace"]), line)


def _from_trace(trace: Trace, line: Mapping[str, Any]) -> Game:
    summary = trace.summary
    turns = summary.get("turns")
    violations = summary.get("violations")
    return Game(
        row_id=trace.row_id,
        reward=line["reward"] if "reward" in line else total(trace.reward),
        turns=turns if isinstance(turns, int) else len(trace.turns),
        outcome=str(summary.get("outcome") or trace.stop_reason),
        stop_reason=trace.stop_reason,
        prefill_tokens=line.get("prefill_tokens", sum(t.prefill_tokens for t in trace.turns)),
        sample_tokens=line.get("sample_tokens", sum(t.sample_tokens for t in trace.turns)),
        seconds=line.get("seconds", trace.seconds),
        sampling=Sampling.of(trace.settings),
        faults=_counts(violations if isinstance(violations, Mapping) else {}),
        attempts=line.get("attempts", 1),
        failure=line.get("failure") or trace.error,
        trace=trace,
    )


def _without_trace(line: Mapping[str, Any]) -> Game:
    row = line.get("row")
    return Game(
        row_id=f"row {row + 1}" if isinstance(row, int) else "unknown row",
        reward=line.get("reward"),
        turns=0,
        outcome="no trace",
        stop_reason="no_trace",
        prefill_tokens=line.get("prefill_tokens", 0),
        sample_tokens=line.get("sample_tokens", 0),
        seconds=line.get("seconds", 0.0),
        sampling=Sampling(),
        faults={},
        attempts=line.get("attempts", 1),
        failure=line.get("failure"),
    )


def total(reward: float | list[float] | None) -> float | None:
    """An episode's reward: the sum where it was reported turn by turn."""
    return math.fsum(reward) if isinstance(reward, list) else reward


def _counts(violations: Mapping[str, Any]) -> dict[str, int]:
    return {name: n for name, n in violations.items() if isinstance(n, int) and n > 0}


def read_line(text: str | bytes) -> tuple[Game, Kind | None, int | None]:
    """A line's game, and what it was played for and at which step when the line says so.

    Raises:
        ValueError: not JSON, or not what `game_from_line` reads.
    """
    raw = json.loads(text)
    if not isinstance(raw, dict):
        raise ValueError("not a JSON object")
    step = raw.get("step")
    kind = PHASES.get(str(raw.get("phase")))
    try:
        return game_from_line(raw), kind, step if isinstance(step, int) else None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a trace: {error}") from error


def group(
    games: Iterable[Game], kind: Kind, policy: str = "", step: int | None = None
) -> list[GameSet]:
    """Sets of games that were sampled alike, in order of sampling."""
    games = list(games)
    recorded = Counter(game.sampling for game in games if game.sampling != Sampling())
    usual = recorded.most_common(1)[0][0] if recorded else Sampling()
    found: dict[Sampling, list[Game]] = {}
    for game in games:
        # A rollout that broke before it was sampled belongs to those it was started with.
        sampling = usual if game.sampling == Sampling() else game.sampling
        found.setdefault(sampling, []).append(game)
    return [
        GameSet(kind, policy, step, sampling, tuple(alike))
        for sampling, alike in sorted(found.items(), key=lambda item: _order(item[0]))
    ]


def _order(sampling: Sampling) -> tuple[Any, ...]:
    return (
        sampling.temperature if sampling.temperature is not None else -1.0,
        EFFORTS.get(sampling.effort or "", len(EFFORTS)),
        sampling.hint or "",
        repr(sampling),
    )


EFFORTS = {"": 0, "minimal": 1, "low": 2, "medium": 3, "high": 4}
"""Reasoning efforts in the order in which they are shown."""
