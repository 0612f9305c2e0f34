"""Lists in pages: MaxResults and NextToken, as AWS list operations have them."""

from __future__ import annotations

from typing import Any

from rehearsal.errors import validation

PAGE_SIZE = 100


def page(key: str, items: list[dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
    """One page of `items` under `key`.

    Raises:
        ServiceError: a NextToken that no page gave out.
    """
    token = body.get("NextToken") or "0"
    if not (isinstance(token, str) and token.isascii() and token.isdigit()):
        raise validation("NextToken: not a token of this list")
    size = max(1, min(int(body.get("MaxResults") or PAGE_SIZE), PAGE_SIZE))
    start = int(token)
    found = {key: items[start : start + size]}
    if start + size < len(items):
        found |= {"NextToken": str(start + size)}
    return found
