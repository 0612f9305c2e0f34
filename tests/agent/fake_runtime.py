"""A job runtime that can misbehave: a plain HTTP server, so that a test can also break HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.agent.counting import row

JOB_ARN = "arn:aws:sagemaker:us-east-1:111122223333:job/AgentRFT/test"
CHAT = "/v1/chat/completions"
COMPLETE = "/complete-rollout"
REWARD = "/update-reward"


def payload(trajectory: str = "t-1", prompt: str | None = None, **metadata: Any) -> dict[str, Any]:
    """A rollout payload as the service sends it; needs an endpoint in `metadata`."""
    return {
        "prompt": row() if prompt is None else prompt,
        "metadata": {"jobArn": JOB_ARN, "rolloutId": trajectory, **metadata},
    }


@dataclass(frozen=True)
class Call:
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)

    @property
    def trajectory(self) -> str:
        if self.path == CHAT:
            return self.headers["x-amzn-sagemaker-trajectory-id"]
        return self.body["TrajectoryId"]

    @property
    def turn(self) -> int:
        """How many answers the policy gave before this request."""
        return sum(message["role"] == "assistant" for message in self.body["messages"])


@dataclass(frozen=True)
class Answer:
    """What the server does with a request."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """Send only so many bytes of the body, then close."""
    applied: bool = True
    """False: a report is answered but has no effect."""


DROP = Answer(cut_after=-1)
"""Close the connection without a word."""


@dataclass
class Trajectory:
    status: str = "open"
    rewards: list[list[float]] = field(default_factory=list)
    samples: int = 0


Handler = Callable[[Call], Answer | Awaitable[Answer | None] | None]


class FakeRuntime:
    """Keeps every call and every trajectory; `policy` answers, `faults` may answer first."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.trajectories: dict[str, Trajectory] = {}
        self.unknown: set[str] = set()
        self.policy: Handler = count_up
        self.faults: dict[str, list[Handler | Answer]] = {CHAT: [], COMPLETE: [], REWARD: []}
        self.always: Handler | None = None
        self.connections = 0

    def fault(self, path: str, *handlers: Handler | Answer) -> None:
        """The next requests to `path` are handled by these, one each."""
        self.faults[path].extend(handlers)

    def made(self, path: str, trajectory: str | None = None) -> list[Call]:
        return [
            call
            for call in self.calls
            if call.path == path and trajectory in (None, call.trajectory)
        ]

    async def answer(self, call: Call) -> Answer:
        self.calls.append(call)
        queue = self.faults.get(call.path)
        fault = queue.pop(0) if queue else self.always
        if fault is not None:
            reply = fault if isinstance(fault, Answer) else await _resolved(fault(call))
            if reply is not None:
                if reply.applied and call.path in (COMPLETE, REWARD) and reply.status == 200:
                    self._apply(call)
                return reply
        if call.path == CHAT:
            self._at(call).samples += 1
            reply = await _resolved(self.policy(call))
            assert reply is not None
            return reply
        return self._apply(call)

    def _at(self, call: Call) -> Trajectory:
        return self.trajectories.setdefault(call.trajectory, Trajectory())

    def _apply(self, call: Call) -> Answer:
        if call.trajectory in self.unknown:
            return Answer(404, b'{"message": "no such trajectory"}')
        known = self._at(call)
        if call.path == COMPLETE:
            if known.status != "open":
                return Answer(400, b'{"message": "Cannot transition trajectory"}')
            known.status = call.body["Status"]
        else:
            if known.rewards:
                return Answer(409, b'{"message": "trajectory not in valid status"}')
            known.rewards.append(call.body["Rewards"])
        return Answer()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request, *lines = head.decode("latin-1").strip().split("\r\n")
                headers = {
                    name.lower(): value for name, value in (line.split(": ", 1) for line in lines)
                }
                body = await reader.readexactly(int(headers["content-length"]))
                reply = await self.answer(Call(request.split()[1], headers, body))
                writer.write(_encoded(reply))
                await writer.drain()
                if reply.cut_after is not None or reply.headers.get("Connection") == "close":
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _resolved(reply: Any) -> Answer | None:
    return await reply if isinstance(reply, Awaitable) else reply


def _encoded(reply: Answer) -> bytes:
    if reply.cut_after is not None and reply.cut_after < 0:
        return b""
    headers = {"Content-Length": str(len(reply.body)), **reply.headers}
    if "Transfer-Encoding" in headers:
        del headers["Content-Length"]
    head = f"HTTP/1.1 {reply.status} Status\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in headers.items()
    )
    return head.encode() + b"\r\n" + reply.body[: reply.cut_after]


# What a policy may say.


def completion(
    text: str | None = None,
    calls: list[tuple[str, str]] | None = None,
    finish: str | None = None,
    reasoning: str | None = None,
    **extra: Any,
) -> Answer:
    """One chat completion; `calls` are (tool, arguments as JSON text)."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": f"c-{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(calls)
        ]
    finish = finish or ("tool_calls" if calls else "stop")
    body = {
        "id": "x",
        "object": "chat.completion",
        "model": "default",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        **extra,
    }
    return Answer(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


def call_count(number: Any, **extra: Any) -> Answer:
    return completion(calls=[("count", json.dumps({"number": number}))], **extra)


def count_up(call: Call) -> Answer:
    """The policy that does what it is told."""
    return call_count(call.turn + 1)


def scripted(*answers: Answer) -> Handler:
    """Answer turn n with the n-th of these; the last one repeats."""
    return lambda call: answers[min(call.turn, len(answers) - 1)]
