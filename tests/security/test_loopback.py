"""The rehearsal service is reachable from this machine alone, and by its own names alone."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mtrl.rehearse.processes import LocalParts, local_parts

PATHS = ["/ping", "/v1/models", "/_credentials", "/bucket", "/bucket/key"]
POSTS = ["/", "/v1/chat/completions", "/complete-rollout", "/update-reward", "/sample"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalParts]:
    """A service with faults, so that their layer is part of what is tested; no agent."""
    folder = tmp_path_factory.mktemp("loopback")
    options = ["--fault", "throttled=0.5", "--agent-keys-s", "600"]
    with local_parts(folder, "us-east-1", options, 0, "wordle") as started:
        yield started


def listening(pid: int) -> set[tuple[str, int]]:
    """(address, port) of the process's listening TCP sockets, from the kernel."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = link.readlink().name if link.exists() else str(link.readlink())
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # LISTEN
                address, port = fields[1].split(":")
                found.add((_dotted(address), int(port, 16)))
    return found


def _dotted(address: str) -> str:
    raw = b"".join(bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's tables of Linux")
def test_the_service_listens_on_the_loopback_interface_only(parts: LocalParts) -> None:
    assert listening(parts.service.pid) == {("127.0.0.1", parts.service.port)}


@pytest.mark.parametrize("host", ["rebound.example", "169.254.169.254", "0.0.0.0", ""])
@pytest.mark.parametrize("method_path", [("GET", p) for p in PATHS] + [("POST", p) for p in POSTS])
def test_another_hosts_name_is_refused_everywhere(
    parts: LocalParts, method_path: tuple[str, str], host: str
) -> None:
    method, path = method_path
    reply = httpx.request(method, parts.url + path, headers={"Host": host}, content=b"{}")
    assert reply.status_code == 400
    assert reply.text == "Invalid host header"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_its_own_names_are_answered(parts: LocalParts, host: str) -> None:
    headers = {"Host": f"{host}:{parts.service.port}"}
    assert httpx.get(f"{parts.url}/ping", headers=headers).status_code == 200


@pytest.mark.parametrize("path", [p for p in PATHS if p != "/ping"])
def test_nothing_but_the_health_check_is_open_to_the_unknown(parts: LocalParts, path: str) -> None:
    assert httpx.get(parts.url + path).status_code in (401, 403)
