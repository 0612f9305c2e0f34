"""A policy behind any OpenAI-compatible server: vLLM, Ollama, Bedrock. Measured, not trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from rehearsal import tokens
from rehearsal.policies import ChatRequest, PolicyError, Sample

TIMEOUT_S = 300.0
CHECK_TIMEOUT_S = 10.0
_KEYS = ("reasoning_content", "reasoning")


class UpstreamPolicy:
    """Passes requests on and counts tokens; see Policy."""

    def __init__(self, url: str, model: str) -> None:
        self._base = url.rstrip("/")
        self._model = model
        self._http = httpx.AsyncClient(timeout=TIMEOUT_S)

    async def check(self) -> None:
        """Make sure that the server answers before a job's rollouts wait for it.

        Raises:
            PolicyError: it does not; names the URL.
        """
        try:
            await self._http.get(f"{self._base}/models", timeout=CHECK_TIMEOUT_S)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise PolicyError(f"upstream policy not reached at {self._base}: {reason}") from None

    async def sample(self, request: ChatRequest, draw: Callable[[int, str], float]) -> Sample:
        """The server's answer. Its draws are its own, so a seed does not repeat a run."""
        body = {
            "model": self._model,
            "messages": list(request.messages),
            "temperature": request.temperature,
            "top_p": request.top_p,
            "max_tokens": request.max_tokens,
            "seed": int(draw(request.turn, "seed") * 2**31),
            **request.extra,
        }
        if request.tools:
            body["tools"] = list(request.tools)
        try:
            response = await self._http.post(f"{self._base}/chat/completions", json=body)
        except httpx.HTTPError as error:
            raise PolicyError(f"upstream policy not reached: {error}") from None
        if response.status_code != httpx.codes.OK:
            raise PolicyError(
                f"upstream policy: {response.text[:300]}", status=response.status_code
            )
        return _sample(request, response)


def _sample(request: ChatRequest, response: httpx.Response) -> Sample:
    try:
        body = response.json()
        choice = body["choices"][0]
        message: dict[str, Any] = choice["message"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise PolicyError("upstream policy: the answer is not a chat completion") from None
    content = message.get("content")
    calls = tuple(message.get("tool_calls") or ())
    reasoning = next((message[key] for key in _KEYS if message.get(key)), "")
    ids = tokens.encode(reasoning) if reasoning else []
    ids += tokens.text_tokens(content) if content else []
    for call in calls:
        function = call["function"]
        ids += tokens.call_tokens(function["name"], function["arguments"])
    return Sample(
        content=content,
        tool_calls=calls,
        finish_reason=str(choice.get("finish_reason") or "stop"),
        token_ids=tuple(ids),
        logprobs=(),
        prefill_tokens=tokens.prefill_tokens(
            {"messages": request.messages, "tools": list(request.tools)}
        ),
        reasoning=reasoning,
    )
