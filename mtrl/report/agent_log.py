"""Traces from the agent's own log, where it prints one line of JSON a rollout.

The log does not say at which step a rollout was played, nor whether it was training; the row does,
by the channel that holds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from mtrl.aws import Cloud, is_missing
from mtrl.job.identity import EVALUATION_CATEGORY
from mtrl.jobs.reading import Job
from mtrl.report.games import Game, Kind, group, read_line
from mtrl.report.reading import KEPT_GAMES, Reading

LOG_GROUPS = "/aws/bedrock-agentcore/runtimes/"
"""Followed by `<runtime id>-<endpoint>`. Source: AgentCore developer guide."""
MILLISECONDS = 1_000


def read_log(
    cloud: Cloud, job: Job, rows: tuple[tuple[bool, str], ...], policy: str | None
) -> Reading:
    """The traces of a job that its AgentCore runtime has logged; none when there is no such log.

    Args:
        rows: (for training, prompt) of the job's data.
        policy: who plays an evaluation.

    Raises:
        ClientError: the log may not be read.
    """
    held_out = {_row_id(prompt) for training, prompt in rows if not training}
    games: dict[Kind, list[Game]] = {}
    unread = 0
    try:
        for message in log_lines(cloud.client("logs"), job):
            try:
                game, _, _ = read_line(message)
            except ValueError:
                unread += 1
                continue
            found = games.setdefault(_kind(job, game, held_out), [])
            found.append(game if len(found) < KEPT_GAMES else replace(game, trace=None))
    except ClientError as error:
        if not is_missing(error):
            raise
    sets = [
        games_of
        for kind, played in games.items()
        for games_of in group(played, kind, policy or "" if kind is Kind.EVALUATION else "")
    ]
    cut = f"{unread} lines of the agent's log were cut and are left out." if unread else ""
    return Reading(tuple(sets), (cut,) if cut else ())


def log_lines(logs: Any, job: Job) -> Iterator[str]:
    """The lines of a job's traces in its AgentCore runtime's log, as they were printed.

    Raises:
        ClientError: there is no such log, or it may not be read.
    """
    if job.agent is None:
        return
    arn, endpoint = job.agent
    ended = job.ended or datetime.now(UTC)
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=f"{LOG_GROUPS}{arn.rsplit('/', 1)[-1]}-{endpoint}",
        startTime=int(job.created.timestamp() * MILLISECONDS),
        endTime=int(ended.timestamp() * MILLISECONDS),
        filterPattern=f'"{job.name}" "schema_version"',
    )
    for page in pages:
        for event in page["events"]:
            if f'/{job.name}"' in event["message"]:
                yield event["message"]


def _kind(job: Job, game: Game, held_out: set[str]) -> Kind:
    if job.category == EVALUATION_CATEGORY:
        return Kind.EVALUATION
    return Kind.VALIDATION if game.row_id in held_out else Kind.TRAINING


def _row_id(prompt: str) -> str:
    try:
        row = json.loads(prompt)
    except ValueError:
        return ""
    return str(row.get("id", "")) if isinstance(row, dict) else ""
