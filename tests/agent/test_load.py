"""Many rollouts in one process: nothing mixes, nothing is lost, nothing piles up."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 128
EFFORTS = ("low", "medium", "high")
COUNTING = Settings(task="counting")


async def _post_all(url: str, bodies: list[dict[str, Any]], at_once: int) -> list[dict[str, Any]]:
    gate = asyncio.Semaphore(at_once)
    limits = httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(limits=limits, timeout=120) as client:

        async def post(body: dict[str, Any]) -> dict[str, Any]:
            async with gate:
                return (await client.post(f"{url}/invocations", json=body)).json()

        return await asyncio.gather(*[post(body) for body in bodies])


def body_for(kit: Any, number: int, endpoint: str) -> dict[str, Any]:
    """A rollout of which every part is its own."""
    own = {
        "reasoning_effort": ("low", "medium", "high")[number % 3],
        "prompt_hint": f"hint {number}",
    }
    row = kit.row(target=2 + number % 4, answer=f"{kit.SECRET}-{number}", settings=own)
    return {
        **kit.payload(f"t-{number}", row, endpoint=endpoint),
        "inferenceParams": {"temperature": number / 1000, "maxTokens": 512 + number},
    }


def test_128_rollouts_at_once_never_mix(
    agents: Any, fake: Any, endpoint: str, kit: Any, clock: Any
) -> None:
    other = kit.FakeRuntime()
    chance = random.Random(7)
    everyone_asked = threading.Event()

    async def interleaved(call: Any) -> Any:
        """No answer before every rollout has asked its first question."""
        if len(fake.trajectories) + len(other.trajectories) >= AT_ONCE:
            everyone_asked.set()
        while not everyone_asked.is_set():
            await asyncio.sleep(0.005)
        await asyncio.sleep(chance.random() * 0.01)
        return kit.count_up(call)

    fake.policy = other.policy = interleaved
    with kit.serving(other) as second:
        bodies = [body_for(kit, n, (endpoint, second)[n % 2]) for n in range(AT_ONCE)]
        outcomes = asyncio.run(_post_all(agents(COUNTING), bodies, AT_ONCE))
    for number, (sent, outcome) in enumerate(zip(bodies, outcomes, strict=True)):
        runtime = (fake, other)[number % 2]
        name, target = f"t-{number}", 2 + number % 4
        assert (outcome["status"], outcome["reward"]) == ("completed", 1.0)
        assert outcome["trace"]["trajectory_id"] == name
        assert runtime.trajectories[name].rewards == [[1.0]]
        questions = runtime.made(kit.CHAT, name)
        assert [question.turn for question in questions] == list(range(target))
        for question in questions:
            asked = question.body
            assert asked["temperature"] == sent["inferenceParams"]["temperature"]
            assert asked["max_tokens"] == sent["inferenceParams"]["maxTokens"]
            assert asked["reasoning_effort"] == EFFORTS[number % 3]
            assert asked["messages"][0]["content"] == f"You count.\n\nhint {number}\n"
            assert asked["messages"][1]["content"][0]["text"] == f"Count to {target}."
            assert question.headers["x-amzn-sagemaker-job-arn"] == kit.JOB_ARN
    assert set(fake.trajectories).isdisjoint(other.trajectories)


def faulty(kit: Any, chance: random.Random) -> Any:
    """One request in three meets a fault: refused, throttled, broken, cut, or applied unheard."""
    faults = [
        kit.Answer(401, applied=False),
        kit.Answer(403, applied=False),
        kit.Answer(429, applied=False),
        kit.Answer(429, headers={"Retry-After": "1"}, applied=False),
        kit.Answer(500, applied=False),
        kit.Answer(503, applied=False),
        kit.Answer(applied=False, cut_after=1),
        kit.DROP,  # a report is applied, and its acknowledgement lost
    ]

    def answer(call: Any) -> Any:
        if chance.random() > 1 / 3:
            return None
        fault = chance.choice(faults)
        if call.path == kit.CHAT and chance.random() < 0.3:
            return kit.Answer(body=b'{"choices": []}')
        return fault

    return answer


def test_under_faults_no_rollout_is_lost_and_every_reward_counts_once(
    agents: Any, fake: Any, endpoint: str, kit: Any, clock: Any
) -> None:
    fake.always = faulty(kit, random.Random(11))
    bodies = [body_for(kit, number, endpoint) for number in range(AT_ONCE)]
    outcomes = asyncio.run(_post_all(agents(COUNTING), bodies, AT_ONCE))
    assert [outcome["status"] for outcome in outcomes] == ["completed"] * AT_ONCE
    assert [outcome["reward"] for outcome in outcomes] == [1.0] * AT_ONCE
    for number in range(AT_ONCE):
        known = fake.trajectories[f"t-{number}"]
        assert (known.status, known.rewards) == ("ready", [[1.0]])


@pytest.mark.slow
def test_memory_stays_flat_over_2000_rollouts(fake: Any, endpoint: str, kit: Any) -> None:
    """The agent's resident memory after 2,000 rollouts is that after 500, give or take 4 MB."""
    words = ("crony", "build", "plate", "waste", "haste")
    row = json.dumps({"prompt": "Play one game.", "answer": "haste", "id": "w-1"})
    fake.policy = lambda call: kit.completion(
        calls=[("guess_word", json.dumps({"guess": words[call.turn]}))], reasoning="hm " * 200
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        "PORT": str(port),
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "example",
    }
    with subprocess.Popen([sys.executable, "-m", "agent.main"], env=environment, cwd=ROOT) as agent:
        try:
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
                client.get(f"{url}/ping", timeout=60)
            play(url, kit, row, endpoint, range(500))
            fake.calls.clear()
            warm = resident_mb(agent.pid)
            play(url, kit, row, endpoint, range(500, 2000))
            assert resident_mb(agent.pid) - warm < 4
        finally:
            agent.terminate()


def play(url: str, kit: Any, row: str, endpoint: str, numbers: range) -> None:
    bodies = [kit.payload(f"t-{number}", row, endpoint=endpoint) for number in numbers]
    outcomes = asyncio.run(_post_all(url, bodies, 32))
    assert {outcome["status"] for outcome in outcomes} == {"completed"}


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6
