"""Starts the rehearsal's parts as processes of their own and ends them again.

The agent and the service meet over HTTP alone, as they do in the cloud; all that ties them
together is the endpoint in each rollout's payload and a key pair made for this run.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from mtrl.errors import MtrlError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class LocalKeys:
    """An access key pair that lives as long as the run."""

    access_key: str
    secret_key: str

    @classmethod
    def fresh(cls) -> LocalKeys:
        """New random keys."""
        return cls(f"REHEARSAL{secrets.token_hex(5).upper()}", secrets.token_urlsafe(30))

    def environment(self, region: str) -> dict[str, str]:
        """This process's environment with these keys as its only AWS credentials."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        return kept | {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@dataclass(slots=True)
class LocalParts:
    """The running service and agents."""

    url: str
    keys: LocalKeys
    region: str
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def client(self, service: str) -> Any:
        """A boto3 client of the service."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=self.keys.access_key,
            aws_secret_access_key=self.keys.secret_key,
            config=Config(retries={"max_attempts": 2}),
        )

    def check_alive(self) -> None:
        """Raise MtrlError when one of the processes has ended."""
        for process in self.processes:
            if process.poll() is not None:
                raise MtrlError(
                    "part-ended",
                    f"{_name(process)} ended with exit code {process.returncode}.",
                    "Its log lies in the run's folder.",
                )


@contextlib.contextmanager
def local_parts(
    folder: Path, region: str, service_options: Sequence[str], agents: int, task: str
) -> Iterator[LocalParts]:
    """Start everything below `folder`, and end it when the block ends.

    Raises:
        MtrlError: a part did not start; says which, and shows the end of its log.
    """
    keys = LocalKeys.fresh()
    environment = keys.environment(region)
    ports = [_free_port() for _ in range(agents)]
    started: list[subprocess.Popen[str]] = []
    try:
        urls = []
        for number, port in enumerate(ports, start=1):
            log = folder / f"agent-{number}.log"
            extra = {"PORT": str(port), "AGENT_TASK": task}
            started.append(_start(["-m", "agent.main"], environment | extra, log))
            urls += ["--agent-url", f"http://127.0.0.1:{port}"]
        options = ["--state", str(folder / "service"), "--region", region, "--task", task]
        command = ["-m", "rehearsal", *options, *service_options, *urls]
        service = _start(command, environment, folder / "service.log", reads_output=True)
        started.append(service)
        parts = LocalParts(_service_url(service, folder), keys, region, started)
        for number, port in enumerate(ports, start=1):
            _wait_for_agent(started[number - 1], port, folder / f"agent-{number}.log")
        yield parts
    finally:
        _stop(started)


def _start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    reads_output: bool = False,
) -> subprocess.Popen[str]:
    # A session of its own: Ctrl-C reaches this process alone, which then stops the job first.
    with log.open("a") as file:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if reads_output else file,
            stderr=file,
            text=True,
            start_new_session=True,
        )


def _service_url(service: subprocess.Popen[str], folder: Path) -> str:
    assert service.stdout is not None
    ready, _, _ = select.select([service.stdout], [], [], START_TIMEOUT_S)
    line = service.stdout.readline() if ready else ""
    if not line:
        raise _not_started("the rehearsal service", folder / "service.log")
    return json.loads(line)["url"]


def _wait_for_agent(agent: subprocess.Popen[str], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and agent.poll() is None:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=5),
        ):
            return
        time.sleep(_POLL_S)
    raise _not_started("the agent", log)


def _not_started(what: str, log: Path) -> MtrlError:
    tail = "\n".join(log.read_text().splitlines()[-5:]) if log.exists() else ""
    return MtrlError("part-not-started", f"{what} did not start.", f"End of its log:\n{tail}")


def _stop(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _name(process: subprocess.Popen[str]) -> str:
    arguments = process.args if isinstance(process.args, list) else []
    return "the agent" if "agent.main" in arguments else "the rehearsal service"
