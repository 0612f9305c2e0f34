"""Keys that agents fetch: who gets them, how long they live, and what dies with them."""

from __future__ import annotations

from typing import Any

import httpx
from botocore.credentials import ContainerProvider, ReadOnlyCredentials

from agent.credentials import SessionCredentials, mint_token
from rehearsal.agent_keys import PATH, KeyRing
from rehearsal.auth import Verifier
from rehearsal.errors import ServiceError
from rehearsal.settings import Fault


class Session:
    """A botocore session that has nothing but the credentials endpoint."""

    def __init__(self, url: str, token: str) -> None:
        environ = {
            ContainerProvider.ENV_VAR_FULL: f"{url}{PATH}",
            ContainerProvider.ENV_VAR_AUTH_TOKEN: token,
        }
        self._loaded = ContainerProvider(environ).load()

    def get_credentials(self) -> Any:
        return self._loaded


def admitted(verifier: Verifier, token: str) -> bool:
    try:
        verifier.check(f"Bearer {token}")
    except ServiceError as error:
        assert error.status == 403
        return False
    return True


def test_botocore_reads_the_endpoint_and_signs_tokens_that_the_service_takes(
    faulty: Any, keys_token: str
) -> None:
    with faulty({}, agent_keys_s=3600) as service:
        snapshot = SessionCredentials(lambda: Session(service.url, keys_token))()
        service.open()
        token = mint_token(snapshot.credentials, "us-east-1")
        assert snapshot.expires_at is not None
        report = {"JobArn": "x", "TrajectoryId": "t-1"}
        reply = service.post("/complete-rollout", report, Authorization=f"Bearer {token}")
        assert reply.status_code == 404  # let in; there is no such job


def test_only_the_launchers_token_gets_keys_and_only_where_they_are_offered(
    faulty: Any, keys_token: str
) -> None:
    with faulty({}, agent_keys_s=60) as service:
        url = f"{service.url}{PATH}"
        assert httpx.get(url).status_code == 403
        assert httpx.get(url, headers={"Authorization": "guessed"}).status_code == 403
        assert httpx.get(url, headers={"Authorization": keys_token}).status_code == 200
    with faulty({}) as service:
        reply = httpx.get(f"{service.url}{PATH}", headers={"Authorization": keys_token})
        assert reply.status_code == 400


def test_a_token_dies_with_its_key() -> None:
    now = [1000.0]
    ring = KeyRing({"FIXED": "secret"}, lambda: now[0])
    verifier = Verifier(ring)
    key = ring.issue(60)
    keys = ReadOnlyCredentials(key.access_key, key.secret_key, key.session_token)
    token = mint_token(keys, "us-east-1")
    assert admitted(verifier, token)
    now[0] += 59
    assert admitted(verifier, token)
    now[0] += 1
    assert not admitted(verifier, token)
    assert set(ring) == {"FIXED"}


def test_a_revoked_key_dies_before_it_expires_and_others_live_on() -> None:
    now = [1000.0]
    ring = KeyRing({}, lambda: now[0])
    first, second = ring.issue(60), ring.issue(60)
    ring.revoke(first.access_key, 5)
    ring.revoke("unknown", 0)
    now[0] += 5
    assert set(ring) == {second.access_key}


def test_keys_mixed_from_two_pairs_sign_nothing_that_is_let_in() -> None:
    """What a rotation in the middle of a signature makes of a token."""
    ring = KeyRing({"FIXED": "secret"})
    one, two = ring.issue(60), ring.issue(60)
    mixed = ReadOnlyCredentials(one.access_key, two.secret_key, two.session_token)
    assert not admitted(Verifier(ring), mint_token(mixed, "us-east-1"))


def test_faults_of_the_endpoint(faulty: Any, keys_token: str) -> None:
    def fetched(service: Any) -> dict[str, str]:
        headers = {"Authorization": keys_token}
        return httpx.get(f"{service.url}{PATH}", headers=headers).json()

    with faulty({Fault.CREDENTIALS_MISSING: 1.0}, agent_keys_s=3600) as service:
        assert fetched(service) == {}
    with faulty({Fault.CREDENTIALS_REVOKED: 1.0}, agent_keys_s=3600, revoked_after_s=0) as service:
        assert fetched(service)["AccessKeyId"] not in service.service.keys
    with faulty({Fault.CREDENTIALS_ROTATING: 1.0}, agent_keys_s=3600) as service:
        session = Session(service.url, keys_token)
        read = {session.get_credentials().access_key for _ in range(3)}
        assert len(read) == 3  # every read fetches another pair
