"""Lists jobs: a table that fits the terminal, or the same facts as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from rich.table import Table

from mtrl.job.identity import TRAINING_CATEGORY
from mtrl.jobs.money import spent_usd
from mtrl.jobs.reading import Job, describe, summaries
from mtrl.pricing import PriceList
from mtrl.terminal import span, usd

KINDS = {TRAINING_CATEGORY: "train"}
STATUS_STYLES = {"Completed": "green", "Failed": "red", "InProgress": "cyan", "Stopping": "yellow"}


def newest_jobs(sagemaker: Any, limit: int, prefix: str | None, active: bool) -> list[Job]:
    """The newest jobs, with what DescribeJob adds to each.

    Args:
        prefix: only jobs whose names begin with it.
        active: only those that run or are being stopped.
    """
    filters = {"NameContains": prefix} if prefix else {}

    def wanted() -> Iterator[Job]:
        for summary in summaries(sagemaker, **filters):
            name, status = summary["JobName"], summary["JobStatus"]
            if prefix and not name.startswith(prefix):
                continue
            if active and status not in ("InProgress", "Stopping"):
                continue
            job = describe(sagemaker, name, summary["JobCategory"])
            if job is not None:
                yield job

    return list(islice(wanted(), limit))


def jobs_table(jobs: Sequence[Job], prices: PriceList) -> Table:
    """A row a job; long names are folded, never cut."""
    table = Table(box=None, pad_edge=False)
    table.add_column("job", overflow="fold", ratio=1)
    table.add_column("kind", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for heading in ("step", "tokens", "took", "started (UTC)"):
        table.add_column(heading, justify="right", no_wrap=True)
    for job in jobs:
        status = job.view.status
        table.add_row(
            job.name,
            KINDS.get(job.category, "eval"),
            f"[{style}]{status}[/]" if (style := STATUS_STYLES.get(status)) else status,
            steps(job),
            _spent(job, prices),
            took(job),
            f"{job.created:%m-%d %H:%M}",
        )
    return table


def steps(job: Job) -> str:
    """ "12/100", or "-" when the job counts none."""
    view = job.view
    return f"{view.step}/{view.total_steps}" if view.total_steps else "-"


def took(job: Job) -> str:
    """From its creation to its end, or to now."""
    return span(((job.ended or datetime.now(UTC)) - job.created).total_seconds())


def _spent(job: Job, prices: PriceList) -> str:
    spent = spent_usd(job, prices)
    return "?" if spent is None else usd(spent)


def job_facts(job: Job, prices: PriceList) -> dict[str, Any]:
    """What `--json` says of a job."""
    return {
        "name": job.name,
        "arn": job.view.arn,
        "category": job.category,
        "status": job.view.status,
        "secondary_status": job.view.secondary,
        "failure_reason": job.view.failure_reason or None,
        "step": job.view.step,
        "total_steps": job.view.total_steps or None,
        "tokens": job.view.tokens,
        "spent_usd": spent_usd(job, prices),
        "model": job.model,
        "created": job.created,
        "ended": job.ended,
        "checkpoint": job.checkpoint,
        "model_package": job.package,
        "tags": job.tags,
    }
