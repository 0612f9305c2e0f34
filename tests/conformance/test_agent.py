"""The SDK's rollout handler and model wrapper against our job runtime, and beside our own agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent.credentials import Snapshot, TokenCache, mint_token
from agent.job_runtime import Deadline, JobRuntime
from agent.payload import InferenceParams, Trajectory
from agent.policy import Policy, Query, RolloutSampling
from agent.task import load_task
from mtrl.rehearse.processes import LocalKeys
from tests.conformance.recorder import Recorder, recording

pytestmark = pytest.mark.slow
JOB = "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/payloads"
REGION = "us-east-1"
REWARDS: list[Any] = [0.25, 1, [0.5, -0.25, 0.1]]


@pytest.fixture(scope="module")
def played(rehearsals: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A job that the SDK's agent played, and the same job played by ours."""
    jobs = {}
    free_port = request.getfixturevalue("ports")
    for name, agents in (("sdk", 0), ("ours", 1)):
        port = free_port()
        options = ["--seed", "7"] + (["--agent-url", f"http://127.0.0.1:{port}"] * (not agents))
        with rehearsals.start(options, agents) as (cloud, sdk):
            rows = cloud.put_rows("train.jsonl", "train", 32)
            cloud.create("job", cloud.training(rows, max_steps="1"))
            if agents:
                view = cloud.finish("job")
            else:
                command = ["python", str(sdk.clients / "sdk_agent.py")]
                with sdk.serving(command, port, "/ping", PORT=str(port)):
                    view = cloud.finish("job")
            jobs[name] = (view, cloud.traces("job", "train-00001"))
    yield jobs


def test_the_sdks_agent_plays_a_whole_job_on_our_job_runtime(played: Any) -> None:
    view, lines = played["sdk"]
    assert (view.status, view.failure_reason) == ("Completed", "")
    assert len(lines) == 64
    assert all(line["reward"] is not None and line["attempts"] == 1 for line in lines)


def test_games_that_both_agents_play_alike_earn_the_same(played: Any) -> None:
    """Ours recovers moves written as text, which ends the SDK sample's rollouts; the rest agree."""
    ours = {(line["row"], line["rollout"]): line for line in played["ours"][1]}
    compared = 0
    for line in played["sdk"][1]:
        trace = ours[line["row"], line["rollout"]]["trace"]
        formats = trace["summary"]["formats"]
        if trace["stop_reason"] == "done" and formats["text_moves"] == 0:
            assert line["reward"] == ours[line["row"], line["rollout"]]["reward"]
            compared += 1
    assert compared > 5


def test_a_refused_report_costs_the_sdks_agent_its_reward_and_not_ours(
    rehearsals: Any, ports: Any
) -> None:
    """Its handler reports once and swallows the error, so the job waits in vain and fails."""
    # An attempt lasts 300 s x 0.02; every third call is answered with 503.
    faults = ["--fault", "unavailable=0.3", "--timeout-scale", "0.02"]
    values = {"max_steps": "1", "rollout_max_retries": "1", "rollout_timeout": "300"}
    port = ports()
    url = f"http://127.0.0.1:{port}"
    with rehearsals.start([*faults, "--agent-url", url], agents=0) as (cloud, sdk):
        cloud.create("job", cloud.training(cloud.put_rows("t.jsonl", "train", 32), **values))
        command = ["python", str(sdk.clients / "sdk_agent.py")]
        with sdk.serving(command, port, "/ping", PORT=str(port)):
            view = cloud.finish("job")
        assert view.status == "Failed"
        assert "no reward was received in time" in view.failure_reason
    with rehearsals.start(faults) as (cloud, _):
        cloud.create("job", cloud.training(cloud.put_rows("t.jsonl", "train", 32), **values))
        assert cloud.finish("job").status == "Completed"


@pytest.fixture(scope="module")
def sent(rehearsals: Any, request: pytest.FixtureRequest) -> dict[str, list[Any]]:
    """What the SDK and we send for the same rollout, with the same keys."""
    sdk_type, environment = request.getfixturevalue("sdk_kit")
    keys = LocalKeys.fresh()
    given: dict[str, Any] = {
        "inference": {"temperature": 0.7, "topP": 0.9, "maxTokens": 600},
        "rewards": REWARDS,
    }
    episode = load_task("wordle").start(
        json.dumps({"id": "w-1", "prompt": "Play.", "answer": "haste"})
    )
    given |= {"system": episode.system_prompt, "prompt": episode.user_prompt}
    given["tools"] = [dict(tool.tool_spec) for tool in episode.tools]
    results = {}
    with recording() as theirs:
        given["metadata"] = metadata(theirs)
        sdk = sdk_type(environment(keys), rehearsals.base)
        token = sdk.run("payloads.py", given)["token"]
        results["sdk"] = theirs.requests
    with recording() as ours:
        asyncio.run(send_ours(ours, given, keys))
        results["ours"] = ours.requests
    results["token"] = token
    results["keys"] = keys
    return results


def metadata(recorder: Recorder) -> dict[str, str]:
    return {
        "jobArn": JOB,
        "trajectoryId": "rollout-1",
        "endpoint": recorder.url,
        "region": REGION,
    }


async def send_ours(recorder: Recorder, given: dict[str, Any], keys: LocalKeys) -> None:
    """The same rollout by our client: sample, complete, reward."""
    from botocore.credentials import ReadOnlyCredentials

    frozen = ReadOnlyCredentials(keys.access_key, keys.secret_key, None)
    runtime = JobRuntime(TokenCache(lambda: Snapshot(frozen, None)))
    trajectory = Trajectory(JOB, "rollout-1", recorder.url, REGION)
    deadline = Deadline(runtime.clock() + 60, runtime.clock)
    inference = InferenceParams(temperature=0.7, top_p=0.9, max_tokens=600)
    sampling = RolloutSampling(trajectory, inference, None, deadline)
    messages = [{"role": "user", "content": [{"text": given["prompt"]}]}]
    query = Query(messages, given["tools"], given["system"])
    await Policy(runtime, stream=True).sample(sampling, query)
    for reward in given["rewards"]:
        await runtime.complete(trajectory, "ready", deadline)
        await runtime.update_reward(trajectory, reward, deadline)
    await runtime.complete(trajectory, "failed", deadline)
    runtime.close()


def test_reports_are_the_sdks_byte_for_byte(sent: Any) -> None:
    theirs = [r for r in sent["sdk"] if r.path != "/v1/chat/completions"]
    ours = [r for r in sent["ours"] if r.path != "/v1/chat/completions"]
    assert [(r.method, r.path, r.body) for r in ours] == [
        (r.method, r.path, r.body) for r in theirs
    ]
    assert len(ours) == 2 * len(REWARDS) + 1
    for our, their in zip(ours, theirs, strict=True):
        assert our.headers["content-type"] == their.headers["content-type"]


def test_samples_are_the_sdks_field_for_field(sent: Any) -> None:
    (their,) = (r for r in sent["sdk"] if r.path == "/v1/chat/completions")
    (our,) = (r for r in sent["ours"] if r.path == "/v1/chat/completions")
    assert json.loads(our.body) == json.loads(their.body)
    for name in ("x-amzn-sagemaker-job-arn", "x-amzn-sagemaker-trajectory-id", "content-type"):
        assert our.headers[name] == their.headers[name]


def test_tokens_are_the_sdks_but_for_the_moment_of_signing(sent: Any) -> None:
    from botocore.credentials import ReadOnlyCredentials

    keys = sent["keys"]
    frozen = ReadOnlyCredentials(keys.access_key, keys.secret_key, None)
    ours = fields_of(mint_token(frozen, REGION))
    theirs = fields_of(sent["token"])
    assert list(ours) == list(theirs)
    moment = ("X-Amz-Date", "X-Amz-Signature", "X-Amz-Credential")
    assert {k: v for k, v in ours.items() if k not in moment} == {
        k: v for k, v in theirs.items() if k not in moment
    }
    for request in sent["ours"] + sent["sdk"]:
        assert request.headers["authorization"].startswith("Bearer sagemaker-api-key-")


def fields_of(token: str) -> dict[str, str]:
    import base64
    from urllib.parse import parse_qsl, urlsplit

    url = base64.b64decode(token.removeprefix("sagemaker-api-key-")).decode()
    return dict(parse_qsl(urlsplit(f"https://{url}").query))
