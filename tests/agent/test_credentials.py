"""Bearer tokens: the SDK's format, one mint for all waiters, never past the keys' own end."""

from __future__ import annotations

import asyncio
import base64
import datetime
from typing import Any

import pytest
from botocore.credentials import Credentials, ReadOnlyCredentials, RefreshableCredentials

from agent.credentials import (
    EXPIRY_MARGIN_S,
    TOKEN_KEPT_S,
    CredentialsError,
    SessionCredentials,
    Snapshot,
    TokenCache,
    mint_token,
)

KEYS = ReadOnlyCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "tok/en+=")
NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, tzinfo=datetime.UTC)
# What sagemaker 3.27's token generator signs for KEYS, us-west-2 and NOON.
SIGNED_BY_THE_SDK = (
    "sagemaker.amazonaws.com/?"
    "Action=CallWithBearerToken"
    "&X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Fus-west-2%2Fsagemaker%2Faws4_request"
    "&X-Amz-Date=20260102T120000Z"
    "&X-Amz-Expires=43200"
    "&X-Amz-SignedHeaders=host"
    "&X-Amz-Security-Token=tok%2Fen%2B%3D"
    "&X-Amz-Signature=f10739fe26bc583a607b0e2d7559c4804ac009a4908b3ad6f690816f50f7b2f2"
    "&Version=1"
)


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore signs at a fixed moment."""
    monkeypatch.setattr(
        "botocore.auth.get_current_datetime", lambda remove_tzinfo=True: NOON.replace(tzinfo=None)
    )


def test_a_token_is_byte_for_byte_the_sdks(noon: None) -> None:
    encoded = base64.b64encode(SIGNED_BY_THE_SDK.encode()).decode()
    assert mint_token(KEYS, "us-west-2") == f"sagemaker-api-key-{encoded}"


def test_a_token_holds_the_presigned_call_and_no_secret_key(noon: None) -> None:
    url = base64.b64decode(mint_token(KEYS, "eu-west-1").removeprefix("sagemaker-api-key-"))
    assert url.startswith(b"sagemaker.amazonaws.com/?Action=CallWithBearerToken&")
    assert url.endswith(b"&Version=1")
    assert b"%2Feu-west-1%2Fsagemaker%2Faws4_request" in url
    assert KEYS.secret_key.encode() not in url


class Provider:
    """Snapshots that can be counted, delayed and made to fail."""

    def __init__(self, expires_at: float | None = None) -> None:
        self.expires_at = expires_at
        self.taken = 0
        self.failures = 0

    def __call__(self) -> Snapshot:
        self.taken += 1
        if self.failures:
            self.failures -= 1
            raise CredentialsError("not now")
        keys = KEYS._replace(access_key=f"AKID{self.taken}")
        return Snapshot(keys, self.expires_at)


def test_all_waiters_share_one_mint() -> None:
    async def main() -> None:
        provider = Provider()
        cache = TokenCache(provider)
        tokens = await asyncio.gather(*[cache.token("us-east-1") for _ in range(128)])
        assert provider.taken == 1
        assert len(set(tokens)) == 1

    asyncio.run(main())


def test_each_region_has_its_own_token() -> None:
    async def main() -> None:
        cache = TokenCache(Provider())
        assert await cache.token("us-east-1") != await cache.token("us-west-2")

    asyncio.run(main())


def test_a_token_is_kept_for_minutes_and_then_replaced(clock: Any) -> None:
    async def main() -> None:
        provider = Provider()
        cache = TokenCache(provider, clock=clock)
        first = await cache.token("us-east-1")
        clock.now += TOKEN_KEPT_S - 1
        assert await cache.token("us-east-1") == first
        clock.now += 1
        assert await cache.token("us-east-1") != first

    asyncio.run(main())


def test_a_token_never_outlives_its_credentials(clock: Any) -> None:
    async def main() -> None:
        provider = Provider(expires_at=clock.now + 100)
        cache = TokenCache(provider, clock=clock)
        first = await cache.token("us-east-1")
        clock.now += 100 - EXPIRY_MARGIN_S
        provider.expires_at = clock.now + 3600
        assert await cache.token("us-east-1") != first

    asyncio.run(main())


def test_a_refused_token_is_minted_again_once_for_everyone() -> None:
    async def main() -> None:
        provider = Provider()
        cache = TokenCache(provider)
        refused = fresh = await cache.token("us-east-1")
        for _ in range(128):  # every rollout that used it reports the refusal
            cache.drop("us-east-1", refused)
            fresh = await cache.token("us-east-1")
        assert provider.taken == 2
        assert fresh != refused

    asyncio.run(main())


def test_a_failed_mint_reaches_its_waiters_and_the_next_caller_tries_anew() -> None:
    async def main() -> None:
        provider = Provider()
        provider.failures = 1
        cache = TokenCache(provider)
        results = await asyncio.gather(
            *[cache.token("us-east-1") for _ in range(5)], return_exceptions=True
        )
        assert all(isinstance(result, CredentialsError) for result in results)
        assert await cache.token("us-east-1")
        assert provider.taken == 2

    asyncio.run(main())


def test_a_cancelled_waiter_leaves_the_mint_to_the_others() -> None:
    async def main() -> None:
        provider = Provider()
        cache = TokenCache(provider)
        leaving = asyncio.create_task(cache.token("us-east-1"))
        staying = asyncio.create_task(cache.token("us-east-1"))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await staying
        assert provider.taken == 1

    asyncio.run(main())


class Session:
    """A botocore session whose provider chain finds what it is told to find."""

    def __init__(self, *found: Any) -> None:
        self.found = list(found)

    def get_credentials(self) -> Any:
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]


def refreshable(clock: Any, life_s: float) -> RefreshableCredentials:
    """Role credentials that rotate: every refresh gives new keys for `life_s` seconds."""
    issued = iter(range(1, 1000))

    def moment() -> datetime.datetime:
        return datetime.datetime.fromtimestamp(clock.now, datetime.UTC)

    def refresh() -> dict[str, str]:
        number = next(issued)
        return {
            "access_key": f"AKID{number}",
            "secret_key": f"secret{number}",
            "token": f"token{number}",
            "expiry_time": (moment() + datetime.timedelta(seconds=life_s)).isoformat(),
        }

    first = refresh()
    return RefreshableCredentials(
        first["access_key"],
        first["secret_key"],
        first["token"],
        datetime.datetime.fromisoformat(first["expiry_time"]),
        refresh,
        "test",
        time_fetcher=moment,
    )


def test_static_keys_have_no_end() -> None:
    snapshot = SessionCredentials(lambda: Session(Credentials("a", "b", "c")))()
    assert snapshot.expires_at is None
    assert snapshot.credentials.access_key == "a"


def test_one_session_serves_the_process() -> None:
    made = []
    source = SessionCredentials(lambda: made.append(1) or Session(Credentials("a", "b")))
    assert source() == source()
    assert made == [1]


def test_keys_that_were_revoked_before_their_end_are_asked_for_anew() -> None:
    """Botocore would sign with them until they are due; the second refusal ends that."""
    made = []

    def session() -> Session:
        made.append(len(made))
        return Session(Credentials(f"AKID{made[-1]}", "secret"))

    async def main() -> None:
        cache = TokenCache(SessionCredentials(session))
        for expected in (1, 1, 2, 2, 3):
            token = await cache.token("us-east-1")
            assert len(made) == expected
            cache.drop("us-east-1", token)
            cache.drop("us-east-1", token)  # a second rollout's refusal of it is no second one

    asyncio.run(main())


@pytest.mark.parametrize(
    "found",
    [None, Credentials("", ""), RuntimeError("provider exploded with secret wJalr")],
    ids=["none", "empty keys", "raises"],
)
def test_a_provider_that_finds_nothing_is_a_reason_without_a_secret(found: Any) -> None:
    class Failing(Session):
        def get_credentials(self) -> Any:
            if isinstance(found, Exception):
                raise found
            return found

    with pytest.raises(CredentialsError) as caught:
        SessionCredentials(lambda: Failing(found))()
    assert "wJalr" not in str(caught.value)


def test_a_snapshot_never_mixes_two_key_sets_and_never_overstates_its_end(clock: Any) -> None:
    keys = refreshable(clock, life_s=3600)
    source = SessionCredentials(lambda: Session(keys))
    for _ in range(50):
        clock.now += 700
        snapshot = source()
        number = snapshot.credentials.access_key.removeprefix("AKID")
        assert snapshot.credentials.secret_key == f"secret{number}"
        assert snapshot.credentials.token == f"token{number}"
        assert snapshot.expires_at is not None
        assert keys._expiry_time is not None
        assert snapshot.expires_at <= keys._expiry_time.timestamp()


def test_two_hours_of_rotating_keys_never_yield_a_dead_token(clock: Any) -> None:
    """Keys live 15 minutes; a request every 20 s must always carry a token still alive."""
    keys = refreshable(clock, life_s=900)
    died_at: dict[str, float] = {}

    def snapshot() -> Snapshot:
        taken = source()
        died_at[taken.credentials.access_key] = keys._expiry_time.timestamp()  # type: ignore[union-attr]
        return taken

    source = SessionCredentials(lambda: Session(keys))

    async def main() -> None:
        cache = TokenCache(snapshot, clock=clock)
        for _ in range(360):
            token = await cache.token("us-east-1")
            url = base64.b64decode(token.removeprefix("sagemaker-api-key-")).decode()
            used = next(key for key in died_at if f"Credential={key}%2F" in url)
            assert clock.now < died_at[used]
            clock.now += 20

    asyncio.run(main())
    assert len(died_at) > 5
