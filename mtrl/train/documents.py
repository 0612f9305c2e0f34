"""Builds a job's document from a deployment, with the builder that the stacks use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtrl.deployment import Deployment
from mtrl.errors import InputError
from mtrl.job.builder import TrainingParts, training_document
from mtrl.job.document import DocumentError, TrainingDocument, parse_document
from mtrl.job.identity import canonical_json


def document_of(
    d: Deployment, run_id: str, hyperparameters: Mapping[str, str], accept_eula: bool
) -> dict[str, Any]:
    """The document of a new job.

    Raises:
        InputError: the service would refuse it; names the key.
    """
    parts = TrainingParts(
        base_model_arn=d.base_model_arn,
        runtime_arn=d.runtime_arn,
        qualifier=d.runtime_endpoint,
        train_uri=d.train_uri,
        validation_uri=d.validation_uri,
        output_uri=d.output_uri,
        output_group_arn=d.output_group_arn,
        checkpoint_group_arn=d.checkpoint_group_arn,
        mlflow_arn=d.mlflow_app_arn,
        mlflow_experiment=d.mlflow_experiment,
        mlflow_run=f"{d.deployment}-{run_id}",
        hyperparameters=hyperparameters,
        security_group_ids=d.security_group_ids,
        subnet_ids=d.subnet_ids,
    )
    return checked(training_document(parts, accept_eula=accept_eula), d.region)


def starting_from(document: Mapping[str, Any], package_arn: str, region: str) -> dict[str, Any]:
    """The document with a package to go on from."""
    packages = {**document["ModelPackageConfig"], "InputModelPackageArn": package_arn}
    return checked({**document, "ModelPackageConfig": packages}, region)


def checked(document: Mapping[str, Any], region: str) -> dict[str, Any]:
    """The document, if the service would take it.

    Raises:
        InputError: names the key that is wrong.
    """
    if not document["TrainingConfig"]["AcceptEula"]:
        raise InputError(
            "eula",
            "the base model's licence has not been accepted.",
            "Read it in the model's card, then add --accept-eula.",
        )
    try:
        parse_document(canonical_json(document), TrainingDocument, region)
    except DocumentError as error:
        raise InputError("bad-document", f"the job's document: {error}.") from None
    return dict(document)
