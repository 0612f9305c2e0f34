"""Calls CreateJob and says what a refusal means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from mtrl.aws import Cloud, error_code, error_message
from mtrl.errors import MtrlError
from mtrl.job.identity import SCHEMA_VERSION, TRAINING_CATEGORY, canonical_json
from mtrl.jobs.reading import Job, describe, find_job, summaries


def submit(
    cloud: Cloud,
    name: str,
    document: Mapping[str, Any],
    role_arn: str,
    tags: Mapping[str, str],
) -> tuple[Job, bool]:
    """Submit a job; one of the same name and document that is there already is taken as it is.

    Returns:
        The job, and True when it is new.

    Raises:
        MtrlError: the service refuses it.
    """
    sagemaker = cloud.client("sagemaker")
    if (there := describe(sagemaker, name, TRAINING_CATEGORY)) is not None:
        return there, False
    try:
        sagemaker.create_job(
            JobName=name,
            JobCategory=TRAINING_CATEGORY,
            RoleArn=role_arn,
            JobConfigSchemaVersion=SCHEMA_VERSION,
            JobConfigDocument=canonical_json(document),
            Tags=[{"Key": key, "Value": value} for key, value in sorted(tags.items())],
        )
    except ClientError as error:
        # A call that was answered by nobody and repeated by the client meets its own job.
        if error_code(error) != "ResourceInUse":
            raise _refusal(cloud, name, error) from error
    return find_job(cloud, name, TRAINING_CATEGORY), True


def _refusal(cloud: Cloud, name: str, error: ClientError) -> Exception:
    code, said = error_code(error), error_message(error).rstrip(".")
    if code == "ResourceLimitExceeded":
        running = [
            summary["JobName"]
            for summary in summaries(
                cloud.client("sagemaker"), [TRAINING_CATEGORY], StatusEquals="InProgress"
            )
        ]
        busy = f" Running: {', '.join(running)}." if running else ""
        return MtrlError(
            "no-quota",
            f"job {name} was refused: {said}.{busy}",
            "Wait for a running job or stop it (mtrl stop JOB), or have the quota raised.",
        )
    if "assume" in said.lower():
        return MtrlError(
            "role-not-assumable",
            f"job {name} was refused: {said}.",
            "A new role takes a minute to be known everywhere; "
            "`mtrl doctor --check job-role-trust` looks at it.",
        )
    if code.startswith("Validation"):
        return MtrlError("job-refused", f"job {name} was refused: {said}.")
    return error
