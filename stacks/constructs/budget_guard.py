"""Stops a job that has spent its budget, and publishes what it has spent until then."""

# jsii names protocol parameters otherwise than their implementations do:
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from mtrl.pricing import prices_for
from stacks.constructs.functions import Functions, Handler
from stacks.constructs.grants import Grant
from stacks.constructs.runtime_guard import job_arns
from stacks.handlers.budget_guard import NAMESPACE
from stacks.settings import Settings


class BudgetGuard(Construct):
    """Runs every few minutes, whether or not a job is there.

    Raises:
        InputError: no source states the model's prices and the settings give none.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        functions: Functions,
        topic_arn: str,
    ) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        grants = [
            Grant(["sagemaker:ListJobs"], ["*"], "Listing knows no resource."),
            Grant(
                ["sagemaker:DescribeJob", "sagemaker:StopJob"],
                job_arns(stack, f"{settings.prefix}-*"),
                "Jobs of this deployment begin with its name and end in a hash.",
            ),
            Grant(
                ["cloudwatch:PutMetricData"],
                ["*"],
                "Metrics know no resource; the condition names their namespace.",
                {"StringEquals": {"cloudwatch:namespace": NAMESPACE}},
            ),
            Grant(["sns:Publish"], [topic_arn]),
        ]
        prices = settings.budget.prices or prices_for(settings.training.model, settings.region)
        environment = {
            "PREFIX": settings.prefix,
            "TOPIC_ARN": topic_arn,
            "LIMIT_USD": str(settings.budget.usd),
            "PRICE_PREFILL": str(prices.prefill),
            "PRICE_SAMPLE": str(prices.sample),
            "PRICE_TRAIN": str(prices.train),
        }
        handler = Handler("budget_guard.on_schedule", grants, Duration.minutes(2), environment)
        minutes = Duration.minutes(settings.budget.check_every_minutes)
        self.function = functions.function("BudgetGuard", handler)
        self.rule = events.Rule(
            self,
            "Schedule",
            description=f"Reads what the jobs of {settings.prefix} have spent",
            schedule=events.Schedule.rate(minutes),
            targets=[targets.LambdaFunction(self.function, retry_attempts=0)],
        )
