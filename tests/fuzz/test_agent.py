"""The agent under any payload, row, completion, argument and setting: an answer, never a crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from agent.chat import Sample, read_completion, read_stream
from agent.credentials import TokenCache
from agent.job_runtime import Deadline, JobRuntime
from agent.outcome import Outcome
from agent.payload import PayloadError, RolloutPayload, Trajectory, parse_payload
from agent.rollout import Rollouts
from agent.row import Row, read_row
from agent.settings import Settings, SettingsError, read_settings
from agent.task import TaskFormatError, load_task
from tests.fuzz.strategies import INJECTIONS, MEGABYTE, anything, mutated, odd_text, scalars

T = TypeVar("T")
TASK = load_task("wordle")
ANSWER = "haste"
ROW = json.dumps({"id": "w-1", "prompt": "Play.", "answer": ANSWER, "settings": {}})
PAYLOAD = {
    "prompt": ROW,
    "metadata": {
        "jobArn": "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/fuzz",
        "rolloutId": "rollout-1",
        "endpoint": "http://127.0.0.1:9",
        "region": "us-east-1",
    },
    "inferenceParams": {"temperature": 1.0, "topP": 1.0, "maxTokens": 512},
}
COMPLETION = {
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "x",
                "tool_calls": [
                    {"id": "c", "function": {"name": "guess_word", "arguments": '{"guess": "x"}'}}
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}


def completion(text: str | None, arguments: str) -> dict[str, Any]:
    """An answer with this text, or with a call of these arguments."""
    call = {"id": "c", "function": {"name": "guess_word", "arguments": arguments}}
    message = {"role": "assistant", "content": text} | ({} if text else {"tool_calls": [call]})
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


FEEDBACK_MAX = 1000
"""No answer of the environment repeats what it was sent."""


class Offline(JobRuntime):
    """A job runtime that takes every report and answers no sample but with a given body."""

    def __init__(self, completion: bytes = b"{}") -> None:
        super().__init__(TokenCache(lambda: (_ for _ in ()).throw(AssertionError("no token"))))
        self.completion = completion
        self.reports: list[tuple[str, Any]] = []

    async def post(
        self,
        trajectory: Trajectory,
        path: str,
        body: bytes,
        *,
        deadline: Deadline,
        attempt_s: float,
        headers: dict[str, str] | None = None,
        read: Callable[[bytes], T] = bytes,
    ) -> T:
        if path == "/v1/chat/completions":
            try:
                return read(self.completion)
            except (ValueError, RecursionError):  # a real client would ask again
                fallback = {"choices": [{"message": {"content": "no"}, "finish_reason": "stop"}]}
                return read(json.dumps(fallback).encode())
        self.reports.append((path, json.loads(body)))
        return read(b"{}")


def play(runtime: Offline, payload: Any) -> Outcome:
    return asyncio.run(Rollouts(Settings(), runtime, TASK).run(payload))


@given(st.one_of(anything, mutated(PAYLOAD)))
@example({**PAYLOAD, "metadata": {**PAYLOAD["metadata"], "rolloutId": "a\r\nX-Evil: 1"}})
@example({**PAYLOAD, "prompt": "x" * MEGABYTE})
def test_a_payload_is_read_or_refused_by_a_field(raw: Any) -> None:
    try:
        payload = parse_payload(raw)
    except PayloadError as error:
        assert error.field
        assert len(str(error)) < FEEDBACK_MAX
    else:
        assert isinstance(payload, RolloutPayload)
        for value in (payload.trajectory.job_arn, payload.trajectory.trajectory_id):
            assert value.isascii() and value.isprintable() and " " not in value


@given(st.one_of(anything, mutated(PAYLOAD)))
def test_a_rollout_of_any_payload_ends_with_an_outcome(raw: Any) -> None:
    runtime = Offline(json.dumps(COMPLETION).encode())
    outcome = play(runtime, raw)
    assert outcome.status in ("completed", "failed")
    json.loads(outcome.to_json())
    assert ANSWER not in (outcome.error or "")
    statuses = [body["Status"] for path, body in runtime.reports if path == "/complete-rollout"]
    assert len(statuses) <= 1
    assert (outcome.reward is not None) == (statuses == ["ready"])


@given(st.one_of(mutated(COMPLETION), anything))
@example(completion("guess_word(" * (MEGABYTE // 11), "{}"))
@example(completion(None, '{"guess": "' + "a" * MEGABYTE + '"}'))
@example(completion(None, '{"guess": ' + "[" * MEGABYTE))
def test_a_game_goes_on_or_ends_with_a_reward_whatever_the_policy_answers(body: Any) -> None:
    runtime = Offline(json.dumps(body).encode())
    outcome = play(runtime, PAYLOAD)
    assert outcome.status == "completed", outcome.error
    assert outcome.reward is not None
    assert [path for path, _ in runtime.reports] == ["/complete-rollout", "/update-reward"]
    assert outcome.trace is not None
    if not outcome.trace.summary["solved"]:
        told = [move.feedback for turn in outcome.trace.turns for move in turn.moves]
        assert ANSWER not in " ".join(told).lower()


@given(st.one_of(odd_text, anything.map(lambda v: json.dumps(v, default=str))))
@example("[" * 100_000)
@example('{"answer": "' + "a" * MEGABYTE + '"}')
def test_a_row_is_read_or_refused_without_its_answer(text: str) -> None:
    try:
        episode: Any = TASK.start(text)
    except TaskFormatError as error:
        assert len(str(error)) < FEEDBACK_MAX
    else:
        assert not episode.done
    try:
        assert isinstance(read_row(text, Settings()), Row)
    except SettingsError as error:
        assert len(str(error)) < FEEDBACK_MAX


@given(mutated({"id": "w-1", "prompt": "Play.", "answer": "bluff", "settings": {}}))
def test_a_broken_row_never_names_its_answer(fields: Any) -> None:
    try:
        TASK.start(json.dumps(fields))
    except TaskFormatError as error:
        assert "bluff" not in str(error).lower()


@given(st.lists(st.one_of(scalars, anything), min_size=1, max_size=8))
@example(["h\uff41ste", "haste\x00", "hast\u00e9", "h\u200baste", "HASTE\u0301", "h\u0430ste"])
@example(["a" * MEGABYTE, "\u0301" * MEGABYTE, "\x00" * MEGABYTE])
def test_a_guess_of_any_kind_is_answered_and_only_plain_letters_are_played(guesses: Any) -> None:
    episode: Any = TASK.start(ROW)
    for guess in guesses:
        before = episode.turns
        answer = episode.guess(guess)
        assert isinstance(answer, str) and len(answer) < FEEDBACK_MAX
        plain = isinstance(guess, str) and guess.strip().isascii() and guess.strip().isalpha()
        assert episode.turns - before <= int(plain and len(guess.strip()) == 5)
        if not episode.summary()["solved"]:
            assert ANSWER not in answer.lower().split()
    json.dumps(episode.summary(), allow_nan=False)
    assert abs(episode.reward()) < 10


@given(odd_text, st.sampled_from(INJECTIONS), odd_text)
@example("<" * MEGABYTE, "guess=", "{" * MEGABYTE)
@example('{"guess": "' * (MEGABYTE // 11), "", "\u0301" * MEGABYTE)
def test_any_text_is_searched_for_a_move_and_never_breaks_the_game(
    head: str, middle: str, tail: str
) -> None:
    episode: Any = TASK.start(ROW)
    feedback = episode.recover(f"{head}{middle}{tail}")
    assert feedback is None or len(feedback) < FEEDBACK_MAX


@given(
    st.one_of(
        st.binary(max_size=300),
        mutated(COMPLETION).map(lambda v: json.dumps(v).encode()),
        odd_text.map(lambda t: t.encode("utf-8", "surrogatepass")),
    )
)
@example(b'{"choices":' + b"[" * 50_000)
def test_a_reply_of_any_bytes_is_a_sample_or_a_value_error(body: bytes) -> None:
    lines = b"".join(b"data: " + part + b"\n\n" for part in body.split(b"\n"))
    for read, reply in ((read_completion, body), (read_stream, body), (read_stream, lines)):
        try:
            sample = read(reply)
        except (ValueError, RecursionError):
            continue  # what the client takes for a failed attempt
        assert isinstance(sample, Sample)
        assert sample.prefill_tokens >= 0 <= sample.sample_tokens


VARIABLES = (
    "AGENT_TASK",
    "REASONING_EFFORT",
    "REASONING_PROMPT_HINT",
    "ROLLOUT_BUDGET_S",
    "MAX_POLICY_CALLS",
    "POLICY_STREAM",
    "RFT_RUNTIME_ENDPOINT",
    "AWS_REGION",
    "AWS_CA_BUNDLE",
    "TRACE_LOG",
    "PORT",
)


@given(st.dictionaries(st.sampled_from(VARIABLES), st.one_of(odd_text, st.text(max_size=5))))
def test_settings_are_read_or_refused_by_their_variable(env: dict[str, str]) -> None:
    try:
        settings = read_settings(env)
    except SettingsError as error:
        assert error.name in VARIABLES
    else:
        assert 1 <= settings.rollout_budget_s <= 540
        assert 1 <= settings.max_policy_calls <= 200
