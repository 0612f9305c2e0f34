"""The budget guard: what it publishes, when it stops a job."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from mtrl.pricing import TokenCounts, prices_for, token_cost_usd
from stacks.handlers.budget_guard import Budget, BudgetGuard

PRICES = {"Prefill": Decimal("0.12"), "Sample": Decimal("0.30"), "Train": Decimal("0.36")}
TOPIC = "arn:aws:sns:us-east-1:000000000000:notices"


class Recorder:
    """Keeps the arguments of every call."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __getattr__(self, _operation: str) -> Any:
        return lambda **arguments: self.calls.append(arguments)


def used(prefill: int, sample: int, train: int) -> dict[str, Any]:
    counts = {"PrefillTokenCount": prefill, "SampleTokenCount": sample, "TrainTokenCount": train}
    return {"ServiceOutput": {"BillableTokenUsage": counts}}


@pytest.fixture
def metrics():
    return Recorder()


@pytest.fixture
def notices():
    return Recorder()


@pytest.fixture
def guard(client, metrics, notices):
    return BudgetGuard(client("sagemaker"), metrics, notices, TOPIC)


def test_spending_is_what_the_price_list_says():
    tokens = {"Prefill": 491_616_806, "Sample": 159_737_098, "Train": 643_308_554}
    counts = TokenCounts(*tokens.values())
    expected = token_cost_usd(counts, prices_for("gpt-oss-20b", "us-east-1"))
    assert Budget(Decimal(1), PRICES).spent(tokens) == expected


def test_a_job_past_its_budget_is_stopped_with_a_notice(guard, sagemaker, notices):
    sagemaker.add_job("mtrl-dev-run-1-x", document=used(0, 0, 100_000_000))
    assert guard.look("mtrl-dev", Budget(Decimal(36), PRICES)) == ["mtrl-dev-run-1-x"]
    assert sagemaker.jobs["mtrl-dev-run-1-x"]["JobStatus"] == "Stopping"
    (notice,) = notices.calls
    assert "36.00 USD" in notice["Message"]
    assert "resume_from=last" in notice["Message"]


def test_a_job_is_announced_once(guard, sagemaker, notices):
    sagemaker.add_job("mtrl-dev-run-1-x", document=used(0, 0, 100_000_000))
    for _ in range(3):
        guard.look("mtrl-dev", Budget(Decimal(36), PRICES))
    assert len(notices.calls) == 1


def test_a_job_within_its_budget_is_measured_and_left_alone(guard, sagemaker, metrics, notices):
    sagemaker.add_job("mtrl-dev-run-1-x", document=used(1_000_000, 0, 0))
    assert guard.look("mtrl-dev", Budget(Decimal(36), PRICES)) == []
    assert sagemaker.jobs["mtrl-dev-run-1-x"]["JobStatus"] == "InProgress"
    assert notices.calls == []
    values = {d["MetricName"]: d["Value"] for d in metrics.calls[0]["MetricData"]}
    assert values["SpentUsd"] == pytest.approx(0.12)
    assert values["PrefillTokens"] == 1_000_000


def test_evaluations_count_too_and_other_deployments_do_not(guard, sagemaker):
    sagemaker.add_job("mtrl-dev-e", JobCategory="AgentRFTEvaluation", document=used(0, 10**9, 0))
    sagemaker.add_job("mtrl-devil-run", document=used(0, 10**9, 0))
    sagemaker.add_job("x-mtrl-dev-run", document=used(0, 10**9, 0))
    assert guard.look("mtrl-dev", Budget(Decimal(1), PRICES)) == ["mtrl-dev-e"]


def test_a_job_that_shows_no_usage_yet_is_skipped(guard, sagemaker, metrics):
    sagemaker.add_job("mtrl-dev-run-1-x")
    assert guard.look("mtrl-dev", Budget(Decimal(1), PRICES)) == []
    assert metrics.calls == []


@pytest.mark.parametrize(("own", "stops"), [("1", True), ("50", False), ("not a number", False)])
def test_a_jobs_own_limit_counts_when_it_is_the_lower_one(guard, sagemaker, own, stops):
    tag = {"Key": "mtrl:max-cost-usd", "Value": own}
    sagemaker.add_job("mtrl-dev-run", document=used(0, 10**7, 0), Tags=[tag])
    assert bool(guard.look("mtrl-dev", Budget(Decimal(36), PRICES))) is stops
