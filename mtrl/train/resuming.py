"""Goes on from a job that broke, or from a model that a job trained.

A resumed job has to keep its base model, LoRA settings, hyperparameters and data: the service
refuses anything else, so it is refused here first, by name. From a trained model everything but
the base model may change.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from mtrl.aws import CLOUD_ERRORS, Cloud, is_missing
from mtrl.deployment import Deployment
from mtrl.errors import InputError
from mtrl.job.choices import typed
from mtrl.job.identity import TRAINING_CATEGORY
from mtrl.job.models import hub_name_of
from mtrl.jobs.reading import Job, channel_uris, find_job, summaries

RESUMABLE = ("Failed", "Stopped")
LORA = ("lora_rank", "lora_alpha")
NEWEST = "newest"
"""In place of a job's name: the newest job of the deployment."""
_CONTENT_KEY = re.compile(r"(?:^|/)(?P<digest>[0-9a-f]{16})/[^/]+$")
"""A key that names its content: the stacks put data sets under their SHA-256."""


def job_to_resume(cloud: Cloud, name: str, d: Deployment) -> Job:
    """The job that broke.

    Raises:
        InputError: there is none, it still runs, or it finished.
    """
    if name == NEWEST:
        name = _newest(cloud, d)
    job = find_job(cloud, name, TRAINING_CATEGORY)
    status = job.view.status
    if status == "Completed":
        raise InputError(
            "job-finished",
            f"--resume {job.name}: it is Completed; only a failed or stopped job is resumed.",
            f"Start a new one from its model:  mtrl train --from {job.name}",
        )
    if status not in RESUMABLE:
        raise InputError(
            "job-running",
            f"--resume {job.name}: it is {status}.",
            f"Watch it:  mtrl watch {job.name}  or stop it first:  mtrl stop {job.name}",
        )
    return job


def _newest(cloud: Cloud, d: Deployment) -> str:
    prefix = f"{d.deployment}-"
    found = summaries(cloud.client("sagemaker"), [TRAINING_CATEGORY], NameContains=prefix)
    newest = next((s["JobName"] for s in found if s["JobName"].startswith(prefix)), None)
    if newest is None:
        raise InputError(
            "no-job", f"--resume: deployment {d.deployment} has no job yet.", "Name a job."
        )
    return newest


def last_checkpoint(cloud: Cloud, job: Job) -> str:
    """ARN of the job's last resumable checkpoint: as it says, else the newest of its group.

    Raises:
        InputError: it left none.
    """
    if job.checkpoint:
        return job.checkpoint
    group = job.document["ModelPackageConfig"]["IntermediateCheckpointModelPackageGroupArn"]
    pages = (
        cloud.client("sagemaker")
        .get_paginator("list_model_packages")
        .paginate(
            ModelPackageGroupName=group,
            CreationTimeAfter=job.created,
            SortBy="CreationTime",
            SortOrder="Descending",
        )
    )
    for page in pages:
        for package in page["ModelPackageSummaryList"]:
            within = job.ended is None or package["CreationTime"] <= job.ended
            if package["ModelPackageStatus"] == "Completed" and within:
                return package["ModelPackageArn"]
    raise InputError(
        "no-checkpoint",
        f"--resume {job.name}: it left no resumable checkpoint.",
        "Start afresh:  mtrl train",
    )


def refused_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What the service refuses to change when a job is resumed, a line each, by name."""
    old, new = before["TrainingConfig"], now["TrainingConfig"]
    changes = []
    models = hub_name_of(old["BaseModelArn"]), hub_name_of(new["BaseModelArn"])
    if models[0] != models[1]:
        changes.append(f"base model: {models[0]} -> {models[1]}")
    values = typed(old.get("HyperParameters", {})), typed(new.get("HyperParameters", {}))
    for name in values[0]:
        if values[0][name] != values[1][name]:
            kind = "LoRA" if name in LORA else "hyperparameter"
            changes.append(f"{kind} {name}: {values[0][name]} -> {values[1][name]}")
    channels = channel_uris(before), channel_uris(now)
    for name in sorted(channels[0].keys() | channels[1].keys()):
        uris = channels[0].get(name, "none"), channels[1].get(name, "none")
        if uris[0] != uris[1]:
            changes.append(f"data {name}: {uris[0]} -> {uris[1]}")
    return changes


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Data set files of a job that were written again after it began, by name."""

    changed: tuple[str, ...]
    """Of which the bucket's versions show another content."""
    unsure: tuple[str, ...]
    """Of which the bucket keeps no older version: the service has to compare."""


def rewritten_data(cloud: Cloud, job: Job) -> Rewritten:
    """Look for data that is no longer what the job began with."""
    s3 = cloud.client("s3")
    changed, unsure = [], []
    for name, uri in channel_uris(job.document).items():
        if not uri.startswith("s3://"):
            continue
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for item in (item for page in pages for item in page.get("Contents", ())):
            if item["LastModified"] <= job.created or _as_named(s3, bucket, item["Key"]):
                continue
            line = (
                f"data {name}: s3://{bucket}/{item['Key']} was written at "
                f"{item['LastModified']:%Y-%m-%d %H:%M} UTC, after the job began"
            )
            before = _etag_at(s3, bucket, item["Key"], job.created)
            if before is None:
                unsure.append(line)
            elif before != s3.head_object(Bucket=bucket, Key=item["Key"])["ETag"]:
                changed.append(line)
    return Rewritten(tuple(changed), tuple(unsure))


def _etag_at(s3: Any, bucket: str, key: str, moment: datetime) -> str | None:
    """ETag of the version that was the object's at a moment; None when it is not kept."""
    try:
        versions = s3.list_object_versions(Bucket=bucket, Prefix=key).get("Versions", ())
    except CLOUD_ERRORS:
        return None
    older = [v for v in versions if v["Key"] == key and v["LastModified"] <= moment]
    return max(older, key=lambda v: v["LastModified"])["ETag"] if older else None


def _as_named(s3: Any, bucket: str, key: str) -> bool:
    """True when the key names its content and the content is that."""
    match = _CONTENT_KEY.search(key)
    if match is None:
        return False
    body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return hashlib.sha256(body).hexdigest().startswith(match["digest"])


def trained_package(cloud: Cloud, text: str, d: Deployment) -> str:
    """ARN of the model to start from.

    Args:
        text: the ARN of a model package, or a job whose model is meant.

    Raises:
        InputError: no such package, a resumable checkpoint, or one of another base model.
    """
    arn = text if ":model-package/" in text else _package_of(cloud, text, d)
    if f"/{d.checkpoint_group_arn.rsplit('/', 1)[-1]}/" in arn:
        raise InputError(
            "not-a-model",
            f"--from {text}: it is a resumable checkpoint, not a trained model.",
            "Go on with the job that left it:  mtrl train --resume JOB",
        )
    try:
        found = cloud.client("sagemaker").describe_model_package(ModelPackageName=arn)
    except ClientError as error:
        if not is_missing(error):
            raise
        raise InputError("no-package", f"--from {text}: there is no such package.") from None
    if found["ModelPackageStatus"] != "Completed":
        raise InputError(
            "no-package", f"--from {text}: the package is {found['ModelPackageStatus']}."
        )
    return arn


def _package_of(cloud: Cloud, name: str, d: Deployment) -> str:
    job = find_job(cloud, name, TRAINING_CATEGORY)
    if job.package is None:
        raise InputError("no-package", f"--from {job.name}: it left no trained model.")
    models = hub_name_of(job.config["BaseModelArn"]), hub_name_of(d.base_model_arn)
    if models[0] != models[1]:
        raise InputError(
            "changed-model",
            f"--from {job.name}: its base model is {models[0]}, the deployment's is {models[1]}.",
            "A trained model goes with the base model that it was trained on.",
        )
    return job.package
