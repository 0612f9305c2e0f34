"""Calls the agent's HTTP server: one POST per rollout, as the training service makes it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

SESSION_HEADER = "X-Amzn-Bedrock-AgentCore-Runtime-Session-Id"
INVOCATIONS = "/invocations"


class AgentUnreachable(Exception):
    """The agent gave no usable HTTP answer; the message says why."""


class AgentDown(AgentUnreachable):
    """The agent accepts no connection: no rollout was started, and it may be restarting."""


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What an invocation returned; the reward itself arrives by UpdateReward."""

    status: str
    error: str | None
    trace: dict[str, Any] | None


class AgentClient:
    """Invokes the agent. With several servers, a rollout's id decides which one plays it."""

    def __init__(self, urls: Sequence[str], connections: int) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._http = httpx.AsyncClient(limits=limits, timeout=None, trust_env=False)

    async def invoke(
        self, prompt: str, metadata: Mapping[str, str], inference: Mapping[str, float | int]
    ) -> AgentReply:
        """Start one rollout and wait until the agent answers.

        Raises:
            AgentDown: no connection.
            AgentUnreachable: the connection broke, or an HTTP error.
        """
        trajectory_id = metadata["rolloutId"]
        payload = {
            "prompt": prompt,
            "metadata": dict(metadata),
            "inferenceParams": dict(inference),
        }
        try:
            response = await self._http.post(
                self._server(trajectory_id) + INVOCATIONS,
                json=payload,
                headers={SESSION_HEADER: trajectory_id},
            )
        except httpx.ConnectError as error:
            raise AgentDown(f"agent not reached: {error}") from None
        except httpx.HTTPError as error:
            raise AgentUnreachable(f"agent not reached: {type(error).__name__}: {error}") from None
        if response.status_code != httpx.codes.OK:
            raise AgentUnreachable(
                f"agent answered HTTP {response.status_code}: {response.text[:200]}"
            )
        return _reply(response)

    def _server(self, trajectory_id: str) -> str:
        digest = hashlib.blake2b(trajectory_id.encode(), digest_size=4).digest()
        return self._urls[int.from_bytes(digest, "big") % len(self._urls)]

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _reply(response: httpx.Response) -> AgentReply:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return AgentReply("completed", None, None)
    trace = body.get("trace")
    return AgentReply(
        status=str(body.get("status", "completed")),
        error=body.get("error"),
        trace=trace if isinstance(trace, dict) else None,
    )
