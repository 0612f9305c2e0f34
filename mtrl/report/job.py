"""A run read from its job: DescribeJob, the traces below its output, its data, its metrics.

Where a service leaves no trace files, the same traces are read from the agent's log, and the
curves from MLflow. What cannot be had is said on the page; only a job that left nothing at all to
report is an error.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from mtrl.aws import Cloud, error_message, is_missing
from mtrl.dataset.files import check_readable, read_records
from mtrl.dataset.remote import download
from mtrl.errors import InputError, MtrlError
from mtrl.job import hyperparameters
from mtrl.job.identity import EVALUATION_CATEGORY
from mtrl.jobs.command import tracking_url
from mtrl.jobs.reading import Job, find_job
from mtrl.report.agent_log import read_log
from mtrl.report.folder import DEFAULT_TASK, default_threshold, task_of
from mtrl.report.games import Kind, Sampling
from mtrl.report.mlflow_store import read_points
from mtrl.report.reading import Reading, TraceFile, kept_stems, read_files
from mtrl.report.run import MlflowTarget, Point, Run

TRACES = "traces"
"""Below a job's output."""
BEHAVIOURS = "behaviours.json"
"""In a trained package: what the behaviour policy learned."""
VALIDATION_TEMPERATURE = 0.0
"""Of a training job's validation. Source: SageMaker AI developer guide."""

Rows = tuple[tuple[bool, str], ...]


def read_job_run(cloud: Cloud, name: str) -> Run:
    """Read a job by its name or ARN.

    Raises:
        InputError: there is no such job, or it has left nothing to report.
        ClientError: the job or its traces may not be read.
    """
    job = find_job(cloud, name)
    notes: list[str] = []
    rows = _optional(lambda: _rows(cloud, job), "Its data", (), notes)
    reading = _traces(cloud, job)
    if not reading.sets:
        found = _optional(lambda: read_log(cloud, job, rows, _policy(job)), "Its log", None, notes)
        reading = found or reading
    target = mlflow_target(cloud, job)
    points: tuple[Point, ...] = ()
    if target and not any(games.step is not None for games in reading.sets):
        points = _optional(lambda: _points(job, target), "Its metrics", (), notes)
    if not reading.sets and not points:
        raise InputError(
            "nothing-to-report",
            f"job {job.name} ({job.view.status}) has no traces in {job.output_uri}/{TRACES}, "
            f"none in its agent's log and no metrics. {' '.join(notes)}".rstrip(),
            "Wait for its first step, or give a folder of traces.",
        )
    return _run(cloud, job, reading, rows, target, points, notes)


def _run(
    cloud: Cloud,
    job: Job,
    reading: Reading,
    rows: Rows,
    target: MlflowTarget | None,
    points: tuple[Point, ...],
    notes: list[str],
) -> Run:
    learned = _optional(lambda: _learned(cloud, job), "What it learned", (), notes)
    threshold = _values(job).get("success_threshold", default_threshold())
    return Run(
        title=job.name,
        source=f"{_kind(job)} job, {job.view.status}",
        task=task_of(reading.sets) or DEFAULT_TASK,
        sets=reading.sets,
        threshold=float(threshold),
        model=job.model or str(job.config.get("BaseModelArn", "unknown")).rsplit("/", 1)[-1],
        region=job.region,
        tokens=job.view.tokens,
        facts=tuple(_facts(job)),
        learned=learned,
        points=points,
        rows=rows or None,
        mlflow=target,
        notes=(*reading.notes, *notes),
    )


def _optional(read: Any, what: str, otherwise: Any, notes: list[str]) -> Any:
    """What can be read; else the substitute, with a note why."""
    try:
        return read()
    except (ClientError, BotoCoreError) as error:
        notes.append(f"{what} could not be read: {error_message(error)}.")
    except MtrlError as error:
        notes.append(f"{what} could not be read: {error.message}")
    return otherwise


def _traces(cloud: Cloud, job: Job) -> Reading:
    """The games of the trace files below the job's output; none when there are no files."""
    uri = f"{job.output_uri}/{TRACES}/"
    with tempfile.TemporaryDirectory() as folder:
        try:
            paths = download(cloud, uri, Path(folder))
        except InputError:
            return Reading((), ())
        paths = sorted((p for p in paths if p.suffix == ".jsonl"), key=lambda path: path.stem)
        files = (TraceFile(f"{uri}{path.name}", path.stem, path.read_bytes()) for path in paths)
        return read_files(files, _policy(job), kept_stems(path.stem for path in paths))


def _place(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def _kind(job: Job) -> str:
    return "Evaluation" if job.category == EVALUATION_CATEGORY else "Training"


def _policy(job: Job) -> str | None:
    """Who plays an evaluation: the package it names, else the base model."""
    if job.category != EVALUATION_CATEGORY:
        return None
    package = (job.document.get("ModelPackageConfig") or {}).get("InputModelPackageArn")
    return package.split(":model-package/")[-1] if package else "base"


def _values(job: Job) -> Mapping[str, Any]:
    return job.config.get("HyperParameters") or {}


def _rows(cloud: Cloud, job: Job) -> Rows:
    """The prompts of the job's channels that lie in S3."""
    found: list[tuple[bool, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for channel in job.document.get("InputDataConfig") or ():
            source = (channel.get("DataSource") or {}).get("S3DataSource")
            if not source:
                continue
            name = channel["ChannelName"]
            for path in download(cloud, source["S3Uri"], Path(folder) / name):
                check_readable(path)
                prompts = (record.prompt for record in read_records(path))
                found += [(name == "train", prompt) for prompt in prompts if prompt is not None]
    return tuple(found)


def mlflow_target(cloud: Cloud, job: Job) -> MlflowTarget | None:
    """The job's MLflow run: at the environment's tracking URI, else at the App's own."""
    details = job.view.output.get("MlflowDetails") or {}
    run_id = details.get("RunId")
    if not run_id:
        return None
    uri = os.environ.get("MLFLOW_TRACKING_URI") or _store(cloud, job)
    return MlflowTarget(uri, run_id) if uri else None


def _store(cloud: Cloud, job: Job) -> str | None:
    """What MLflow's client can speak to: a store that the App's URL names, or the App's ARN."""
    arn = job.mlflow.get("MlflowResourceArn")
    if not arn:
        return None
    try:
        url = tracking_url(cloud, job)
    except (ClientError, BotoCoreError):
        return arn
    return arn if url.startswith("http") else url


def _points(job: Job, target: MlflowTarget) -> tuple[Point, ...]:
    values = _values(job)
    default = hyperparameters.TRAINING["temperature"].default
    sampling = {
        Kind.TRAINING: Sampling(temperature=float(values.get("temperature", default))),
        Kind.VALIDATION: Sampling(temperature=VALIDATION_TEMPERATURE),
    }
    return read_points(target, sampling)


def _learned(cloud: Cloud, job: Job) -> list[dict[str, Any]]:
    """The trained package's behaviours; none for a model that has no such file."""
    if job.package is None or job.category == EVALUATION_CATEGORY:
        return []
    sagemaker = cloud.client("sagemaker")
    package = sagemaker.describe_model_package(ModelPackageName=job.package)
    container = package["InferenceSpecification"]["Containers"][0]
    uri = container["ModelDataSource"]["S3DataSource"]["S3Uri"]
    bucket, key = _place(f"{uri.rstrip('/')}/{BEHAVIOURS}")
    try:
        body = cloud.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if is_missing(error):
            return []
        raise
    return json.loads(body)


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    yield "Job", job.view.arn
    yield "State", f"{job.view.status}, {job.view.secondary}"
    if job.view.failure_reason:
        yield "Failure", job.view.failure_reason
    yield "Created", job.created.isoformat(timespec="seconds")
    if job.view.step:
        yield "Steps", f"{job.view.step} of {job.view.total_steps or '?'}"
    for name, value in _values(job).items():
        yield f"Hyperparameters: {name}", str(value)
    for name, value in job.tags.items():
        yield f"Tag: {name}", value
