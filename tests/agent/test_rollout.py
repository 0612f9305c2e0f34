"""One rollout over HTTP: the real app, a job runtime that can misbehave, every way to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agent.settings import Settings
from agent.trace import parse_trace, trace_from_dict

Invoke = Callable[..., SimpleNamespace]


def told(fake: Any, kit: Any, turn: int) -> list[dict[str, Any]]:
    """The messages that the policy read for a turn."""
    return fake.made(kit.CHAT)[turn].body["messages"]


# The happy path.


def test_a_rollout_is_played_scored_and_reported(invoke: Invoke, fake: Any, kit: Any) -> None:
    outcome = invoke()
    assert (outcome.status, outcome.reward, outcome.stop_reason) == ("completed", 1.0, "done")
    assert outcome.error is None
    assert [call.path for call in fake.calls] == [kit.CHAT] * 3 + [kit.COMPLETE, kit.REWARD]
    assert fake.trajectories["t-1"].status == "ready"
    assert fake.trajectories["t-1"].rewards == [[1.0]]


def test_a_list_of_rewards_is_reported_turn_by_turn(invoke: Invoke, fake: Any, kit: Any) -> None:
    assert invoke(kit.row(per_turn=True)).reward == [1.0, 1.0, 1.0]
    assert fake.trajectories["t-1"].rewards == [[1.0, 1.0, 1.0]]


def test_the_policy_reads_prompts_tools_and_feedback(invoke: Invoke, fake: Any, kit: Any) -> None:
    invoke(inferenceParams={"temperature": 0.5, "topP": 0.9, "maxTokens": 512})
    first = fake.made(kit.CHAT)[0]
    assert first.headers["x-amzn-sagemaker-job-arn"] == kit.JOB_ARN
    assert first.headers["x-amzn-sagemaker-trajectory-id"] == "t-1"
    assert {key: first.body[key] for key in ("model", "temperature", "top_p", "max_tokens")} == {
        "model": "default",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 512,
    }
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["count"]
    assert [message["role"] for message in told(fake, kit, 1)] == [
        "system", "user", "assistant", "tool",
    ]  # fmt: skip
    assert told(fake, kit, 1)[-1]["content"] == "1 of 3."


def test_the_trace_holds_the_turns_and_can_be_read_back(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.policy = lambda call: kit.call_count(call.turn + 1, reasoning="next is one more")
    trace = trace_from_dict(invoke(inferenceParams={"temperature": 0.5}).trace)
    assert parse_trace(trace.to_json()) == trace
    assert (trace.task, trace.row_id, trace.trajectory_id) == ("counting", "row-1", "t-1")
    assert trace.settings["temperature"] == 0.5
    assert trace.summary == {"turns": 3, "faults": 0}
    turn = trace.turns[0]
    assert turn.reasoning == "next is one more"
    assert (turn.prefill_tokens, turn.sample_tokens) == (10, 5)
    assert (turn.moves[0].tool, turn.moves[0].arguments) == ("count", {"number": 1})
    assert (turn.moves[0].feedback, turn.moves[0].recovered) == ("1 of 3.", False)


def test_reasoning_does_not_come_back_in_the_history(invoke: Invoke, fake: Any, kit: Any) -> None:
    fake.policy = lambda call: kit.call_count(call.turn + 1, reasoning="private thoughts")
    invoke()
    assert all(b"private thoughts" not in call.raw for call in fake.made(kit.CHAT))


def test_several_calls_in_one_answer_are_played_in_order(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    calls = [("count", json.dumps({"number": n})) for n in (1, 2, 3, 4)]
    fake.policy = lambda _: kit.completion(calls=calls)
    outcome = invoke()
    assert (outcome.reward, len(outcome.trace["turns"])) == (1.0, 1)
    feedback = [move["feedback"] for move in outcome.trace["turns"][0]["moves"]]
    assert feedback == ["1 of 3.", "2 of 3.", "3 of 3.", "It is over."]


def test_streaming_plays_the_same_game(invoke: Invoke, fake: Any, kit: Any) -> None:
    def streamed(call: Any) -> Any:
        assert call.body["stream"] is True
        arguments = json.dumps({"number": call.turn + 1})
        first = {"index": 0, "id": "x", "function": {"name": "count", "arguments": arguments[:4]}}
        rest = {"index": 0, "function": {"arguments": arguments[4:]}}
        chunks = [
            {"choices": [{"index": 0, "delta": {"tool_calls": [first]}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [rest]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        ]
        events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        return kit.Answer(body=f"{events}data: [DONE]\n\n".encode())

    fake.policy = streamed
    cut = streamed(SimpleNamespace(body={"stream": True}, turn=0))
    fake.fault(kit.CHAT, kit.Answer(body=cut.body, cut_after=70), kit.Answer(body=cut.body[:90]))
    outcome = invoke(settings=Settings(task="counting", policy_stream=True))
    assert (outcome.reward, len(outcome.trace["turns"])) == (1.0, 3)
    assert len(fake.made(kit.CHAT)) == 5


# What a policy may do wrong.


def test_a_move_written_as_text_is_played_with_feedback(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.policy = lambda call: (
        kit.completion("I say count=2") if call.turn == 1 else kit.call_count(call.turn + 1)
    )
    outcome = invoke()
    assert (outcome.reward, outcome.stop_reason) == (1.0, "done")
    move = outcome.trace["turns"][1]["moves"][0]
    assert move["recovered"] is True
    assert (move["tool"], move["feedback"]) == ("count", "2 of 3.")
    assert told(fake, kit, 2)[-1]["role"] == "user"
    assert told(fake, kit, 2)[-1]["content"][0]["text"] == "2 of 3."


def test_a_game_of_text_moves_only_is_played_to_its_end(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.policy = lambda call: kit.completion(f"count={call.turn + 1}")
    outcome = invoke()
    assert (outcome.reward, outcome.stop_reason) == (1.0, "done")
    assert len(fake.made(kit.CHAT)) == 3


def test_an_answer_without_a_move_is_nudged_once(invoke: Invoke, fake: Any, kit: Any) -> None:
    fake.policy = kit.scripted(
        kit.completion("Hello!"), kit.call_count(1), kit.completion("Hm."), kit.call_count(2),
        kit.call_count(3),
    )  # fmt: skip
    assert invoke().stop_reason == "done"
    assert "count" in told(fake, kit, 1)[-1]["content"][0]["text"]


def test_two_answers_in_a_row_without_a_move_are_quitting(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.policy = kit.scripted(kit.call_count(1), kit.completion("No."), kit.completion("No!"))
    outcome = invoke()
    assert (outcome.status, outcome.stop_reason) == ("completed", "quit")
    assert fake.trajectories["t-1"].rewards == [[pytest.approx(1 / 3)]]


@pytest.mark.parametrize("text", ["", None, "   "])
def test_empty_answers_are_quitting_too(
    invoke: Invoke, fake: Any, kit: Any, text: str | None
) -> None:
    fake.policy = lambda _: kit.completion(text)
    outcome = invoke()
    assert (outcome.status, outcome.stop_reason, outcome.reward) == ("completed", "quit", 0.0)


def test_answers_cut_at_the_token_limit_end_as_such(invoke: Invoke, fake: Any, kit: Any) -> None:
    fake.policy = lambda _: kit.completion("Let me think", finish="length")
    outcome = invoke()
    assert (outcome.status, outcome.stop_reason) == ("completed", "max_tokens")
    assert [turn["finish_reason"] for turn in outcome.trace["turns"]] == ["length", "length"]
    assert "cut off" in told(fake, kit, 1)[-1]["content"][0]["text"]


def test_one_cut_answer_is_forgiven(invoke: Invoke, fake: Any, kit: Any) -> None:
    cut = kit.completion(calls=[("count", '{"numb')], finish="length")
    fake.policy = kit.scripted(cut, kit.call_count(1), kit.call_count(2), kit.call_count(3))
    assert invoke().stop_reason == "done"


def test_a_whole_call_in_an_answer_at_its_limit_is_played(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.policy = lambda call: kit.call_count(call.turn + 1, finish="length")
    assert invoke().reward == 1.0


@pytest.mark.parametrize(
    "arguments",
    ['{"number": 1', "", "[]", "null", '{"numbre": 1}', '{"number": "one"}', "{" * 9000],
)
def test_malformed_arguments_are_answered_and_the_game_goes_on(
    invoke: Invoke, fake: Any, kit: Any, arguments: str
) -> None:
    bad = kit.completion(calls=[("count", arguments)])
    fake.policy = kit.scripted(bad, kit.call_count(1), kit.call_count(2), kit.call_count(3))
    outcome = invoke()
    assert (outcome.status, outcome.reward, outcome.stop_reason) == ("completed", 1.0, "done")
    assert "could not be used" in outcome.trace["turns"][0]["moves"][0]["feedback"]


@pytest.mark.parametrize("name", ["guess", "", "count\u0441", "a b", "x" * 500])
def test_an_unknown_tool_is_answered_with_the_known_ones(
    invoke: Invoke, fake: Any, kit: Any, name: str
) -> None:
    bad = kit.completion(calls=[(name, "{}")])
    fake.policy = kit.scripted(bad, kit.call_count(1), kit.call_count(2), kit.call_count(3))
    outcome = invoke()
    assert (outcome.status, outcome.reward) == ("completed", 1.0)


def test_a_tool_that_breaks_tells_the_policy_nothing_of_its_exception(
    invoke: Invoke, fake: Any, kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fake.policy = kit.scripted(
        kit.call_count(13), kit.call_count(1), kit.call_count(2), kit.call_count(3)
    )
    outcome = invoke()
    assert outcome.reward == 1.0
    assert kit.SECRET not in json.dumps(outcome.trace)
    assert all(kit.SECRET.encode() not in call.raw for call in fake.calls)


def test_the_cap_on_policy_calls_ends_a_runaway(invoke: Invoke, fake: Any, kit: Any) -> None:
    fake.policy = lambda _: kit.call_count(7)
    outcome = invoke(settings=Settings(task="counting", max_policy_calls=4))
    assert (outcome.status, outcome.stop_reason) == ("completed", "call_cap")
    assert len(fake.made(kit.CHAT)) == 4


def test_a_text_move_on_the_last_call_still_counts(invoke: Invoke, fake: Any, kit: Any) -> None:
    fake.policy = lambda call: kit.completion(f"count={call.turn + 1}")
    outcome = invoke(settings=Settings(task="counting", max_policy_calls=3))
    assert (outcome.reward, outcome.stop_reason) == (1.0, "done")


# Bad rows.


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("{}", "field 'target' is missing"),
        ('{"target": 3, "settings": {"reasoning_effort": "huge"}}', "settings.reasoning_effort"),
        ('{"target": 3, "settings": {"prompt_hint": 5}}', "settings.prompt_hint"),
        ('{"target": 3, "settings": [1]}', "settings"),
    ],
)
def test_a_bad_row_fails_with_its_reason_before_any_sampling(
    invoke: Invoke, fake: Any, kit: Any, prompt: str, reason: str
) -> None:
    outcome = invoke(prompt)
    assert (outcome.status, outcome.stop_reason, outcome.reward) == ("failed", "bad_row", None)
    assert reason in outcome.error
    assert [call.path for call in fake.calls] == [kit.COMPLETE]
    assert fake.trajectories["t-1"].status == "failed"


def test_a_payload_without_a_prompt_is_reported_as_failed(invoke: Invoke, fake: Any) -> None:
    outcome = invoke(prompt=7)
    assert (outcome.status, outcome.stop_reason) == ("failed", "bad_row")
    assert outcome.error.startswith("prompt: ")
    assert fake.trajectories["t-1"].status == "failed"


def test_a_payload_for_nobody_is_a_bad_request(invoke: Invoke, fake: Any) -> None:
    outcome = invoke(metadata={})
    assert (outcome.http_status, outcome.status, outcome.trace) == (400, "failed", None)
    assert outcome.error.startswith("metadata.jobArn: ")
    assert fake.calls == []


def test_a_task_that_breaks_on_a_row_is_named_without_its_message(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    outcome = invoke('{"broken": true}')
    assert (outcome.status, outcome.stop_reason) == ("failed", "task_error")
    assert "RuntimeError" in outcome.error
    assert kit.SECRET not in outcome.error


# Reasoning effort and hint.

LOW = Settings(task="counting", reasoning_effort="low", prompt_hint="Reasoning: low")


def test_effort_and_hint_reach_the_policy(invoke: Invoke, fake: Any, kit: Any) -> None:
    outcome = invoke(settings=LOW)
    assert fake.made(kit.CHAT)[0].body["reasoning_effort"] == "low"
    assert told(fake, kit, 0)[0]["content"] == "You count.\n\nReasoning: low\n"
    assert outcome.trace["settings"]["reasoning_effort"] == "low"
    assert outcome.trace["settings"]["prompt_hint"] == "Reasoning: low"


def test_a_rows_own_settings_win(invoke: Invoke, fake: Any, kit: Any) -> None:
    own = {"reasoning_effort": "high", "prompt_hint": ""}
    outcome = invoke(kit.row(settings=own), settings=LOW)
    assert fake.made(kit.CHAT)[0].body["reasoning_effort"] == "high"
    assert told(fake, kit, 0)[0]["content"] == "You count."
    assert outcome.trace["settings"]["reasoning_effort"] == "high"
    assert outcome.trace["settings"]["prompt_hint"] is None


def test_a_server_that_refuses_the_effort_is_asked_once(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    def without_effort(call: Any) -> Any:
        if "reasoning_effort" in call.body:
            return kit.Answer(400, b'{"message": "Unknown parameter: reasoning_effort"}')
        return kit.count_up(call)

    fake.policy = without_effort
    outcomes = [invoke(trajectory=f"t-{n}", settings=LOW) for n in range(3)]
    assert [outcome.reward for outcome in outcomes] == [1.0] * 3
    assert sum("reasoning_effort" in call.body for call in fake.made(kit.CHAT)) == 1
    for outcome in outcomes:
        assert outcome.trace["settings"]["reasoning_effort"] is None
        assert outcome.trace["settings"]["reasoning_effort_refused"] == "low"


# Secrets.


def test_neither_answer_nor_token_leaves_in_trace_or_prompt(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.fault(kit.CHAT, kit.Answer(401), kit.Answer(500))
    outcome = invoke()
    said = json.dumps(outcome.trace) + "".join(call.raw.decode() for call in fake.calls)
    assert kit.SECRET not in said
    assert "sagemaker-api-key" not in said
