"""An agent to talk through, over HTTP, and the runtime and task that it is given."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from botocore.credentials import ReadOnlyCredentials

from agent.credentials import Snapshot, TokenCache
from agent.job_runtime import JobRuntime
from agent.main import create_app
from agent.settings import Settings
from tests.agent import counting, fake_runtime
from tests.agent.counting import CountingTask
from tests.agent.fake_runtime import FakeRuntime, payload


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
    """The names of this module and of what it serves: tests cannot import a conftest."""
    names = {**vars(counting), **vars(fake_runtime), **globals()}
    return SimpleNamespace(**{k: v for k, v in names.items() if not k.startswith("_")})
