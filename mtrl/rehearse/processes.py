"""Starts the rehearsal's parts as processes of their own and ends them again.

The agent and the service meet over HTTP alone, as they do in the cloud; all that ties them
together is the endpoint in each rollout's payload and a key pair made for this run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from mtrl.errors import MtrlError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
_POLL_S = 0.05
TOKEN_VARIABLE = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
"""What agents show when they fetch keys from the service."""


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Ask Linux for SIGTERM when the parent dies, so that even `kill -9` leaves no part behind."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


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
class Part:
    """One process, and all that it takes to start it again."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process; returns before it answers."""
        # A session of its own: Ctrl-C reaches this process alone, which then stops the job first.
        with self.log.open("a") as file:
            self.process = subprocess.Popen(
                [sys.executable, *self.arguments],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=_end_with_parent if _LIBC else None,
            )

    def wait_until_up(self) -> None:
        """Wait until it answers.

        Raises:
            MtrlError: it ended, or did not answer within START_TIMEOUT_S.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.ended is None:
            with (
                contextlib.suppress(urllib.error.URLError, OSError),
                urllib.request.urlopen(f"{self.url}/ping", timeout=5),
            ):
                return
            time.sleep(_POLL_S)
        raise _not_started(self.name, self.log)

    def restart(self) -> None:
        """Start it again after it has ended, on the same port, and wait until it answers."""
        self.start()
        self.wait_until_up()

    @property
    def pid(self) -> int:
        """Process id."""
        assert self.process is not None
        return self.process.pid

    @property
    def ended(self) -> int | None:
        """The exit code; None while it runs."""
        assert self.process is not None
        return self.process.poll()

    def kill(self) -> None:
        """End it as `kill -9` does, and wait until it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class LocalParts:
    """The running service and agents."""

    service: Part
    agents: list[Part]
    keys: LocalKeys
    region: str

    @property
    def url(self) -> str:
        """The service's base URL."""
        return self.service.url

    @property
    def all(self) -> list[Part]:
        """Agents first, then the service."""
        return [*self.agents, self.service]

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
        for part in self.all:
            if part.ended is not None:
                raise MtrlError(
                    "part-ended",
                    f"{part.name} ended with exit code {part.ended}.",
                    "Its log lies in the run's folder.",
                )


@contextlib.contextmanager
def local_parts(
    folder: Path,
    region: str,
    service_options: Sequence[str],
    agents: int,
    task: str,
    agent_environment: Mapping[str, str] | None = None,
    *,
    rotating_keys: bool = False,
) -> Iterator[LocalParts]:
    """Start everything below `folder`, made if need be; end it when the block ends.

    Args:
        agent_environment: more environment variables of the agents.
        rotating_keys: agents fetch their keys from the service, as a runtime in AgentCore does,
            instead of having fixed ones; needs the service option --agent-keys-s.

    Raises:
        MtrlError: a part did not start; says which, and shows the end of its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = LocalKeys.fresh()
    environment = keys.environment(region) | {TOKEN_VARIABLE: secrets.token_urlsafe(30)}
    service = Part(
        "the rehearsal service",
        ["-m", "rehearsal", "--state", str(folder / "service"), "--region", region],
        environment,
        folder / "service.log",
        _free_port(),
    )
    own = _fetching_keys(environment, service.url) if rotating_keys else environment
    own = {**own, "AGENT_TASK": task, **(agent_environment or {})}
    players = [
        _agent(folder / f"agent-{number}.log", own, _free_port()) for number in range(1, agents + 1)
    ]
    urls = [option for player in players for option in ("--agent-url", player.url)]
    options = ["--task", task, "--port", str(service.port), *service_options, *urls]
    service.arguments = [*service.arguments, *options]
    parts = LocalParts(service, players, keys, region)
    try:
        for part in parts.all:
            part.start()
        for part in reversed(parts.all):
            part.wait_until_up()
        yield parts
    finally:
        _stop([part.process for part in parts.all if part.process is not None])


def _fetching_keys(environment: Mapping[str, str], service_url: str) -> dict[str, str]:
    """The environment with the service's credentials endpoint instead of fixed keys."""
    fixed = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    kept = {name: value for name, value in environment.items() if name not in fixed}
    return kept | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{service_url}/_credentials"}


def _agent(log: Path, environment: Mapping[str, str], port: int) -> Part:
    variables = {**environment, "PORT": str(port)}
    return Part("the agent", ["-m", "agent.main"], variables, log, port)


def _not_started(what: str, log: Path) -> MtrlError:
    tail = "\n".join(log.read_text().splitlines()[-5:]) if log.exists() else ""
    return MtrlError("part-not-started", f"{what} did not start.", f"End of its log:\n{tail}")


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
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
