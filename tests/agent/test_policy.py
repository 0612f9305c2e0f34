"""The policy as a Strands model: what is fixed, what is shared, and how a sample is replayed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent.chat import Sample, ToolCall
from agent.job_runtime import CallRefusedError, Deadline, JobRuntime
from agent.payload import InferenceParams, Trajectory
from agent.policy import Policy, Query, RolloutSampling, stream_events

QUERY = Query([{"role": "user", "content": [{"text": "Go."}]}], None, "You play.")


def sampling(endpoint: str, clock: Any, name: str = "t-1", **extra: Any) -> RolloutSampling:
    return RolloutSampling(
        trajectory=Trajectory("arn:aws:sagemaker:us-east-1::job/x", name, endpoint, "us-east-1"),
        inference=extra.get("inference", InferenceParams()),
        reasoning_effort=extra.get("effort"),
        deadline=Deadline(clock.now + 60, clock),
    )


def test_only_what_the_payload_sets_is_sent(
    runtime: JobRuntime, fake: Any, endpoint: str, clock: Any
) -> None:
    rollout = sampling(endpoint, clock, inference=InferenceParams(temperature=0.0))
    asyncio.run(Policy(runtime).sample(rollout, QUERY))
    assert set(fake.calls[0].body) == {"messages", "model", "stream", "temperature"}


def test_two_rollouts_of_one_policy_share_no_parameter(
    runtime: JobRuntime, fake: Any, endpoint: str, clock: Any
) -> None:
    policy = Policy(runtime)
    hot = sampling(endpoint, clock, "hot", inference=InferenceParams(1.0, 0.9, 512))
    cold = sampling(endpoint, clock, "cold")

    async def both() -> None:
        for rollout in (hot, cold, hot):
            await policy.sample(rollout, QUERY)

    asyncio.run(both())
    asked = [(call.trajectory, call.body.get("temperature")) for call in fake.calls]
    assert asked == [("hot", 1.0), ("cold", None), ("hot", 1.0)]


def refusing(kit: Any, status: int, words: str) -> Any:
    def answer(call: Any) -> Any:
        if "reasoning_effort" in call.body:
            return kit.Answer(status, json.dumps({"error": {"message": words}}).encode())
        return kit.call_count(1)

    return answer


@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_effort_is_remembered_for_its_endpoint_only(
    runtime: JobRuntime, fake: Any, endpoint: str, kit: Any, clock: Any, status: int
) -> None:
    fake.policy = refusing(kit, status, "Unrecognized request argument: reasoning_effort")
    policy = Policy(runtime)
    other = kit.FakeRuntime()

    async def ask(*urls: str) -> None:
        for url in urls:
            await policy.sample(sampling(url, clock, effort="low"), QUERY)

    with kit.serving(other) as second:
        asyncio.run(ask(endpoint, endpoint, second))
        assert policy.without_effort == {endpoint}
    assert ["reasoning_effort" in call.body for call in fake.calls] == [True, False, False]
    assert ["reasoning_effort" in call.body for call in other.calls] == [True]


@pytest.mark.parametrize(
    ("status", "words"), [(400, "temperature must be a number"), (413, "reasoning_effort")]
)
def test_another_refusal_is_not_taken_for_it(
    runtime: JobRuntime, fake: Any, endpoint: str, kit: Any, clock: Any, status: int, words: str
) -> None:
    fake.policy = refusing(kit, status, words)
    with pytest.raises(CallRefusedError):
        asyncio.run(Policy(runtime).sample(sampling(endpoint, clock, effort="low"), QUERY))
    assert len(fake.calls) == 1


def test_a_rollouts_model_cannot_be_reconfigured(
    runtime: JobRuntime, endpoint: str, clock: Any
) -> None:
    model = Policy(runtime).model(sampling(endpoint, clock), lambda _: None)
    with pytest.raises(TypeError, match="payload only"):
        model.update_config(temperature=2)
    with pytest.raises(NotImplementedError):
        asyncio.run(anext(model.structured_output()))  # type: ignore[arg-type]


def stops(sample: Sample) -> str:
    (stop,) = (event["messageStop"] for event in stream_events(sample, 1) if "messageStop" in event)
    return stop["stopReason"]


WHOLE, BROKEN = ToolCall("a", "count", '{"n": 1}'), ToolCall("b", "count", '{"n')


def test_tool_calls_stop_for_their_tools_whatever_the_server_calls_it() -> None:
    assert stops(Sample("", "", (WHOLE,), "tool_calls")) == "tool_use"
    assert stops(Sample("", "", (WHOLE,), "stop")) == "tool_use"
    assert stops(Sample("hi", "", (), "stop")) == "end_turn"


def test_of_an_answer_cut_at_its_limit_only_whole_calls_are_played() -> None:
    assert stops(Sample("", "", (WHOLE, BROKEN), "length")) == "tool_use"
    assert "'b'" not in str(stream_events(Sample("", "", (WHOLE, BROKEN), "length"), 1))
    assert stops(Sample("", "", (BROKEN,), "length")) == "end_turn"


def test_a_broken_call_reaches_its_tool_with_empty_arguments() -> None:
    events = stream_events(Sample("", "", (BROKEN,), "tool_calls"), 1)
    assert {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}} in events


def test_calls_without_an_id_get_one_that_is_unique_in_the_conversation() -> None:
    nameless = ToolCall("", "count", "{}")
    starts = [
        event["contentBlockStart"]["start"]["toolUse"]["toolUseId"]
        for turn in (1, 2)
        for event in stream_events(Sample("", "", (nameless, nameless), "stop"), turn)
        if "contentBlockStart" in event
    ]
    assert len(set(starts)) == 4
