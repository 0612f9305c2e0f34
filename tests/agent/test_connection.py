"""Connections: kept alive, replaced when stale, never shared, and honest about a broken reply."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.connection import (
    IDLE_LIMIT_S,
    MAX_REPLY_BYTES,
    ConnectionFailedError,
    ConnectionPool,
    Reply,
)

HEADERS = {"X-Amzn-SageMaker-Trajectory-Id": "t-1"}


@pytest.fixture
def posting(endpoint: str, clock: Any) -> Callable[..., Any]:
    """Run `check(pool, post)` on a fresh loop; `post(body, headers)` returns a Reply."""

    def run(check: Callable[..., Any]) -> Any:
        async def main() -> Any:
            pool = ConnectionPool(clock=clock)

            async def post(body: bytes = b"{}", headers: dict[str, str] = HEADERS) -> Reply:
                return await pool.post(f"{endpoint}/echo", headers, body)

            try:
                return await check(pool, post)
            finally:
                pool.close()

        return asyncio.run(main())

    return run


def test_a_reply_comes_back_whole(posting: Any, fake: Any, kit: Any) -> None:
    fake.always = lambda _: kit.Answer(418, b"short and stout", {"X-Pot": "Tea"})
    reply = posting(lambda _, post: post())
    assert reply == Reply(418, reply.headers, b"short and stout")
    assert reply.headers[b"x-pot"] == b"Tea"
    assert fake.calls[0].headers["x-amzn-sagemaker-trajectory-id"] == "t-1"


def test_a_chunked_reply_is_joined(posting: Any, fake: Any, kit: Any) -> None:
    body = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    fake.always = lambda _: kit.Answer(body=body, headers={"Transfer-Encoding": "chunked"})
    assert posting(lambda _, post: post()).body == b"hello world"


def test_requests_in_a_row_share_a_connection(posting: Any, fake: Any, kit: Any) -> None:
    fake.always = lambda _: kit.Answer()

    async def check(pool: ConnectionPool, post: Any) -> None:
        for _ in range(10):
            await post()
        assert pool.opened == 1

    posting(check)


def test_concurrent_requests_never_share_a_connection(posting: Any, fake: Any, kit: Any) -> None:
    fake.always = lambda call: kit.Answer(body=call.raw)

    async def check(pool: ConnectionPool, post: Any) -> None:
        bodies = [b"%d" % number for number in range(64)]
        for _ in range(3):
            replies = await asyncio.gather(*[post(body) for body in bodies])
            assert [reply.body for reply in replies] == bodies
        assert pool.opened == 64

    posting(check)


def test_a_connection_that_the_server_closes_is_not_used_again(
    posting: Any, fake: Any, kit: Any
) -> None:
    fake.always = lambda _: kit.Answer(headers={"Connection": "close"})

    async def check(pool: ConnectionPool, post: Any) -> None:
        assert (await post()).status == 200
        assert (await post()).status == 200
        assert pool.opened == 2

    posting(check)


def test_a_connection_that_went_stale_while_idle_is_replaced_unnoticed(
    posting: Any, fake: Any, kit: Any
) -> None:
    replies = iter([kit.Answer(), kit.DROP, kit.Answer(), kit.Answer()])
    fake.always = lambda _: next(replies)

    async def check(pool: ConnectionPool, post: Any) -> None:
        await post()
        assert (await post()).status == 200
        assert pool.opened == 2

    posting(check)


def test_an_old_idle_connection_is_not_trusted(
    posting: Any, fake: Any, kit: Any, clock: Any
) -> None:
    fake.always = lambda _: kit.Answer()

    async def check(pool: ConnectionPool, post: Any) -> None:
        await post()
        clock.now += IDLE_LIMIT_S + 1
        await post()
        assert pool.opened == 2

    posting(check)


@pytest.mark.parametrize("sent", [-1, 0, 5])
def test_a_broken_reply_raises(posting: Any, fake: Any, kit: Any, sent: int) -> None:
    fake.always = lambda _: kit.Answer(body=b"0123456789", cut_after=sent)
    with pytest.raises(ConnectionFailedError):
        posting(lambda _, post: post())


def test_a_reply_that_is_not_http_raises(clock: Any, kit: Any) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()

    async def main() -> None:
        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(ConnectionFailedError, match="not HTTP"):
            await ConnectionPool().post(url, {}, b"")
        server.close()

    asyncio.run(main())


def test_an_endless_reply_is_refused(posting: Any, fake: Any, kit: Any) -> None:
    fake.always = lambda _: kit.Answer(body=bytes(MAX_REPLY_BYTES + 1))
    with pytest.raises(ConnectionFailedError, match="larger"):
        posting(lambda _, post: post())


def test_a_closed_port_raises(kit: Any) -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionFailedError, match="cannot connect"):
            await ConnectionPool().post(f"http://127.0.0.1:{port}/", {}, b"")

    asyncio.run(main())


def test_a_cancelled_request_gives_its_connection_up(posting: Any, fake: Any, kit: Any) -> None:
    """A reply that arrives late must not be taken for the next request's."""

    async def slow(_: Any) -> Any:
        await asyncio.sleep(0.05)
        return kit.Answer(body=b"late")

    fake.always = slow

    async def check(pool: ConnectionPool, post: Any) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await post()
        fake.always = lambda _: kit.Answer(body=b"mine")
        assert (await post()).body == b"mine"

    posting(check)


def test_a_header_cannot_smuggle_another(posting: Any, fake: Any) -> None:
    with pytest.raises(ValueError, match="line break"):
        posting(lambda _, post: post(headers={"X-A": "1\r\nX-B: 2"}))
    assert fake.calls == []


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    pem.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem, private


def test_https_is_spoken_and_its_certificate_checked(
    fake: Any, kit: Any, certificate: tuple[Path, Path]
) -> None:
    fake.always = lambda _: kit.Answer(body=b"safe")
    pem, private = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)

    async def main() -> None:
        server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        trusting = ConnectionPool(ca_bundle=str(pem))
        assert (await trusting.post(url, {}, b"")).body == b"safe"
        trusting.close()
        with pytest.raises(ConnectionFailedError, match="SSLCertVerificationError"):
            await ConnectionPool().post(url, {}, b"")
        server.close()

    asyncio.run(main())
