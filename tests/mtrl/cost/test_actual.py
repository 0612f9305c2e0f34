"""`mtrl cost actual`: AgentCore's usage from CloudWatch beside the job's own tokens."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from mtrl.aws import Cloud
from mtrl.cost.actual import LATE, MAX_POINTS, PERIOD_S, actual_of
from mtrl.cost.ranges import Range
from mtrl.jobs.reading import Job, read_job
from mtrl.pricing import PriceList

START = datetime(2026, 12, 1, tzinfo=UTC)
RUNTIME = "arn:aws:bedrock-agentcore:us-east-1:111111111111:runtime/mtrl_dev-0123456789"
MODEL = "arn:aws:sagemaker:us-east-1:aws:hub-content/SageMakerPublicHub/Model/"


def job(step: int = 100, hours: float = 12, agent: dict[str, Any] | None = None) -> Job:
    """The reference run, as far as `step` of its 100 steps."""
    core = {"BedrockAgentCoreConfig": {"AgentRuntimeArn": RUNTIME, "Qualifier": "spec_1"}}
    document = {
        "AgentConfig": agent or core,
        "TrainingConfig": {"BaseModelArn": MODEL + "openai-reasoning-gpt-oss-20b"},
        "ServiceOutput": {
            "ProgressInfo": {"MaxSteps": 100, "CurrentStep": step},
            "BillableTokenUsage": {
                "PrefillTokenCount": 491_616_806,
                "SampleTokenCount": 159_737_098,
                "TrainTokenCount": 643_308_554,
            },
        },
    }
    return read_job(
        {
            "JobName": "j",
            "JobArn": "arn:aws:sagemaker:us-east-1:111111111111:job/AgentRFT/j",
            "JobCategory": "AgentRFT",
            "JobConfigDocument": json.dumps(document),
            "CreationTime": START,
            "EndTime": START + timedelta(hours=hours),
            "JobStatus": "Completed",
            "SecondaryStatus": "Completed",
        }
    )


def usage(params: dict[str, Any]) -> dict[str, Any]:
    """Two points a call: 100 vCPU-hours or 5,000 GB-hours together."""
    amount = 50.0 if params["MetricName"] == "CPUUsed-vCPUHours" else 2_500.0
    return {"Datapoints": [{"Sum": amount}, {"Sum": amount}]}


def test_usage_of_the_runtime_is_priced_beside_the_tokens(aws: Any) -> None:
    aws.on("cloudwatch", "GetMetricStatistics", usage)
    found = actual_of(Cloud("us-east-1"), job(), PriceList(), None)
    assert found.vcpu_seconds == 100 * 3600
    assert found.runtime_usd == pytest.approx(100 * 0.0895 + 5_000 * 0.00945)
    assert found.token_usd == pytest.approx(338.506, abs=0.001)
    assert found.total_usd == pytest.approx(338.506 + 8.95 + 47.25, abs=0.001)
    asked = aws.asked("GetMetricStatistics")[0]
    assert {d["Name"]: d["Value"] for d in asked["Dimensions"]} == {
        "Service": "AgentCore.Runtime",
        "Resource": RUNTIME,
    }


def test_a_long_job_is_asked_for_in_parts_that_the_service_answers(aws: Any) -> None:
    aws.on("cloudwatch", "GetMetricStatistics", usage)
    actual_of(Cloud("us-east-1"), job(hours=24 * 12), PriceList(), None)
    asked = [c for c in aws.asked("GetMetricStatistics") if c["MetricName"].startswith("CPU")]
    assert len(asked) == 3
    assert all(
        (c["EndTime"] - c["StartTime"]).total_seconds() <= PERIOD_S * MAX_POINTS for c in asked
    )
    assert asked[0]["StartTime"] == START
    assert asked[-1]["EndTime"] == START + timedelta(hours=24 * 12) + LATE


def test_an_estimate_is_scaled_to_the_steps_that_are_done(aws: Any) -> None:
    aws.on("cloudwatch", "GetMetricStatistics", {"Datapoints": []})
    estimate = {"train": Range(100, 200, 300)}
    found = actual_of(Cloud("us-east-1"), job(step=25), PriceList(), estimate)
    assert found.estimate == {"train": Range(25, 50, 75)}
    assert found.runtime_usd is None
    assert any("arrives when sessions end" in note for note in found.notes)


def test_usage_that_may_not_be_read_is_not_taken_for_none(aws: Any) -> None:
    error: Any = {"Error": {"Code": "AccessDenied", "Message": "no"}}
    aws.on("cloudwatch", "GetMetricStatistics", ClientError(error, "GetMetricStatistics"))
    found = actual_of(Cloud("us-east-1"), job(), PriceList(), None)
    assert found.runtime_usd is None and "not permitted" in found.notes[0]


def test_an_agent_elsewhere_and_an_unknown_price_are_said() -> None:
    agent = {"CustomAgentLambdaConfig": {"LambdaArn": "arn:aws:lambda:us-east-1:1:function:f"}}
    found = actual_of(Cloud("us-east-1"), job(agent=agent), PriceList(tokens={}), None)
    assert found.total_usd is None
    assert len(found.notes) == 2
