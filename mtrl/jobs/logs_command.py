"""The command `mtrl logs`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

import click
from rich.text import Text

from mtrl.aws import CLOUD_ERRORS, Cloud, CloudCommand
from mtrl.deployment import Where, deployment_options, read_deployment
from mtrl.errors import InputError
from mtrl.jobs.logs import (
    Entry,
    agent_log,
    broken_rollouts,
    job_log,
    parse_since,
    states,
    unavailable,
)
from mtrl.jobs.reading import Job, find_job, job_argument
from mtrl.jobs.stopping import again
from mtrl.terminal import console, json_option, print_json

FOLLOW_S = 5.0
AFTERWARDS = timedelta(minutes=5)
"""So long after a job's end its last lines arrive."""
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be shown."""

    job: Job | None
    runtime: tuple[str, str] | None
    """ARN and endpoint of the agent whose log is wanted."""
    since: datetime
    raw: bool


@click.command("logs", cls=CloudCommand)
@job_argument
@click.option("--agent", is_flag=True, help="The agent's log; without JOB that of the deployment.")
@click.option("--since", metavar="10m|2h|TIME", help="[default: the job's start, or 1h]")
@click.option("--follow", is_flag=True, help="Go on until the job has ended, or Ctrl-C.")
@click.option("--raw", is_flag=True, help="Traces as they are, instead of a sentence on each.")
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(1), help="Lines.")
@deployment_options
@json_option
def logs(
    where: Where,
    job: str | None,
    agent: bool,
    since: str | None,
    follow: bool,
    raw: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Show what JOB (by default the newest one) went through and wrote, or its agent's log.

    \b
    Examples:
      mtrl logs
      mtrl logs mtrl-dev-run-1-0123456789ab --agent --since 30m
      mtrl logs --agent --env dev --follow
    """
    if follow and as_json:
        raise InputError("follow-json", "--follow and --json exclude each other.")
    cloud = where.cloud()
    wanted = _wanted(cloud, where, job, agent, since, raw)
    found = list(islice(_entries(cloud, wanted), limit))
    if as_json:
        print_json({"job": wanted.job.name if wanted.job else None, "entries": found})
        return
    _print(found)
    if len(found) == limit:
        click.echo(f"only the first {limit} lines; --since and --limit show others", err=True)
    if follow:
        _follow(cloud, wanted, found)


def _wanted(
    cloud: Cloud, where: Where, name: str | None, agent: bool, since: str | None, raw: bool
) -> _Wanted:
    if agent and name is None:
        d = read_deployment(cloud, where)
        start = parse_since(since or "1h")
        return _Wanted(None, (d.runtime_arn, d.runtime_endpoint), start, raw)
    job = find_job(cloud, name)
    start = parse_since(since) if since else job.created
    if agent and job.agent is None:
        raise InputError("no-agent", f"the agent of {job.name} does not run on AgentCore.")
    return _Wanted(job, job.agent if agent else None, start, raw)


def _entries(cloud: Cloud, wanted: _Wanted) -> Iterator[Entry]:
    """Everything that is wanted; a note on stderr when the endpoint has no logs."""
    job = wanted.job
    if job is not None and wanted.runtime is None:
        yield from (entry for entry in states(job) if entry.at >= wanted.since)
    try:
        if wanted.runtime is not None:
            until = job.ended + AFTERWARDS if job and job.ended else None
            yield from agent_log(cloud, *wanted.runtime, wanted.since, until, wanted.raw)
        elif job is not None:
            yield from job_log(cloud, job, wanted.since)
    except CLOUD_ERRORS as error:
        why = unavailable(error)
        if why is None:
            raise
        click.echo(f"no logs here: {why}", err=True)
        if job is not None:
            yield from broken_rollouts(cloud, job)


def _follow(cloud: Cloud, wanted: _Wanted, seen: list[Entry]) -> None:
    """Print what is new every few seconds, until the job has ended."""
    known = set(seen)
    try:
        while wanted.job is None or wanted.job.running:
            time.sleep(FOLLOW_S)
            job = again(cloud.client("sagemaker"), wanted.job) if wanted.job else None
            since = max((entry.at for entry in known), default=wanted.since)
            wanted = _Wanted(job, wanted.runtime, since, wanted.raw)
            fresh = [entry for entry in _entries(cloud, wanted) if entry not in known]
            known.update(fresh)
            _print(fresh)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _print(entries: Iterable[Entry]) -> None:
    out = console()
    for entry in entries:
        line = f"{entry.at.astimezone(UTC):%m-%d %H:%M:%S} {entry.source:<7} {entry.text}"
        if out.is_terminal:
            out.print(Text(line), overflow="fold")
        else:
            click.echo(line)
