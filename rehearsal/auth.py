"""Who may call: bearer tokens and SigV4 headers, checked as far as a local service can.

A bearer token is a presigned request (see docs/protocols.md); its signature and its expiry are
verified with the secret of the key that signed it. SigV4 headers of SDK calls are checked for the
key id alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

from rehearsal.errors import ServiceError

TOKEN_PREFIX = "sagemaker-api-key-"
TOKEN_HOST = "sagemaker.amazonaws.com"
MAX_TOKEN_SECONDS = 43_200
"""12 hours: the longest life of a bearer token."""
_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/")
_VERIFIED_KEPT = 256


class Verifier:
    """Checks Authorization headers against a set of credentials."""

    def __init__(self, secrets: Mapping[str, str], *, verify_signatures: bool = True) -> None:
        """
        Args:
            secrets: access key id -> secret key, of the keys that are alive at the moment of a
                look-up.
            verify_signatures: off when nobody here knows the secrets, as when the keys come from a
                token service; form and expiry are still checked.
        """
        self._secrets = secrets
        self._verify = verify_signatures
        self._verified: dict[str, tuple[str, float]] = {}
        """Token -> the key that signed it, and its own expiry."""

    def check(self, header: str | None) -> None:
        """Let a request in, or not.

        Raises:
            ServiceError: 401 without usable credentials, 403 with wrong or expired ones.
        """
        if not header:
            raise ServiceError("AccessDeniedException", "Authorization header is missing", 401)
        scheme, _, value = header.partition(" ")
        if scheme == "Bearer":
            self._check_bearer(value.strip())
        elif scheme == "AWS4-HMAC-SHA256":
            match = _CREDENTIAL.search(value)
            self._known_key(match[1] if match else "")
        else:
            raise ServiceError(
                "AccessDeniedException", "Authorization is neither Bearer nor SigV4", 401
            )

    def _check_bearer(self, token: str) -> None:
        if token not in self._verified:
            verified = self._verify_token(token)
            if len(self._verified) >= _VERIFIED_KEPT:
                self._verified.clear()
            self._verified[token] = verified
        key, expiry = self._verified[token]
        self._known_key(key)  # a token dies with the credentials that signed it
        if time.time() >= expiry:
            raise ServiceError("AccessDeniedException", "The bearer token has expired", 403)

    def _verify_token(self, token: str) -> tuple[str, float]:
        query = _token_query(token)
        key, _, scope = query.get("X-Amz-Credential", "").partition("/")
        secret = self._known_key(key)
        if self._verify and not hmac.compare_digest(
            _signature(query, scope, secret), query.get("X-Amz-Signature", "")
        ):
            raise ServiceError(
                "AccessDeniedException",
                "InvalidSignature: the bearer token's signature is wrong",
                403,
            )
        return key, _expiry(query)

    def _known_key(self, key: str) -> str:
        if self._verify and key not in self._secrets:
            raise ServiceError(
                "AccessDeniedException", "The access key id is not known, or has expired", 403
            )
        return self._secrets.get(key, "")


def _token_query(token: str) -> dict[str, str]:
    refused = ServiceError("AccessDeniedException", "The bearer token is malformed", 403)
    if not token.startswith(TOKEN_PREFIX):
        raise refused
    try:
        url = base64.b64decode(token[len(TOKEN_PREFIX) :], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise refused from None
    parts = urlsplit(f"https://{url}")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.netloc != TOKEN_HOST or query.get("Action") != "CallWithBearerToken":
        raise refused
    return query


def _expiry(query: Mapping[str, str]) -> float:
    try:
        signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        seconds = int(query["X-Amz-Expires"])
    except (KeyError, ValueError):
        raise ServiceError(
            "AccessDeniedException", "The bearer token has no readable expiry", 403
        ) from None
    if not 0 < seconds <= MAX_TOKEN_SECONDS:
        raise ServiceError(
            "AccessDeniedException", "The bearer token's expiry is out of range", 403
        )
    return signed.timestamp() + seconds


def _signature(query: Mapping[str, str], scope: str, secret: str) -> str:
    """SigV4 of a presigned POST to the token host, per AWS's description of query signing."""
    signed = sorted((k, v) for k, v in query.items() if k not in ("X-Amz-Signature", "Version"))
    canonical_query = "&".join(
        f"{quote(k, safe='~-_.')}={quote(v, safe='~-_.')}" for k, v in signed
    )
    canonical = "\n".join(
        ["POST", "/", canonical_query, f"host:{TOKEN_HOST}\n", "host", hashlib.sha256().hexdigest()]
    )
    to_sign = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            query.get("X-Amz-Date", ""),
            scope,
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
