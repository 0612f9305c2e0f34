"""What a faulty answer looks like: refusals, and completions with a defect.

In: a fault, and for a defect the service's whole answer. Out: the answer that goes out instead. A
completion is edited as its JSON events, so one body and server-sent events take the same defects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rehearsal.settings import Fault, FaultSettings

_REFUSALS: Mapping[Fault, tuple[int, str, str]] = {
    Fault.UNAUTHORIZED: (401, "AccessDeniedException", "The credentials could not be read"),
    Fault.FORBIDDEN: (403, "AccessDeniedException", "The security token is not valid"),
    Fault.THROTTLED: (429, "ThrottlingException", "Rate exceeded"),
    Fault.THROTTLED_RETRY_AFTER: (429, "ThrottlingException", "Rate exceeded"),
    Fault.SERVER_ERROR: (500, "InternalServiceException", "An internal error occurred"),
    Fault.UNAVAILABLE: (503, "InternalServiceException", "The service is unavailable"),
}
_EVENT = "data: "
_DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole HTTP answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def streamed(self) -> bool:
        """True for server-sent events."""
        return b"event-stream" in dict(self.headers).get(b"content-type", b"")

    def with_body(self, body: bytes) -> Reply:
        """The same answer with another body, and the length that goes with it."""
        kept = tuple((n, v) for n, v in self.headers if n != b"content-length")
        length = (b"content-length", str(len(body)).encode())
        return replace(self, body=body, headers=kept if self.streamed else (*kept, length))


def json_reply(status: int, body: Mapping[str, Any], *headers: tuple[bytes, bytes]) -> Reply:
    """An answer with a JSON body."""
    content = json.dumps(body).encode()
    length = str(len(content)).encode()
    kind = (b"content-type", b"application/json")
    return Reply(status, (kind, (b"content-length", length), *headers), content)


def refusal(fault: Fault, settings: FaultSettings) -> Reply | None:
    """The error that the fault answers with, before anything was done; None for other faults."""
    if fault not in _REFUSALS:
        return None
    status, code, message = _REFUSALS[fault]
    headers = [(b"x-amzn-errortype", code.encode())]
    if fault is Fault.THROTTLED_RETRY_AFTER:
        headers.append((b"retry-after", str(settings.retry_after_s).encode()))
    return json_reply(status, {"__type": code, "message": message}, *headers)


def processed(trajectory_id: str) -> Reply:
    """What the service says of a report that it has processed before."""
    message = f"Cannot transition trajectory {trajectory_id}: it is already processed"
    return json_reply(409, {"__type": "ConflictException", "message": message})


def defective(fault: Fault, reply: Reply) -> Reply | None:
    """The completion with the fault's defect; None when the fault has no hold on it."""
    events = completion_events(reply)
    if fault is Fault.DUPLICATED_CHUNKS:
        if not reply.streamed:
            return None
        return _rendered(reply, [e for event in events for e in (event, event)], twice=True)
    changed = {
        Fault.EMPTY_CHOICES: _without_choices,
        Fault.MALFORMED_TOOL_CALL: _with_broken_arguments,
        Fault.LENGTH_WITHOUT_CALL: _cut_before_the_call,
    }[fault](events)
    return _rendered(reply, events) if changed else None


def completion_events(reply: Reply) -> list[dict[str, Any]]:
    """A completion as JSON objects: one, or one for each server-sent event."""
    if not reply.streamed:
        return [json.loads(reply.body)]
    lines = [line.removeprefix(_EVENT) for line in reply.body.decode().split("\n\n") if line]
    return [json.loads(line) for line in lines if line != _DONE]


def delivered_message(reply: Reply) -> dict[str, Any]:
    """What the policy said in a completion: {text, calls: [[tool, arguments], ...], finish}."""
    text, calls, finish = "", [], None
    for choice in _choices(completion_events(reply)):
        part = _part(choice)
        text += part.get("content") or ""
        calls += [
            [call["function"]["name"], call["function"]["arguments"]]
            for call in part.get("tool_calls", ())
        ]
        finish = choice.get("finish_reason") or finish
    return {"text": text, "calls": calls, "finish": finish}


def _rendered(reply: Reply, events: list[dict[str, Any]], *, twice: bool = False) -> Reply:
    if not reply.streamed:
        return reply.with_body(json.dumps(events[0]).encode())
    chunks = [f"{_EVENT}{json.dumps(event)}\n\n" for event in events]
    chunks += [f"{_EVENT}{_DONE}\n\n"] * (2 if twice else 1)
    return reply.with_body("".join(chunks).encode())


def _without_choices(events: list[dict[str, Any]]) -> bool:
    for event in events:
        event["choices"] = []
    return True


def _with_broken_arguments(events: list[dict[str, Any]]) -> bool:
    """Cut each call's arguments in the middle; only a JSON text that is whole can be broken."""
    broken = False
    for choice in _choices(events):
        for call in _part(choice).get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            call["function"]["arguments"] = arguments[: len(arguments) // 2]
            broken = broken or len(arguments) > 1
    return broken


def _cut_before_the_call(events: list[dict[str, Any]]) -> bool:
    for choice in _choices(events):
        part = _part(choice)
        part.pop("tool_calls", None)
        if part.get("content"):
            part["content"] = ""
        if choice.get("finish_reason"):
            choice["finish_reason"] = "length"
    return True


def _choices(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice for event in events for choice in event.get("choices", ())]


def _part(choice: dict[str, Any]) -> dict[str, Any]:
    return choice.get("message") or choice.get("delta") or {}
