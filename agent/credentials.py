"""Bearer tokens for the Job Runtime, minted from one refreshing botocore session a process.

In: a Region. Out: a token that is good for at least a moment, minted once for all who wait. The
blocking parts (credential providers, signing) run in a worker thread; the cache itself lives on one
event loop and needs no lock. Nothing is created before the first token is asked for, so a runtime
restored from a snapshot shares no credential with its siblings.
"""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.session import Session

TOKEN_PREFIX = "sagemaker-api-key-"
TOKEN_HOST = "sagemaker.amazonaws.com"
TOKEN_SIGNED_FOR_S = 43_200
"""Lifetime written into the signature, the longest that the service takes. The token still dies
with the credentials that signed it, which is why the cache keeps it for minutes only."""
TOKEN_KEPT_S = 300.0
REFUSALS_TO_RENEW = 2
"""Tokens of one key pair that the service refuses before the keys themselves are doubted."""
EXPIRY_MARGIN_S = 30.0
"""A token is not used in its credentials' last seconds: the request must still arrive in time."""


class CredentialsError(Exception):
    """No usable AWS credentials right now; worth another try."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Credentials that no refresh can change half-way through a signature."""

    credentials: Any
    """botocore's ReadOnlyCredentials."""
    expires_at: float | None
    """Unix seconds; None for credentials that do not expire."""


def mint_token(credentials: Any, region: str, *, expires_s: int = TOKEN_SIGNED_FOR_S) -> str:
    """Sign a bearer token with frozen credentials.

    The form is the one of the SageMaker SDK's token generator: a SigV4 query-presigned POST of
    CallWithBearerToken, its scheme cut off, base64.
    """
    request = AWSRequest(
        method="POST",
        url=f"https://{TOKEN_HOST}/",
        headers={"host": TOKEN_HOST},
        params={"Action": "CallWithBearerToken"},
    )
    SigV4QueryAuth(credentials, "sagemaker", region, expires=expires_s).add_auth(request)
    signed = str(request.url).removeprefix("https://") + "&Version=1"
    return TOKEN_PREFIX + base64.b64encode(signed.encode()).decode()


class SessionCredentials:
    """Snapshots from one botocore session, made at the first call and kept for the process."""

    def __init__(self, session_factory: Callable[[], Any] = Session) -> None:
        self._session_factory = session_factory
        self._session: Any = None
        # Guards the making of the session when two Regions mint at once, each in its thread.
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Begin a new session, whose provider asks for credentials anew.

        A session keeps credentials until they are due by their own account; keys that were revoked
        before that would be signed with for ever.
        """
        with self._lock:
            self._session = None

    def __call__(self) -> Snapshot:
        """Freeze the current credentials, refreshing them if they are due. Blocks on I/O.

        Raises:
            CredentialsError: the provider chain found none, or failed.
        """
        try:
            with self._lock:
                if self._session is None:
                    self._session = self._session_factory()
                found = self._session.get_credentials()
            if found is None:
                raise CredentialsError("no AWS credentials found by the provider chain")
            # A refresh between the two reads pairs new keys with the old, earlier expiry, never
            # the other way round.
            before = _expiry(found)
            frozen = found.get_frozen_credentials()
            after = _expiry(found)
        except CredentialsError:
            raise
        except Exception as error:
            raise CredentialsError(
                f"the credential provider failed ({type(error).__name__})"
            ) from error
        if not frozen or not frozen.access_key or not frozen.secret_key:
            raise CredentialsError("the credential provider returned no keys")
        known = [expiry for expiry in (before, after) if expiry is not None]
        return Snapshot(frozen, min(known) if known else None)


def _expiry(credentials: Any) -> float | None:
    """When refreshable credentials end. botocore keeps it in a private field and nowhere else."""
    moment = getattr(credentials, "_expiry_time", None)
    return moment.timestamp() if moment is not None else None


@dataclass(frozen=True, slots=True)
class _Kept:
    token: str
    access_key: str
    until: float


class TokenCache:
    """The current token of each Region.

    Use it from one event loop only.
    """

    def __init__(
        self,
        snapshot: SessionCredentials | Callable[[], Snapshot] | None = None,
        clock: Callable[[], float] = time.time,
        kept_s: float = TOKEN_KEPT_S,
    ) -> None:
        self._snapshot = snapshot or SessionCredentials()
        self._refused: Counter[str] = Counter()
        """Access key -> its tokens that the service refused."""
        self._clock = clock
        self._kept_s = kept_s
        self._kept: dict[str, _Kept] = {}
        self._minting: dict[str, asyncio.Task[str]] = {}

    async def token(self, region: str) -> str:
        """The Region's token, minted if there is none fresh enough.

        Raises:
            CredentialsError: no credentials; every waiter of this attempt gets it, the next
                caller tries anew.
        """
        kept = self._kept.get(region)
        if kept is not None and self._clock() < kept.until:
            return kept.token
        minting = self._minting.get(region)
        if minting is None:
            minting = asyncio.create_task(self._mint(region))
            self._minting[region] = minting
            minting.add_done_callback(lambda task: self._minted(region, task))
        # Shielded: a cancelled rollout must not take the token from the others that wait for it.
        return await asyncio.shield(minting)

    def drop(self, region: str, token: str) -> None:
        """Forget `token` after the service refused it; a newer one is left alone."""
        kept = self._kept.get(region)
        if kept is None or kept.token != token:
            return
        del self._kept[region]
        self._refused[kept.access_key] += 1

    async def _mint(self, region: str) -> str:
        snapshot = await asyncio.to_thread(self._current)
        token = mint_token(snapshot.credentials, region)
        until = self._clock() + self._kept_s
        if snapshot.expires_at is not None:
            until = min(until, snapshot.expires_at - EXPIRY_MARGIN_S)
        self._kept[region] = _Kept(token, snapshot.credentials.access_key, until)
        return token

    def _current(self) -> Snapshot:
        """The current credentials, asked for anew when the service keeps refusing them."""
        snapshot = self._snapshot()
        refused = self._refused[snapshot.credentials.access_key]
        if refused >= REFUSALS_TO_RENEW and isinstance(self._snapshot, SessionCredentials):
            self._refused.clear()
            self._snapshot.renew()
            snapshot = self._snapshot()
        return snapshot

    def _minted(self, region: str, task: asyncio.Task[str]) -> None:
        self._minting.pop(region, None)
        if not task.cancelled():
            task.exception()  # read, so that a failure without a waiter left is not logged
