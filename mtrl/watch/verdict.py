"""How a job ended, in words, and the command that comes next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from mtrl.aws import CLOUD_ERRORS, Cloud
from mtrl.job.identity import TRAINING_CATEGORY
from mtrl.jobs.money import budget_usd, spent_usd
from mtrl.jobs.reading import Job
from mtrl.pricing import PriceList
from mtrl.terminal import span, usd
from mtrl.watch.diagnosis import Diagnosis

COMPLETED, FAILED, STOPPED = 0, 1, 3
"""What a watch exits with; a job that was deleted counts as failed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a watch."""

    outcome: str
    """completed, failed, stopped, stopped-by-budget or deleted."""
    exit_code: int
    sentence: str
    next: tuple[str, ...]
    """Commands."""


def verdict(
    job: Job, findings: Sequence[Diagnosis], prices: PriceList, *, by_us: bool, by_whom: str
) -> Verdict:
    """Judge a job that has ended.

    Args:
        by_us: this watch stopped it for its budget.
        by_whom: who else stopped it, if that is known.
    """
    took = span(((job.ended or job.created) - job.created).total_seconds())
    spent = spent_usd(job, prices)
    figures = f"after {took}" + (f" and {usd(spent)} of tokens" if spent is not None else "")
    status = job.view.status
    if status == "Completed":
        return Verdict("completed", COMPLETED, f"Completed {figures}.", _after_success(job))
    resume = (f"mtrl train --resume {job.name}",) if job.checkpoint else ("mtrl train",)
    if status == "Failed":
        advice = findings[0].advice if findings else ()
        sentence = f"Failed {figures}: {job.view.failure_reason or 'no reason given'}"
        return Verdict("failed", FAILED, sentence, advice or resume)
    limit = budget_usd(job)
    if by_us or (limit is not None and spent is not None and spent >= limit):
        return Verdict("stopped-by-budget", STOPPED, _budget_sentence(figures, limit), resume)
    who = f" by {by_whom}" if by_whom else " by someone else"
    return Verdict("stopped", STOPPED, f"Stopped{who} {figures}.", resume)


def _budget_sentence(figures: str, limit: Decimal | None) -> str:
    amount = f" of {usd(limit)}" if limit is not None else ""
    return f"Stopped {figures}: its budget{amount} is used up. Its last checkpoint is kept."


def deleted(job: Job) -> Verdict:
    """The job is gone."""
    sentence = f"Deleted by someone while it was {job.view.status}."
    return Verdict("deleted", FAILED, sentence, ("mtrl jobs",))


def _after_success(job: Job) -> tuple[str, ...]:
    if job.category == TRAINING_CATEGORY:
        return (
            f"mtrl evaluate --policy base --policy job:{job.name}",
            f"mtrl report {job.name}",
            f"mtrl cost actual {job.name}",
        )
    return (f"mtrl report {job.name}",)


def who_stopped(cloud: Cloud, job: Job) -> str:
    """The name behind the StopJob call, if CloudTrail may be asked and has heard of it yet."""
    try:
        answer = cloud.client("cloudtrail").lookup_events(
            LookupAttributes=[{"AttributeKey": "EventName", "AttributeValue": "StopJob"}],
            StartTime=job.created,
        )
    except CLOUD_ERRORS:
        return ""
    for event in answer["Events"]:
        if _job_in(event) == job.name:
            return event.get("Username", "")
    return ""


def _job_in(event: dict[str, Any]) -> str:
    try:
        asked = json.loads(event.get("CloudTrailEvent") or "{}").get("requestParameters") or {}
    except ValueError:
        return ""
    return asked.get("jobName", "")
