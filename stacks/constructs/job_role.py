"""The role that SageMaker runs training and evaluation jobs under."""

# jsii names protocol parameters otherwise than their implementations do:
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.grants import Grant, inline_role, regional_arn
from stacks.settings import Settings

JOB_SERVICE = "job.sagemaker.amazonaws.com"
SDK_SERVICE = "sagemaker.amazonaws.com"
MLFLOW_ACTIONS = (
    "CreateExperiment", "CreateRun", "EndTrace", "GetExperimentByName", "GetMetricHistory",
    "GetRun", "ListArtifacts", "LogBatch", "SearchTraces", "StartTrace", "UpdateRun",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobResources:
    """ARNs of all that a job touches."""

    bucket: str
    readable_prefixes: Sequence[str]
    writable_prefixes: Sequence[str]
    runtime: str
    mlflow_app: str
    package_groups: Sequence[str]
    packages: Sequence[str]
    base_model: str


def job_role(scope: Construct, id: str, *, settings: Settings, resources: JobResources) -> iam.Role:
    """A role that trusts the job service alone and reaches this deployment's resources alone."""
    stack = Stack.of(scope)
    return inline_role(
        scope,
        id,
        _principal(stack, settings),
        {
            "Data": _data(resources),
            "Models": _models(stack, resources),
            "Agent": _agent(resources),
            "Tracking": _tracking(stack, resources),
            "Network": _network() if settings.training.vpc else [],
        },
        description=f"SageMaker jobs of {settings.prefix}",
    )


def _principal(stack: Stack, settings: Settings) -> iam.IPrincipal:
    restricted = settings.restrict_job_role_to_account
    conditions = {"StringEquals": {"aws:SourceAccount": stack.account}} if restricted else {}
    services = [iam.ServicePrincipal(JOB_SERVICE, conditions=conditions)]
    if settings.trust_sdk_principal:
        services.append(iam.ServicePrincipal(SDK_SERVICE, conditions=conditions))
    return iam.SessionTagsPrincipal(iam.CompositePrincipal(*services))


def _data(r: JobResources) -> list[Grant]:
    prefixes = [*r.readable_prefixes, *r.writable_prefixes]
    why = "Jobs choose the names of what they write below these prefixes."
    return [
        Grant(["s3:GetObject"], [f"{r.bucket}/{p}*" for p in prefixes], why),
        Grant(
            ["s3:PutObject", "s3:AbortMultipartUpload"],
            [f"{r.bucket}/{p}*" for p in r.writable_prefixes],
            why,
        ),
        Grant(["s3:ListBucket"], [r.bucket]),
    ]


def _models(stack: Stack, r: JobResources) -> list[Grant]:
    hub = f"arn:{stack.partition}:sagemaker:{stack.region}:aws:hub/SageMakerPublicHub"
    return [
        Grant(
            ["sagemaker:DescribeHubContent", "sagemaker:DescribeHub"],
            [hub, r.base_model, f"{r.base_model}/*"],
            "The hub appends the version to the model's ARN.",
        ),
        Grant(["sagemaker:DescribeModelPackageGroup"], list(r.package_groups)),
        Grant(
            [
                "sagemaker:AccessModelPackage",
                "sagemaker:CreateModelPackage",
                "sagemaker:DescribeModelPackage",
            ],
            [*r.package_groups, *r.packages],
            "Jobs number the packages of a group.",
        ),
    ]


def _agent(r: JobResources) -> list[Grant]:
    return [
        Grant(
            [
                "bedrock-agentcore:InvokeAgentRuntime",
                "bedrock-agentcore:StopRuntimeSession",
                "bedrock-agentcore:GetAgentRuntime",
            ],
            [r.runtime, f"{r.runtime}/runtime-endpoint/*"],
            "Endpoints are named after the runtime's specification; jobs may use an earlier one.",
        )
    ]


def _tracking(stack: Stack, r: JobResources) -> list[Grant]:
    return [
        Grant(
            [
                "sagemaker:DescribeMlflowApp",
                "sagemaker:CallMlflowAppApi",
                *(f"sagemaker-mlflow:{action}" for action in MLFLOW_ACTIONS),
            ],
            [r.mlflow_app],
        ),
        Grant(
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"],
            [regional_arn(stack, "logs", "log-group:/aws/sagemaker/*")],
            "The service names its log groups and streams after the job.",
        ),
    ]


def _network() -> list[Grant]:
    return [
        Grant(
            [
                "ec2:CreateNetworkInterface",
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            ["*"],
            "Network interfaces get their ids when the service makes them.",
        )
    ]
