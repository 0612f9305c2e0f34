"""What a job has really used: billable tokens from the job, AgentCore's usage from CloudWatch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mtrl.aws import CLOUD_ERRORS, Cloud, in_words, is_denied, is_not_offered
from mtrl.cost.ranges import Range
from mtrl.errors import InputError
from mtrl.jobs.money import job_prices
from mtrl.jobs.reading import Job
from mtrl.jobs.table import steps
from mtrl.pricing import (
    SECONDS_PER_HOUR,
    PriceList,
    TokenCounts,
    runtime_cost_usd,
    token_cost_usd,
)

NAMESPACE = "AWS/Bedrock-AgentCore"
CPU, MEMORY = "CPUUsed-vCPUHours", "MemoryUsed-GBHours"
"""Metrics of a runtime with the dimensions Service and Resource; they arrive when sessions end."""
SERVICE = "AgentCore.Runtime"
LATE = timedelta(hours=1)
"""So much later than a job's end do its last sessions' usage figures arrive."""
PERIOD_S = 300
MAX_POINTS = 1_440
"""Of one GetMetricStatistics call."""


@dataclass(frozen=True, slots=True)
class Actual:
    """What a job has used so far, and the estimate for as much of it as is done."""

    job: str
    status: str
    steps: str
    tokens: TokenCounts
    token_usd: float | None
    """None when no source states the price."""
    vcpu_seconds: float | None
    """None when it cannot be read."""
    gb_seconds: float | None
    runtime_usd: float | None
    total_usd: float | None
    estimate: Mapping[str, Range] | None
    notes: tuple[str, ...]


def actual_of(
    cloud: Cloud, job: Job, prices: PriceList, estimate: Mapping[str, Range] | None
) -> Actual:
    """Read what a job has used.

    Args:
        estimate: of the whole job; see `read_estimate`.
    """
    notes: list[str] = []
    found = job_prices(job, prices)
    token_usd = float(token_cost_usd(job.view.tokens, found)) if found else None
    if found is None:
        notes.append(f"no token price is known for {job.model} in {job.region}; see --prices")
    usage = _runtime_usage(cloud, job, notes)
    runtime_usd = float(runtime_cost_usd(*usage, prices.runtime)) if usage else None
    parts = [cost for cost in (token_usd, runtime_usd) if cost is not None]
    if estimate:
        estimate = _done_part(job, estimate, notes)
    return Actual(
        job=job.name,
        status=job.view.status,
        steps=steps(job),
        tokens=job.view.tokens,
        token_usd=token_usd,
        vcpu_seconds=usage[0] if usage else None,
        gb_seconds=usage[1] if usage else None,
        runtime_usd=runtime_usd,
        total_usd=sum(parts) if parts else None,
        estimate=estimate,
        notes=tuple(notes),
    )


def _done_part(job: Job, estimate: Mapping[str, Range], notes: list[str]) -> dict[str, Range]:
    view = job.view
    share = view.step / view.total_steps if view.total_steps else 1.0
    if share < 1:
        notes.append(f"the estimate is that of the whole job, times {share:.0%} of its steps")
    return {name: amount * share for name, amount in estimate.items()}


def _runtime_usage(cloud: Cloud, job: Job, notes: list[str]) -> tuple[float, float] | None:
    """vCPU-seconds and GB-seconds of the job's runtime while the job ran."""
    if job.agent is None:
        notes.append("the agent does not run on AgentCore")
        return None
    end = (job.ended or datetime.now(UTC)) + LATE
    try:
        hours = [_metric_sum(cloud, name, job.agent[0], job.created, end) for name in (CPU, MEMORY)]
    except CLOUD_ERRORS as error:
        if not (is_denied(error) or is_not_offered(error)):
            raise
        notes.append(f"AgentCore's usage is not known: {in_words(error).message}")
        return None
    if not any(hours):
        notes.append("CloudWatch shows no AgentCore usage yet; it arrives when sessions end")
        return None
    notes.append("AgentCore's usage is all of the runtime's during the job, other jobs' included")
    return hours[0] * SECONDS_PER_HOUR, hours[1] * SECONDS_PER_HOUR


def _metric_sum(cloud: Cloud, name: str, runtime: str, start: datetime, end: datetime) -> float:
    span = timedelta(seconds=PERIOD_S * MAX_POINTS)
    total = 0.0
    while start < end:
        answer = cloud.client("cloudwatch").get_metric_statistics(
            Namespace=NAMESPACE,
            MetricName=name,
            Dimensions=[
                {"Name": "Service", "Value": SERVICE},
                {"Name": "Resource", "Value": runtime},
            ],
            StartTime=start,
            EndTime=min(start + span, end),
            Period=PERIOD_S,
            Statistics=["Sum"],
        )
        total += sum(point["Sum"] for point in answer["Datapoints"])
        start += span
    return total


def read_estimate(file: Path) -> dict[str, Range]:
    """Read what `mtrl cost estimate --json` printed.

    Raises:
        InputError: not such a file.
    """
    try:
        return ranges_of(json.loads(file.read_text())["estimate"])
    except OSError as error:
        raise InputError("no-estimate", f"--estimate {file}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            "no-estimate",
            f"--estimate {file}: not an estimate.",
            "Make one with `mtrl cost estimate … --json > estimate.json`.",
        ) from None


def ranges_of(estimate: Mapping[str, Any]) -> dict[str, Range]:
    """The compared quantities of an estimate as JSON."""
    sessions, amounts = estimate["sessions"], ("token_usd", "runtime_usd", "total_usd")
    found = {kind: Range(**amount) for kind, amount in estimate["tokens"].items()}
    found |= {name: Range(**sessions[name]) for name in ("vcpu_seconds", "gb_seconds")}
    return found | {name: Range(**estimate[name]) for name in amounts}
