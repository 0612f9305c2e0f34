"""What watches the jobs: the budget guard, notices of state changes, the dashboard."""

# jsii names protocol parameters otherwise than their implementations do:
# pyright: reportArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import Annotations, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.agent import LOG_GROUPS, Agent
from stacks.constructs.budget_guard import BudgetGuard
from stacks.constructs.functions import Functions
from stacks.constructs.runtime_guard import job_arns
from stacks.foundation import Foundation
from stacks.handlers.budget_guard import NAMESPACE
from stacks.handlers.training_job import LOG_GROUP
from stacks.settings import Settings

PERIOD = Duration.minutes(5)


class OversightStack(Stack):
    """Attribute: `dashboard_name`."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        root: Path,
        foundation: Foundation,
        agent: Agent,
        **props: Any,
    ) -> None:
        super().__init__(scope, id, **props)
        functions = Functions(self, "Handlers", settings=settings, root=root)
        arn = foundation.topic_arn
        BudgetGuard(self, "Budget", settings=settings, functions=functions, topic_arn=arn)
        self._notices(settings, arn)
        self.dashboard_name = settings.prefix
        self._dashboard(settings, agent)

    def _notices(self, settings: Settings, topic_arn: str) -> None:
        """Passes on every event about a job of this deployment.

        The detail-type of these jobs' events is not documented, so the rule goes by the job's
        ARN, which every SageMaker event carries in `resources`.
        """
        topic = sns.Topic.from_topic_arn(self, "Notices", topic_arn)
        rule = events.Rule(
            self,
            "JobEvents",
            description=f"State changes of the jobs of {settings.prefix}",
            event_pattern=events.EventPattern(
                source=["aws.sagemaker"],
                resources=[
                    matcher
                    for arn in job_arns(self, f"{settings.prefix}-")
                    for matcher in events.Match.prefix(arn)
                ],
            ),
            targets=[targets.SnsTopic(topic)],
        )
        Annotations.of(rule).acknowledge_warning(
            "@aws-cdk/aws-events:ruleUnresolvedEnvironment",
            "Rule and topic are in one account and Region; the ARN is known while deploying.",
        )

    def _dashboard(self, settings: Settings, agent: Agent) -> None:
        def metric(name: str) -> cloudwatch.Metric:
            return cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name=name,
                dimensions_map={"Deployment": settings.prefix},
                statistic="Maximum",
                period=PERIOD,
            )

        def runtime(*names: str) -> list[cloudwatch.Metric]:
            return [
                cloudwatch.Metric(
                    namespace="AWS/Bedrock-AgentCore",
                    metric_name=name,
                    dimensions_map={
                        "Resource": agent.runtime_arn,
                        "Operation": "InvokeAgentRuntime",
                        "Name": f"{agent.runtime_name}::{agent.endpoint}",
                    },
                    statistic="Average" if name == "Latency" else "Sum",
                    period=PERIOD,
                )
                for name in names
            ]

        limit = cloudwatch.HorizontalAnnotation(value=settings.budget.usd, label="budget")
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=self.dashboard_name,
            widgets=[
                [
                    cloudwatch.GraphWidget(
                        title="Spent on tokens (USD)",
                        left=[metric("SpentUsd")],
                        left_annotations=[limit],
                        width=8,
                    ),
                    cloudwatch.GraphWidget(
                        title="Tokens",
                        left=[metric(f"{kind}Tokens") for kind in ("Prefill", "Sample", "Train")],
                        width=8,
                    ),
                    cloudwatch.GraphWidget(title="Step", left=[metric("Step")], width=8),
                ],
                [
                    cloudwatch.GraphWidget(
                        title="Agent: rollouts and sessions",
                        left=runtime("Invocations", "Sessions"),
                        width=8,
                    ),
                    cloudwatch.GraphWidget(
                        title="Agent: latency", left=runtime("Latency"), width=8
                    ),
                    cloudwatch.GraphWidget(
                        title="Agent: errors",
                        left=runtime("SystemErrors", "UserErrors", "Throttles"),
                        width=8,
                    ),
                ],
                [
                    cloudwatch.LogQueryWidget(
                        title="Agent's log",
                        log_group_names=[f"{LOG_GROUPS}{agent.runtime_id}-{agent.endpoint}"],
                        query_lines=["fields @timestamp, @message", "sort @timestamp desc"],
                        width=12,
                    ),
                    cloudwatch.LogQueryWidget(
                        title="Jobs' log",
                        log_group_names=[LOG_GROUP],
                        query_lines=[
                            "fields @timestamp, @logStream, @message",
                            "sort @timestamp desc",
                        ],
                        width=12,
                    ),
                ],
            ],
        )
