"""What CreateJob checks before a job exists; each refusal names the offending key."""

from __future__ import annotations

import re
from typing import Any

from mtrl.job.document import (
    DocumentError,
    EvaluationDocument,
    TrainingDocument,
    parse_document,
)
from mtrl.job.identity import EVALUATION_CATEGORY, SCHEMA_VERSION, TRAINING_CATEGORY
from mtrl.job.models import BASE_MODELS, hub_name_of
from rehearsal.checkpoint import CheckpointError, read_fingerprint
from rehearsal.engine import Parts, running_job
from rehearsal.errors import ServiceError, validation
from rehearsal.packages import package_uri
from rehearsal.policies.registry import MODEL_PREFIX, TRAINABLE, UnknownPolicy
from rehearsal.rows import RowsError
from rehearsal.training import KIND, RESUMABLE, job_fingerprint

KINDS: dict[str, type[TrainingDocument] | type[EvaluationDocument]] = {
    TRAINING_CATEGORY: TrainingDocument,
    EVALUATION_CATEGORY: EvaluationDocument,
}
_JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+")


def check_request(request: dict[str, Any]) -> None:
    """Check CreateJob's own members, apart from the document."""
    for key in ("JobName", "RoleArn", "JobCategory", "JobConfigSchemaVersion", "JobConfigDocument"):
        if not isinstance(request.get(key), str):
            raise validation(f"{key}: required, a string")
    if not _JOB_NAME.fullmatch(request["JobName"]):
        raise validation(f"JobName: {request['JobName']!r} must match {_JOB_NAME.pattern}")
    if not _ROLE.fullmatch(request["RoleArn"]):
        raise validation(f"RoleArn: {request['RoleArn']!r} is not the ARN of a role")
    if request["JobCategory"] not in KINDS:
        raise validation(
            f"JobCategory: {request['JobCategory']!r} is not one of {', '.join(KINDS)}"
        )
    if request["JobConfigSchemaVersion"] != SCHEMA_VERSION:
        raise validation(
            f"JobConfigSchemaVersion: {request['JobConfigSchemaVersion']!r} is not known; "
            f"use {SCHEMA_VERSION}"
        )


def check_document(parts: Parts, request: dict[str, Any]) -> dict[str, Any]:
    """Check the document and what it refers to; returns it as it will be kept."""
    category = request["JobCategory"]
    try:
        document = parse_document(
            request["JobConfigDocument"], KINDS[category], parts.settings.region
        )
    except DocumentError as error:
        raise validation(f"JobConfigDocument is not valid: {error}") from None
    section = "TrainingConfig" if category == TRAINING_CATEGORY else "EvaluationConfig"
    _check_model(parts, f"{section}.BaseModelArn", document.base_model_arn, category)
    _check_mlflow(parts, document)
    if isinstance(document, TrainingDocument):
        _check_groups(parts, document)
    return document.to_wire()


def check_start(parts: Parts, job: dict[str, Any]) -> None:
    """Check the package that a job starts from, by the service's rules for resuming."""
    document = running_job(parts, job).document
    packages = document.model_package_config
    arn = packages.input_model_package_arn if packages else None
    if arn is None:
        return
    key = "ModelPackageConfig.InputModelPackageArn"
    try:
        package = parts.packages.package(arn)
    except ServiceError as error:
        raise validation(f"{key}: {error.message}") from None
    if isinstance(document, EvaluationDocument):
        return
    if package["CustomerMetadataProperties"].get(KIND) != RESUMABLE:
        return
    try:
        before = read_fingerprint(parts.objects, package_uri(package))
        changed = before.differences(job_fingerprint(running_job(parts, job)))
    except (CheckpointError, RowsError) as error:
        raise validation(f"{key}: {error}") from None
    if changed:
        raise validation(
            f"{key}: {arn} is a resumable checkpoint; a resumed job has to keep its base model, "
            f"hyperparameters and data. Changed: {'; '.join(changed)}"
        )


def _check_model(parts: Parts, key: str, arn: str, category: str) -> None:
    hub_name = hub_name_of(arn)
    models = {m.hub_name: m for m in BASE_MODELS.values() if m.hub_name}
    if not hub_name.startswith(MODEL_PREFIX) and hub_name not in models:
        raise validation(
            f"{key}: {hub_name!r} is no known base model; known: {', '.join(sorted(models))}"
        )
    model = models.get(hub_name)
    if model and parts.settings.region not in model.regions:
        raise validation(
            f"{key}: {model.title} is not offered in {parts.settings.region}; "
            f"Regions: {', '.join(model.regions)}"
        )
    try:
        policy = parts.policies.name_for(arn)
    except UnknownPolicy as error:
        raise validation(f"{key}: {error}") from None
    if category == TRAINING_CATEGORY and policy != TRAINABLE:
        raise validation(f"{key}: policy {policy!r} is measured, not trained; evaluate it instead")


def _check_groups(parts: Parts, document: TrainingDocument) -> None:
    packages = document.model_package_config
    for key, arn in (
        ("OutputModelPackageGroupArn", packages.output_model_package_group_arn),
        (
            "IntermediateCheckpointModelPackageGroupArn",
            packages.intermediate_checkpoint_model_package_group_arn,
        ),
    ):
        try:
            parts.packages.group(arn)
        except ServiceError as error:
            raise validation(f"ModelPackageConfig.{key}: {error.message}") from None


def _check_mlflow(parts: Parts, document: TrainingDocument | EvaluationDocument) -> None:
    config = document.mlflow
    if config and parts.jobs.records.get("mlflow-app", config.mlflow_resource_arn) is None:
        raise validation(
            f"MlflowConfig.MlflowResourceArn: {config.mlflow_resource_arn} does not exist"
        )
