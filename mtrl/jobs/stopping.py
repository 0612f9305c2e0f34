"""Stops a job and waits until it has stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from mtrl.errors import MtrlError
from mtrl.jobs.reading import Job, describe

POLL_S = 2.0


def ask_to_stop(sagemaker: Any, job: Job) -> Job:
    """Call StopJob; a job that has ended meanwhile is left as it is."""
    try:
        sagemaker.stop_job(JobName=job.name, JobCategory=job.category)
    except ClientError:
        now = again(sagemaker, job)
        if now.view.status == "InProgress":
            raise
        return now
    return again(sagemaker, job)


def wait_until_ended(
    sagemaker: Any,
    job: Job,
    on_look: Callable[[Job], None] = lambda job: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Job:
    """Look every `POLL_S` until the job has ended."""
    while job.running:
        on_look(job)
        sleep(POLL_S)
        job = again(sagemaker, job)
    return job


def again(sagemaker: Any, job: Job) -> Job:
    """The job as it is now.

    Raises:
        MtrlError: it has been deleted.
    """
    found = describe(sagemaker, job.name, job.category)
    if found is None:
        raise MtrlError("job-deleted", f"job {job.name} has been deleted meanwhile.")
    return found
