"""Gathers what an estimate needs: the measured rollout, the plan, the reasoning assumed."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mtrl.aws import CLOUD_ERRORS, Cloud, is_denied, is_not_offered
from mtrl.cost import reference
from mtrl.cost.estimate import Estimate, estimate
from mtrl.cost.measured import Measured, measured_in_rehearsal, measured_in_traces
from mtrl.cost.plan import JobPlan, plan_job
from mtrl.cost.ranges import Range
from mtrl.dataset.files import check_readable
from mtrl.dataset.remote import count_rows, download
from mtrl.deployment import Deployment
from mtrl.errors import InputError
from mtrl.job.choices import typed
from mtrl.jobs.reading import Job, channel_uris
from mtrl.pricing import PriceList, TokenPrices, prices_for

DATASETS = Path("datasets")
DEPLOYED_IDLE_TIMEOUT_S = 60.0
"""What this repository's stacks set unless told otherwise."""


class RangeType(click.ParamType[Range]):
    """ "4.5", or "4:6" for anything between."""

    name = "N|LOW:HIGH"

    def convert(self, value: Any, param: Any, ctx: Any) -> Range:
        """Read the text."""
        if isinstance(value, Range):
            return value
        try:
            numbers = [float(part) for part in str(value).split(":")]
            if len(numbers) > 2:
                raise ValueError
            return Range.between(numbers[0], numbers[-1])
        except ValueError:
            self.fail(f"{value!r} is neither a number nor LOW:HIGH.", param, ctx)


RANGE = RangeType()


def measured(
    rehearsal: Path | None,
    traces: Sequence[Path],
    given: Mapping[str, Range | None],
) -> Measured:
    """The measured rollout.

    Args:
        given: turns, prefill and sample of one rollout; all or none of them.

    Raises:
        InputError: not exactly one source is given, or it cannot be read.
    """
    own = {name: value for name, value in given.items() if value is not None}
    if sum((rehearsal is not None, bool(traces), bool(own))) != 1:
        raise InputError(
            "no-measurement",
            "say what one rollout takes, in one way.",
            "Give the folder of a rehearsal (`mtrl rehearse` makes one), or --traces FILE…, or "
            "--turns, --prefill and --sample.",
        )
    if rehearsal is not None:
        return measured_in_rehearsal(rehearsal)
    if traces:
        return measured_in_traces(traces)
    missing = [f"--{name}" for name in given if name not in own]
    if missing:
        raise InputError(
            "no-measurement", f"{' and '.join(missing)}: missing beside --{next(iter(own))}."
        )
    return Measured(own["turns"], own["prefill"], own["sample"], True, "given")


def reasoning_tokens(text: str, rollout: Measured) -> tuple[Range, str]:
    """Tokens a turn to add to the measured ones, and why.

    Args:
        text: "auto", "none", "reference", "low", a number, or LOW:HIGH.
    """
    none = Range.exactly(0)
    if text == "auto":
        text = "none" if rollout.reasons else "reference"
    if text == "none":
        why = "as measured" if rollout.reasons else "none: the sample tokens are a floor"
        return none, why
    note = f"the reference run's, {reference.AS_OF}"
    if text == "reference":
        return reference.REASONING_TOKENS, note
    if text == "low":
        return reference.REASONING_TOKENS * reference.LOW_EFFORT_SHARE, f"{note}, at low effort"
    try:
        return RANGE.convert(text, None, None), "given"
    except click.BadParameter:
        raise InputError(
            "bad-reasoning",
            f"--reasoning {text}: not known.",
            "Use auto, none, reference, low, a number of tokens a turn, or LOW:HIGH.",
        ) from None


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a job's two channels."""

    train: int
    validation: int


def local_rows(task: str, train: Path | None, validation: Path | None) -> Rows:
    """Count the rows of data set files; by default those of the repository."""
    files = [
        train or DATASETS / task / "train.jsonl",
        validation or DATASETS / task / "validation.jsonl",
    ]
    for file in files:
        check_readable(file)
    return Rows(count_rows(files[:1]), count_rows(files[1:]))


def deployed_rows(cloud: Cloud, deployment: Deployment) -> Rows:
    """Count the rows that a deployment's jobs read."""
    return Rows(rows_at(cloud, deployment.train_uri), rows_at(cloud, deployment.validation_uri))


def rows_at(cloud: Cloud, uri: str | None) -> int:
    """Rows under an S3 URI; 0 when there is none."""
    if uri is None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return count_rows(download(cloud, uri, Path(folder)))


def planned(values: Mapping[str, Any], rows: Rows) -> JobPlan:
    """The plan of a job; see `plan_job`."""
    return plan_job(values, rows.train, rows.validation)


def deployed_idle_timeout_s(cloud: Cloud, deployment: Deployment) -> float:
    """The runtime's idle timeout; what the stacks set where there is no runtime to ask."""
    control = cloud.client("bedrock-agentcore-control")
    try:
        runtime = control.get_agent_runtime(agentRuntimeId=deployment.runtime_id)
    except CLOUD_ERRORS as error:
        if not (is_denied(error) or is_not_offered(error)):
            raise
        return DEPLOYED_IDLE_TIMEOUT_S
    return runtime["lifecycleConfiguration"]["idleRuntimeSessionTimeout"]


def rehearsed_estimate(
    rehearsal: Path,
    values: Mapping[str, Any],
    rows: Rows,
    idle_timeout_s: float,
    token_prices: TokenPrices,
    prices: PriceList,
    reasoning: str = "auto",
) -> Estimate:
    """Estimate a job from a rehearsal."""
    rollout = measured(rehearsal, (), {})
    added, _ = reasoning_tokens(reasoning, rollout)
    plan = planned(values, rows)
    return estimate(plan, rollout, added, idle_timeout_s, token_prices, prices.runtime)


def deployed_estimate(
    cloud: Cloud,
    deployment: Deployment,
    values: Mapping[str, Any],
    rehearsal: Path,
    prices: PriceList,
) -> Estimate:
    """Estimate a deployment's job from a rehearsal."""
    return rehearsed_estimate(
        rehearsal,
        values,
        deployed_rows(cloud, deployment),
        deployed_idle_timeout_s(cloud, deployment),
        prices_for(deployment.model, deployment.region, prices),
        prices,
    )


def estimate_of_job(
    cloud: Cloud, job: Job, rehearsal: Path, prices: PriceList, reasoning: str
) -> Estimate:
    """Estimate a job that exists already, as its own document plans it.

    Raises:
        InputError: it is no training job, or no price is known.
    """
    uris = channel_uris(job.document)
    if "train" not in uris:
        raise InputError("no-training-job", f"job {job.name} is no training job.")
    return rehearsed_estimate(
        rehearsal,
        typed(job.config.get("HyperParameters", {})),
        Rows(rows_at(cloud, uris["train"]), rows_at(cloud, uris.get("validation"))),
        DEPLOYED_IDLE_TIMEOUT_S,
        prices_for(job.model or "", job.region, prices),
        prices,
        reasoning,
    )
