"""What a job needs before it can start, made on the service by the calls a deployment makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtrl.errors import InputError
from mtrl.job.models import BASE_MODELS, base_model_arn
from mtrl.rehearse.processes import LocalParts

BUCKET = "mtrl-rehearsal"
EXPERIMENT = "mtrl-rehearsal"
MODEL = "gpt-oss-20b"
"""The model whose place the local policy takes, and whose prices the run is shown at."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Names and ARNs of the rehearsal's resources."""

    account: str
    region: str
    mlflow_arn: str
    output_group_arn: str
    checkpoint_group_arn: str

    @property
    def role_arn(self) -> str:
        """Stands where the job role would."""
        return f"arn:aws:iam::{self.account}:role/mtrl-rehearsal"

    @property
    def runtime_arn(self) -> str:
        """Stands where the AgentCore runtime would."""
        return f"arn:aws:bedrock-agentcore:{self.region}:{self.account}:runtime/rehearsal"

    def model_arn(self, hub_name: str | None = None) -> str:
        """ARN of a hub model; of `MODEL` by default."""
        return base_model_arn(hub_name or BASE_MODELS[MODEL].hub_name or MODEL, self.region)

    def uri(self, key: str) -> str:
        """An object in the run's bucket."""
        return f"s3://{BUCKET}/{key}"


def create_environment(parts: LocalParts) -> Environment:
    """Make bucket, MLflow App and model package groups."""
    sagemaker, s3 = parts.client("sagemaker"), parts.client("s3")
    account = parts.client("sts").get_caller_identity()["Account"]
    s3.create_bucket(Bucket=BUCKET)
    groups = [_group(sagemaker, f"mtrl-rehearsal-{kind}") for kind in ("models", "checkpoints")]
    app = sagemaker.create_mlflow_app(
        Name="mtrl-rehearsal",
        ArtifactStoreUri=f"s3://{BUCKET}/mlflow",
        RoleArn=f"arn:aws:iam::{account}:role/mtrl-rehearsal",
    )
    return Environment(account, parts.region, app["Arn"], groups[0], groups[1])


def upload(s3: Any, key: str, file: Path) -> str:
    """Upload a data set and return its URI.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        body = file.read_bytes()
    except OSError as error:
        raise InputError(
            "dataset-unreadable", f"{file}: {error.strerror}.", "Give a readable .jsonl file."
        ) from None
    s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    return f"s3://{BUCKET}/{key}"


def _group(sagemaker: Any, name: str) -> str:
    return sagemaker.create_model_package_group(ModelPackageGroupName=name)["ModelPackageGroupArn"]
