"""The guard in front of the runtime, with real boto3 against a local service."""

from __future__ import annotations

from typing import Any

import pytest

from stacks.handlers import runtime_guard
from stacks.handlers.runtime_guard import RuntimeGuard, RuntimeInUse

NAME, OLD, NEW = "mtrl_dev", "spec_old", "spec_new"


@pytest.fixture
def guard(client):
    return RuntimeGuard(client("sagemaker"), client("bedrock-agentcore-control"))


@pytest.fixture
def deployed(agentcore):
    agentcore.runtimes[NAME] = ["DEFAULT", OLD]
    return agentcore


def using(arn: str) -> dict[str, Any]:
    return {"AgentConfig": {"BedrockAgentCoreConfig": {"AgentRuntimeArn": arn, "Qualifier": OLD}}}


def test_the_first_deployment_passes(guard, sagemaker):
    sagemaker.add_job("some-job")
    guard.check(NAME, NEW, force=False)


@pytest.mark.parametrize("category", ["AgentRFT", "AgentRFTEvaluation"])
@pytest.mark.parametrize("status", ["InProgress", "Stopping"])
def test_a_job_on_the_runtime_blocks_an_update_and_is_named(
    guard, sagemaker, deployed, category, status
):
    sagemaker.add_job("busy", status, JobCategory=category, document=using(deployed.arn(NAME)))
    with pytest.raises(RuntimeInUse, match=f"busy .{category}, {status}.*force=true"):
        guard.check(NAME, NEW, force=False)


def test_the_message_says_how_far_the_job_is(guard, sagemaker, deployed):
    progress = {"ServiceOutput": {"ProgressInfo": {"MaxSteps": 100, "CurrentStep": 12}}}
    sagemaker.add_job("busy", document={**using(deployed.arn(NAME)), **progress})
    with pytest.raises(RuntimeInUse, match="step 12 of 100"):
        guard.check(NAME, NEW, force=False)


def test_all_jobs_on_the_runtime_are_named_across_pages(guard, sagemaker, deployed):
    for number in range(5):
        sagemaker.add_job(f"busy-{number}", document=using(deployed.arn(NAME)))
    with pytest.raises(RuntimeInUse) as raised:
        guard.check(NAME, NEW, force=False)
    assert all(f"busy-{number}" in str(raised.value) for number in range(5))


def test_force_lets_the_update_through(guard, sagemaker, deployed, capsys):
    sagemaker.add_job("busy", document=using(deployed.arn(NAME)))
    guard.check(NAME, NEW, force=True)
    assert "busy" in capsys.readouterr().out


@pytest.mark.parametrize("status", ["Completed", "Failed", "Stopped"])
def test_an_ended_job_does_not_block(guard, sagemaker, deployed, status):
    sagemaker.add_job("done", status, document=using(deployed.arn(NAME)))
    guard.check(NAME, NEW, force=False)


def test_a_job_on_another_runtime_does_not_block(guard, sagemaker, deployed):
    deployed.runtimes["mtrl_dev2"] = []
    sagemaker.add_job("other", document=using(deployed.arn("mtrl_dev2")))
    guard.check(NAME, NEW, force=False)


def test_rolling_back_to_what_runs_passes_although_a_job_uses_it(guard, sagemaker, deployed):
    sagemaker.add_job("busy", document=using(deployed.arn(NAME)))
    guard.check(NAME, OLD, force=False)


def test_delete_never_fails():
    event = {"RequestType": "Delete", "ResourceProperties": {"RuntimeName": NAME}}
    assert runtime_guard.on_event(event, None)["PhysicalResourceId"] == f"guard-of-{NAME}"
