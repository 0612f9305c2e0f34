"""A runtime restored from a snapshot shares nothing random and no credential with its siblings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SIBLINGS = """
import gc, json, os, random, sys

import agent.main
from agent.job_runtime import JobRuntime
from agent.settings import Settings
from botocore.session import Session

runtime = JobRuntime()
app = agent.main.create_app(Settings(), runtime)
sessions = sum(isinstance(thing, Session) for thing in gc.get_objects())
tokens = len(runtime._tokens._kept)
print(json.dumps({"sessions": sessions, "tokens": tokens, "opened": runtime._pool.opened}))
sys.stdout.flush()
for sibling in range(2):
    if os.fork() == 0:
        random.seed(0)  # a fork reseeds Python's own generator; a restored snapshot does not
        waits = [runtime._backoff(5, None) for _ in range(4)]
        os.write(1, (json.dumps({"waits": waits}) + chr(10)).encode())
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """What the agent holds once it is ready, and what two siblings restored from there do."""
    environment = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example"}
    done = subprocess.run(
        [sys.executable, "-c", SIBLINGS], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_ready_agent_holds_no_session_token_or_connection(lines: list[dict[str, Any]]) -> None:
    assert lines[0] == {"sessions": 0, "tokens": 0, "opened": 0}


def test_two_siblings_do_not_wait_in_step(lines: list[dict[str, Any]]) -> None:
    first, second = lines[1]["waits"], lines[2]["waits"]
    assert set(first).isdisjoint(second)
