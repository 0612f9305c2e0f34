"""What answers a chat completion: the policies of a rehearsal and the contract they share.

A policy sees the request's messages and a draw, nothing else: not the row, not the game, not the
reward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class PolicyError(Exception):
    """The policy could not answer; `status` is what the endpoint returns."""

    def __init__(self, message: str, status: int = 502) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The part of a chat completion request that a policy may read."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    temperature: float
    top_p: float
    max_tokens: int
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other request fields, such as reasoning_effort."""

    @property
    def turn(self) -> int:
        """How many answers the policy has given before, from 0."""
        return sum(message.get("role") == "assistant" for message in self.messages)


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer of a policy."""

    content: str | None
    tool_calls: tuple[dict[str, Any], ...]
    finish_reason: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Log-probability of each token under the distribution it was drawn from."""
    prefill_tokens: int
    score_K: NDArray[np.float32] | None = None
    """Gradient of the answer's log-probability by the K weights; None when not trainable."""
    reasoning: str = ""

    @property
    def sample_tokens(self) -> int:
        """Tokens that the policy wrote."""
        return len(self.token_ids)

    def message(self) -> dict[str, Any]:
        """The assistant message in the OpenAI form."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = list(self.tool_calls)
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        return message


class Policy(Protocol):
    """Answers chat completions."""

    async def sample(self, request: ChatRequest, draw: Callable[[int, str], float]) -> Sample:
        """Answer a request.

        Args:
            draw: (turn, purpose) -> a number in [0, 1); the only randomness allowed.

        Raises:
            PolicyError: no answer can be given.
        """
        ...


def tool_call(turn: int, name: str, arguments: str) -> dict[str, Any]:
    """A tool call in the OpenAI form; its id depends on the turn alone."""
    return {
        "id": f"call_{turn}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
