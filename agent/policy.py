"""The policy as a Strands model, sampled through the Job Runtime.

In: Strands' messages and tools. Out: Strands' stream events, and each answer as a `Sample` for the
trace. What belongs to a rollout (headers, parameters, deadline) is a frozen value of that rollout's
own model and travels with each request; the process shares the connection pool, the token, and the
knowledge of which endpoints take no `reasoning_effort`.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from strands.models.model import Model

from agent.chat import MODEL_ID, Sample, ToolCall, format_request, read_completion, read_stream
from agent.job_runtime import CallRefusedError, Deadline, JobRuntime
from agent.payload import InferenceParams, Trajectory
from agent.row import EFFORT

CHAT_PATH = "/v1/chat/completions"
SAMPLE_TIMEOUT_S = 200.0
"""One attempt at a sample: 8,192 tokens at 40 a second, and still half of the default budget."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy endpoints of this process; `model` makes one rollout's model."""

    runtime: JobRuntime
    stream: bool = False
    without_effort: set[str] = field(default_factory=set)
    """Endpoints that refused `reasoning_effort`, so that it is not sent there again."""

    def model(self, rollout: RolloutSampling, sampled: Callable[[Sample], None]) -> PolicyModel:
        """A Strands model for one rollout; `sampled` hears of each answer."""
        return PolicyModel(self, rollout, sampled)

    def takes_effort(self, trajectory: Trajectory) -> bool:
        """False once the trajectory's endpoint refused `reasoning_effort`."""
        return (trajectory.endpoint or "") not in self.without_effort

    async def sample(self, rollout: RolloutSampling, query: Query) -> Sample:
        """Ask for one answer.

        Raises:
            RuntimeCallError: refused, or still failing at the rollout's deadline.
        """
        effort = rollout.reasoning_effort
        if effort and self.takes_effort(rollout.trajectory):
            try:
                return await self._sample(rollout, query, {EFFORT: effort})
            except CallRefusedError as error:
                if error.status not in (400, 422) or EFFORT not in str(error):
                    raise
                self.without_effort.add(rollout.trajectory.endpoint or "")
        return await self._sample(rollout, query, {})

    async def _sample(
        self, rollout: RolloutSampling, query: Query, extra: dict[str, Any]
    ) -> Sample:
        fields = {**rollout.inference.as_request(), **extra}
        request = format_request(
            query.messages,
            query.tool_specs,
            query.system_prompt,
            fields,
            stream=self.stream,
        )
        started = time.perf_counter()
        sample = await self.runtime.post(
            rollout.trajectory,
            CHAT_PATH,
            json.dumps(request).encode(),
            deadline=rollout.deadline,
            attempt_s=SAMPLE_TIMEOUT_S,
            headers=rollout.headers,
            read=read_stream if self.stream else read_completion,
        )
        return replace(sample, seconds=time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class RolloutSampling:
    """What makes the requests of one rollout its own."""

    trajectory: Trajectory
    inference: InferenceParams
    reasoning_effort: str | None
    deadline: Deadline

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which the service files a sample under its trajectory."""
        return {
            "X-Amzn-SageMaker-Job-Arn": self.trajectory.job_arn,
            "X-Amzn-SageMaker-Trajectory-Id": self.trajectory.trajectory_id,
        }


@dataclass(frozen=True, slots=True)
class Query:
    """What the policy reads for one answer, in Strands' format."""

    messages: list[Any]
    tool_specs: list[Any] | None
    system_prompt: str | None


class SampledModel(Model):
    """A Strands model that answers whole: subclasses say what in `answer`."""

    def __init__(self, sampled: Callable[[Sample], None]) -> None:
        self.config = {"model_id": MODEL_ID}
        self._sampled = sampled
        self._turn = 0

    @abstractmethod
    async def answer(self, query: Query) -> Sample:
        """The next answer in a conversation."""

    def update_config(self, **model_config: Any) -> None:
        """Strands' interface; a rollout's parameters are fixed, so nothing may change.

        Raises:
            TypeError: always.
        """
        raise TypeError("a rollout's model takes its parameters from the payload only")

    def get_config(self) -> Any:
        """Strands' interface."""
        return self.config

    async def count_tokens(self, *args: Any, **kwargs: Any) -> int:
        """No estimate: it would serve context management, which a rollout has none of."""
        return 0

    async def structured_output(
        self, *args: Any, **kwargs: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Strands' interface; a rollout has no use for it.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("the policy is sampled with tools only")
        yield {}

    async def stream(
        self,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: str | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Take one answer, report it, and replay it as Strands' events.

        The reasoning goes to the trace and not into the history: the chat protocol has no place
        for it there.
        """
        sample = await self.answer(Query(messages, tool_specs, system_prompt))
        self._turn += 1
        self._sampled(sample)
        for event in stream_events(sample, self._turn):
            yield event


class PolicyModel(SampledModel):
    """One rollout's Strands model, answered by the policy endpoint."""

    def __init__(
        self, policy: Policy, rollout: RolloutSampling, sampled: Callable[[Sample], None]
    ) -> None:
        super().__init__(sampled)
        self._policy = policy
        self._rollout = rollout

    async def answer(self, query: Query) -> Sample:
        """Sample the policy.

        Raises:
            RuntimeCallError: refused, or still failing at the rollout's deadline.
        """
        return await self._policy.sample(self._rollout, query)


def stream_events(sample: Sample, turn: int) -> list[dict[str, Any]]:
    """A sample as the events that Strands expects from a model.

    `turn` makes an id for a tool call that came without one. Of an answer that was cut at its
    token limit, whole tool calls are played and broken ones left out.
    """
    cut = sample.finish_reason == "length"
    calls = [call for call in sample.tool_calls if not cut or call.well_formed]
    events: list[dict[str, Any]] = [{"messageStart": {"role": "assistant"}}]
    if sample.text:
        events += _block({}, {"text": sample.text})
    for position, call in enumerate(calls):
        events += _tool_block(call, f"call_{turn}_{position}")
    events.append({"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}})
    usage = {
        "inputTokens": sample.prefill_tokens,
        "outputTokens": sample.sample_tokens,
        "totalTokens": sample.prefill_tokens + sample.sample_tokens,
    }
    events.append({"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}})
    return events


def _tool_block(call: ToolCall, spare_id: str) -> list[dict[str, Any]]:
    start = {"toolUse": {"name": call.name or "unnamed", "toolUseId": call.id or spare_id}}
    return _block(start, {"toolUse": {"input": call.arguments if call.well_formed else "{}"}})


def _block(start: dict[str, Any], delta: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"contentBlockStart": {"start": start}},
        {"contentBlockDelta": {"delta": delta}},
        {"contentBlockStop": {}},
    ]
