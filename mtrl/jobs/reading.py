"""Finds jobs and reads DescribeJob's answer into one typed value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
from botocore.exceptions import ClientError

from mtrl.aws import Cloud, chosen_region, is_missing
from mtrl.errors import InputError
from mtrl.job.identity import EVALUATION_CATEGORY, TERMINAL_STATUSES, TRAINING_CATEGORY
from mtrl.job.models import BASE_MODELS, hub_name_of
from mtrl.job.progress import JobView, job_view

CATEGORIES = (TRAINING_CATEGORY, EVALUATION_CATEGORY)
COMPLETED_NAMES = 50
"""Names offered when a job's name is completed with the tab key."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A state that the job went through."""

    status: str
    start: datetime
    end: datetime | None
    message: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job as DescribeJob shows it."""

    view: JobView
    category: str
    document: Mapping[str, Any]
    """Its JobConfigDocument without what the service added."""
    tags: Mapping[str, str]
    created: datetime
    ended: datetime | None
    transitions: tuple[Transition, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return self.view.name

    @property
    def running(self) -> bool:
        """False once it has ended."""
        return self.view.status not in TERMINAL_STATUSES

    @property
    def region(self) -> str:
        """Where it runs."""
        return self.view.arn.split(":")[3]

    @property
    def config(self) -> Mapping[str, Any]:
        """TrainingConfig or EvaluationConfig."""
        return self.document.get("TrainingConfig") or self.document.get("EvaluationConfig") or {}

    @property
    def model(self) -> str | None:
        """Key of the base model, or None when it is no known one."""
        hub_name = hub_name_of(self.config.get("BaseModelArn", ""))
        known = (key for key, model in BASE_MODELS.items() if model.hub_name == hub_name)
        return next(known, None)

    @property
    def mlflow(self) -> Mapping[str, str]:
        """MlflowConfig from either of its two places; empty when there is none."""
        places = (self.document.get("TrainingConfig"), self.document.get("OutputDataConfig"))
        return next((p["MlflowConfig"] for p in places if p and "MlflowConfig" in p), {})

    @property
    def agent(self) -> tuple[str, str] | None:
        """ARN and endpoint of its AgentCore runtime, or None when it has another agent."""
        config = self.document.get("AgentConfig", {}).get("BedrockAgentCoreConfig")
        return (config["AgentRuntimeArn"], config.get("Qualifier") or "DEFAULT") if config else None

    @property
    def output_uri(self) -> str:
        """Where its own files lie, without a slash at the end."""
        return f"{self.document['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{self.name}"

    @property
    def checkpoint(self) -> str | None:
        """ARN of its last resumable checkpoint, if it shows one."""
        return next(_package_arns(self.view.output.get("ResumableCheckpoint")), None)

    @property
    def package(self) -> str | None:
        """ARN of its trained model, if it shows one."""
        output = self.view.output
        shown = output.get("OutputModelPackageArn") or output.get("ModelCheckpoint")
        return next(_package_arns(shown), None)


def channel_uris(document: Mapping[str, Any]) -> dict[str, str]:
    """Channel -> S3 URI (or ARN) of the data set that a document names."""
    return {
        channel["ChannelName"]: next(
            source.get("S3Uri") or source.get("DatasetArn", "")
            for source in channel["DataSource"].values()
        )
        for channel in document["InputDataConfig"]
    }


def _package_arns(value: Any) -> Iterator[str]:
    """Model package ARNs, however deep they lie in a field."""
    if isinstance(value, str) and ":model-package/" in value:
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _package_arns(item)


def read_job(described: Mapping[str, Any]) -> Job:
    """Read DescribeJob's answer."""
    document = json.loads(described.get("JobConfigDocument") or "{}")
    document.pop("ServiceOutput", None)
    return Job(
        view=job_view(described),
        category=described["JobCategory"],
        document=document,
        tags={tag["Key"]: tag["Value"] for tag in described.get("Tags") or ()},
        created=described["CreationTime"],
        ended=described.get("EndTime"),
        transitions=tuple(
            Transition(t["Status"], t["StartTime"], t.get("EndTime"), t.get("StatusMessage", ""))
            for t in described.get("SecondaryStatusTransitions") or ()
        ),
    )


def describe(sagemaker: Any, name: str, category: str) -> Job | None:
    """A job, or None when there is none of this name and category."""
    try:
        return read_job(sagemaker.describe_job(JobName=name, JobCategory=category))
    except ClientError as error:
        if is_missing(error):
            return None
        raise


def find_job(cloud: Cloud, text: str | None, category: str | None = None) -> Job:
    """A job by its name or ARN; the newest one when `text` is None.

    Args:
        category: only this one is looked at; both when None.

    Raises:
        InputError: there is no such job.
    """
    sagemaker = cloud.client("sagemaker")
    name = text.rsplit("/", 1)[-1] if text else None
    categories = [category] if category else list(CATEGORIES)
    if name is None:
        newest = next(summaries(sagemaker, categories), None)
        if newest is None:
            raise InputError("no-job", f"there is no job in {cloud.region}.", "Start one first.")
        name, categories = newest["JobName"], [newest["JobCategory"]]
    for kind in categories:
        job = describe(sagemaker, name, kind)
        if job is not None:
            return job
    raise InputError(
        "no-job",
        f"there is no job {name!r} in {cloud.region}.",
        "`mtrl jobs` lists the jobs; --region names another Region.",
    )


def summaries(
    sagemaker: Any, categories: Sequence[str] = CATEGORIES, **filters: Any
) -> Iterator[dict[str, Any]]:
    """ListJobs' summaries over all categories, newest first."""
    pages = [_summaries(sagemaker, category, filters) for category in categories]
    heads = [next(page, None) for page in pages]
    while any(heads):
        _, place = max((head["CreationTime"], i) for i, head in enumerate(heads) if head)
        newest = heads[place]
        assert newest is not None
        yield newest
        heads[place] = next(pages[place], None)


def _summaries(sagemaker: Any, category: str, filters: Mapping[str, Any]) -> Iterator[dict]:
    pages = sagemaker.get_paginator("list_jobs").paginate(
        JobCategory=category, SortBy="CreationTime", SortOrder="Descending", **filters
    )
    for page in pages:
        for summary in page["JobSummaries"]:
            yield {"JobCategory": category, **summary}


def complete_job(ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """Names of jobs for the tab key; none when AWS cannot be asked."""
    try:
        sagemaker = Cloud(chosen_region(ctx.params.get("region"))).single_try("sagemaker", 3)
        found = (s["JobName"] for s in summaries(sagemaker))
        names = [name for name, _ in zip(found, range(COMPLETED_NAMES), strict=False)]
    except Exception:  # a completion has nowhere to report to
        return []
    return [name for name in names if name.startswith(typed)]


def job_argument(command: Any) -> Any:
    """Adds the argument JOB: a name or an ARN, by default the newest job."""
    return click.argument("job", required=False, shell_complete=complete_job)(command)
