"""The server as AgentCore starts it: a process of its own, its settings, its ping, its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from agent.main import create_app
from agent.settings import Settings, SettingsError

ROOT = Path(__file__).resolve().parents[2]
AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "example-secret",
    "AWS_REGION": "us-east-1",
}
ANSWER = "haste"
ROW = json.dumps({"prompt": "Play one game.", "answer": ANSWER, "id": "w-1"})
MAX_IMPORT_MB = 110


def environment(**extra: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, **AWS, **extra}


@pytest.fixture
def agent() -> Iterator[Callable[..., tuple[str, subprocess.Popen[str]]]]:
    """Start an agent process; returns its URL once it answers pings."""
    with contextlib.ExitStack() as stack:

        def start(**extra: str) -> tuple[str, subprocess.Popen[str]]:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "agent.main"],
                    env=environment(PORT=str(port), **extra),
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            stack.callback(process.kill)
            url = f"http://127.0.0.1:{port}"
            transport = httpx.HTTPTransport(retries=20)  # with a growing pause between them
            with httpx.Client(transport=transport) as client:
                assert client.get(f"{url}/ping", timeout=30).json()["status"] == "Healthy"
            return url, process

        yield start


def guesses(kit: Any, *words: str) -> Any:
    return lambda call: kit.completion(
        calls=[("guess_word", json.dumps({"guess": words[min(call.turn, len(words) - 1)]}))]
    )


def test_the_process_plays_wordle_and_stops_cleanly(
    agent: Any, fake: Any, endpoint: str, kit: Any
) -> None:
    fake.policy = guesses(kit, "crony", "waste", ANSWER)
    url, process = agent()
    reply = httpx.post(
        f"{url}/invocations", json=kit.payload(prompt=ROW, endpoint=endpoint), timeout=30
    )
    assert (reply.status_code, reply.json()["status"]) == (200, "completed")
    assert reply.json()["trace"]["summary"]["outcome"] == "solved"
    assert fake.trajectories["t-1"].rewards == [[reply.json()["reward"]]]
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "")


def test_the_trace_is_logged_as_one_line_on_request(
    agent: Any, fake: Any, endpoint: str, kit: Any
) -> None:
    fake.policy = guesses(kit, ANSWER)
    url, process = agent(TRACE_LOG="1")
    reply = httpx.post(
        f"{url}/invocations", json=kit.payload(prompt=ROW, endpoint=endpoint), timeout=30
    )
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    (line,) = output.splitlines()
    assert json.loads(line) == reply.json()["trace"]
    assert "sagemaker-api-key" not in line


@pytest.mark.parametrize(
    ("name", "value"), [("ROLLOUT_BUDGET_S", "900"), ("AGENT_TASK", "chess"), ("PORT", "http")]
)
def test_a_wrong_setting_stops_the_start_with_one_line(name: str, value: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "agent.main"],
        env=environment(**{name: value}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 2
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"agent: {name}={value!r}: ")


def test_import_brings_no_training_sdk_and_little_memory() -> None:
    code = (
        "import json, sys, agent.main;"
        "print(json.dumps([sorted({name.partition('.')[0] for name in sys.modules}),"
        " int(open('/proc/self/statm').read().split()[1])]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules, pages = json.loads(run.stdout)
    assert not {"sagemaker", "mlflow", "openai", "mtrl", "rehearsal", "stacks"} & set(modules)
    assert pages * 4096 / 1e6 <= MAX_IMPORT_MB


def test_nothing_secret_or_random_is_made_before_the_first_rollout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A runtime restored from a snapshot after start would share it with its siblings."""

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("made at start")

    for name in ("os.urandom", "uuid.uuid4", "socket.socket.connect", "botocore.session.Session"):
        monkeypatch.setattr(name, forbidden)
    monkeypatch.setattr("agent.credentials.mint_token", forbidden)
    create_app(Settings())


def test_an_unknown_task_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match=r"AGENT_TASK='chess'.*wordle"):
        create_app(Settings(task="chess"))


class Gate:
    """Holds the policy's answers until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    async def wait(self) -> None:
        self.reached.set()
        while not self.opened.is_set():
            await asyncio.sleep(0.005)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


def held_from(turn: int, gate: Gate, policy: Any) -> Any:
    async def answer(call: Any) -> Any:
        if call.turn >= turn:
            await gate.wait()
        return policy(call)

    return answer


def in_background(work: Callable[[], Any]) -> Callable[[], Any]:
    """Run `work` in a thread; the result is for the returned function to wait for."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(30)
        return results[0]

    return result


def test_ping_is_busy_exactly_while_a_rollout_is_in_flight_and_says_since_when(
    agents: Any, fake: Any, endpoint: str, kit: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = agents(Settings(task="counting"))
    now = [1000.0]
    monkeypatch.setattr("bedrock_agentcore.runtime.app.time", SimpleNamespace(time=lambda: now[0]))

    def ping(at: float) -> tuple[str, int]:
        now[0] = at
        reply = httpx.get(f"{url}/ping").json()
        return reply["status"], reply["time_of_last_update"]

    assert ping(at=1100)[0] == "Healthy"
    now[0] = 1200
    fake.policy = held_from(1, gate, kit.count_up)
    body = kit.payload(endpoint=endpoint)
    reply = in_background(lambda: httpx.post(f"{url}/invocations", json=body, timeout=30))
    assert gate.reached.wait(10)
    assert ping(at=1300) == ("HealthyBusy", 1200)
    assert ping(at=1400) == ("HealthyBusy", 1200)  # asking does not refresh it
    now[0] = 1500
    gate.opened.set()
    assert reply().json()["status"] == "completed"
    assert ping(at=1600) == ("Healthy", 1500)


def test_a_body_that_is_no_json_is_a_bad_request(agents: Any) -> None:
    url = agents(Settings(task="counting"))
    reply = httpx.post(f"{url}/invocations", content=b"{nope")
    assert reply.status_code == 400


@pytest.mark.parametrize("body", ["[]", "null", '"text"', "{}", '{"metadata": 3}'])
def test_a_body_that_is_no_payload_is_a_bad_request_naming_the_field(
    agents: Any, body: str
) -> None:
    url = agents(Settings(task="counting"))
    reply = httpx.post(f"{url}/invocations", content=body)
    assert reply.status_code == 400
    assert reply.json()["status"] == "failed"
    assert reply.json()["error"].startswith(("payload: ", "metadata: "))


@pytest.mark.parametrize("played", [0, 1, 3])
def test_sigterm_reports_what_is_in_flight_and_exits_cleanly(
    agent: Any, fake: Any, endpoint: str, kit: Any, gate: Gate, played: int
) -> None:
    fake.policy = held_from(played, gate, guesses(kit, "crony", "build", "plate"))
    url, process = agent()
    body = kit.payload(prompt=ROW, endpoint=endpoint)
    reply = in_background(lambda: httpx.post(f"{url}/invocations", json=body, timeout=30))
    assert gate.reached.wait(30)
    process.send_signal(signal.SIGTERM)
    outcome = reply().json()
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "")
    assert outcome["stop_reason"] == "cancelled"
    assert outcome["trace"]["summary"].get("turns", 0) == played
    known = fake.trajectories["t-1"]
    if played:
        assert (outcome["status"], known.status) == ("completed", "ready")
        assert known.rewards == [[outcome["reward"]]]
    else:
        assert (outcome["status"], known.status, known.rewards) == ("failed", "failed", [])


def test_sigterm_during_a_report_lets_it_arrive(
    agent: Any, fake: Any, endpoint: str, kit: Any, gate: Gate
) -> None:
    async def held(_: Any) -> None:
        await gate.wait()

    fake.policy = guesses(kit, ANSWER)
    fake.fault(kit.COMPLETE, held)
    url, process = agent()
    body = kit.payload(prompt=ROW, endpoint=endpoint)
    reply = in_background(lambda: httpx.post(f"{url}/invocations", json=body, timeout=30))
    assert gate.reached.wait(30)
    process.send_signal(signal.SIGTERM)
    gate.opened.set()
    assert (reply().json()["status"], reply().json()["stop_reason"]) == ("completed", "done")
    assert fake.trajectories["t-1"].rewards == [[reply().json()["reward"]]]
    process.communicate(timeout=30)
    assert process.returncode == 0
