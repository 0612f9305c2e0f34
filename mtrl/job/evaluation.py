"""Puts an evaluation job's document together, as builder.py does for training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class EvaluationParts:
    """What an evaluation document is made of. ARNs and S3 URIs as the service wants them."""

    base_model_arn: str
    runtime_arn: str
    qualifier: str
    rows_uri: str
    output_uri: str
    mlflow_arn: str
    mlflow_experiment: str
    mlflow_run: str
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    """On the wire: every value a string; see `hyperparameters.to_wire`."""
    package_arn: str | None = None
    """The trained model; the base model when absent."""
    max_runtime_s: int | None = None


def evaluation_document(parts: EvaluationParts, *, accept_eula: bool) -> dict[str, Any]:
    """The JobConfigDocument of an AgentRFTEvaluation job, as JSON-ready data."""
    source = {"S3DataType": "S3Prefix", "S3Uri": parts.rows_uri}
    document: dict[str, Any] = {
        "AgentConfig": {
            "BedrockAgentCoreConfig": {
                "AgentRuntimeArn": parts.runtime_arn,
                "Qualifier": parts.qualifier,
            }
        },
        "InputDataConfig": [{"ChannelName": "evaluation", "DataSource": {"S3DataSource": source}}],
        "OutputDataConfig": {
            "S3OutputPath": parts.output_uri,
            "MlflowConfig": {
                "MlflowResourceArn": parts.mlflow_arn,
                "MlflowExperimentName": parts.mlflow_experiment,
                "MlflowRunName": parts.mlflow_run,
            },
        },
        "EvaluationConfig": {
            "BaseModelArn": parts.base_model_arn,
            "AcceptEula": accept_eula,
            "HyperParameters": dict(parts.hyperparameters),
        },
    }
    if parts.package_arn:
        document["ModelPackageConfig"] = {"InputModelPackageArn": parts.package_arn}
    if parts.max_runtime_s:
        document["StoppingCondition"] = {"MaxRuntimeInSeconds": parts.max_runtime_s}
    return document
