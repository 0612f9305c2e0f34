"""A job runtime to talk to, an agent to talk through, and a task small enough to read at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from botocore.credentials import ReadOnlyCredentials
from strands import tool

from agent.credentials import Snapshot, TokenCache
from agent.job_runtime import JobRuntime
from agent.main import create_app
from agent.settings import Settings
from agent.task import TaskFormatError

JOB_ARN = "arn:aws:sagemaker:us-east-1:111122223333:job/AgentRFT/test"
SECRET = "PERSIMMON"
"""What the counting task must keep from the policy."""
CHAT = "/v1/chat/completions"
COMPLETE = "/complete-rollout"
REWARD = "/update-reward"


# The task: count to a target, one tool call a number.


class CountingEpisode:
    """Done when the target is reached; a number out of order is answered and not counted."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.system_prompt = "You count."
        self.user_prompt = f"Count to {fields['target']}."
        self.target = fields["target"]
        self.per_turn = fields.get("per_turn", False)
        self.answer = fields.get("answer", SECRET)
        self.counted: list[int] = []
        self.faults = 0

        @tool(name="count", description="Say the next number.")
        async def count(number: int) -> str:
            if number == 13:
                raise KeyError(self.answer)
            return self.say(number)

        self.tools = [count]

    @property
    def done(self) -> bool:
        return len(self.counted) >= self.target

    def say(self, number: int) -> str:
        if self.done:
            return "It is over."
        if number != len(self.counted) + 1:
            self.faults += 1
            return f"Not {number}; you are at {len(self.counted)}."
        self.counted.append(number)
        return f"{number} of {self.target}."

    def recover(self, text: str) -> str | None:
        head, _, tail = text.partition("count=")
        return self.say(int(tail)) if tail.isdecimal() and not head.endswith("_") else None

    def reward(self) -> float | list[float]:
        if self.per_turn:
            return [1.0] * len(self.counted)
        return len(self.counted) / self.target - 0.25 * self.faults

    def summary(self) -> dict[str, Any]:
        return {"turns": len(self.counted), "faults": self.faults}


class CountingTask:
    name = "counting"

    def start(self, prompt: str) -> CountingEpisode:
        fields = json.loads(prompt)
        if fields.get("broken"):
            raise RuntimeError(SECRET)
        if "target" not in fields:
            raise TaskFormatError("field 'target' is missing")
        return CountingEpisode(fields)


def row(target: int = 3, **fields: Any) -> str:
    return json.dumps({"id": "row-1", "target": target, "answer": SECRET, **fields})


def payload(trajectory: str = "t-1", prompt: str | None = None, **metadata: Any) -> dict[str, Any]:
    """A rollout payload as the service sends it; needs an endpoint in `metadata`."""
    return {
        "prompt": row() if prompt is None else prompt,
        "metadata": {"jobArn": JOB_ARN, "rolloutId": trajectory, **metadata},
    }


# The job runtime: a plain HTTP server, so that a test can also break HTTP.


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


# Fixtures.


@contextlib.contextmanager
def running(start: Callable[[], Awaitable[Any]]) -> Iterator[tuple[Any, asyncio.AbstractEventLoop]]:
    """Run `start` on an event loop of its own thread, and keep the loop alive."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(_awaited(start), loop).result(10), loop
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_the_rest(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _cancel_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _awaited(start: Callable[[], Awaitable[Any]]) -> Any:
    return await start()


@contextlib.contextmanager
def serving(fake: FakeRuntime) -> Iterator[str]:
    """Serve a FakeRuntime; yields its URL."""
    with running(lambda: asyncio.start_server(fake.serve, "127.0.0.1", 0)) as (server, loop):
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        loop.call_soon_threadsafe(server.close)


class ThreadedServer(uvicorn.Server):
    """uvicorn without signal handlers, in a thread."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """Serve an ASGI app by uvicorn; yields its URL."""
    server = ThreadedServer(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    give_up = time.monotonic() + 10
    while not server.started:
        assert thread.is_alive() and time.monotonic() < give_up, "the server did not start"
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def static_tokens(**options: Any) -> TokenCache:
    """Tokens from keys that never expire."""
    keys = ReadOnlyCredentials("AKIDEXAMPLE", "secret", "session")
    return TokenCache(lambda: Snapshot(keys, None), **options)


class Clock:
    """Time that passes when someone sleeps, or when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture(scope="session")
def shared_clock() -> Clock:
    return Clock()


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    shared_clock.slept.clear()
    return shared_clock


@pytest.fixture
def fake() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def endpoint(fake: FakeRuntime) -> Iterator[str]:
    with serving(fake) as url:
        yield url


@pytest.fixture
def runtime(clock: Clock) -> JobRuntime:
    """A Job Runtime client whose waiting costs no time."""
    return JobRuntime(static_tokens(), clock=clock, sleep=clock.sleep)


@pytest.fixture(scope="session")
def agents(shared_clock: Clock) -> Iterator[Callable[[Settings], str]]:
    """The real app, served over HTTP once for each Settings; waiting costs it no time."""
    urls: dict[Settings, str] = {}
    with contextlib.ExitStack() as stack:

        def url(settings: Settings) -> str:
            if settings not in urls:
                runtime = JobRuntime(static_tokens(), clock=shared_clock, sleep=shared_clock.sleep)
                app = create_app(settings, runtime, CountingTask())
                urls[settings] = stack.enter_context(serving_app(app))
            return urls[settings]

        yield url


@pytest.fixture
def invoke(
    agents: Callable[[Settings], str], endpoint: str, clock: Clock
) -> Callable[..., SimpleNamespace]:
    """POST a payload to the app; `extra` replaces fields of the payload."""

    def post(
        prompt: Any = None,
        trajectory: str = "t-1",
        settings: Settings | None = None,
        **extra: Any,
    ) -> SimpleNamespace:
        url = agents(settings or Settings(task="counting"))
        body = payload(trajectory, prompt, endpoint=endpoint) | extra
        reply = httpx.post(f"{url}/invocations", json=body, timeout=30)
        return SimpleNamespace(http_status=reply.status_code, **reply.json())

    return post


@pytest.fixture
def kit() -> Any:
    """This module's names, for tests: they cannot import a conftest."""
    return SimpleNamespace(**{k: v for k, v in globals().items() if not k.startswith("_")})
