"""What runs the agent: the AgentCore runtime, its endpoint, its role, its logs and its guard."""

# jsii names protocol parameters otherwise than their implementations do:
# pyright: reportArgumentType=false

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, CustomResource, Duration, Stack
from aws_cdk import aws_bedrockagentcore as agentcore
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from mtrl.job.identity import canonical_json
from stacks.constructs.agent_bundle import ENTRY_POINT, build_agent_bundle
from stacks.constructs.functions import Functions, Handler
from stacks.constructs.grants import Grant, document, inline_role, regional_arn
from stacks.constructs.published import publish
from stacks.constructs.runtime_guard import RuntimeGuard, job_arns
from stacks.settings import Settings, Vpc

SPEC_HASH_LENGTH = 12
LOG_GROUPS = "/aws/bedrock-agentcore/runtimes/"


@dataclass(frozen=True, slots=True)
class Agent:
    """What the stacks after this one use."""

    runtime_arn: str
    runtime_id: str
    runtime_name: str
    endpoint: str
    """Name of the endpoint that is pinned to this specification."""
    bundle_hash: str


class AgentStack(Stack):
    """Attribute: `published`."""

    def __init__(
        self, scope: Construct, id: str, *, settings: Settings, root: Path, **props: Any
    ) -> None:
        super().__init__(scope, id, **props)
        self._settings = settings
        self._runtime_name = f"{settings.prefix}".replace("-", "_")
        self._functions = Functions(self, "Handlers", settings=settings, root=root)
        bundle = build_agent_bundle(root, settings.agent.python)
        self._code = assets.Asset(
            self, "Code", path=str(bundle.path), asset_hash=bundle.content_hash
        )
        self._grants = runtime_grants(self, self._runtime_name)
        self._endpoint = f"spec_{self._spec_hash()}"
        self._guard = RuntimeGuard(
            self,
            "Guard",
            functions=self._functions,
            runtime_name=self._runtime_name,
            endpoint=self._endpoint,
            force=settings.force,
        )
        self._runtime = self._make_runtime()
        logs = self._logs()
        pinned = self._runtime.add_endpoint(
            self._endpoint, version=self._runtime.agent_runtime_version
        )
        pinned.node.add_dependency(logs)
        self.published = Agent(
            runtime_arn=publish(self, "RuntimeArn", self._runtime.agent_runtime_arn),
            runtime_id=publish(self, "RuntimeId", self._runtime.agent_runtime_id),
            runtime_name=self._runtime_name,
            endpoint=self._endpoint,
            bundle_hash=bundle.content_hash,
        )
        CfnOutput(self, "Endpoint", value=self._endpoint)

    def _spec_hash(self) -> str:
        """Hash of everything that makes a new version of the runtime."""
        agent = self._settings.agent
        spec = {
            "name": self._runtime_name,
            "code": self._code.asset_hash,
            "entry": ENTRY_POINT,
            "python": agent.python,
            "platform": agent.platform_version,
            "environment": agent.environment(),
            "network": network(agent.vpc),
            "lifecycle": [agent.idle_timeout_s, agent.max_lifetime_s],
            "policy": self.resolve(document(self._grants).to_json()),
        }
        return hashlib.sha256(canonical_json(spec).encode()).hexdigest()[:SPEC_HASH_LENGTH]

    def _make_runtime(self) -> agentcore.Runtime:
        agent = self._settings.agent
        principal = iam.ServicePrincipal(
            "bedrock-agentcore.amazonaws.com",
            conditions={
                "StringEquals": {"aws:SourceAccount": self.account},
                "ArnLike": {"aws:SourceArn": regional_arn(self, "bedrock-agentcore", "*")},
            },
        )
        role = inline_role(self, "RuntimeRole", principal, {"Runtime": self._grants})
        role.node.add_dependency(self._guard)
        location = s3.Location(
            bucket_name=self._code.s3_bucket_name, object_key=self._code.s3_object_key
        )
        runtime = agentcore.Runtime(
            self,
            "Runtime",
            runtime_name=self._runtime_name,
            # Its whole policy is in the role already, and is narrower than what CDK would add.
            execution_role=role.without_policy_updates(),
            agent_runtime_artifact=agentcore.AgentRuntimeArtifact.from_s3(
                location, _python(agent.python), [ENTRY_POINT]
            ),
            platform_version=getattr(agentcore.PlatformVersion, agent.platform_version),
            environment_variables=agent.environment(),
            lifecycle_configuration=agentcore.LifecycleConfiguration(
                idle_runtime_session_timeout=Duration.seconds(agent.idle_timeout_s),
                max_lifetime=Duration.seconds(agent.max_lifetime_s),
            ),
            tracing_enabled=agent.tracing,
        )
        runtime.node.add_dependency(self._guard)
        resource = runtime.node.default_child
        assert isinstance(resource, agentcore.CfnRuntime)
        resource.add_property_override("NetworkConfiguration", network(agent.vpc))
        return runtime

    def _logs(self) -> CustomResource:
        """Retention of the runtime's log groups, set before the endpoint is there to write."""
        grants = [
            Grant(
                ["logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:DeleteLogGroup"],
                [regional_arn(self, "logs", f"log-group:{LOG_GROUPS}{self._runtime_name}-*")],
                _RANDOM_PART,
            ),
            Grant(["logs:DescribeLogGroups"], ["*"], "Listing knows no resource."),
        ]
        handler = Handler("runtime_logs.on_event", grants, Duration.minutes(5))
        provider = self._functions.provider("LogsProvider", handler)
        return CustomResource(
            self,
            "RuntimeLogs",
            resource_type="Custom::RuntimeLogs",
            service_token=provider.service_token,
            properties={
                "RuntimeId": self._runtime.agent_runtime_id,
                "Endpoint": self._endpoint,
                "RetentionDays": self._settings.log_retention_days,
                "KeepData": self._settings.keep_data,
            },
        )


_RANDOM_PART = "The service appends a random part to the runtime's name."


def runtime_grants(stack: Stack, runtime_name: str) -> list[Grant]:
    """What the agent may do: sample and report for jobs of its own account, and write its logs."""
    group = f"log-group:{LOG_GROUPS}{runtime_name}-*"
    return [
        Grant(
            [
                "sagemaker:Sample",
                "sagemaker:SampleWithResponseStream",
                "sagemaker:CompleteRollout",
                "sagemaker:UpdateReward",
            ],
            job_arns(stack, "*"),
            "Jobs are named after the runtime is made.",
        ),
        Grant(["sagemaker:CallWithBearerToken"], ["*"], "The action knows no resource."),
        Grant(
            ["logs:CreateLogGroup", "logs:DescribeLogStreams"],
            [regional_arn(stack, "logs", group)],
            _RANDOM_PART,
        ),
        Grant(
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [regional_arn(stack, "logs", f"{group}:log-stream:*")],
            _RANDOM_PART,
        ),
        Grant(["logs:DescribeLogGroups"], ["*"], "Listing knows no resource."),
        Grant(
            ["xray:PutTraceSegments", "xray:PutTelemetryRecords"],
            ["*"],
            "Traces know no resource.",
        ),
        Grant(
            ["cloudwatch:PutMetricData"],
            ["*"],
            "Metrics know no resource; the condition names their namespace.",
            {"StringEquals": {"cloudwatch:namespace": "bedrock-agentcore"}},
        ),
    ]


def network(vpc: Vpc | None) -> dict[str, Any]:
    """NetworkConfiguration of the runtime."""
    if vpc is None:
        return {"NetworkMode": "PUBLIC"}
    ids = {"Subnets": list(vpc.subnet_ids), "SecurityGroups": list(vpc.security_group_ids)}
    return {"NetworkMode": "VPC", "NetworkModeConfig": ids}


def _python(version: str) -> agentcore.AgentCoreRuntime:
    return getattr(agentcore.AgentCoreRuntime, f"PYTHON_{version.replace('.', '_')}")
