"""The agent's HTTP server: what AgentCore starts, and what the training service invokes.

In: a rollout payload on `POST /invocations`. Out: the rollout's outcome as JSON, after its reward
is reported. `GET /ping` says HealthyBusy while a rollout is in flight. On SIGTERM what is in flight
reports what it has, then the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from bedrock_agentcore.runtime import BedrockAgentCoreApp
from starlette.responses import Response

from agent.connection import ConnectionPool
from agent.job_runtime import JobRuntime
from agent.rollout import SHUTDOWN_GRACE_S, Rollouts
from agent.settings import Settings, SettingsError, read_settings
from agent.task import Task, load_task

KEEP_ALIVE_S = 65
"""Longer than the idle timeout of the usual load balancer, so that the client closes first."""


class InFlight:
    """The rollouts that are running, so that shutdown can end them with a report."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Count the current task for as long as the block runs."""
        task = asyncio.current_task()
        assert task is not None
        self._loop = task.get_loop()
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def cancel(self) -> None:
        """Cancel all of them; safe from any thread and from a signal handler."""
        self.soon(lambda: [task.cancel() for task in list(self._tasks)])

    def soon(self, call: Callable[[], Any]) -> None:
        """Call something on the loop that the rollouts run on, if there has been one."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(call)


def create_app(
    settings: Settings, runtime: JobRuntime | None = None, task: Task | None = None
) -> BedrockAgentCoreApp:
    """The AgentCore app with its entrypoint.

    Raises:
        SettingsError: AGENT_TASK names no task.
    """
    runtime = runtime or JobRuntime(pool=ConnectionPool(settings.ca_bundle))
    rollouts = Rollouts(settings, runtime, task or _named_task(settings.task))
    in_flight = InFlight()

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        _cancel_on_signal(in_flight)
        yield
        in_flight.soon(runtime.close)

    app = BedrockAgentCoreApp(lifespan=lifespan)
    app.logger.setLevel(logging.WARNING)  # the SDK logs four lines a rollout

    @app.entrypoint
    async def invoke(payload: Any) -> Response:
        with in_flight.current(), _busy(app):
            outcome = await rollouts.run(payload)
        if settings.trace_log and outcome.trace is not None:
            print(outcome.trace.to_json(), flush=True)
        status = 400 if outcome.trace is None else 200
        return Response(outcome.to_json(), status, media_type="application/json")

    return app


def _named_task(name: str) -> Task:
    try:
        return load_task(name)
    except KeyError as error:
        raise SettingsError("AGENT_TASK", name, str(error.args[0])) from None


@contextlib.contextmanager
def _busy(app: BedrockAgentCoreApp) -> Iterator[None]:
    """HealthyBusy for as long as the block runs.

    Asking for the status at both ends lets the SDK stamp the moment of the change; otherwise it
    would stamp the next ping's.
    """
    task_id = app.add_async_task("rollout")
    app.get_current_ping_status()
    try:
        yield
    finally:
        app.complete_async_task(task_id)
        app.get_current_ping_status()


def _cancel_on_signal(in_flight: InFlight) -> None:
    """Let in-flight rollouts report as soon as the server is told to stop.

    The server's own handlers are already in place here and would wait for the rollouts' natural
    end; they run afterwards. Signals belong to the main thread, so elsewhere nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        serve = signal.getsignal(number)

        def handle(received: int, frame: Any, serve: Any = serve) -> None:
            in_flight.cancel()
            if callable(serve):
                serve(received, frame)

        signal.signal(number, handle)


def main() -> int:
    """Serve until told to stop; 2 when a setting is wrong."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("strands").setLevel(logging.CRITICAL)  # it logs what the policy wrote
    try:
        settings = read_settings(os.environ)
        app = create_app(settings)
    except (SettingsError, ValueError) as error:
        print(f"agent: {error}", file=sys.stderr)
        return 2
    # After its graceful stop the server raises the signal again; this makes that a clean exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    gc.collect()
    gc.freeze()  # what start-up made lives as long as the process: never walk it again
    app.run(
        port=settings.port,
        ws="none",  # the SDK offers a route that nobody here serves; spare its import
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(SHUTDOWN_GRACE_S) + 5,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
