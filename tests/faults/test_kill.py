"""kill -9 of the agent, of the service, and of both, in the middle of a job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.cloud import Cloud, cloud_starter

STEPS = 3
AGENT_RESTART_S = 10.0
"""How long the killed agent stays away: about what a new session takes."""


@pytest.fixture
def start_cloud(tmp_path: Path) -> Any:
    return cloud_starter(tmp_path)


def submit(cloud: Cloud) -> None:
    rows = cloud.put_rows("train.jsonl", "train", 32 * STEPS)
    cloud.create("job", cloud.training(rows, max_steps=str(STEPS)))


def rewards(cloud: Cloud) -> list[list[float]]:
    return [
        [line["reward"] for line in cloud.traces("job", f"train-{step:05d}")]
        for step in range(1, STEPS + 1)
    ]


def packages(cloud: Cloud) -> list[str]:
    groups = (cloud.environment.output_group_arn, cloud.environment.checkpoint_group_arn)
    return [
        package["ModelPackageArn"]
        for group in groups
        for package in cloud.sagemaker.list_model_packages(ModelPackageGroupName=group)[
            "ModelPackageSummaryList"
        ]
    ]


def until_step(cloud: Cloud, step: int) -> None:
    """Wait until a step is recorded and the next one is under way."""
    cloud.until("job", lambda view: view.step >= step)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> list[list[float]]:
    """The rewards of the same job when nothing is killed."""
    with cloud_starter(tmp_path_factory.mktemp("unbroken"))("whole") as cloud:
        submit(cloud)
        assert cloud.finish("job").status == "Completed"
        return rewards(cloud)


@pytest.mark.slow
def test_a_job_goes_on_when_its_killed_agent_comes_back(
    start_cloud: Any, unbroken: list[list[float]]
) -> None:
    with start_cloud("agent") as cloud:
        submit(cloud)
        until_step(cloud, 1)
        (agent,) = cloud.parts.agents
        agent.kill()
        time.sleep(AGENT_RESTART_S)
        agent.restart()
        view = cloud.finish("job")
        assert (view.status, view.step) == ("Completed", STEPS)
        assert rewards(cloud) == unbroken
        assert len(packages(cloud)) == 2 * STEPS
        lines = [x for step in (2, 3) for x in cloud.traces("job", f"train-{step:05d}")]
        assert max(x["seconds"] for x in lines) > AGENT_RESTART_S / 2  # it did fall into the job


@pytest.mark.slow
def test_a_job_ends_with_a_reason_when_its_agent_stays_away(start_cloud: Any) -> None:
    # An attempt lasts 300 s x 0.01; the job allows two.
    with start_cloud("gone", options=["--timeout-scale", "0.01"]) as cloud:
        rows = cloud.put_rows("train.jsonl", "train", 32 * STEPS)
        values = {"max_steps": str(STEPS), "rollout_max_retries": "1", "rollout_timeout": "300"}
        cloud.create("job", cloud.training(rows, **values))
        until_step(cloud, 1)
        recorded = packages(cloud)
        cloud.parts.agents[0].kill()
        view = cloud.finish("job")
        assert view.status == "Failed"
        assert "No sampling requests were received" in view.failure_reason
        assert set(recorded) <= set(packages(cloud))
        assert "OutputModelPackageArn" in view.output


@pytest.mark.slow
def test_a_job_goes_on_when_service_and_agent_are_killed_and_started_again(
    start_cloud: Any, unbroken: list[list[float]]
) -> None:
    with start_cloud("both") as cloud:
        submit(cloud)
        until_step(cloud, 1)
        recorded = packages(cloud)
        for part in cloud.parts.all:
            part.kill()
    with start_cloud("both") as cloud:
        assert set(recorded) <= set(packages(cloud))
        view = cloud.finish("job")
        assert (view.status, view.step) == ("Completed", STEPS)
        assert rewards(cloud) == unbroken
        assert len(packages(cloud)) == 2 * STEPS
