"""Lambda functions of the handlers, and custom resources behind the CDK Provider framework.

Every role is ours and holds its whole policy inline: a function cannot run before its permissions
exist, and none can make a log group again after the stack removed it.
"""

# jsii names protocol parameters otherwise than their implementations do:
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct

from stacks.constructs.grants import WILDCARD_RULE, Grant, acknowledge, inline_role
from stacks.constructs.handler_bundle import build_handler_bundle
from stacks.settings import Settings

PYTHON = "3.14"
_RUNTIME = lambda_.Runtime.PYTHON_3_14
MEMORY_MB = 512
"""boto3's import is bound by CPU, which Lambda gives in proportion to memory."""
WAITER_LIMIT = Duration.minutes(55)
"""CloudFormation gives a custom resource an hour; the framework has to answer before that."""


@dataclass(frozen=True, slots=True)
class Handler:
    """One entry point and what it may do."""

    entry: str
    """Module and function below `stacks.handlers`, e.g. "training_job.on_event"."""
    grants: Sequence[Grant]
    timeout: Duration
    environment: Mapping[str, str] = field(default_factory=dict)


class Functions(Construct):
    """The handlers of one stack: one code asset and one log group for all of them."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings, root: Path) -> None:
        super().__init__(scope, id)
        bundle = build_handler_bundle(root, PYTHON)
        self._code = lambda_.Code.from_asset(str(bundle.path), asset_hash=bundle.content_hash)
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            retention=retention(settings.log_retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )

    def function(self, id: str, handler: Handler) -> lambda_.Function:
        """A function of the handlers' bundle."""
        return lambda_.Function(
            self,
            id,
            runtime=_RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            code=self._code,
            handler=f"stacks.handlers.{handler.entry}",
            role=self._role(f"{id}Role", handler.grants),
            timeout=handler.timeout,
            memory_size=MEMORY_MB,
            environment=dict(handler.environment),
            log_group=self.log_group,
        )

    def provider(
        self, id: str, on_event: Handler, is_complete: Handler | None = None, poll_s: int = 15
    ) -> cr.Provider:
        """The framework around one or two handlers; `service_token` is what resources name."""
        handlers = [self.function(f"{id}OnEvent", on_event)]
        waits: dict[str, Any] = {}
        if is_complete is not None:
            handlers.append(self.function(f"{id}IsComplete", is_complete))
            waits = {
                "is_complete_handler": handlers[1],
                "query_interval": Duration.seconds(poll_s),
                "total_timeout": WAITER_LIMIT,
                "disable_waiter_state_machine_logging": True,
                "framework_complete_and_timeout_role": self._role(f"{id}WaitRole", []),
            }
        provider = cr.Provider(
            self,
            id,
            on_event_handler=handlers[0],
            framework_on_event_role=self._role(f"{id}FrameworkRole", []),
            log_group=self.log_group,
            **waits,
        )
        self._explain(provider, handlers)
        return provider

    def _explain(self, provider: cr.Provider, handlers: Sequence[lambda_.Function]) -> None:
        """The findings on what the framework makes by itself."""
        stack = Stack.of(self)
        framework = [c for c in provider.node.children if isinstance(c, lambda_.Function)]
        names = [stack.get_logical_id(_resource(f)) for f in [*handlers, *framework]]
        acknowledge(
            self,
            "The Provider framework invokes its own functions, whatever their version.",
            *(f"{WILDCARD_RULE}[Resource::<{name}.Arn>:*]" for name in names),
        )
        acknowledge(
            provider,
            "The waiter lives for minutes, and its functions log every step.",
            "AwsSolutions-SF1",
            "AwsSolutions-SF2",
        )
        acknowledge(
            provider,
            "The framework's Node.js version is CDK's choice and moves with its releases.",
            "AwsSolutions-L1",
        )

    def _role(self, id: str, grants: Sequence[Grant]) -> iam.Role:
        write_logs = Grant(
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [self.log_group.log_group_arn],
            "CDK's ARN of a log group ends in a wildcard for its streams.",
        )
        principal = iam.ServicePrincipal("lambda.amazonaws.com")
        return inline_role(self, id, principal, {"Logs": [write_logs], "Handler": grants})


def retention(days: int) -> logs.RetentionDays:
    """The enumeration's member for a number of days."""
    names = {1: "ONE_DAY", 3: "THREE_DAYS", 5: "FIVE_DAYS", 7: "ONE_WEEK", 14: "TWO_WEEKS",
             30: "ONE_MONTH", 60: "TWO_MONTHS", 90: "THREE_MONTHS", 120: "FOUR_MONTHS",
             180: "SIX_MONTHS", 365: "ONE_YEAR"}  # fmt: skip
    return logs.RetentionDays[names[days]]


def _resource(function: lambda_.Function) -> lambda_.CfnFunction:
    resource = function.node.default_child
    assert isinstance(resource, lambda_.CfnFunction)
    return resource
