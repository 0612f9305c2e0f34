"""The answer, tokens and account ids stay out of all that the agent emits, telemetry included."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strands import tool
from strands.types.tools import AgentTool

from agent.guarded_tool import GuardedTool
from agent.redact import redact

ROOT = Path(__file__).resolve().parents[2]
SECRET = "haste"


class Raw(AgentTool):
    """A tool that raises out of its own stream, instead of catching like a decorated one."""

    tool_name = "raw"  # type: ignore[assignment]
    tool_type = "python"  # type: ignore[assignment]
    tool_spec = {"name": "raw", "description": "-", "inputSchema": {"json": {}}}  # type: ignore[assignment] # noqa: RUF012

    async def stream(self, *_: Any, **__: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise KeyError(SECRET)
        yield


@tool(name="guess", description="-")
async def guess(word: str) -> str:
    if word == "break":
        raise KeyError(SECRET)
    if word == "refuse":
        raise ValueError(f"not {SECRET}")
    return f"played {word}"


def run(guarded: GuardedTool, arguments: dict[str, Any]) -> tuple[str, Any]:
    """Status and text of the tool's result, and the event that brought it."""

    async def main() -> Any:
        use: Any = {"toolUseId": "u", "name": guarded.tool_name, "input": arguments}
        return [event async for event in guarded.stream(use, {})][-1]

    event = asyncio.run(main())
    result = getattr(event, "tool_result", event)
    return result["status"], (result["content"][0]["text"], event)


def test_a_guarded_tool_is_the_tool() -> None:
    guarded = GuardedTool(guess)
    assert (guarded.tool_name, guarded.tool_spec) == (guess.tool_name, guess.tool_spec)
    status, (text, _) = run(guarded, {"word": "crane"})
    assert (status, text) == ("success", "played crane")


@pytest.mark.parametrize(
    ("inner", "arguments"),
    [
        (guess, {"word": "break"}),
        (guess, {"word": "refuse"}),
        (guess, {}),
        (guess, {"word": ["haste"]}),
        (Raw(), {}),
    ],
)
def test_an_exceptions_text_reaches_neither_policy_nor_log(
    inner: Any, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        status, (text, event) = run(GuardedTool(inner), arguments)
    assert status == "error"
    assert "Check its arguments" in text
    assert getattr(event, "exception", None) is None
    assert SECRET not in text + caplog.text


def test_a_redacted_text_has_no_token_and_no_account() -> None:
    text = "Bearer sagemaker-api-key-c2Fn+/= for arn:aws:iam::111122223333:role/x"
    assert redact(text) == "[token] for arn:aws:iam::[account]:role/x"


@given(st.sampled_from(": /\"'(,=\n"), st.from_regex(r"[0-9]{12}", fullmatch=True))
def test_an_account_id_is_blanked_between_any_punctuation(mark: str, account: str) -> None:
    assert redact(f"{mark}{account}{mark}") == f"{mark}[account]{mark}"


SPANS = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)

from agent.job_runtime import JobRuntime
from agent.rollout import Rollouts
from agent.settings import Settings
from agent.task import load_task
from agent.wordle.task import WordleEpisode

played = WordleEpisode.guess
def guess(self, word):
    if word == "break":
        raise KeyError(self._game.answer)
    return played(self, word)
WordleEpisode.guess = guess

outcome = asyncio.run(
    Rollouts(Settings(), JobRuntime(), load_task("wordle")).run(json.loads(sys.argv[1]))
)
print(outcome.to_json())
print(len(spans.get_finished_spans()))
print("\\n".join(span.to_json() for span in spans.get_finished_spans()))
"""


def test_no_span_log_or_reply_holds_answer_token_or_account(
    fake: Any, endpoint: str, kit: Any
) -> None:
    """A lost game in which the task itself breaks once, with telemetry recording everything."""
    words = ("break", "crony", "build", "plate", "waste", "jumpy", "vivid")
    fake.policy = lambda call: kit.completion(
        calls=[("guess_word", json.dumps({"guess": words[call.turn]}))]
    )
    fake.fault(kit.CHAT, kit.Answer(401, b"for 111122223333"), kit.Answer(500))
    row = json.dumps({"prompt": "Play one game.", "answer": SECRET, "id": "w-1"})
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example-key"}
    ran = subprocess.run(
        [sys.executable, "-c", SPANS, json.dumps(kit.payload(prompt=row, endpoint=endpoint))],
        env={"PATH": os.environ["PATH"], **keys},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    reply, count, *_ = ran.stdout.splitlines()
    assert json.loads(reply)["trace"]["summary"]["outcome"] == "lost"
    assert int(count) > 10
    emitted = (
        ran.stdout + ran.stderr + "".join(call.body.__repr__() for call in fake.made(kit.CHAT))
    )
    for secret in (SECRET, "sagemaker-api-key", "111122223333", "example-key"):
        assert secret not in emitted
