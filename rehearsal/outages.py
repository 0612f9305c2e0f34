"""The line between a server and its clients, which can be cut: hang-ups and refused connections.

ASGI has no word for either, so this reaches for the sockets of the uvicorn server.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from rehearsal.draws import uniform


def listening_socket(port: int) -> socket.socket:
    """A socket bound to a loopback port; 0 takes a free one. Not yet listening.

    Raises:
        OSError: the port cannot be used.
    """
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        raise
    return bound


class Line:
    """The connections of one uvicorn server. Use it from the server's event loop only."""

    def __init__(self) -> None:
        self.server: uvicorn.Server | None = None
        """Set once the server exists; until then there is nothing to cut."""

    @property
    def up(self) -> bool:
        """True once the server listens."""
        return self.server is not None and self.server.started

    def hang_up(self, client: Any) -> bool:
        """Close a client's connection without another word; False when it is not open."""
        connections = self._of(client)
        for connection in connections:
            connection.transport.abort()
        return bool(connections)

    def close(self, client: Any) -> bool:
        """Close a client's connection once what was written has gone out; False as above."""
        connections = self._of(client)
        for connection in connections:
            connection.transport.close()
        return bool(connections)

    async def refuse(self, seconds: float) -> None:
        """Drop all connections, refuse new ones for a while, then listen on the same port."""
        assert self.server is not None
        port = self.server.servers[0].sockets[0].getsockname()[1]
        for listener in self.server.servers:
            listener.close()
        # Bound and not listening: refuses connections, and nobody else gets the port.
        bound = listening_socket(port)
        try:
            for connection in self._connections():
                connection.transport.abort()
            await asyncio.sleep(seconds)
            loop = asyncio.get_running_loop()
            listening = await loop.create_server(self._protocol, sock=bound)
        except BaseException:
            bound.close()
            raise
        self.server.servers = [listening]

    def _connections(self) -> list[Any]:
        return list(self.server.server_state.connections) if self.server else []

    def _of(self, client: Any) -> list[Any]:
        return [c for c in self._connections() if client is not None and c.client == tuple(client)]

    def _protocol(self) -> asyncio.Protocol:
        assert self.server is not None
        config: Any = self.server.config
        return config.http_protocol_class(
            config=config,
            server_state=self.server.server_state,
            app_state=self.server.lifespan.state,
        )


async def outages(
    line: Line, share: float, seconds: float, seed: int, on_outage: Callable[[], None]
) -> None:
    """Refuse connections for `seconds` at a time and `share` of all time, for ever."""
    ordinal = 0
    while not line.up:
        await asyncio.sleep(0.05)
    while share > 0:
        pause = seconds * (1 - share) / share
        await asyncio.sleep(pause * (0.5 + uniform(seed, "outage", ordinal)))
        on_outage()
        await line.refuse(seconds)
        ordinal += 1
