"""A service that fails on demand, in a thread of this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from botocore.credentials import ReadOnlyCredentials

from agent.credentials import mint_token
from rehearsal.agent_keys import TOKEN_VARIABLE
from rehearsal.draws import DrawKey
from rehearsal.faults import LEDGER_FILE, FaultLayer, with_faults
from rehearsal.outages import Line, listening_socket
from rehearsal.policies.behaviour import BehaviourPolicy, initial_weights
from rehearsal.server import Service, build_app
from rehearsal.settings import FaultSettings, ServiceSettings
from rehearsal.trajectories import Trajectory

JOB = "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/test"
KEYS = ReadOnlyCredentials("REHEARSALKEY", "a-secret-of-this-test", None)
KEYS_TOKEN = "what-agents-show"
TOOLS = [{"type": "function", "function": {"name": "guess_word", "parameters": {}}}]
DEFAULTS = {"temperature": 1.0, "topP": 1.0, "maxTokens": 512}


@dataclass(slots=True)
class Faulty:
    """A running service with faults."""

    state: Path
    layer: FaultLayer | None = None
    service: Service | None = None
    loop: asyncio.AbstractEventLoop | None = None
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=20, trust_env=False))

    @property
    def url(self) -> str:
        assert self.service is not None
        return f"http://127.0.0.1:{self.service.port}"

    def open(self, trajectory_id: str = "t-1", place: int = 0) -> Trajectory:
        """A trajectory that plays the given place in the job."""
        assert self.service is not None
        space = self.service.parts.policies.space
        policy = BehaviourPolicy(space, initial_weights(space))
        draw = DrawKey(1, "train", 1, place, 0).uniform
        trajectory = Trajectory(trajectory_id, JOB, policy, draw, dict(DEFAULTS))
        self.service.parts.trajectories.add(trajectory)
        return trajectory

    def post(self, path: str, body: Any, trajectory_id: str = "t-1", **headers: str) -> Any:
        sent = {
            "Authorization": f"Bearer {mint_token(KEYS, 'us-east-1')}",
            "X-Amzn-SageMaker-Job-Arn": JOB,
            "X-Amzn-SageMaker-Trajectory-Id": trajectory_id,
            **headers,
        }
        return self.http.post(f"{self.url}{path}", json=body, headers=sent)

    def sample(self, trajectory_id: str = "t-1", **fields: Any) -> httpx.Response:
        messages = [{"role": "user", "content": "Play."}]
        body = {"model": "default", "messages": messages, "tools": TOOLS, **fields}
        return self.post("/v1/chat/completions", body, trajectory_id)

    def complete(self, trajectory_id: str = "t-1") -> httpx.Response:
        body = {"JobArn": JOB, "TrajectoryId": trajectory_id, "Status": "ready"}
        return self.post("/complete-rollout", body, trajectory_id)

    def reward(self, value: float, trajectory_id: str = "t-1") -> httpx.Response:
        body = {"JobArn": JOB, "TrajectoryId": trajectory_id, "Rewards": [value]}
        return self.post("/update-reward", body, trajectory_id)

    def ledger(self) -> list[dict[str, Any]]:
        lines = (self.state / LEDGER_FILE).read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def faulty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., contextlib.AbstractContextManager[Faulty]]:
    """faulty(rates, agent_keys_s=..., **fault_settings) serves until the block ends."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_key)
    monkeypatch.setenv(TOKEN_VARIABLE, KEYS_TOKEN)
    return lambda rates, agent_keys_s=None, **others: serving(tmp_path, rates, agent_keys_s, others)


@contextlib.contextmanager
def serving(
    state: Path, rates: dict[Any, float], agent_keys_s: float | None, others: dict[str, Any]
) -> Iterator[Faulty]:
    """Serve in a thread: the service's SQLite objects belong to the thread that made them."""
    faults = FaultSettings.model_validate({"rates": rates, **others})
    settings = ServiceSettings(state=state, agent_keys_s=agent_keys_s, faults=faults)
    running, started = Faulty(state), threading.Event()
    line = Line()

    async def serve() -> None:
        service = Service(settings)
        listener = listening_socket(0)
        service.port = listener.getsockname()[1]
        layer = with_faults(build_app(service), service, line)
        line.server = uvicorn.Server(uvicorn.Config(layer, log_level="warning", access_log=False))
        running.layer, running.service = layer, service
        running.loop = asyncio.get_running_loop()
        serving_task = asyncio.create_task(line.server.serve(sockets=[listener]))
        while not line.up:
            await asyncio.sleep(0.01)
        started.set()
        await serving_task

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield running
    finally:
        running.http.close()
        assert line.server is not None
        line.server.should_exit = True
        thread.join(30)


@pytest.fixture
def keys_token() -> str:
    """What the credentials endpoint wants to see."""
    return KEYS_TOKEN
