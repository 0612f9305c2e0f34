"""Puts a training job's document together from the parts of a deployment.

Plain strings go in and a JSON-ready document comes out, so that the stacks can build it from
values that are known only during a deployment and a command can build the same one from the
deployment's outputs. `document.parse_document` is what judges it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RESUME_LAST = "last"
"""In place of a checkpoint's ARN: the last resumable checkpoint of the run before."""


@dataclass(frozen=True, slots=True)
class TrainingParts:
    """What a training document is made of. ARNs and S3 URIs as the service wants them."""

    base_model_arn: str
    runtime_arn: str
    qualifier: str
    """Name of the runtime's endpoint that the job calls."""
    train_uri: str
    validation_uri: str | None
    output_uri: str
    output_group_arn: str
    checkpoint_group_arn: str
    mlflow_arn: str
    mlflow_experiment: str
    mlflow_run: str
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    """On the wire: every value a string; see `hyperparameters.to_wire`."""
    input_package_arn: str | None = None
    """A resumable checkpoint to go on from, or a trained model to start from."""
    security_group_ids: Sequence[str] = ()
    subnet_ids: Sequence[str] = ()


def training_document(parts: TrainingParts, *, accept_eula: bool) -> dict[str, Any]:
    """The JobConfigDocument of an AgentRFT job, as JSON-ready data."""
    document: dict[str, Any] = {
        "AgentConfig": {
            "BedrockAgentCoreConfig": {
                "AgentRuntimeArn": parts.runtime_arn,
                "Qualifier": parts.qualifier,
            }
        },
        "InputDataConfig": [_channel("train", parts.train_uri)],
        "OutputDataConfig": {"S3OutputPath": parts.output_uri},
        "ModelPackageConfig": {
            "OutputModelPackageGroupArn": parts.output_group_arn,
            "IntermediateCheckpointModelPackageGroupArn": parts.checkpoint_group_arn,
        },
        "TrainingConfig": {
            "BaseModelArn": parts.base_model_arn,
            "AcceptEula": accept_eula,
            "MlflowConfig": {
                "MlflowResourceArn": parts.mlflow_arn,
                "MlflowExperimentName": parts.mlflow_experiment,
                "MlflowRunName": parts.mlflow_run,
            },
            "HyperParameters": dict(parts.hyperparameters),
        },
    }
    if parts.validation_uri:
        document["InputDataConfig"].append(_channel("validation", parts.validation_uri))
    if parts.input_package_arn:
        document["ModelPackageConfig"]["InputModelPackageArn"] = parts.input_package_arn
    if parts.subnet_ids:
        document["VpcConfig"] = {
            "SecurityGroupIds": list(parts.security_group_ids),
            "Subnets": list(parts.subnet_ids),
        }
    return document


def _channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}
