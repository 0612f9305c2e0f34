"""The local cloud's processes: ministack, the rehearsal service and the agent's servers.

They outlive the command that starts them, so that one command deploys and a later one destroys.
What runs is written down in the cloud's folder; a process is ended only when it is recognised as
the one that was started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mtrl.errors import MtrlError

START_LIMIT_S = 90.0
STOP_LIMIT_S = 20.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Server:
    """How to start one process, and how to see that it serves."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    health_url: str


@dataclass(frozen=True, slots=True)
class Running:
    """A started process. `mark` is part of its command line and of no other's."""

    name: str
    pid: int
    mark: str


class Servers:
    """Starts and ends processes; their record and logs lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record = folder / "servers.json"

    def running(self) -> list[Running]:
        """The recorded processes that are still alive."""
        if not self._record.is_file():
            return []
        found = [Running(**entry) for entry in json.loads(self._record.read_text())]
        return [server for server in found if _is_alive(server)]

    def start(self, server: Server) -> None:
        """Start a process and wait until it serves.

        Raises:
            MtrlError: it ended or did not serve in time; shows the end of its log.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / f"{server.name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                server.command, env=dict(server.environment), stdin=subprocess.DEVNULL,
                stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._write([*self.running(), Running(server.name, process.pid, _mark(server))])
        deadline = time.monotonic() + START_LIMIT_S
        while not _serves(server.health_url):
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-1500:]
                raise MtrlError("not-started", f"{server.name} does not serve:\n{tail}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End all recorded processes, in the reverse order of their start."""
        for server in reversed(self.running()):
            _end(server)
        self._record.unlink(missing_ok=True)

    def _write(self, servers: list[Running]) -> None:
        draft = self._record.with_suffix(".draft")
        draft.write_text(json.dumps([asdict(server) for server in servers]))
        draft.replace(self._record)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _mark(server: Server) -> str:
    return " ".join(server.command[1:])


def _is_alive(server: Running) -> bool:
    shown = subprocess.run(
        ["ps", "-ww", "-o", "stat=,args=", "-p", str(server.pid)], capture_output=True, text=True
    ).stdout.strip()
    return server.mark in shown and not shown.startswith("Z")


def _end(server: Running) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        deadline = time.monotonic() + STOP_LIMIT_S
        while _is_alive(server):
            if time.monotonic() > deadline:
                break
            with contextlib.suppress(ChildProcessError):
                os.waitpid(server.pid, os.WNOHANG)
            time.sleep(_POLL_S)
        else:
            return
    print(f"{server.name} (process {server.pid}) does not end", file=sys.stderr)


def _serves(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status < 500
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
