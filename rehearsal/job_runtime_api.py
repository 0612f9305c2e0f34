"""The Job Runtime: sampling (OpenAI-compatible and Sample) and the rollout's feedback."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from rehearsal.errors import ServiceError, validation
from rehearsal.policies import ChatRequest, PolicyError, Sample
from rehearsal.trajectories import Trajectories

JOB_HEADER = "X-Amzn-SageMaker-Job-Arn"
TRAJECTORY_HEADER = "X-Amzn-SageMaker-Trajectory-Id"
MODEL_ID = "default"
_READ_KEYS = frozenset(
    ("messages", "tools", "temperature", "top_p", "max_tokens", "max_completion_tokens")
)
_SERVER_KEYS = frozenset(("model", "stream", "stream_options", "logprobs", "top_logprobs", "n"))


class JobRuntimeApi:
    """Routes of the Job Runtime."""

    def __init__(self, trajectories: Trajectories) -> None:
        self._trajectories = trajectories

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        body = await _json_object(request)
        sample = await self._sample(request, body)
        if body.get("stream"):
            options = body.get("stream_options")
            usage = isinstance(options, dict) and bool(options.get("include_usage"))
            chunks = stream_chunks(sample, include_usage=usage)
            return StreamingResponse(chunks, media_type="text/event-stream")
        return Response(
            json.dumps(completion(sample, logprobs=bool(body.get("logprobs")))),
            media_type="application/json",
        )

    async def models(self, request: Request) -> Response:
        """GET /v1/models."""
        return JSONResponse(
            {"object": "list", "data": [{"id": MODEL_ID, "object": "model", "owned_by": "job"}]}
        )

    async def sample(self, request: Request) -> Response:
        """POST /sample: a chat completion in the body, one in the answer."""
        answer = await self._sample(request, await _json_object(request))
        return Response(json.dumps(completion(answer)), media_type="application/json")

    async def sample_stream(self, request: Request) -> Response:
        """POST /sample-with-response-stream: the same as server-sent events."""
        answer = await self._sample(request, await _json_object(request))
        chunks = stream_chunks(answer, include_usage=True)
        return StreamingResponse(chunks, media_type="text/event-stream")

    async def complete_rollout(self, request: Request) -> Response:
        """POST /complete-rollout."""
        body = await _json_object(request)
        job_arn, trajectory_id = _feedback_ids(request, body)
        self._trajectories.complete(job_arn, trajectory_id, body.get("Status", "ready"))
        return JSONResponse({})

    async def update_reward(self, request: Request) -> Response:
        """POST /update-reward."""
        body = await _json_object(request)
        job_arn, trajectory_id = _feedback_ids(request, body)
        self._trajectories.reward(job_arn, trajectory_id, _rewards(body.get("Rewards")))
        return JSONResponse({})

    async def _sample(self, request: Request, body: Mapping[str, Any]) -> Sample:
        job_arn = _header(request, JOB_HEADER)
        trajectory_id = _header(request, TRAJECTORY_HEADER)
        defaults = self._trajectories.get(job_arn, trajectory_id).defaults
        chat = chat_request(body, defaults)
        try:
            return await self._trajectories.sample(job_arn, trajectory_id, chat)
        except PolicyError as error:
            raise ServiceError("InternalServiceError", str(error), error.status) from None


def chat_request(body: Mapping[str, Any], defaults: Mapping[str, Any]) -> ChatRequest:
    """Read a chat completion request.

    Raises:
        ServiceError: a member of the wrong form, by name.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise validation("messages: required, a list of at least one message")
    for number, message in enumerate(messages):
        _check_message(message, f"messages[{number}]")
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise validation("tools: must be a list of objects")
    max_tokens = body.get("max_completion_tokens") or body.get("max_tokens")
    return ChatRequest(
        messages=tuple(messages),
        tools=tuple(tools),
        temperature=_number(body, "temperature", defaults["temperature"], 0, 2),
        top_p=_number(body, "top_p", defaults["topP"], 0, 1),
        max_tokens=int(_number({"max_tokens": max_tokens}, "max_tokens", defaults["maxTokens"], 1)),
        extra={k: v for k, v in body.items() if k not in _READ_KEYS | _SERVER_KEYS},
    )


def _check_message(message: Any, where: str) -> None:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise validation(f"{where}: must be an object with a role")
    content = message.get("content")
    parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
    if not (content is None or isinstance(content, str) or parts):
        raise validation(f"{where}.content: must be a text or a list of parts")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        raise validation(
            f"{where}.tool_calls: must be calls, each with a function's name and arguments"
        )


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and all(
        isinstance(function.get(key), str) for key in ("name", "arguments")
    )


def completion(sample: Sample, *, logprobs: bool = False) -> dict[str, Any]:
    """A chat completion in the OpenAI form."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": sample.message(),
        "finish_reason": sample.finish_reason,
    }
    if logprobs:
        pairs = zip(sample.token_ids, sample.logprobs, strict=False)
        choice["logprobs"] = {
            "content": [
                {"token": f"token_id:{t}", "logprob": p, "bytes": None, "top_logprobs": []}
                for t, p in pairs
            ]
        }
    return {**_envelope("chat.completion"), "choices": [choice], "usage": _usage(sample)}


def stream_chunks(sample: Sample, *, include_usage: bool) -> Iterator[str]:
    """The same answer as server-sent events: role, content and tool calls, finish, usage."""

    def event(choices: list[dict[str, Any]], **more: Any) -> str:
        body = {**_envelope("chat.completion.chunk"), "choices": choices, **more}
        return f"data: {json.dumps(body)}\n\n"

    def delta(change: dict[str, Any], finish: str | None = None) -> str:
        return event([{"index": 0, "delta": change, "finish_reason": finish}])

    yield delta({"role": "assistant"})
    if sample.reasoning:
        yield delta({"reasoning_content": sample.reasoning})
    if sample.content:
        yield delta({"content": sample.content})
    for i, call in enumerate(sample.tool_calls):
        yield delta({"tool_calls": [{**call, "index": i}]})
    yield delta({}, sample.finish_reason)
    if include_usage:
        yield event([], usage=_usage(sample))
    yield "data: [DONE]\n\n"


def _envelope(kind: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-rehearsal",
        "object": kind,
        "created": int(time.time()),
        "model": MODEL_ID,
    }


def _usage(sample: Sample) -> dict[str, int]:
    return {
        "prompt_tokens": sample.prefill_tokens,
        "completion_tokens": sample.sample_tokens,
        "total_tokens": sample.prefill_tokens + sample.sample_tokens,
    }


def _number(
    body: Mapping[str, Any], key: str, default: float, low: float, high: float = math.inf
) -> float:
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise validation(f"{key}: {value!r} is not a number from {low:g} to {high:g}")
    return value


def _rewards(value: Any) -> list[float]:
    if not isinstance(value, list) or not value:
        raise validation("Rewards: required, a list of at least one number")
    for reward in value:
        if not isinstance(reward, int | float) or isinstance(reward, bool):
            raise validation(f"Rewards: {reward!r} is not a number")
        if not math.isfinite(reward):
            raise validation(f"Rewards: {reward!r} is not finite")
    return [float(reward) for reward in value]


def _feedback_ids(request: Request, body: Mapping[str, Any]) -> tuple[str, str]:
    """The SDK puts JobArn into the body, boto3 into a header; either is accepted."""
    job_arn = body.get("JobArn") or request.headers.get(JOB_HEADER)
    trajectory_id = body.get("TrajectoryId") or request.headers.get(TRAJECTORY_HEADER)
    for name, value in (("JobArn", job_arn), ("TrajectoryId", trajectory_id)):
        if not isinstance(value, str) or not value:
            raise validation(f"{name}: required, a string")
    return str(job_arn), str(trajectory_id)


def _header(request: Request, name: str) -> str:
    value = request.headers.get(name)
    if not value:
        raise validation(f"header {name} is missing")
    return value


async def _json_object(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise validation("the body is not JSON") from None
    if not isinstance(body, dict):
        raise validation("the body is not a JSON object")
    return body
