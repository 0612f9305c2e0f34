"""What a job and its agent wrote: the job's own states, its log, the agent's log.

CloudWatch holds the logs; where there is none, what a job tells of itself and the rollouts that
broke (from the traces below its output) are all there is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mtrl.aws import CLOUD_ERRORS, Cloud, in_words, is_missing, is_not_offered
from mtrl.errors import InputError
from mtrl.jobs.reading import Job
from mtrl.report.agent_log import LOG_GROUPS, MILLISECONDS
from mtrl.report.games import Game, read_line

JOB_LOGS = "/aws/sagemaker/Job/"
"""Followed by the job's category; a job's streams begin with its name and a slash.
Source: SageMaker developer guide, multi-turn RL troubleshooting."""
BROKEN_FILES = 2
"""Newest trace files that are searched for broken rollouts."""
_SPAN = re.compile(r"(?P<number>\d+)(?P<unit>[smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was written."""

    at: datetime
    source: str
    """state, job, agent or rollout."""
    text: str


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """A moment: "10m", "2h", "1d" ago, or an ISO 8601 time (UTC unless it says otherwise).

    Raises:
        InputError: neither.
    """
    match = _SPAN.fullmatch(text)
    if match:
        span = timedelta(**{_UNITS[match["unit"]]: int(match["number"])})
        return (now or datetime.now(UTC)) - span
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            "bad-since", f"--since {text}: not a time.", "Write 10m, 2h, 1d or 2026-12-01T09:00."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def states(job: Job) -> Iterator[Entry]:
    """The states that a job went through, and why it failed."""
    for transition in job.transitions:
        message = f": {transition.message}" if transition.message else ""
        yield Entry(transition.start, "state", f"{transition.status}{message}")
    said = any(job.view.failure_reason == t.message for t in job.transitions)
    if job.view.failure_reason and not said:
        yield Entry(job.ended or job.created, "state", f"Failed: {job.view.failure_reason}")


def job_log(cloud: Cloud, job: Job, since: datetime) -> Iterator[Entry]:
    """The job's own log, oldest first."""
    yield from _events(
        cloud,
        "job",
        since,
        logGroupName=f"{JOB_LOGS}{job.category}",
        logStreamNamePrefix=f"{job.name}/",
    )


def agent_log(
    cloud: Cloud, runtime: str, endpoint: str, since: datetime, until: datetime | None, raw: bool
) -> Iterator[Entry]:
    """The log of an AgentCore runtime's endpoint, oldest first.

    Args:
        raw: leave traces as they are instead of a sentence on each.
    """
    group = f"{LOG_GROUPS}{runtime.rsplit('/', 1)[-1]}-{endpoint}"
    window = {} if until is None else {"endTime": _milliseconds(until)}
    for entry in _events(cloud, "agent", since, logGroupName=group, **window):
        yield entry if raw else Entry(entry.at, entry.source, in_a_sentence(entry.text))


def _events(cloud: Cloud, source: str, since: datetime, **where: Any) -> Iterator[Entry]:
    pages = cloud.client("logs").get_paginator("filter_log_events")
    try:
        for page in pages.paginate(startTime=_milliseconds(since), **where):
            for event in page["events"]:
                at = datetime.fromtimestamp(event["timestamp"] / MILLISECONDS, UTC)
                yield Entry(at, source, event["message"].rstrip())
    except CLOUD_ERRORS as error:
        if not is_missing(error):
            raise


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * MILLISECONDS)


def in_a_sentence(line: str) -> str:
    """A trace as a sentence; any other line as it is."""
    if not line.startswith("{"):
        return line
    try:
        game, _, _ = read_line(line)
    except ValueError:
        return line
    return _sentence(game)


def _sentence(game: Game) -> str:
    reward = "no reward" if game.reward is None else f"reward {game.reward:+.2f}"
    said = f"rollout of {game.row_id or 'a row'}: {reward}, {game.turns} turns, {game.outcome}"
    return f"{said}; {game.failure}" if game.failure else said


def broken_rollouts(cloud: Cloud, job: Job) -> Iterator[Entry]:
    """Rollouts of the newest trace files that broke."""
    bucket, _, prefix = job.output_uri.removeprefix("s3://").partition("/")
    s3 = cloud.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/traces/")
    items = [item for page in pages for item in page.get("Contents", ())]
    for item in sorted(items, key=lambda item: item["LastModified"])[-BROKEN_FILES:]:
        body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
        name = item["Key"].rsplit("/", 1)[-1].removesuffix(".jsonl")
        for line in body.splitlines():
            if json.loads(line).get("failure"):
                yield Entry(
                    item["LastModified"], "rollout", f"{name}: {_sentence(read_line(line)[0])}"
                )


def unavailable(error: Exception) -> str | None:
    """Why there are no logs at this endpoint; None for any other error."""
    return in_words(error).message if is_not_offered(error) else None
