"""What may not leave the agent in a log line, a trace or an error: tokens and account ids."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"sagemaker-api-key-[A-Za-z0-9+/=_-]*|\bbearer\s+\S+", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")


def redact(text: str) -> str:
    """`text` with bearer tokens and twelve-digit AWS account ids blanked."""
    return _ACCOUNT.sub("[account]", _TOKEN.sub("[token]", text))
