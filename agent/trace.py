"""The record of one rollout: what replay, reports and evaluation read.

Frozen, versioned, JSON-safe: one trace is one line of JSON. It never holds the answer, a token
or a credential; a reader joins the answer from the dataset by `row_id`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Trace:
    """One rollout from its payload to its reward."""

    task: str
    row_id: str
    job_arn: str
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

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))


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
