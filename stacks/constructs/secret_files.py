"""Finds secrets among files that are about to be deployed, by their names and by what they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

KEY_SUFFIXES = frozenset({".pem", ".key", ".p12", ".pfx", ".jks"})
SECRET_STEMS = frozenset({"credentials", "secrets", "id_rsa", "id_ed25519"})
DOCUMENTED_KEY = rb"(?![A-Z0-9]{9}EXAMPLE)"
"""AWS's own documentation uses keys that end in EXAMPLE."""
CONTENT: Mapping[str, re.Pattern[bytes]] = {
    "an AWS access key": re.compile(
        rb"(?<![A-Z0-9])(?:AKIA|ASIA)" + DOCUMENTED_KEY + rb"[A-Z0-9]{16}(?![A-Z0-9])"
    ),
    "an AWS secret key": re.compile(
        rb"(?i)aws_secret_access_key['\"]?\s*[=:]\s*['\"]?(?![A-Za-z0-9/+]{30,}EXAMPLE)[A-Za-z0-9/+]{40}"
    ),
    "a private key": re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/]{32}"),
    "a bearer token": re.compile(rb"sagemaker-api-key-[A-Za-z0-9+/=]{20}"),
}


def secrets_in(files: Mapping[str, bytes]) -> list[str]:
    """What looks like a secret: "name (why)" for each file, in order of names."""
    return [f"{name} ({why})" for name in sorted(files) if (why := _suspicion(name, files[name]))]


def _suspicion(name: str, body: bytes) -> str:
    path = PurePosixPath(name)
    if path.suffix in KEY_SUFFIXES:
        return "the name of a key file"
    if path.stem in SECRET_STEMS and path.suffix != ".py":
        return "the name of a file of secrets"
    return next((what for what, pattern in CONTENT.items() if pattern.search(body)), "")
