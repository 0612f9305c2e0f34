"""Reads what the deployment's jobs have spent, publishes it, and stops a job past its budget.

Runs on a schedule. Spending is the service's own BillableTokenUsage times the prices that the
deployment was made with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from mtrl.job.identity import MAX_COST_TAG
from stacks.handlers import jobs

NAMESPACE = "MultiTurnRL"
TOKENS_PER_PRICE = 1_000_000
_KINDS = ("Prefill", "Sample", "Train")


@dataclass(frozen=True, slots=True)
class Budget:
    """US dollars a job may spend, and the prices per million tokens by kind."""

    limit_usd: Decimal
    prices: Mapping[str, Decimal]

    def spent(self, tokens: Mapping[str, int]) -> Decimal:
        """US dollars for the tokens."""
        return (
            sum((tokens[kind] * self.prices[kind] for kind in _KINDS), Decimal(0))
            / TOKENS_PER_PRICE
        )


class BudgetGuard:
    """Looks once at every active job of the deployment."""

    def __init__(self, sagemaker: Any, cloudwatch: Any, sns: Any, topic_arn: str) -> None:
        self._sagemaker = sagemaker
        self._cloudwatch = cloudwatch
        self._sns = sns
        self._topic_arn = topic_arn

    def look(self, prefix: str, budget: Budget) -> list[str]:
        """Publish spending of all active jobs; return the names of those that were stopped."""
        stopped = []
        for job in jobs.active_jobs(self._sagemaker, NameContains=prefix):
            if not job["JobName"].startswith(f"{prefix}-"):
                continue
            tokens = _tokens(job)
            if tokens is None:
                continue
            spent = budget.spent(tokens)
            self._publish(prefix, job, tokens, spent)
            limit = min(budget.limit_usd, _own_limit(job) or budget.limit_usd)
            if spent >= limit and job["JobStatus"] == "InProgress":
                self._stop(job, spent, limit)
                stopped.append(job["JobName"])
        return stopped

    def _publish(
        self, prefix: str, job: dict[str, Any], tokens: dict[str, int], spent: Decimal
    ) -> None:
        values = {f"{kind}Tokens": float(count) for kind, count in tokens.items()}
        values |= {"SpentUsd": float(spent), "Step": float(jobs.progress_of(job)[0])}
        by_job = [{"Name": "JobName", "Value": job["JobName"]}]
        by_deployment = [{"Name": "Deployment", "Value": prefix}]
        self._cloudwatch.put_metric_data(
            Namespace=NAMESPACE,
            MetricData=[
                {"MetricName": name, "Dimensions": dimensions, "Value": value}
                for name, value in sorted(values.items())
                for dimensions in (by_job, by_deployment)
            ],
        )

    def _stop(self, job: dict[str, Any], spent: Decimal, limit: Decimal) -> None:
        name = job["JobName"]
        jobs.stop(self._sagemaker, name, job["JobCategory"])
        self._sns.publish(
            TopicArn=self._topic_arn,
            Subject=f"Budget reached: {name}"[:100],
            Message=(
                f"Job {name} has spent {spent:.2f} USD in tokens, its budget is {limit:.2f} USD. "
                "It is being stopped; its last checkpoint is kept. To go on, raise budget.usd and "
                "deploy with a new run_id and resume_from=last."
            ),
        )


def _tokens(job: dict[str, Any]) -> dict[str, int] | None:
    usage = jobs.document_of(job).get("ServiceOutput", {}).get("BillableTokenUsage")
    if not usage:
        return None
    return {kind: int(usage.get(f"{kind}TokenCount") or 0) for kind in _KINDS}


def _own_limit(job: dict[str, Any]) -> Decimal | None:
    """The limit that a job carries as a tag (`mtrl train --max-cost`), if it is a number."""
    tags = {tag["Key"]: tag["Value"] for tag in job.get("Tags") or ()}
    try:
        return Decimal(tags[MAX_COST_TAG])
    except (KeyError, InvalidOperation):
        return None


def on_schedule(_event: Mapping[str, Any], _context: object) -> dict[str, list[str]]:
    """Entry point of the schedule."""
    prices = {kind: Decimal(os.environ[f"PRICE_{kind.upper()}"]) for kind in _KINDS}
    guard = BudgetGuard(
        jobs.client("sagemaker"), jobs.client("cloudwatch"), jobs.client("sns"),
        os.environ["TOPIC_ARN"],
    )  # fmt: skip
    budget = Budget(Decimal(os.environ["LIMIT_USD"]), prices)
    return {"stopped": guard.look(os.environ["PREFIX"], budget)}
