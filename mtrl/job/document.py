"""The JobConfigDocument (schema 1.0.0) of training and evaluation jobs as typed models.

Used by the stacks and commands that write documents and by the rehearsal service that receives
them, so what one end may send is what the other accepts. `DocumentError` names the offending key
by its path on the wire.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_pascal

from mtrl.job import hyperparameters
from mtrl.job.hyperparameters import HyperparameterError

DOCUMENT_MAX = 262_144
"""Characters; CreateJob's JobConfigDocument in the botocore model."""
_ARN = re.compile(r"^arn:aws[a-z-]*:(?P<service>[a-z0-9-]+):(?P<region>[a-z0-9-]*):[^:]*:.+$")

S3Uri = Annotated[str, StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$")]
Arn = Annotated[
    str,
    StringConstraints(pattern=_ARN.pattern.replace("?P<service>", "").replace("?P<region>", "")),
]


class DocumentError(ValueError):
    """A job document that the service would refuse.

    Attributes:
        key: path of the first offending key, e.g. "TrainingConfig.HyperParameters.group_size".
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key


class _Wire(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_pascal, populate_by_name=True, extra="forbid", frozen=True
    )


class BedrockAgentCoreConfig(_Wire):
    """An AgentCore runtime as the agent; `qualifier` names one of its endpoints."""

    agent_runtime_arn: Arn
    qualifier: str | None = None


class CustomAgentLambdaConfig(_Wire):
    """A forwarder Lambda in front of an agent hosted elsewhere."""

    lambda_arn: Arn


class AgentConfig(_Wire):
    """Exactly one way to reach the agent."""

    bedrock_agent_core_config: BedrockAgentCoreConfig | None = None
    custom_agent_lambda_config: CustomAgentLambdaConfig | None = None

    @model_validator(mode="after")
    def _one_agent(self) -> Self:
        if (self.bedrock_agent_core_config is None) == (self.custom_agent_lambda_config is None):
            raise ValueError(
                "give exactly one of BedrockAgentCoreConfig and CustomAgentLambdaConfig"
            )
        return self

    @property
    def arn(self) -> str:
        """ARN of the runtime or of the forwarder."""
        if self.bedrock_agent_core_config is not None:
            return self.bedrock_agent_core_config.agent_runtime_arn
        assert self.custom_agent_lambda_config is not None
        return self.custom_agent_lambda_config.lambda_arn


class S3DataSource(_Wire):
    """A data set in S3."""

    s3_data_type: Literal["S3Prefix"] = "S3Prefix"
    s3_uri: S3Uri


class DatasetSource(_Wire):
    """A data set registered in SageMaker."""

    dataset_arn: Arn


class DataSource(_Wire):
    """Exactly one place where rows come from."""

    s3_data_source: Annotated[S3DataSource | None, Field(alias="S3DataSource")] = None
    dataset_source: DatasetSource | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.s3_data_source is None) == (self.dataset_source is None):
            raise ValueError("give exactly one of S3DataSource and DatasetSource")
        return self


class Channel(_Wire):
    """One named input of a job."""

    channel_name: Literal["train", "validation", "evaluation"]
    data_source: DataSource


class MlflowConfig(_Wire):
    """Where a job's metrics go."""

    mlflow_resource_arn: Arn
    mlflow_experiment_name: str | None = None
    mlflow_run_name: str | None = None


class OutputDataConfig(_Wire):
    """Where a job's files go. The developer guide shows MlflowConfig here for training jobs too,
    the SDK writes it into TrainingConfig; either place is accepted, the SDK's is written."""

    s3_output_path: Annotated[S3Uri, Field(alias="S3OutputPath")]
    kms_key_arn: Arn | None = None
    mlflow_config: MlflowConfig | None = None


class TrainingPackages(_Wire):
    """Model package groups of a training job, and the package it starts from."""

    output_model_package_group_arn: Arn
    intermediate_checkpoint_model_package_group_arn: Arn
    input_model_package_arn: Arn | None = None

    @model_validator(mode="after")
    def _two_groups(self) -> Self:
        if (
            self.output_model_package_group_arn
            == self.intermediate_checkpoint_model_package_group_arn
        ):
            raise ValueError(
                "OutputModelPackageGroupArn and IntermediateCheckpointModelPackageGroupArn "
                "must differ"
            )
        return self


class EvaluationPackages(_Wire):
    """The trained model that an evaluation job samples."""

    input_model_package_arn: Arn


class _HasHyperparameters(_Wire):
    specs: ClassVar[dict[str, hyperparameters.Spec]]
    base_model_arn: Arn
    accept_eula: bool
    hyper_parameters: dict[str, str] = Field(default_factory=dict)

    @field_validator("hyper_parameters", mode="before")
    @classmethod
    def _in_range(cls, raw: Any) -> Any:
        if isinstance(raw, dict):
            hyperparameters.parse(cls.specs, raw)
        return raw

    @field_validator("accept_eula")
    @classmethod
    def _accepted(cls, accepted: bool) -> bool:
        if not accepted:
            raise ValueError("must be true: the base model's licence has to be accepted")
        return accepted

    def values(self) -> dict[str, Any]:
        """Typed hyperparameters with the service's defaults filled in."""
        return hyperparameters.parse(self.specs, self.hyper_parameters)


class TrainingConfig(_HasHyperparameters):
    """What is trained, and how."""

    specs = hyperparameters.TRAINING
    mlflow_config: MlflowConfig | None = None


class EvaluationConfig(_HasHyperparameters):
    """What is evaluated, and how."""

    specs = hyperparameters.EVALUATION


class VpcConfig(_Wire):
    """The customer's network, when the job has to run in it."""

    security_group_ids: Annotated[list[str], Field(min_length=1, max_length=5)]
    subnets: Annotated[list[str], Field(min_length=1, max_length=16)]


class StoppingCondition(_Wire):
    """Time limit of an evaluation job."""

    max_runtime_in_seconds: Annotated[int, Field(ge=1, le=259_200)]


class _Document(_Wire):
    agent_config: AgentConfig
    input_data_config: Annotated[list[Channel], Field(min_length=1)]
    output_data_config: OutputDataConfig

    allowed_channels: ClassVar[tuple[str, ...]]
    required_channel: ClassVar[str]

    @field_validator("input_data_config")
    @classmethod
    def _channels(cls, channels: list[Channel]) -> list[Channel]:
        names = [channel.channel_name for channel in channels]
        for name in names:
            if name not in cls.allowed_channels:
                raise ValueError(
                    f"channel {name!r} is not one of {', '.join(cls.allowed_channels)}"
                )
            if names.count(name) > 1:
                raise ValueError(f"channel {name!r} is given twice")
        if cls.required_channel not in names:
            raise ValueError(f"channel {cls.required_channel!r} is missing")
        return channels

    def channel(self, name: str) -> Channel | None:
        """The channel called `name`, if the job has it."""
        return next((c for c in self.input_data_config if c.channel_name == name), None)

    def to_wire(self) -> dict[str, Any]:
        """The document as JSON-ready data, absent fields left out."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


class TrainingDocument(_Document):
    """Document of an AgentRFT job."""

    allowed_channels = ("train", "validation")
    required_channel = "train"

    model_package_config: TrainingPackages
    training_config: TrainingConfig
    vpc_config: VpcConfig | None = None

    @model_validator(mode="after")
    def _mlflow_given(self) -> Self:
        if self.mlflow is None:
            raise ValueError("TrainingConfig.MlflowConfig is required")
        return self

    @property
    def mlflow(self) -> MlflowConfig | None:
        """MlflowConfig from either of its two places."""
        return self.training_config.mlflow_config or self.output_data_config.mlflow_config

    @property
    def base_model_arn(self) -> str:
        """The base model."""
        return self.training_config.base_model_arn

    def values(self) -> dict[str, Any]:
        """Typed hyperparameters."""
        return self.training_config.values()


class EvaluationDocument(_Document):
    """Document of an AgentRFTEvaluation job."""

    allowed_channels = ("evaluation",)
    required_channel = "evaluation"

    evaluation_config: EvaluationConfig
    model_package_config: EvaluationPackages | None = None
    stopping_condition: StoppingCondition | None = None
    vpc_config: VpcConfig | None = None

    @property
    def mlflow(self) -> MlflowConfig | None:
        """Where the metrics go, if anywhere."""
        return self.output_data_config.mlflow_config

    @property
    def base_model_arn(self) -> str:
        """The base model."""
        return self.evaluation_config.base_model_arn

    def values(self) -> dict[str, Any]:
        """Typed hyperparameters."""
        return self.evaluation_config.values()


def parse_document(
    text: str, kind: type[TrainingDocument] | type[EvaluationDocument], region: str
) -> TrainingDocument | EvaluationDocument:
    """Read and check a document as CreateJob does.

    Args:
        text: the JobConfigDocument string; a `ServiceOutput` from DescribeJob is ignored.
        kind: by job category.
        region: where the job runs; every regional resource must lie there.

    Raises:
        DocumentError: names the offending key.
    """
    if len(text) > DOCUMENT_MAX:
        raise DocumentError("JobConfigDocument", f"longer than {DOCUMENT_MAX} characters")
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DocumentError("JobConfigDocument", f"not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise DocumentError("JobConfigDocument", "must be a JSON object")
    raw.pop("ServiceOutput", None)
    try:
        document = kind.model_validate(raw)
    except ValidationError as error:
        raise _document_error(error) from None
    for key, arn in _regional_arns(document.to_wire()):
        match = _ARN.match(arn)
        if match and match["region"] not in ("", region):
            raise DocumentError(
                key, f"{arn} lies in {match['region']}, the job in {region}; they must be the same"
            )
    return document


def _document_error(error: ValidationError) -> DocumentError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, HyperparameterError):
        return DocumentError(f"{key}.{cause.name}", str(cause).split(": ", 1)[1])
    messages = {"extra_forbidden": "unknown key", "missing": "required key is missing"}
    return DocumentError(
        key, messages.get(first["type"], first["msg"].removeprefix("Value error, "))
    )


def _regional_arns(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            found
            for key, item in value.items()
            for found in _regional_arns(item, f"{path}.{key}" if path else key)
        ]
    if isinstance(value, list):
        return [f for i, item in enumerate(value) for f in _regional_arns(item, f"{path}.{i}")]
    return [(path, value)] if isinstance(value, str) and value.startswith("arn:") else []
