"""What a rehearsal found: figures of a set of rollouts, what was learned, and the summary file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from mtrl.statistics import wilson_interval

SUMMARY_VERSION = 1
SLIGHT, CLEAR, STRONG = 0.25, 1.0, 2.5
"""Changes of a behaviour's weight from which it is called slight, clear and strong. A weight is a
log-odds ratio: 1.0 makes the behaviour e times as likely, all else equal."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a set of rollouts, as they stand in summary.json."""

    rollouts: int
    solve_rate: float
    """Share of rollouts whose reward reaches the job's success_threshold."""
    interval: tuple[float, float]
    """95% Wilson interval of the solve rate."""
    mean_reward: float
    mean_turns: float
    """Over all rollouts: the task's own count of turns, else the policy's."""
    mean_turns_solved: float | None
    """The same over the solved ones; None when there are none."""


def figures(lines: Sequence[Mapping[str, Any]], threshold: float) -> Figures:
    """Figures of trace lines (rehearsal/traces.py writes them); a rollout without reward counts
    as not solved.

    Raises:
        ValueError: no lines.
    """
    if not lines:
        raise ValueError("no rollouts to summarise")
    rewards = [line["reward"] for line in lines if line["reward"] is not None]
    solved = [line for line in lines if (line["reward"] or 0.0) >= threshold]
    turns = [_turns(line) for line in solved]
    return Figures(
        rollouts=len(lines),
        solve_rate=len(solved) / len(lines),
        interval=wilson_interval(len(solved), len(lines)),
        mean_reward=fmean(rewards) if rewards else 0.0,
        mean_turns=fmean(_turns(line) for line in lines),
        mean_turns_solved=fmean(turns) if turns else None,
    )


def _turns(line: Mapping[str, Any]) -> int:
    trace = line.get("trace") or {}
    turns = trace.get("summary", {}).get("turns")
    return turns if isinstance(turns, int) else len(trace.get("turns", ()))


@dataclass(frozen=True, slots=True)
class Lesson:
    """What training did to one behaviour."""

    meaning: str
    """What the behaviour does, as a verb phrase."""
    change: str
    """"much more often", "a little less often", ..."""
    before: float
    after: float


def lessons(learned: Sequence[Mapping[str, Any]]) -> list[Lesson]:
    """The behaviours whose weight changed, strongest change first.

    Args:
        learned: behaviours.json of a model package.
    """
    changes = sorted(learned, key=lambda item: -abs(item["after"] - item["before"]))
    return [
        Lesson(item["meaning"], how, item["before"], item["after"])
        for item in changes
        if (how := _how(item["after"] - item["before"]))
    ]


def _how(change: float) -> str:
    size = abs(change)
    if size < SLIGHT:
        return ""
    direction = "more often" if change > 0 else "less often"
    return f"{'much ' if size >= STRONG else '' if size >= CLEAR else 'a little '}{direction}"


def agent_hash(folder: Path) -> str:
    """Hash of the agent's source and lock: what would be deployed."""
    digest = hashlib.sha256()
    files = [*folder.rglob("*.py"), *folder.rglob("*.txt")]
    for path in sorted(files):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_summary(folder: Path, summary: Mapping[str, Any]) -> Path:
    """Write summary.json; Figures become objects."""
    ready = {
        key: asdict(value) if isinstance(value, Figures) else value
        for key, value in {"version": SUMMARY_VERSION, **summary}.items()
    }
    path = folder / "summary.json"
    path.write_text(json.dumps(ready, indent=2) + "\n")
    return path
