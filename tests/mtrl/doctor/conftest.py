"""A healthy account with a deployment in it, answer by answer, so that a test can break one."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtrl.aws import Cloud
from mtrl.deployment import Deployment
from mtrl.doctor.check import Finding, Subject
from mtrl.doctor.examination import CHECKS, examine
from mtrl.doctor.programs import Programs

REGION, ACCOUNT = "us-east-1", "111111111111"
MOMENT = datetime(2026, 12, 1, tzinfo=UTC)
DATASETS = Path(__file__).parents[3] / "datasets" / "wordle"
RUNTIME_ID = "mtrl_dev-0123456789"


def arn(service: str, rest: str, region: str = REGION) -> str:
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{rest}"


DEPLOYMENT = Deployment(
    deployment="mtrl-dev",
    region=REGION,
    account=ACCOUNT,
    bucket="mtrl-dev-foundation-bucket",
    output_uri="s3://mtrl-dev-foundation-bucket/output/",
    train_uri="s3://mtrl-dev-foundation-bucket/datasets/train.jsonl",
    validation_uri="s3://mtrl-dev-foundation-bucket/datasets/validation.jsonl",
    runtime_arn=arn("bedrock-agentcore", f"runtime/{RUNTIME_ID}"),
    runtime_endpoint="spec_1",
    mlflow_app_arn=arn("sagemaker", "mlflow-app/app-1"),
    mlflow_experiment="mtrl-dev",
    output_group_arn=arn("sagemaker", "model-package-group/mtrl-dev-models"),
    checkpoint_group_arn=arn("sagemaker", "model-package-group/mtrl-dev-checkpoints"),
    job_role_arn=f"arn:aws:iam::{ACCOUNT}:role/mtrl-dev-training-JobRole",
    model="gpt-oss-20b",
    hyperparameters={"global_batch_size": "32"},
    base_model_arn=(
        f"arn:aws:sagemaker:{REGION}:aws:hub-content/SageMakerPublicHub/Model/"
        "openai-reasoning-gpt-oss-20b"
    ),
)


class FakePrograms(Programs):
    """Programs as a test wants them; None: not there."""

    def __init__(self) -> None:
        self.versions: dict[str, str | None] = {
            "python": "3.11.7", "node": "v22.1.0", "uv": "uv 0.13.9", "cdk": "2.1148.1",
            "botocore": "1.44.8",
        }  # fmt: skip

    def python(self) -> str:
        return self.versions["python"] or ""

    def package(self, name: str) -> str | None:
        return self.versions[name]

    def command(self, name: str, *beside: Path) -> str | None:
        return self.versions[name]


@dataclass
class Patient:
    """What the doctor is shown."""

    aws: Any
    programs: FakePrograms = field(default_factory=FakePrograms)
    deployment: Deployment | None = DEPLOYMENT
    region: str = REGION
    probe_limit_s: float = 5.0
    make: SimpleNamespace = field(default_factory=lambda: MAKE)
    """Makers of answers, each with what is changed in it."""

    def examined(self, *names: str) -> dict[str, Finding]:
        """Findings by name, of all checks or of the named ones."""
        subject = Subject(
            Cloud(self.region),
            self.deployment,
            "mtrl-dev",
            self.programs,
            Path("."),
            self.probe_limit_s,
        )
        wanted = [check for check in CHECKS if not names or check.name in names]
        return {finding.check: finding for finding in examine(subject, wanted)}


def trust(service: str = "job.sagemaker.amazonaws.com", **changes: Any) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {"StringEquals": {"aws:SourceAccount": ACCOUNT}},
    } | changes
    return {"Version": "2012-10-17", "Statement": statement}


def role(policy: Any = None, name: str = "mtrl-dev-training-JobRole") -> dict[str, Any]:
    # botocore hands the policy over decoded, though its model says string.
    return {
        "Role": {
            "Path": "/",
            "RoleName": name,
            "RoleId": "AROA0123456789012345",
            "Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}",
            "CreateDate": MOMENT,
            "AssumeRolePolicyDocument": Decoded(policy or trust()),
        }
    }


class Decoded(str):
    """A policy that passes for text and reads as what it holds."""

    def __new__(cls, policy: Any) -> Decoded:
        text = super().__new__(cls, json.dumps(policy))
        text.policy = policy  # pyright: ignore[reportAttributeAccessIssue]
        return text

    def get(self, key: str, default: Any = None) -> Any:
        return self.policy.get(key, default)  # pyright: ignore[reportAttributeAccessIssue]


def runtime(**changes: Any) -> dict[str, Any]:
    return {
        "agentRuntimeArn": DEPLOYMENT.runtime_arn,
        "agentRuntimeName": "mtrl_dev",
        "agentRuntimeId": RUNTIME_ID,
        "agentRuntimeVersion": "4",
        "createdAt": MOMENT,
        "lastUpdatedAt": MOMENT,
        "roleArn": f"arn:aws:iam::{ACCOUNT}:role/mtrl-dev-agent-RuntimeRole",
        "networkConfiguration": {"networkMode": "PUBLIC"},
        "status": "READY",
        "lifecycleConfiguration": {"idleRuntimeSessionTimeout": 60, "maxLifetime": 1800},
        "environmentVariables": {"AGENT_TASK": "wordle", "ROLLOUT_BUDGET_S": "420"},
    } | changes


def endpoint(**changes: Any) -> dict[str, Any]:
    return {
        "liveVersion": "4",
        "targetVersion": "4",
        "agentRuntimeEndpointArn": f"{DEPLOYMENT.runtime_arn}/runtime-endpoint/spec_1",
        "agentRuntimeArn": DEPLOYMENT.runtime_arn,
        "status": "READY",
        "createdAt": MOMENT,
        "lastUpdatedAt": MOMENT,
        "name": "spec_1",
        "id": "spec_1",
    } | changes


def stack(name: str, status: str = "CREATE_COMPLETE") -> dict[str, Any]:
    return {"Stacks": [{"StackName": name, "CreationTime": MOMENT, "StackStatus": status}]}


def simulated(denied: str = "") -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Policy simulation that allows everything but one action."""

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        return {
            "EvaluationResults": [
                {
                    "EvalActionName": action,
                    "EvalResourceName": resource,
                    "EvalDecision": "implicitDeny" if action == denied else "allowed",
                }
                for action in params["ActionNames"]
                for resource in params["ResourceArns"]
            ]
        }

    return answer


def reply(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What the agent answers to a rollout for a trajectory that does not exist."""
    body = {
        "status": "failed",
        "stop_reason": "policy_error",
        "error": "the service does not know this trajectory: 404",
    } | changes
    return lambda params: {
        "contentType": "application/json",
        "response": io.BytesIO(json.dumps(body).encode()),
    }


def rows(params: dict[str, Any]) -> dict[str, Any]:
    return {"Body": Stream((DATASETS / Path(params["Key"]).name).read_bytes())}


class Stream(io.BytesIO):
    """A body as boto3 hands it over."""

    def iter_lines(self) -> Any:
        return iter(self.getvalue().splitlines())


def listed(params: dict[str, Any]) -> dict[str, Any]:
    return {"Contents": [{"Key": params["Prefix"], "Size": 1, "LastModified": MOMENT}]}


@pytest.fixture
def patient(aws: Any, monkeypatch: pytest.MonkeyPatch) -> Patient:
    """Healthy in every respect."""
    monkeypatch.setattr("mtrl.aws.ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nothing may get past the fake
    who = f"arn:aws:sts::{ACCOUNT}:assumed-role/Operator/ann"
    aws.on("sts", "GetCallerIdentity", {"UserId": "u", "Account": ACCOUNT, "Arn": who})
    aws.on("ssm", "GetParameter", {"Parameter": {"Name": "v", "Type": "String", "Value": "30"}})
    aws.on("sagemaker", "DescribeHubContent", hub_content())
    aws.on("service-quotas", "ListServiceQuotas", quotas())
    aws.on("sagemaker", "ListJobs", {"JobSummaries": []})
    aws.on("iam", "GetRole", lambda params: role(name=params["RoleName"]))
    aws.on("iam", "SimulatePrincipalPolicy", simulated())
    aws.on("cloudformation", "DescribeStacks", lambda params: stack(params["StackName"]))
    aws.on("s3", "HeadBucket", {"BucketRegion": REGION})
    aws.on("s3", "ListObjectsV2", listed)
    aws.on("s3", "GetObject", rows)
    aws.on("sagemaker", "DescribeMlflowApp", mlflow_app())
    aws.on("sagemaker", "DescribeModelPackageGroup", package_group())
    aws.on("bedrock-agentcore-control", "GetAgentRuntime", runtime())
    aws.on("bedrock-agentcore-control", "GetAgentRuntimeEndpoint", endpoint())
    aws.on("bedrock-agentcore", "InvokeAgentRuntime", reply())
    aws.on("bedrock-agentcore", "StopRuntimeSession", {"statusCode": 200})
    return Patient(aws)


def hub_content(**changes: Any) -> dict[str, Any]:
    return {
        "HubContentName": "openai-reasoning-gpt-oss-20b",
        "HubContentArn": DEPLOYMENT.base_model_arn,
        "HubContentVersion": "1.0.0",
        "HubContentType": "Model",
        "DocumentSchemaVersion": "2.4.0",
        "HubName": "SageMakerPublicHub",
        "HubArn": arn("sagemaker", "hub/SageMakerPublicHub"),
        "HubContentDocument": "{}",
        "HubContentStatus": "Available",
        "CreationTime": MOMENT,
    } | changes


def quotas(jobs: float = 1, sessions: float = 5000) -> dict[str, Any]:
    names = {
        "Maximum number of concurrent multi-turn reinforcement fine tuning jobs": jobs,
        "Active session workloads per account": sessions,
    }
    return {"Quotas": [{"QuotaName": name, "Value": value} for name, value in names.items()]}


def mlflow_app(**changes: Any) -> dict[str, Any]:
    return {
        "Arn": DEPLOYMENT.mlflow_app_arn,
        "Name": "mtrl-dev-mlflow-app",
        "MlflowVersion": "3.10",
        "Status": "Created",
    } | changes


def package_group(**changes: Any) -> dict[str, Any]:
    return {
        "ModelPackageGroupName": "mtrl-dev-models",
        "ModelPackageGroupArn": DEPLOYMENT.output_group_arn,
        "CreationTime": MOMENT,
        "CreatedBy": {},
        "ModelPackageGroupStatus": "Completed",
    } | changes


MAKE = SimpleNamespace(
    role=role, trust=trust, runtime=runtime, endpoint=endpoint, stack=stack, simulated=simulated,
    reply=reply, hub_content=hub_content, quotas=quotas, mlflow_app=mlflow_app,
    package_group=package_group, Stream=Stream,
)  # fmt: skip
