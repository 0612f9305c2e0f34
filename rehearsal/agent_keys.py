"""The keys that a runtime fetches for itself: short-lived, rotating, dead when they expire.

In AgentCore a runtime has no fixed keys; botocore reads them from a credentials endpoint and
fetches new ones when they are due. This is that endpoint, and the ring of all keys that are alive.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rehearsal.errors import ServiceError, not_found

PATH = "/_credentials"
"""No bucket can have this name."""
TOKEN_VARIABLE = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
"""Environment variable with the text that a caller has to send as its Authorization header."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """One key pair as it was handed out."""

    access_key: str
    secret_key: str
    session_token: str
    expires_at: float
    """Unix seconds."""

    def to_wire(self) -> dict[str, str]:
        """The JSON form of the container credentials protocol."""
        return {
            "AccessKeyId": self.access_key,
            "SecretAccessKey": self.secret_key,
            "Token": self.session_token,
            "Expiration": datetime.fromtimestamp(self.expires_at, UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            ),
        }


class KeyRing(Mapping[str, str]):
    """Access key id -> secret of the keys that are alive: the fixed ones and the issued ones."""

    def __init__(self, fixed: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        self._fixed = dict(fixed)
        self._clock = clock
        self._issued: dict[str, tuple[str, float]] = {}

    def issue(self, life_s: float) -> IssuedKey:
        """Hand out a new key pair for `life_s` seconds."""
        now = self._clock()
        self._issued = {key: kept for key, kept in self._issued.items() if kept[1] > now}
        key = IssuedKey(
            f"ASIA{secrets.token_hex(8).upper()}",
            secrets.token_urlsafe(30),
            secrets.token_urlsafe(60),
            now + life_s,
        )
        self._issued[key.access_key] = (key.secret_key, key.expires_at)
        return key

    def revoke(self, access_key: str, after_s: float) -> None:
        """Let an issued key die `after_s` seconds from now, if it lives that long."""
        if access_key in self._issued:
            secret, until = self._issued[access_key]
            self._issued[access_key] = (secret, min(until, self._clock() + after_s))

    def __getitem__(self, access_key: str) -> str:
        if access_key in self._fixed:
            return self._fixed[access_key]
        secret, until = self._issued[access_key]
        if self._clock() >= until:
            raise KeyError(access_key)
        return secret

    def __iter__(self) -> Iterator[str]:
        return iter([*self._fixed, *(key for key in self._issued if key in self)])

    def __len__(self) -> int:
        return sum(1 for _ in self)


class AgentKeysApi:
    """Route of the credentials endpoint."""

    def __init__(self, ring: KeyRing, life_s: float | None, token: str) -> None:
        """
        Args:
            life_s: seconds that each key lives; None offers no keys.
            token: the Authorization header that callers must send; empty lets nobody in.
        """
        self._ring = ring
        self._life_s = life_s
        self._token = token

    async def get(self, request: Request) -> Response:
        """A new key pair.

        Raises:
            ServiceError: not offered (400), or the caller may not have one (403).
        """
        if self._life_s is None:
            raise not_found("This service hands out no keys.")
        sent = request.headers.get("authorization", "")
        if not self._token or not hmac.compare_digest(sent.encode(), self._token.encode()):
            raise ServiceError("AccessDeniedException", "The authorization token is wrong", 403)
        return JSONResponse(self._ring.issue(self._life_s).to_wire())
