"""Programs of the SageMaker SDK, run in an environment of their own against a rehearsal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mtrl.rehearse.environment import create_environment
from mtrl.rehearse.processes import LocalKeys, local_parts
from tests.cloud import Cloud

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
SDK = ROOT / ".build" / "conformance" / "bin"
START_TIMEOUT_S, RUN_TIMEOUT_S = 120, 240


@dataclass(frozen=True, slots=True)
class Sdk:
    """Runs `clients/*.py` with the SDK's interpreter."""

    environment: Mapping[str, str]
    folder: Path
    clients: Path = CLIENTS

    def run(self, client: str, given: Any, **variables: str) -> Any:
        """Run a client to its end; `given` is its input, the last line of its output the result."""
        done = self.attempt(client, given, **variables)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    def attempt(
        self, client: str, given: Any, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a client, whatever becomes of it."""
        return subprocess.run(
            [SDK / "python", self.clients / client],
            input=json.dumps(given),
            env={**self.environment, **variables},
            text=True,
            capture_output=True,
            timeout=RUN_TIMEOUT_S,
        )

    @contextmanager
    def serving(self, command: list[str], port: int, path: str, **variables: str) -> Iterator[str]:
        """A server of the SDK's environment, up for the length of the block; yields its URL."""
        url = f"http://127.0.0.1:{port}"
        log = self.folder / f"{Path(command[0]).stem}-{port}.log"
        with log.open("w") as file:
            server = subprocess.Popen(
                [str(SDK / command[0]), *command[1:]],
                env={**self.environment, **variables},
                stdout=file,
                stderr=file,
                cwd=self.folder,
                start_new_session=True,
            )
        try:
            give_up = time.monotonic() + START_TIMEOUT_S
            while not _answers(url + path):
                assert server.poll() is None and time.monotonic() < give_up, log.read_text()[-3000:]
                time.sleep(0.1)
            yield url
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)


def _answers(url: str) -> bool:
    with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=5):
        return True
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def sdk_environment(keys: LocalKeys, url: str | None = None) -> dict[str, str]:
    """What an SDK program sees: the rehearsal's keys, and its endpoint in place of AWS."""
    variables = keys.environment("us-east-1") | {
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYTHONPATH": str(ROOT),
        "SAGEMAKER_TELEMETRY_OPT_OUT": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    }
    return variables | ({"AWS_ENDPOINT_URL": url} if url else {})


@dataclass(slots=True)
class Rehearsals:
    """Starts rehearsals with an agent of choice."""

    base: Path
    started: int = field(default=0)

    @contextmanager
    def start(self, options: list[str], agents: int = 1) -> Iterator[tuple[Cloud, Sdk]]:
        """A service, our own agents or none, and the SDK beside it."""
        self.started += 1
        folder = self.base / str(self.started)
        folder.mkdir()
        with local_parts(folder, "us-east-1", options, agents, "wordle") as parts:
            sdk = Sdk(sdk_environment(parts.keys, parts.url), folder)
            yield Cloud(parts, create_environment(parts)), sdk


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """The SDK's environment, which only `make conformance` and `make slow` build."""
    if not (SDK / "python").exists():
        pytest.skip("the SageMaker SDK is not installed; run make conformance")


@pytest.fixture(scope="module")
def rehearsals(tmp_path_factory: pytest.TempPathFactory) -> Rehearsals:
    return Rehearsals(tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="module")
def rehearsal(rehearsals: Rehearsals) -> Iterator[tuple[Cloud, Sdk]]:
    """A rehearsal with our own agent."""
    with rehearsals.start(["--seed", "7"]) as started:
        yield started


@pytest.fixture(scope="session")
def ports() -> Callable[[], int]:
    """Finds free ports."""
    return free_port


@pytest.fixture(scope="session")
def sdk_kit() -> tuple[type[Sdk], Callable[..., dict[str, str]]]:
    """For tests that need the SDK without a rehearsal: the runner, and its environment."""
    return Sdk, sdk_environment
