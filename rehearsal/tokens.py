"""Token counts of what a policy reads and writes, by a real tokenizer.

Conversations are laid out in the harmony format of the gpt-oss models and encoded with the o200k
vocabulary that the bpe-openai package ships. Special tokens part the messages, so a message's
tokens do not depend on its neighbours and are counted once per distinct text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import bpe_openai

START, END, MESSAGE, CHANNEL, CALL, RETURN = 200006, 200007, 200008, 200005, 200012, 200002
"""Ids of harmony's special tokens (o200k_harmony)."""
PIECE_CHARS = 50_000
"""The encoder refuses texts of more than 200,000 tokens, so longer ones are counted in pieces. A
character is four tokens at the most."""
REMEMBERED_CHARS = 20_000
REPLY_PROMPT_TOKENS = 2
"""`<|start|>assistant`, which opens the policy's turn."""


@cache
def _encoder() -> Any:
    return bpe_openai.get_encoding("o200k_base")


def encode(text: str) -> list[int]:
    """Token ids of plain text; what looks like a special token is plain too."""
    if len(text) <= PIECE_CHARS:
        return _encoder().encode_ordinary(text)
    starts = range(0, len(text), PIECE_CHARS)
    return [token for start in starts for token in encode(text[start : start + PIECE_CHARS])]


@lru_cache(maxsize=16_384)
def _counted(text: str) -> int:
    return len(encode(text))


def _length(text: str) -> int:
    """Tokens of a text; those of ordinary size are remembered."""
    return _counted(text) if len(text) <= REMEMBERED_CHARS else len(encode(text))


def prefill_tokens(request: Mapping[str, Any]) -> int:
    """Tokens that the policy reads for one chat completion request: tools, messages, opening."""
    total = REPLY_PROMPT_TOKENS
    if request.get("tools"):
        total += _length(json.dumps(request["tools"], sort_keys=True)) + 3
    return total + sum(_message_tokens(message) for message in request.get("messages", ()))


def _message_tokens(message: Mapping[str, Any]) -> int:
    """`<|start|>role<|message|>content<|end|>`, and a like frame around each tool call."""
    total = 0
    content = content_text(message.get("content"))
    if content or not message.get("tool_calls"):
        total += 3 + _length(str(message.get("role", ""))) + _length(content)
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        total += len(call_frame(str(function.get("name", "")))) + 3
        total += _length(str(function.get("arguments", "")))
    return total


def content_text(content: Any) -> str:
    """The text of a message's content, given as a string or as a list of parts."""
    if isinstance(content, str):
        return content
    parts: Sequence[Any] = content if isinstance(content, list) else ()
    return "".join(str(p.get("text", "")) for p in parts if isinstance(p, Mapping))


@cache
def call_frame(tool: str) -> tuple[int, ...]:
    """Tokens that open a tool call: channel, recipient, message."""
    return (CHANNEL, *encode(f"commentary to=functions.{tool}"), MESSAGE)


def call_tokens(tool: str, arguments: str) -> list[int]:
    """Token ids of a tool call as the policy writes it."""
    return [*call_frame(tool), *encode(arguments), CALL]


def text_tokens(text: str) -> list[int]:
    """Token ids of a final answer as the policy writes it."""
    return [CHANNEL, *encode("final"), MESSAGE, *encode(text), RETURN]
