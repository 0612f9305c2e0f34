"""The chat completion protocol: Strands messages out, a `Sample` in.

Pure translation, both ways. Requests have the very shape that Strands' own OpenAI provider gives
them; replies are read from one JSON body or from server-sent events alike. A reply that does not
say how it ended was cut, and raises ValueError so that the caller asks again.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

MODEL_ID = "default"
"""The Job Runtime serves one model, the policy, under this name."""
MAX_BRACKETS = 200
"""Arguments with more are malformed: no tool needs them, and deep nesting breaks what copies it."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the policy asked for."""

    id: str
    """Empty when the server gave none."""
    name: str
    arguments: str
    """JSON text, exactly as sampled; it may be malformed."""

    @property
    def well_formed(self) -> bool:
        """True when the arguments are a JSON object (or empty)."""
        if self.arguments.count("[") + self.arguments.count("{") > MAX_BRACKETS:
            return False
        try:
            return not self.arguments.strip() or isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer of the policy."""

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    prefill_tokens: int = 0
    sample_tokens: int = 0
    seconds: float = 0.0

    @property
    def well_formed(self) -> bool:
        """True when every tool call's arguments are a JSON object (or empty)."""
        return all(call.well_formed for call in self.tool_calls)


def format_request(
    messages: list[Any],
    tool_specs: list[Any] | None,
    system_prompt: str | None,
    fields: dict[str, Any],
    *,
    stream: bool,
) -> dict[str, Any]:
    """The request body for a conversation in Strands' message format."""
    request: dict[str, Any] = {
        "messages": list(_chat_messages(messages, system_prompt)),
        "model": MODEL_ID,
        "stream": stream,
    }
    if tool_specs:
        request["tools"] = [_chat_tool(spec) for spec in tool_specs]
    request.update(fields)
    if stream:
        request["stream_options"] = {"include_usage": True}
    return request


def _chat_messages(messages: list[Any], system_prompt: str | None) -> Iterator[dict[str, Any]]:
    if system_prompt:
        yield {"role": "system", "content": system_prompt}
    for message in messages:
        texts, calls = [], []
        for block in message["content"]:
            if "toolResult" in block:
                yield _chat_result(block["toolResult"])
            elif "toolUse" in block:
                calls.append(_chat_call(block["toolUse"]))
            elif "text" in block:
                texts.append({"type": "text", "text": block["text"]})
        if texts or calls:
            yield {
                "role": message["role"],
                **({"content": texts} if texts else {}),
                **({"tool_calls": calls} if calls else {}),
            }


def _chat_result(result: dict[str, Any]) -> dict[str, Any]:
    parts = [
        part["text"] if "text" in part else json.dumps(part.get("json"), ensure_ascii=False)
        for part in result["content"]
    ]
    return {"role": "tool", "tool_call_id": result["toolUseId"], "content": "\n".join(parts)}


def _chat_call(call: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(call["input"], ensure_ascii=False)
    function = {"arguments": arguments, "name": call["name"]}
    return {"function": function, "id": call["toolUseId"], "type": "function"}


def _chat_tool(spec: dict[str, Any]) -> dict[str, Any]:
    function = {
        "name": spec["name"],
        "description": spec["description"],
        "parameters": spec["inputSchema"]["json"],
    }
    return {"type": "function", "function": function}


def read_completion(body: bytes) -> Sample:
    """Read a whole completion.

    Raises:
        ValueError: not a completion, or one without a finished choice.
    """
    reply = _object(json.loads(body))
    choices = _list(reply.get("choices"))
    if not choices:
        raise ValueError("the completion has no choices")
    choice = _object(choices[0])
    draft = _Draft()
    draft.add(_object(choice.get("message")))
    draft.finish_reason = choice.get("finish_reason")
    draft.count(reply.get("usage"))
    return draft.sample()


def read_stream(body: bytes) -> Sample:
    """Assemble a completion from its server-sent events.

    Raises:
        ValueError: an event that is no JSON, or a stream that ends before the choice does.
    """
    lines = [line[5:].strip() for line in body.decode().split("\n") if line.startswith("data:")]
    sample = _assemble(lines)
    if sample.well_formed:
        return sample
    # A relay may deliver a chunk twice. Repeats are legitimate in text, so they are dropped only
    # where that turns a broken tool call into a sound one.
    once = _assemble(line for line, _ in itertools.groupby(lines))
    return once if once.well_formed else sample


def _assemble(lines: Iterable[str]) -> Sample:
    draft = _Draft()
    for line in lines:
        if not line or line == "[DONE]":
            continue
        event = _object(json.loads(line))
        if "error" in event:
            raise ValueError("the stream reports an error")
        for choice in map(_object, _list(event.get("choices"))):
            if choice.get("index", 0) == 0:
                draft.add(_object(choice.get("delta") or {}))
                draft.finish_reason = choice.get("finish_reason") or draft.finish_reason
        draft.count(event.get("usage"))
    return draft.sample()


@dataclass(slots=True)
class _Draft:
    """A sample in the making, from one message or from many deltas."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, list[str]] = field(default_factory=dict)
    """Index -> id, name, arguments."""
    finish_reason: Any = None
    prefill_tokens: int = 0
    sample_tokens: int = 0

    def add(self, part: dict[str, Any]) -> None:
        self.text.append(_text(part.get("content")))
        self.reasoning.append(_text(part.get("reasoning_content") or part.get("reasoning")))
        for position, raw in enumerate(_list(part.get("tool_calls"))):
            call = _object(raw)
            function = _object(call.get("function") or {})
            index = call.get("index")
            index = index if isinstance(index, int) else position
            kept = self.calls.setdefault(index, ["", "", ""])
            kept[0] = kept[0] or _text(call.get("id"))
            kept[1] = kept[1] or _text(function.get("name"))
            kept[2] += _text(function.get("arguments"))

    def count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self.prefill_tokens = _count(usage.get("prompt_tokens"))
            self.sample_tokens = _count(usage.get("completion_tokens"))

    def sample(self) -> Sample:
        if not isinstance(self.finish_reason, str):
            raise ValueError("the completion was cut: it has no finish reason")
        calls = tuple(
            ToolCall(call[0], _tool_name(call[1]), call[2])
            for _, call in sorted(self.calls.items())
        )
        return Sample(
            text="".join(self.text),
            reasoning="".join(self.reasoning),
            tool_calls=calls,
            finish_reason=self.finish_reason,
            prefill_tokens=self.prefill_tokens,
            sample_tokens=self.sample_tokens,
        )


def _tool_name(raw: str) -> str:
    """The tool's name without the channel markers that gpt-oss servers are known to leave in it."""
    name = raw.split("<|", 1)[0].strip()
    return name.removeprefix("functions.")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the completion is not what the protocol says")
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
