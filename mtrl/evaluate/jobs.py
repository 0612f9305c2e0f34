"""The life of one evaluation job: made or met again, waited for, its traces fetched.

A job's name derives from its document, so a repeated command finds the job that it already made.
Evaluation jobs are few at a time by quota; a refusal for that reason is waited out.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from botocore.exceptions import ClientError

from mtrl.aws import error_code, error_message, is_missing
from mtrl.errors import InputError, MtrlError
from mtrl.evaluate.site import ROWS_FOLDER, Site
from mtrl.job.identity import (
    EVALUATION_CATEGORY,
    HASH_LENGTH,
    SCHEMA_VERSION,
    TRAINING_CATEGORY,
    canonical_json,
    job_name,
)
from mtrl.jobs.reading import Job, describe, summaries
from mtrl.jobs.stopping import again
from mtrl.report.agent_log import log_lines

TRACES = "traces/eval.jsonl"
"""Below the job's output."""
QUOTA_POLL_S = 20.0
JOB_POLL_S = 2.0
LOCAL_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Waiting:
    """How to wait; a test passes its own clock."""

    longest_s: float
    """For a place among the evaluation jobs that may run at once."""
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


def put_rows(site: Site, body: bytes) -> str:
    """Upload rows under their hash and return their URI."""
    digest = hashlib.sha256(body).hexdigest()[:HASH_LENGTH]
    key = f"{ROWS_FOLDER}-{digest}.jsonl"
    site.client("s3").put_object(Bucket=site.bucket, Key=key, Body=body)
    return f"s3://{site.bucket}/{key}"


def refuse_beside_training(site: Site) -> None:
    """An evaluation takes the same agent's sessions as a training job that is under way.

    Raises:
        InputError: such a job runs; names it.
    """
    sagemaker = site.client("sagemaker")
    for summary in summaries(sagemaker, [TRAINING_CATEGORY], StatusEquals="InProgress"):
        job = describe(sagemaker, summary["JobName"], TRAINING_CATEGORY)
        if job and job.agent and job.agent[0] == site.runtime_arn:
            raise InputError(
                "training-runs",
                f"training job {job.name} is using the same runtime.",
                "Wait for it, or add --beside-training: the agent is not redeployed, but both "
                "share its sessions and quotas.",
            )


def obtain(
    site: Site, run_id: str, document: Mapping[str, Any], waiting: Waiting
) -> tuple[Job, bool]:
    """The job of a document: one that runs or has completed, else a new one.

    A job that failed or was stopped keeps its name for ever, so the next one is numbered.

    Returns:
        The job, and True when it is new.

    Raises:
        MtrlError: refused, or no place among the jobs that may run at once.
    """
    sagemaker = site.client("sagemaker")
    for attempt in count(1):
        numbered = run_id if attempt == 1 else f"{run_id}-try{attempt}"
        name = job_name(f"{site.name}-eval", numbered, document)
        job = describe(sagemaker, name, EVALUATION_CATEGORY)
        if job is None:
            _create(site, name, document, waiting)
            return find_job_of(site, name), True
        if job.running or job.view.status == "Completed":
            return job, False
    raise AssertionError("count() does not end")


def find_job_of(site: Site, name: str) -> Job:
    """A job that exists."""
    job = describe(site.client("sagemaker"), name, EVALUATION_CATEGORY)
    if job is None:
        raise MtrlError("job-deleted", f"job {name} has been deleted meanwhile.")
    return job


def _create(site: Site, name: str, document: Mapping[str, Any], waiting: Waiting) -> None:
    deadline = waiting.clock() + waiting.longest_s
    told = False
    while True:
        try:
            site.client("sagemaker").create_job(
                JobName=name,
                JobCategory=EVALUATION_CATEGORY,
                RoleArn=site.role_arn,
                JobConfigSchemaVersion=SCHEMA_VERSION,
                JobConfigDocument=canonical_json(document),
            )
            return
        except ClientError as error:
            code = error_code(error)
            if code == "ResourceInUse":  # a repeated call meets its own job
                return
            if code.startswith("Validation"):
                raise InputError("job-refused", f"{name}: {error_message(error)}") from None
            if code != "ResourceLimitExceeded":
                raise
            said = error_message(error).rstrip(".")
        if waiting.clock() >= deadline:
            raise MtrlError(
                "no-quota",
                f"no place for job {name}: {said}.",
                "Run the same command later: what is done is kept. --max-wait waits longer.",
            )
        if not told:
            waiting.say(f"waiting for a place: {said}")
            told = True
        waiting.sleep(QUOTA_POLL_S if not site.local else LOCAL_POLL_S)


def finished(site: Site, job: Job, waiting: Waiting) -> Job:
    """The job once it has ended."""
    sagemaker = site.client("sagemaker")
    secondary = ""
    while job.running:
        if job.view.secondary != secondary and not site.local:
            secondary = job.view.secondary
            waiting.say(f"{job.name}: {secondary.lower()}")
        waiting.sleep(LOCAL_POLL_S if site.local else JOB_POLL_S)
        job = again(sagemaker, job)
    return job


def fetch_traces(site: Site, job: Job) -> bytes:
    """A completed job's trace lines: from its output, else from the agent's own log.

    Returns:
        JSON lines; empty when there are none in either place.
    """
    bucket, _, key = f"{job.output_uri}/{TRACES}".removeprefix("s3://").partition("/")
    try:
        return site.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if not is_missing(error):
            raise
    try:
        lines = list(log_lines(site.client("logs"), job))
    except ClientError as error:
        if not is_missing(error):
            raise
        lines = []
    return "".join(f"{line.strip()}\n" for line in lines).encode()
