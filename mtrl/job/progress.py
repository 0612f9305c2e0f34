"""Reads a job's progress out of DescribeJob's answer, in either of its two forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtrl.pricing import TokenCounts


@dataclass(frozen=True, slots=True)
class JobView:
    """What an operator wants to know of a job."""

    name: str
    arn: str
    status: str
    secondary: str
    step: int
    """Recorded steps."""
    total_steps: int
    """0 while it is not known."""
    tokens: TokenCounts
    output: Mapping[str, Any]
    """The document's whole ServiceOutput."""
    failure_reason: str


def job_view(described: Mapping[str, Any]) -> JobView:
    """Read DescribeJob's answer."""
    document = json.loads(described.get("JobConfigDocument") or "{}")
    output = document.get("ServiceOutput") or {}
    step, total = _steps(output.get("ProgressInfo") or {})
    usage = output.get("BillableTokenUsage") or {}
    return JobView(
        name=described["JobName"],
        arn=described["JobArn"],
        status=described["JobStatus"],
        secondary=described["SecondaryStatus"],
        step=step,
        total_steps=total,
        tokens=TokenCounts(
            usage.get("PrefillTokenCount", 0),
            usage.get("SampleTokenCount", 0),
            usage.get("TrainTokenCount", 0),
        ),
        output=output,
        failure_reason=described.get("FailureReason", ""),
    )


def _steps(progress: Mapping[str, int]) -> tuple[int, int]:
    """Done and total: {MaxSteps, CurrentStep}, or epochs with the step within the epoch."""
    step = progress.get("CurrentStep", 0)
    if progress.get("MaxSteps"):
        return step, progress["MaxSteps"]
    per_epoch = progress.get("StepsPerEpoch", 0)
    before = max(progress.get("CurrentEpoch", 1) - 1, 0) * per_epoch
    return before + step, progress.get("MaxEpoch", 0) * per_epoch
