"""The record of one rollout: what replay, reports and evaluation read.

Frozen, versioned, JSON-safe: one trace is one line of JSON. It never holds the answer, a token
or a credential; a reader joins the answer from the dataset by `row_id`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agent.chat import Sample

SCHEMA_VERSION = 1
"""Raised whenever a field changes its meaning or disappears; readers refuse a newer one."""


@dataclass(frozen=True, slots=True)
class Move:
    """One action of the policy within a turn, and the environment's answer to it."""

    tool: str
    """Tool name, or the tool that a recovered text stood for."""
    arguments: dict[str, Any]
    feedback: str
    """What the policy was told."""
    recovered: bool = False
    """True when the move was written as text instead of a tool call."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One sample from the policy."""

    text: str
    """Plain text of the answer, without reasoning."""
    reasoning: str
    moves: tuple[Move, ...]
    finish_reason: str
    prefill_tokens: int
    sample_tokens: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        fields = {name: getattr(self, name) for name in Turn.__slots__}
        fields["moves"] = [asdict(move) for move in self.moves]
        return fields


@dataclass(frozen=True, slots=True)
class Trace:
    """One rollout from its payload to its reward."""

    task: str
    row_id: str
    job_arn: str
    """Without its account id."""
    trajectory_id: str
    settings: dict[str, Any]
    """What the sampling ran under: temperature, reasoning_effort, prompt_hint, ..."""
    turns: tuple[Turn, ...]
    stop_reason: str
    reward: float | list[float] | None
    """None when there was nothing to report."""
    summary: dict[str, Any]
    """The episode's own account: `Episode.summary()`."""
    seconds: float
    error: str | None = None
    """Why the rollout broke, when it did; free of secrets."""
    schema_version: int = field(default=SCHEMA_VERSION)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object; `dataclasses.asdict` without its deep copies."""
        fields = {name: getattr(self, name) for name in Trace.__slots__}
        fields["turns"] = [turn.to_dict() for turn in self.turns]
        return fields

    def to_json(self) -> str:
        """One line of JSON, in ASCII: a model's text may hold what UTF-8 cannot."""
        return json.dumps(self.to_dict(), separators=(",", ":"))


class TurnLog:
    """The turns of a rollout while it runs."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def sampled(self, sample: Sample) -> None:
        """Begin a turn with the policy's answer."""
        self.turns.append(
            Turn(
                text=sample.text,
                reasoning=sample.reasoning,
                moves=(),
                finish_reason=sample.finish_reason,
                prefill_tokens=sample.prefill_tokens,
                sample_tokens=sample.sample_tokens,
                seconds=round(sample.seconds, 4),
            )
        )

    def moved(self, move: Move) -> None:
        """Add a move to the current turn."""
        self.turns[-1] = replace(self.turns[-1], moves=(*self.turns[-1].moves, move))

    def idle(self) -> list[Turn]:
        """The latest turns in a row that made no move."""
        moving = (n for n in range(len(self.turns), 0, -1) if self.turns[n - 1].moves)
        return self.turns[next(moving, 0) :]


def parse_trace(line: str) -> Trace:
    """Read one JSON line written by `Trace.to_json`.

    Raises:
        ValueError: not a trace, or one of a newer schema version.
    """
    return trace_from_dict(json.loads(line))


def trace_from_dict(raw: dict[str, Any]) -> Trace:
    """Build a Trace from its JSON object; see `parse_trace`."""
    version = raw.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise ValueError(
            f"trace schema_version {version!r} is not readable by this version "
            f"(newest known: {SCHEMA_VERSION})"
        )
    try:
        turns = tuple(
            Turn(**{**turn, "moves": tuple(Move(**move) for move in turn["moves"])})
            for turn in raw["turns"]
        )
        return Trace(**{**raw, "turns": turns})
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a trace: {error}") from error
