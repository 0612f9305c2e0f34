"""Finds the checkpoint from which a broken run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mtrl.job.identity import TRAINING_CATEGORY, document_changes
from stacks.handlers import jobs

_RESUMABLE = ("Failed", "Stopped")
_MUST_BE_SAME = ("InputDataConfig", "TrainingConfig")
_MAY_DIFFER = "TrainingConfig.MlflowConfig."
"""The run's name in MLflow is new."""


class CheckpointError(Exception):
    """There is nothing to go on from; the message says why and what to do."""


def last_checkpoint(sagemaker: Any, prefix: str, new_name: str, document: dict[str, Any]) -> str:
    """ARN of the last resumable checkpoint of the newest run of this deployment.

    Args:
        prefix: what the names of the deployment's jobs begin with.
        new_name: the job that wants to go on; it is not its own predecessor.
        document: of that job. Base model, LoRA settings, hyperparameters and data set have to be
            those of the run that broke.

    Raises:
        CheckpointError: no such run, it did not break, it left no checkpoint, or it differs.
    """
    job = _newest_run(sagemaker, prefix, new_name)
    group = document["ModelPackageConfig"]["IntermediateCheckpointModelPackageGroupArn"]
    if job is not None:
        _check_same(job, document)
    arn = _shown_by_job(job) if job is not None else None
    arn = arn or next(_in_group(sagemaker, group, job), None)
    if arn is None:
        left_by = f"job {job['JobName']}" if job is not None else "an earlier run"
        raise CheckpointError(
            f"resume_from=last: {left_by} left no resumable checkpoint in {group}. "
            "Start afresh without resume_from."
        )
    return arn


def _newest_run(sagemaker: Any, prefix: str, new_name: str) -> dict[str, Any] | None:
    for summary in jobs.list_jobs(sagemaker, TRAINING_CATEGORY, NameContains=prefix):
        name = summary["JobName"]
        if name == new_name or not name.startswith(f"{prefix}-"):
            continue
        if summary["JobStatus"] not in _RESUMABLE:
            raise CheckpointError(
                f"resume_from=last: job {name} is {summary['JobStatus']}. Only a failed or "
                "stopped run is resumed; stop a running one first, and iterate on a finished one "
                "with start_from."
            )
        return jobs.describe(sagemaker, name)
    return None


def _check_same(job: dict[str, Any], document: dict[str, Any]) -> None:
    before, now = (
        {key: d[key] for key in _MUST_BE_SAME if key in d}
        for d in (jobs.document_of(job), document)
    )
    changes = [c for c in document_changes(before, now) if not c.startswith(_MAY_DIFFER)]
    if before and changes:
        raise CheckpointError(
            f"resume_from=last: job {job['JobName']} ran with other settings:\n  "
            + "\n  ".join(changes)
            + "\nA resumed run keeps base model, hyperparameters and data set; undo the change, "
            "or start afresh from a trained model with start_from."
        )


def _shown_by_job(job: dict[str, Any]) -> str | None:
    """The checkpoint that DescribeJob shows, however deep it lies in its field."""
    shown = jobs.document_of(job).get("ServiceOutput", {}).get("ResumableCheckpoint")
    return next((text for text in _texts(shown) if ":model-package/" in text), None)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)


def _in_group(sagemaker: Any, group: str, job: dict[str, Any] | None) -> Iterator[str]:
    """The group's packages, newest first; those of the job alone if it is known."""
    since = {"CreationTimeAfter": job["CreationTime"]} if job is not None else {}
    pages = sagemaker.get_paginator("list_model_packages").paginate(
        ModelPackageGroupName=group, SortBy="CreationTime", SortOrder="Descending", **since
    )
    for page in pages:
        for package in page["ModelPackageSummaryList"]:
            if package["ModelPackageStatus"] == "Completed":
                yield package["ModelPackageArn"]
