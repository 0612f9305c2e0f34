"""Keep-alive HTTP/1.1 POSTs on asyncio, for the one server that this agent talks to.

In: a URL, headers and a body. Out: a `Reply`, or a `ConnectionFailedError`. A general client costs
1.2 to 2 ms of CPU a request here and looks at every open connection for each (measured, 16 to 96 at
once); a rollout makes a dozen requests of one shape, so this does that shape and nothing else: no
redirects, no compression, no proxies. httptools, which the server already needs, does the parsing.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

import httptools
from botocore.httpsession import get_cert_path

CONNECT_TIMEOUT_S = 5.0
IDLE_LIMIT_S = 30.0
"""An idle connection older than this is not used again: the server may be closing it."""
MAX_REPLY_BYTES = 32 * 1024 * 1024


class ConnectionFailedError(Exception):
    """No whole reply arrived; the request may or may not have been acted upon."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole HTTP response."""

    status: int
    headers: Mapping[bytes, bytes]
    """Names in lower case."""
    body: bytes


class _Connection(asyncio.Protocol):
    """One socket, one request at a time."""

    def __init__(self, host_header: str) -> None:
        self.host_header = host_header
        self.usable = True
        self.touched = False
        """True once the server answered the current request with anything at all."""
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Reply] | None = None

    async def exchange(self, head: bytes, body: bytes) -> Reply:
        """Send a request and wait for its reply.

        Raises:
            ConnectionFailedError: the connection broke, or the reply is no HTTP.
        """
        if self._transport is None or not self.usable:
            raise ConnectionFailedError("the connection is closed")
        self._waiting = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self.touched = False
        self._transport.write(head + body)
        try:
            return await self._waiting
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket; a reply that is under way is lost."""
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's interface."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio's interface."""
        if self._waiting is None or self._waiting.done():
            self.close()  # bytes that nobody asked for: the two ends no longer agree
            return
        self.touched = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the reply is not HTTP ({type(error).__name__})")

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's interface."""
        self._fail(type(exc).__name__ if exc else "the server closed the connection")

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools' interface."""
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        """httptools' interface."""
        self._size += len(body)
        if self._size > MAX_REPLY_BYTES:
            self._fail(f"the reply is larger than {MAX_REPLY_BYTES} bytes")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """httptools' interface."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        self.usable = self.usable and self._parser.should_keep_alive()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Reply(status, self._headers, b"".join(self._body)))

    def _fail(self, reason: str) -> None:
        self.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionFailedError(reason))


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a connection leads; connections of one origin are interchangeable."""

    host: str
    port: int
    tls: bool

    @classmethod
    def of(cls, url: SplitResult) -> _Origin:
        tls = url.scheme == "https"
        return cls(url.hostname or "", url.port or (443 if tls else 80), tls)


@dataclass(slots=True)
class ConnectionPool:
    """The process's connections. Use it from one event loop only.

    The last connection returned is the first one used again, so a burst's spare ones grow old and
    are closed.
    """

    ca_bundle: str | None = None
    """Certificates to trust instead of the AWS SDK's own bundle."""
    clock: Callable[[], float] = time.monotonic
    opened: int = 0
    """Connections made so far."""
    _idle: dict[_Origin, list[_Connection]] = field(default_factory=dict)
    _tls: ssl.SSLContext | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """POST `body` and return the reply, whatever its status.

        Raises:
            ConnectionFailedError: no whole reply arrived.
        """
        parts = urlsplit(url)
        origin = _Origin.of(parts)
        while True:
            reused = self._take(origin)
            connection = reused or await self._open(origin, parts.netloc.rpartition("@")[2])
            head = _head(parts, connection.host_header, headers, len(body))
            try:
                reply = await connection.exchange(head, body)
            except ConnectionFailedError:
                if reused is not None and not reused.touched:
                    continue  # it had gone stale while idle: not the server's answer to this
                raise
            if connection.usable:
                connection.idle_since = self.clock()
                self._idle.setdefault(origin, []).append(connection)
            return reply

    def close(self) -> None:
        """Close what is idle; what is in use closes when its owner gives up."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _take(self, origin: _Origin) -> _Connection | None:
        idle = self._idle.get(origin)
        oldest = self.clock() - IDLE_LIMIT_S
        while idle:
            if idle[0].idle_since < oldest or not idle[0].usable:
                idle.pop(0).close()
            elif (last := idle.pop()).usable:
                return last
        return None

    async def _open(self, origin: _Origin, host_header: str) -> _Connection:
        if origin.tls and self._tls is None:
            bundle = self.ca_bundle or get_cert_path(True)
            self._tls = ssl.create_default_context(cafile=bundle)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(host_header),
                    origin.host,
                    origin.port,
                    ssl=self._tls if origin.tls else None,
                )
        except TimeoutError:
            raise ConnectionFailedError(f"no connection within {CONNECT_TIMEOUT_S:g} s") from None
        except OSError as error:
            raise ConnectionFailedError(f"cannot connect ({type(error).__name__})") from error
        self.opened += 1
        return connection


def _head(url: SplitResult, host: str, headers: Mapping[str, str], length: int) -> bytes:
    lines = [
        f"POST {url.path or '/'}{'?' + url.query if url.query else ''} HTTP/1.1",
        f"Host: {host}",
        f"Content-Length: {length}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    head = "\r\n".join(lines)
    if head.count("\r") + head.count("\n") != 2 * (len(lines) - 1):
        raise ValueError("a header must not hold a line break")
    return (head + "\r\n\r\n").encode("latin-1")
