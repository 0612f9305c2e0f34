"""Two hours of rollouts on a simulated clock, while the agent's keys expire and rotate.

The agent's rollouts meet the real service over HTTP; their keys are the service's, fetched by
botocore's own refresh. Only the clock is made up: it moves by a share of a sample's latency with
every sample, as it would with that many rollouts in flight.

    python -m benchmarks.key_rotation [--hours 2] [--in-flight 32] [--keys-live 900]

Exits 1 when an authentication failure reaches a rollout.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from botocore.credentials import RefreshableCredentials
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.credentials import SessionCredentials, TokenCache
from agent.job_runtime import JobRuntime
from agent.outcome import Outcome
from agent.rollout import Rollouts
from agent.settings import Settings
from agent.task import load_task
from rehearsal.draws import DrawKey
from rehearsal.faults import CHAT
from rehearsal.outages import listening_socket
from rehearsal.server import Service, build_app
from rehearsal.settings import ServiceSettings
from rehearsal.trajectories import Trajectory

JOB = "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/rotation"
SAMPLE_S = 8.0
"""Latency of one sample of a 20B model at medium effort."""
ROWS = Path(__file__).parents[1] / "datasets" / "wordle" / "train.jsonl"
DEFAULTS: dict[str, float | int] = {"temperature": 1.0, "topP": 1.0, "maxTokens": 512}
REFUSED = (401, 403)


@dataclass(slots=True)
class Clock:
    """Unix seconds that pass only when somebody says so."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def moment(self) -> datetime:
        """The same as botocore wants it."""
        return datetime.fromtimestamp(self.now, UTC)


@dataclass(slots=True)
class Result:
    """What two hours came to."""

    rollouts: int = 0
    requests: int = 0
    pairs: int = 0
    """Key pairs that the agent fetched."""
    refused: int = 0
    """Requests that the service refused; the agent minted another token and asked again."""
    reached: list[str] = field(default_factory=list)
    """Errors of rollouts that did not complete; must be empty."""


@dataclass(slots=True)
class Ticking:
    """The service, whose clock moves with every sample."""

    app: ASGIApp
    clock: Clock
    step_s: float
    result: Result

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's interface."""
        if scope["type"] == "http" and scope["path"] == CHAT:
            self.clock.now += self.step_s

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.result.requests += 1
                self.result.refused += message["status"] in REFUSED
            await send(message)

        await self.app(scope, receive, counted)


class RuntimeSession:
    """A botocore session whose keys come from the service and whose clock is ours."""

    def __init__(self, service: Service, keys_live_s: float, clock: Clock, result: Result) -> None:
        self._service, self._life_s, self._result = service, keys_live_s, result
        first = self._fetch()
        self._credentials = RefreshableCredentials(
            first["access_key"],
            first["secret_key"],
            first["token"],
            datetime.fromisoformat(first["expiry_time"]),
            self._fetch,
            "rotation",
            time_fetcher=clock.moment,
        )

    def get_credentials(self) -> RefreshableCredentials:
        """botocore's interface."""
        return self._credentials

    def _fetch(self) -> dict[str, str]:
        self._result.pairs += 1
        key = self._service.keys.issue(self._life_s).to_wire()
        return {
            "access_key": key["AccessKeyId"],
            "secret_key": key["SecretAccessKey"],
            "token": key["Token"],
            "expiry_time": key["Expiration"].replace("Z", "+00:00"),
        }


async def play(
    hours: float, in_flight: int, keys_live_s: float, state: Path, *, hide_expiry: bool = False
) -> Result:
    """Play rollouts until the clock has moved on by `hours`.

    Args:
        hide_expiry: keep from the token cache when its keys end, so that it has to recover.
    """
    clock, result = Clock(), Result()
    service = Service(ServiceSettings(state=state, agent_keys_s=keys_live_s), clock)
    until = clock.now + hours * 3600
    prompts = [json.loads(line)["prompt"] for line in ROWS.read_text().splitlines()]
    async with serving(service, clock, SAMPLE_S / in_flight, result):
        source = SessionCredentials(lambda: RuntimeSession(service, keys_live_s, clock, result))
        hidden = (lambda: replace(source(), expires_at=None)) if hide_expiry else source
        runtime = JobRuntime(TokenCache(hidden, clock))
        rollouts = Rollouts(Settings(), runtime, load_task("wordle"))

        async def worker() -> None:
            while clock.now < until:
                number = result.rollouts
                result.rollouts += 1
                prompt = prompts[number % len(prompts)]
                outcome = await rollouts.run(payload(service, number, prompt))
                note(result, service, number, outcome)

        await asyncio.gather(*[worker() for _ in range(in_flight)])
        runtime.close()
    return result


def payload(service: Service, number: int, prompt: str) -> dict[str, Any]:
    """Open a trajectory on the service and say how to play it."""
    service.parts.trajectories.add(
        Trajectory(
            trajectory_id=f"t-{number}",
            job_arn=JOB,
            policy=service.parts.policies.fixed("random"),
            draw=DrawKey(1, "train", 1, number, 0).uniform,
            defaults=DEFAULTS,
        )
    )
    endpoint = f"http://127.0.0.1:{service.port}"
    metadata = {"jobArn": JOB, "rolloutId": f"t-{number}", "endpoint": endpoint}
    return {"prompt": prompt, "metadata": metadata}


def note(result: Result, service: Service, number: int, outcome: Outcome) -> None:
    """Keep what went wrong; a reward has to be on the service."""
    trajectory = service.parts.trajectories.get(JOB, f"t-{number}")
    if outcome.status != "completed" or outcome.error or trajectory.rewards is None:
        result.reached.append(f"t-{number}: {outcome.status}, {outcome.error}")
    service.parts.trajectories.forget([f"t-{number}"])


@contextlib.asynccontextmanager
async def serving(
    service: Service, clock: Clock, step_s: float, result: Result
) -> AsyncIterator[None]:
    """Serve on this event loop until the block ends."""
    listener = listening_socket(0)
    listener.listen()
    service.port = listener.getsockname()[1]
    app = Ticking(build_app(service), clock, step_s, result)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(sockets=[listener]))
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(f"http://127.0.0.1:{service.port}/ping")
        yield
        server.should_exit = True


def main() -> int:
    """Play, print, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--keys-live", type=float, default=900.0, help="seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (options.hours, options.in_flight, options.keys_live, Path(folder))
        result = asyncio.run(play(*arguments))
    print(
        f"{options.hours:g} simulated hours, {options.in_flight} rollouts in flight: "
        f"{result.rollouts} rollouts, {result.requests} requests, {result.pairs} key pairs, "
        f"{result.refused} requests refused, "
        f"{len(result.reached)} authentication failures reached a rollout"
    )
    for error in result.reached[:10]:
        print(error, file=sys.stderr)
    return int(bool(result.reached))


if __name__ == "__main__":
    sys.exit(main())
