"""Turns and tokens of one rollout, measured: from a rehearsal's folder, from traces, or as given.

A rehearsal's base policy bounds a rollout from above and its trained policy from below: a real job
lies between one that learns nothing and one that starts where the rehearsal ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from agent.trace import trace_from_dict
from mtrl.cost.ranges import Range
from mtrl.errors import InputError
from mtrl.statistics import paired_bootstrap

SPEAKS = ("upstream",)
"""Policies of a rehearsal that are language models: their tokens include their reasoning."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One rollout, on average."""

    turns: Range
    prefill: Range
    """Tokens read, over all turns."""
    sample: Range
    """Tokens written, over all turns."""
    reasons: bool
    """False when the policy wrote no reasoning, so that `sample` is a floor."""
    source: str
    """Where it comes from, for a person."""


@dataclass(frozen=True, slots=True)
class _Rollout:
    turns: int
    prefill: int
    sample: int


def measured_in_rehearsal(folder: Path) -> Measured:
    """Read what a rehearsal's evaluations before and after training played.

    Raises:
        InputError: the folder is no finished rehearsal's.
    """
    summary = _summary(folder)
    names = [name for name in ("base", "trained") if (folder / f"traces/{name}.jsonl").is_file()]
    if not names:
        raise InputError(
            "no-traces",
            f"{folder}: traces/base.jsonl is missing.",
            "Give the folder of a finished rehearsal (runs/<id>).",
        )
    sets = {name: _read(folder / f"traces/{name}.jsonl") for name in names}
    played = sum(map(len, sets.values()))
    reasons = summary.get("policy") in SPEAKS
    if len(sets) == 1:
        return _sampled(sets[names[0]], reasons, f"{folder.name}: {played} rollouts")
    base, trained = sets["base"], sets["trained"]
    source = (
        f"rehearsal {folder.name}: {played} rollouts, from the trained policy (low) "
        "to the base policy (high)"
    )

    def bounds(field: str) -> Range:
        return Range.between(_mean(base, field), _mean(trained, field))

    return Measured(bounds("turns"), bounds("prefill"), bounds("sample"), reasons, source)


def measured_in_traces(files: Sequence[Path]) -> Measured:
    """Read real rollouts: traces as the agent writes them, or a job's trace files.

    Raises:
        InputError: a file cannot be read or holds no rollout with a turn.
    """
    rollouts = [rollout for file in files for rollout in _read(file)]
    names = ", ".join(file.name for file in files)
    source = f"{len(rollouts)} rollouts in {names}, 95% interval of their mean"
    return _sampled(rollouts, True, source)


def _sampled(rollouts: Sequence[_Rollout], reasons: bool, source: str) -> Measured:
    def bounds(field: str) -> Range:
        values = [float(getattr(rollout, field)) for rollout in rollouts]
        low, high = paired_bootstrap(values) if len(values) > 1 else (values[0], values[0])
        middle = fmean(values)
        return Range(min(low, middle), middle, max(high, middle))

    return Measured(bounds("turns"), bounds("prefill"), bounds("sample"), reasons, source)


def _mean(rollouts: Sequence[_Rollout], field: str) -> float:
    return fmean(getattr(rollout, field) for rollout in rollouts)


def _summary(folder: Path) -> Mapping[str, Any]:
    try:
        return json.loads((folder / "summary.json").read_text())
    except OSError as error:
        raise InputError(
            "no-rehearsal",
            f"{folder}/summary.json: {error.strerror}.",
            "Give the folder of a rehearsal (runs/<id>); `mtrl rehearse` makes one.",
        ) from None
    except ValueError as error:
        raise InputError("no-rehearsal", f"{folder}/summary.json: not JSON: {error}.") from None


def _read(file: Path) -> list[_Rollout]:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise InputError("no-traces", f"{file}: {reason}.") from None
    found = list(_rollouts(file, lines))
    if not found:
        raise InputError("no-traces", f"{file}: no rollout with a turn in it.")
    return found


def _rollouts(file: Path, lines: Iterable[str]) -> Iterable[_Rollout]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            trace = trace_from_dict(raw.get("trace") or raw)
        except (ValueError, AttributeError) as error:
            message = f"{file}: line {number}: {error}."
            raise InputError("bad-trace", message, "Give trace files (.jsonl).") from None
        if trace.turns:
            prefill = sum(turn.prefill_tokens for turn in trace.turns)
            sample = sum(turn.sample_tokens for turn in trace.turns)
            yield _Rollout(
                len(trace.turns),
                raw.get("prefill_tokens", prefill),
                raw.get("sample_tokens", sample),
            )
