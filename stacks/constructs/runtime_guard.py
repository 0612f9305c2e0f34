"""Refuses an update of the runtime while a job uses it; the runtime depends on this."""

from __future__ import annotations

from aws_cdk import CustomResource, Duration, Stack
from constructs import Construct

from mtrl.job.identity import EVALUATION_CATEGORY, TRAINING_CATEGORY
from stacks.constructs.functions import Functions, Handler
from stacks.constructs.grants import Grant, regional_arn


class RuntimeGuard(Construct):
    """Asked whenever the runtime's specification, and so its endpoint's name, changes."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        functions: Functions,
        runtime_name: str,
        endpoint: str,
        force: bool,
    ) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        grants = [
            Grant(
                ["sagemaker:ListJobs", "bedrock-agentcore:ListAgentRuntimes"],
                ["*"],
                "Listing knows no resource.",
            ),
            Grant(
                ["sagemaker:DescribeJob"],
                job_arns(stack, "*"),
                "Any job of the account may use the runtime, whoever submitted it.",
            ),
            Grant(
                ["bedrock-agentcore:ListAgentRuntimeEndpoints"],
                [regional_arn(stack, "bedrock-agentcore", f"runtime/{runtime_name}-*")],
                "The service appends a random part to the runtime's name.",
            ),
        ]
        handler = Handler("runtime_guard.on_event", grants, Duration.minutes(5))
        provider = functions.provider("GuardProvider", handler)
        CustomResource(
            self,
            "Resource",
            resource_type="Custom::RuntimeGuard",
            service_token=provider.service_token,
            properties={"RuntimeName": runtime_name, "Endpoint": endpoint, "Force": force},
        )


def job_arns(stack: Stack, name: str) -> list[str]:
    """ARNs of the training and evaluation jobs called `name` (which may hold a wildcard)."""
    return [
        regional_arn(stack, "sagemaker", f"job/{category}/{name}")
        for category in (TRAINING_CATEGORY, EVALUATION_CATEGORY)
    ]
