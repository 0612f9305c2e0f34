"""A port that refuses connections for a while, and is the same port afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from rehearsal.outages import listening_socket
from rehearsal.settings import Fault


def test_a_refusing_port_drops_its_clients_and_opens_again(faulty: Any) -> None:
    with faulty({Fault.CONNECTION_REFUSED: 0.0}) as service:
        before = service.url
        assert service.http.get(f"{before}/ping").status_code == 200
        refusing = asyncio.run_coroutine_threadsafe(service.layer.line.refuse(0.5), service.loop)
        seen = set()
        while not refusing.done():
            try:
                seen.add(service.http.get(f"{before}/ping").status_code)
            except httpx.ConnectError:
                seen.add("refused")
            except httpx.HTTPError:
                seen.add("dropped")
        refusing.result()
        assert "refused" in seen
        assert service.http.get(f"{before}/ping").status_code == 200


def test_outages_come_again_and_are_written_down(faulty: Any) -> None:
    with faulty({Fault.CONNECTION_REFUSED: 0.5}, refused_s=0.02) as service:
        task = asyncio.run_coroutine_threadsafe(service.layer.outages(), service.loop)
        while len(service.ledger()) < 3:
            assert not task.done()
        task.cancel()
        assert service.ledger()[0]["faults"] == [Fault.CONNECTION_REFUSED]


def test_nobody_else_gets_the_port_meanwhile() -> None:
    with listening_socket(0) as bound, pytest.raises(OSError):
        listening_socket(0).bind(bound.getsockname())
