"""What a rollout costs the agent: CPU of a warm 5-turn rollout, and of a cold import.

A real agent process plays Wordle over HTTP under a scripted job runtime in another process; the
agent's CPU time is read from the kernel before and after. The peer, measured in the same run, is
the same agent with Strands' own OpenAI provider and its default of one client per request.

    python -m benchmarks.agent_cost [--rollouts 300] [--concurrency 16] [--max-ms 30]

Exits 1 when a warm rollout costs more than --max-ms of CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx

ANSWER = "haste"
GUESSES = ("crony", "build", "plate", "waste", ANSWER)
ROW = json.dumps({"prompt": "Play one game of Wordle.", "answer": ANSWER, "id": "cost-0"})
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "example",
    "AWS_REGION": "us-east-1",
}


def serve_runtime(port: int) -> None:
    """The job runtime: answers turn n with the n-th guess, accepts every report."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def chat(request: Request) -> Response:
        messages = json.loads(await request.body())["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        arguments = json.dumps({"guess": GUESSES[turn]})
        call = {
            "id": f"call-{turn}",
            "type": "function",
            "function": {"name": "guess_word", "arguments": arguments},
        }
        message = {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Which letters are left? " * 20,
            "tool_calls": [call],
        }
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 700, "completion_tokens": 120, "total_tokens": 820}
        return JSONResponse(
            {
                "id": "cost",
                "object": "chat.completion",
                "created": 1,
                "model": "default",
                "choices": [choice],
                "usage": usage,
            }
        )

    async def report(request: Request) -> Response:
        await request.body()
        return JSONResponse({})

    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/complete-rollout", report, methods=["POST"]),
        Route("/update-reward", report, methods=["POST"]),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="warning", access_log=False)


def serve_peer(port: int) -> None:
    """The agent with Strands' OpenAI provider, which makes a client per request by default."""
    import logging

    from strands.models.openai import OpenAIModel

    import agent.policy
    from agent.main import create_app
    from agent.settings import read_settings

    logging.getLogger("strands").setLevel(logging.CRITICAL)  # as the agent does

    def model(_: Any, rollout: Any, sampled: Any) -> Any:
        class Peer(OpenAIModel):
            def stream(self, *args: Any, **kwargs: Any) -> Any:
                sampled(agent.policy.Sample("", "", (), "tool_calls"))
                return super().stream(*args, **kwargs)

        return Peer(
            client_args={
                "api_key": "key",
                "base_url": f"{rollout.trajectory.endpoint}/v1",
                "default_headers": rollout.headers,
            },
            model_id="default",
            stream=False,
        )

    agent.policy.Policy.model = model  # type: ignore[method-assign]
    create_app(read_settings(os.environ)).run(port=port)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def process(*arguments: str, port: int) -> Iterator[int]:
    """Run a Python process that listens on `port`; yields its process id."""
    environment = {**os.environ, **AWS, "PORT": str(port)}
    child = subprocess.Popen([sys.executable, *arguments], env=environment)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield child.pid
    finally:
        child.terminate()
        child.wait()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


async def play(agent_port: int, runtime_port: int, rollouts: int, concurrency: int) -> int:
    """Play rollouts; returns how many completed."""
    gate = asyncio.Semaphore(concurrency)

    async def one(client: httpx.AsyncClient, number: int) -> bool:
        metadata = {
            "jobArn": "arn:aws:sagemaker:us-east-1:111122223333:job/cost",
            "trajectoryId": f"cost-{number}",
            "endpoint": f"http://127.0.0.1:{runtime_port}",
        }
        async with gate:
            reply = await client.post(
                f"http://127.0.0.1:{agent_port}/invocations",
                json={"prompt": ROW, "metadata": metadata},
                timeout=60,
            )
        return reply.json()["status"] == "completed"

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=concurrency)) as client:
        return sum(await asyncio.gather(*[one(client, number) for number in range(rollouts)]))


def measure(name: str, *arguments: str, rollouts: int, concurrency: int) -> float:
    """Milliseconds of the agent's CPU per warm rollout; prints one line of the table."""
    agent_port, runtime_port = free_port(), free_port()
    me = ("-m", "benchmarks.agent_cost")
    with (
        process(*me, "--serve-runtime", str(runtime_port), port=runtime_port),
        process(*arguments, port=agent_port) as pid,
    ):
        asyncio.run(play(agent_port, runtime_port, 20, concurrency))
        before, started = cpu_seconds(pid), time.perf_counter()
        completed = asyncio.run(play(agent_port, runtime_port, rollouts, concurrency))
        cost_ms = (cpu_seconds(pid) - before) / rollouts * 1e3
        rate = rollouts / (time.perf_counter() - started)
    if completed != rollouts:
        sys.exit(f"{name}: only {completed} of {rollouts} rollouts completed")
    print(f"{name:<34} {cost_ms:8.1f} ms CPU/rollout {rate:8.1f} rollouts/s")
    return cost_ms


def cold_import() -> None:
    """Print what `import agent.main` costs a new process."""
    code = (
        "import resource, agent.main; r = resource.getrusage(resource.RUSAGE_SELF);"
        "print(r.ru_utime + r.ru_stime, r.ru_maxrss / 1024)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    seconds, megabytes = min(tuple(map(float, run.stdout.split())) for run in runs)
    print(f"{'import agent.main (cold process)':<34} {seconds:8.2f} s CPU {megabytes:17.0f} MB")


def main() -> int:
    """Measure both and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rollouts", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--max-ms", type=float, default=30.0)
    parser.add_argument("--serve-runtime", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--serve-peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_runtime:
        serve_runtime(options.serve_runtime)
    elif options.serve_peer:
        serve_peer(int(os.environ["PORT"]))
    else:
        cold_import()
        load = {"rollouts": options.rollouts, "concurrency": options.concurrency}
        ours = measure("agent", "-m", "agent.main", **load)
        peer = measure(
            "agent, a client per request", "-m", "benchmarks.agent_cost", "--serve-peer", **load
        )
        print(f"a client per request costs {peer / ours:.1f} times as much")
        return int(ours > options.max_ms)
    return 0


if __name__ == "__main__":
    sys.exit(main())
