"""SageMaker jobs as the handlers see them: describe, list, and the steps of a removal.

Every call answers "not there" as a value, because a job that is gone is a normal state for all
that the handlers do.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from mtrl.job.identity import EVALUATION_CATEGORY, TERMINAL_STATUSES, TRAINING_CATEGORY

CATEGORIES = (TRAINING_CATEGORY, EVALUATION_CATEGORY)
ACTIVE_STATUSES = ("InProgress", "Stopping")
_JOB_ARN = re.compile(r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:job/[a-zA-Z0-9]+/(?P<name>.+)$")
_RETRIES = Config(retries={"mode": "standard", "total_max_attempts": 8})


REASON_MAX = 1_500
"""Characters of an error. CloudFormation takes no answer over 4,096 bytes, stack trace included:
it would wait for another until the resource's hour is over."""
Step = Callable[[Mapping[str, Any], object], dict[str, Any]]


class RemovalError(Exception):
    """A job that the service could not delete."""


class HandlerError(Exception):
    """An error whose own message is too long for CloudFormation."""


def answerable(step: Step) -> Step:
    """Make a handler's error short enough for CloudFormation to take; the log has all of it."""

    @functools.wraps(step)
    def bounded(event: Mapping[str, Any], context: object) -> dict[str, Any]:
        try:
            return step(event, context)
        except Exception as error:
            text = str(error)
            print(f"{type(error).__name__}: {text}")
            if len(text) <= REASON_MAX:
                raise
            raise HandlerError(f"{text[:REASON_MAX]} ... (the log has the rest)") from error

    return bounded


def client(service: str) -> Any:
    """A boto3 client that rides out throttling."""
    return boto3.client(service, config=_RETRIES)


def code_of(error: ClientError) -> str:
    """The service's error code."""
    return error.response.get("Error", {}).get("Code", "")


def message_of(error: ClientError) -> str:
    """The service's error message."""
    return error.response.get("Error", {}).get("Message", "") or str(error)


def is_missing(error: ClientError) -> bool:
    """True when the error says that the job does not exist."""
    code, message = code_of(error), message_of(error).lower()
    said = "not found" in message or "does not exist" in message or "could not find" in message
    return code.startswith("ResourceNotFound") or (code == "ValidationException" and said)


def job_name_of(arn: str) -> str | None:
    """The name in a job's ARN, or None when the text is no such ARN."""
    match = _JOB_ARN.match(arn)
    return match["name"] if match else None


def describe(sagemaker: Any, name: str, category: str = TRAINING_CATEGORY) -> dict[str, Any] | None:
    """DescribeJob's answer, or None when there is no such job."""
    try:
        return sagemaker.describe_job(JobName=name, JobCategory=category)
    except ClientError as error:
        if is_missing(error):
            return None
        raise


def document_of(job: dict[str, Any]) -> dict[str, Any]:
    """The job's document with what the service added to it; empty when it shows none."""
    return json.loads(job.get("JobConfigDocument") or "{}")


def progress_of(job: dict[str, Any]) -> tuple[int, int | None]:
    """Steps done and steps planned (None while unknown)."""
    info = document_of(job).get("ServiceOutput", {}).get("ProgressInfo") or {}
    per_epoch, epochs = info.get("StepsPerEpoch"), info.get("MaxEpoch")
    planned = info.get("MaxSteps") or (per_epoch * epochs if per_epoch and epochs else None)
    return int(info.get("CurrentStep") or 0), planned


def list_jobs(sagemaker: Any, category: str, **filters: Any) -> Iterator[dict[str, Any]]:
    """Summaries of a category's jobs, newest first."""
    pages = sagemaker.get_paginator("list_jobs").paginate(
        JobCategory=category, SortBy="CreationTime", SortOrder="Descending", **filters
    )
    for page in pages:
        yield from page["JobSummaries"]


def active_jobs(sagemaker: Any, **filters: Any) -> Iterator[dict[str, Any]]:
    """Descriptions of all training and evaluation jobs that run or are being stopped."""
    for category in CATEGORIES:
        for status in ACTIVE_STATUSES:
            for summary in list_jobs(sagemaker, category, StatusEquals=status, **filters):
                job = describe(sagemaker, summary["JobName"], category)
                if job is not None:
                    yield job


def stop(sagemaker: Any, name: str, category: str = TRAINING_CATEGORY) -> None:
    """Ask a job to stop; one that is gone or has ended is left alone."""
    try:
        sagemaker.stop_job(JobName=name, JobCategory=category)
    except ClientError as error:
        job = None if is_missing(error) else describe(sagemaker, name, category)
        if job is not None and job["JobStatus"] == "InProgress":
            raise


def delete(sagemaker: Any, name: str) -> None:
    """Ask for a job's deletion; one that is gone or still changes its state is left alone."""
    try:
        sagemaker.delete_job(JobName=name, JobCategory=TRAINING_CATEGORY)
    except ClientError as error:
        in_transition = code_of(error) in ("ResourceInUse", "ConflictException")
        if not (is_missing(error) or in_transition):
            raise


def removed(sagemaker: Any, name: str, *, first: bool = False) -> bool:
    """Take the next step of stopping and deleting a job.

    Args:
        first: True at the start of a removal, when an earlier one's failure may be retried.

    Returns:
        True once the job is gone.

    Raises:
        RemovalError: the service reports that it cannot delete the job.
    """
    job = describe(sagemaker, name)
    if job is None:
        return True
    status = job["JobStatus"]
    if status == "DeleteFailed" and not first:
        reason = job.get("FailureReason") or "no reason given"
        raise RemovalError(f"job {name} could not be deleted: {reason}. Run the removal again.")
    if status == "InProgress":
        stop(sagemaker, name)
    elif status in TERMINAL_STATUSES or status == "DeleteFailed":
        delete(sagemaker, name)
        return describe(sagemaker, name) is None
    return False
