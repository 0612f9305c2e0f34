"""The chat protocol: requests as Strands' own provider makes them, replies in every shape."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strands.models.openai import OpenAIModel

from agent.chat import Sample, ToolCall, format_request, read_completion, read_stream

SPECS = [
    {
        "name": "count",
        "description": "Say a number.",
        "inputSchema": {"json": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
]


def use(name: str, n: int, call_id: str) -> dict[str, Any]:
    return {"toolUse": {"name": name, "input": {"n": n, "é": "ü"}, "toolUseId": call_id}}


def result(call_id: str, *texts: str) -> dict[str, Any]:
    content = [{"text": text} for text in texts]
    return {"toolResult": {"toolUseId": call_id, "status": "success", "content": content}}


MESSAGES = [
    {"role": "user", "content": [{"text": "Count to 3."}]},
    {"role": "assistant", "content": [{"text": "I will."}, use("count", 1, "a")]},
    {"role": "user", "content": [result("a", "1", "of 3")]},
    {"role": "assistant", "content": [use("count", 2, "b"), use("count", 3, "c")]},
    {"role": "user", "content": [result("b", "2"), result("c", "")]},
    {"role": "assistant", "content": [{"text": "Done."}]},
    {"role": "user", "content": [{"text": "Well done."}, {"text": "Again."}]},
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("length", range(1, len(MESSAGES) + 1))
def test_a_request_is_the_one_that_strands_openai_provider_makes(length: int, stream: bool) -> None:
    fields = {"temperature": 0.5, "max_tokens": 64, "reasoning_effort": "low"}
    theirs = OpenAIModel(
        client=object(),  # type: ignore[arg-type]
        model_id="default",
        params=fields,
        stream=stream,
    ).format_request(MESSAGES[:length], SPECS, "You count.")  # type: ignore[arg-type]
    assert format_request(MESSAGES[:length], SPECS, "You count.", fields, stream=stream) == theirs


def test_no_tools_means_no_tools_field() -> None:
    assert "tools" not in format_request(MESSAGES[:1], None, None, {}, stream=False)


def body(message: Any, finish: Any = "stop", **extra: Any) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"choices": [choice], **extra}).encode()


def test_a_completion_is_read_whole() -> None:
    message = {
        "content": "hm",
        "reasoning_content": "think",
        "tool_calls": [{"id": "x", "function": {"name": "count", "arguments": '{"n": 1}'}}],
    }
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    assert read_completion(body(message, "tool_calls", usage=usage)) == Sample(
        "hm", "think", (ToolCall("x", "count", '{"n": 1}'),), "tool_calls", 7, 3
    )


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_read_under_both_names(key: str) -> None:
    assert read_completion(body({"content": None, key: "think"})).reasoning == "think"


@pytest.mark.parametrize(
    "name",
    ["count", "functions.count", "count<|channel|>commentary", "functions.count<|constrain|>json"],
)
def test_channel_markers_are_taken_off_a_tools_name(name: str) -> None:
    message = {"tool_calls": [{"id": "x", "function": {"name": name, "arguments": "{}"}}]}
    assert read_completion(body(message)).tool_calls[0].name == "count"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [null]}',
        b'{"choices": [{"message": null, "finish_reason": "stop"}]}',
        body({"content": "cut"}, finish=None),
        body({"content": "x", "tool_calls": [3]}),
        body({"content": "x", "tool_calls": [{"function": "f"}]}),
        b"\xff\xfe",
    ],
)
def test_a_reply_that_is_no_finished_completion_raises_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        read_completion(raw)


def events(*deltas: dict[str, Any], finish: str | None = "tool_calls") -> list[str]:
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": d}]} for d in deltas]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        chunks.append({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}})
    return [f"data: {json.dumps(chunk)}" for chunk in chunks]


def stream(lines: list[str], end: str = "data: [DONE]") -> bytes:
    return "\n\n".join([*lines, end, ""]).encode()


def arguments(text: str, **start: Any) -> dict[str, Any]:
    function = {"arguments": text, **({"name": start["name"]} if start else {})}
    call = {"index": 0, "function": function, **({"id": start["id"]} if start else {})}
    return {"tool_calls": [call]}


CALLING = events(
    {"role": "assistant", "content": ""},
    {"reasoning_content": "thi"},
    {"reasoning_content": "nk"},
    arguments("", id="x", name="count"),
    arguments('{"n"'),
    arguments(": 11}"),
)
CALLED = Sample("", "think", (ToolCall("x", "count", '{"n": 11}'),), "tool_calls", 4, 2)


def test_a_stream_is_assembled() -> None:
    assert read_stream(stream(CALLING)) == CALLED


def test_a_stream_with_comments_and_windows_line_ends_is_assembled() -> None:
    raw = stream([": keep-alive", *CALLING]).replace(b"\n", b"\r\n")
    assert read_stream(raw) == CALLED


@pytest.mark.parametrize("repeated", range(len(CALLING)))
def test_a_chunk_delivered_twice_changes_no_tool_call(repeated: int) -> None:
    doubled = [line for n, line in enumerate(CALLING) for _ in range(1 + (n == repeated))]
    assert read_stream(stream(doubled)).tool_calls == CALLED.tool_calls


def test_a_repeat_in_text_is_kept() -> None:
    assert read_stream(stream(events({"content": "ha"}, {"content": "ha"}))).text == "haha"


@pytest.mark.parametrize("kept", range(1, len(CALLING) - 1))
def test_a_stream_cut_anywhere_before_its_finish_raises_value_error(kept: int) -> None:
    with pytest.raises(ValueError):
        read_stream(stream(CALLING[:kept], end=""))


def test_a_stream_cut_within_an_event_raises_value_error() -> None:
    with pytest.raises(ValueError):
        read_stream(stream(CALLING)[:200])


def test_an_error_event_raises_value_error() -> None:
    with pytest.raises(ValueError):
        read_stream(stream([*CALLING, 'data: {"error": {"message": "overloaded"}}']))


@pytest.mark.parametrize(
    ("text", "well_formed"),
    [
        ("", True),
        ("{}", True),
        ('{"n": 1}', True),
        ('{"n": 1', False),
        ("[1]", False),
        ("null", False),
        ("[" * 100_000, False),
        ('{"n":' * 150 + "1" + "}" * 150, True),
        ('{"n":' * 300 + "1" + "}" * 300, False),
    ],
)
def test_well_formed_arguments_are_a_json_object_of_sane_depth(
    text: str, well_formed: bool
) -> None:
    assert ToolCall("x", "count", text).well_formed is well_formed


@given(st.binary(max_size=300))
def test_any_bytes_are_a_sample_or_a_value_error(raw: bytes) -> None:
    for read in (read_completion, read_stream):
        with contextlib.suppress(ValueError):
            assert isinstance(read(raw), Sample)


PIECES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "delta", "tool_calls", "function", "name", "arguments",
                 "content", "finish_reason", "usage", "index", "id", "prompt_tokens"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(PIECES)
def test_any_json_is_a_sample_or_a_value_error(raw: Any) -> None:
    encoded = json.dumps(raw).encode()
    for read, sent in ((read_completion, encoded), (read_stream, b"data: " + encoded)):
        with contextlib.suppress(ValueError):
            assert isinstance(read(sent), Sample)
