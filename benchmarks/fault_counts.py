"""What a job under faults came to, counted: lost, wrong, double-counted and crossed rollouts.

In: the fault ledger (what went over the line), the jobs' trace lines (what the service recorded)
and those of the same rollouts without faults. Out: `Counts`. Pure; nothing here trusts the agent:
what a rollout should have earned is replayed from what the policy said on its trajectory.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.task import Task
from rehearsal.faults import CHAT, REWARD
from rehearsal.settings import Fault

CHANGES_THE_GAME = {Fault.MALFORMED_TOOL_CALL, Fault.LENGTH_WITHOUT_CALL}
"""Faults after which the policy goes on from another conversation than without them."""
TOLERANCE = 1e-9
Entry = Mapping[str, Any]
Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job of the run under faults, and its twin without."""

    arn: str
    status: str
    temperature: float
    prompts: list[str]
    """The data set's rows; a trace line's `row` is an index into them."""
    expected: int
    """Rollouts that the job had to play."""
    lines: Sequence[Line]
    calm_lines: Sequence[Line]


@dataclass(slots=True)
class Counts:
    """What must be 0, and beside it what happened. Each list names the rollouts concerned."""

    lost: list[str] = field(default_factory=list)
    """No reward recorded, or a guess played and its reward never applied."""
    wrong: list[str] = field(default_factory=list)
    """Another reward than what was played earns, or than the same game earns without faults."""
    double: list[str] = field(default_factory=list)
    """A reward applied twice, or a rollout recorded twice."""
    crossed: list[str] = field(default_factory=list)
    """A request, game or parameter that belongs to another trajectory."""
    unfinished: list[str] = field(default_factory=list)
    """Jobs that are not Completed."""
    rollouts: int = 0
    retried: int = 0
    """Rollouts that the service had to start again."""
    replayed: int = 0
    """Rollouts whose reward was compared with what its delivered answers earn."""
    compared: int = 0
    """Rollouts whose reward was compared with that of the run without faults."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls by path, each counted once however often it was tried."""
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Faults met by (path, fault)."""

    @property
    def failed(self) -> bool:
        """True when anything that must be 0 is not."""
        return any((self.lost, self.wrong, self.double, self.crossed, self.unfinished))


def count(ledger: Iterable[Entry], jobs: Sequence[JobRecord], task: Task) -> Counts:
    """Count a run."""
    counts = Counts()
    by_trajectory: dict[str, list[Entry]] = defaultdict(list)
    for entry in ledger:
        for fault in entry["faults"]:
            counts.faults[entry["path"], fault] += 1
        if "trajectory" in entry:
            by_trajectory[entry["trajectory"]].append(entry)
        else:
            counts.calls[entry["path"]] += 1
    for name, entries in by_trajectory.items():
        counts.calls.update(path for path, _ in {(e["path"], e["turn"]) for e in entries})
        _check_trajectory(counts, name, entries)
    for job in jobs:
        _check_job(counts, job, by_trajectory, task)
    return counts


def delivered(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """The policy's answers that reached the agent, in order; of one sent again, the last."""
    by_turn: dict[int, Mapping[str, Any]] = {}
    for entry in entries:
        if entry["path"] == CHAT and entry["delivered"]:
            by_turn[entry["turn"]] = entry["delivered"]
    return [by_turn[turn] for turn in sorted(by_turn)]


def replayed_reward(task: Task, prompt: str, messages: Iterable[Mapping[str, Any]]) -> float:
    """What the policy's answers earn on a row."""
    episode: Any = task.start(prompt)
    tools = {tool.tool_name for tool in episode.tools}
    for message in messages:
        for name, arguments in message["calls"]:
            if name in tools:
                episode.guess(_guess(arguments))
        if not message["calls"] and message["text"]:
            episode.recover(message["text"])
    reward = episode.reward()
    return sum(reward) if isinstance(reward, list) else reward


def _guess(arguments: str) -> Any:
    try:
        fields = json.loads(arguments)
    except ValueError:
        return None
    return fields.get("guess") if isinstance(fields, dict) else None


def _check_trajectory(counts: Counts, name: str, entries: Sequence[Entry]) -> None:
    rewarded = sum(e["path"] == REWARD and e["applied"] for e in entries)
    played = any(m["calls"] for m in delivered(entries))
    if rewarded > 1:
        counts.double.append(name)
    if played and not rewarded:
        counts.lost.append(name)
    if len({entry["job"] for entry in entries}) > 1:
        counts.crossed.append(name)
    said: list[Any] = []
    for entry in entries:
        if entry["path"] != CHAT:
            continue
        if not _same_conversation(entry["history"], said[: entry["turn"]]):
            counts.crossed.append(name)
        if entry["delivered"]:
            said[entry["turn"] :] = [entry["delivered"]]


def _same_conversation(history: Sequence[Any], said: Sequence[Any]) -> bool:
    """True when the assistant messages of a request are what was said on its trajectory."""
    return len(history) == len(said) and all(
        len(sent["calls"]) == len(kept["calls"])
        and all(
            a[0] == b[0] and _guess(a[1]) == _guess(b[1])
            for a, b in zip(sent["calls"], kept["calls"], strict=True)
        )
        and kept["text"] in sent["text"]
        for sent, kept in zip(history, said, strict=True)
    )


def _check_job(
    counts: Counts, job: JobRecord, by_trajectory: Mapping[str, list[Entry]], task: Task
) -> None:
    if job.status != "Completed":
        counts.unfinished.append(f"{job.arn}: {job.status}")
    calm = {(line["row"], line["rollout"]): line for line in job.calm_lines}
    seen: set[Any] = set()
    for line in job.lines:
        place = (line["row"], line["rollout"])
        name = f"{job.arn.rsplit('/', 1)[-1]} row {place[0]} rollout {place[1]}"
        counts.rollouts += 1
        counts.retried += line["attempts"] > 1
        trace = line["trace"]
        if place in seen or (trace and trace["trajectory_id"] in seen):
            counts.double.append(name)
        seen |= {place, trace["trajectory_id"]} if trace else {place}
        if line["reward"] is None:
            counts.lost.append(name)
        elif trace is None:
            counts.wrong.append(f"{name}: recorded {line['reward']}, no trace to replay it from")
        else:
            entries = by_trajectory.get(trace["trajectory_id"], [])
            _check_rollout(counts, job, name, line, entries, calm.get(place), task)
    counts.lost += [f"{job.arn}: not recorded"] * (job.expected - len(job.lines))


def _check_rollout(
    counts: Counts,
    job: JobRecord,
    name: str,
    line: Line,
    entries: Sequence[Entry],
    calm: Line | None,
    task: Task,
) -> None:
    prompt = job.prompts[line["row"]]
    own = {entry["job"] for entry in entries} == {job.arn}
    warm = all(e["temperature"] in (None, job.temperature) for e in entries)
    if not own or not warm or line["trace"]["row_id"] != json.loads(prompt)["id"]:
        counts.crossed.append(name)
    earned = replayed_reward(task, prompt, delivered(entries))
    counts.replayed += 1
    if abs(earned - line["reward"]) > TOLERANCE:
        counts.wrong.append(f"{name}: recorded {line['reward']}, earned {earned}")
    changed = any(fault in CHANGES_THE_GAME for entry in entries for fault in entry["faults"])
    if calm is not None and not changed:
        counts.compared += 1
        if abs(calm["reward"] - line["reward"]) > TOLERANCE:
            counts.wrong.append(f"{name}: recorded {line['reward']}, calm {calm['reward']}")
