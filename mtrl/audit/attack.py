"""One adversary against one episode, in the agent's own loop: nothing of the loop is imitated."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

from strands.models.model import Model

from agent.audit import Adversary, AuditHooks, Sent
from agent.chat import Sample, ToolCall
from agent.job_runtime import Deadline
from agent.play import Limits, play
from agent.policy import stream_events
from agent.settings import Settings
from agent.task import Task
from agent.trace import TurnLog
from mtrl.audit.exploits import Attack

EPISODE_S = 30.0
"""An adversary that keeps the loop longer than this has found a fault of another kind."""
NOISY = ("strands", "agent")
"""Loggers of what the adversaries do wrong."""


class AdversaryModel(Model):
    """An adversary as a Strands model; keeps all that it was sent."""

    def __init__(self, adversary: Adversary, sampled: Callable[[Sample], None]) -> None:
        self.sent: list[Sent] = []
        """One an answer: the whole conversation until then."""
        self._adversary = adversary
        self._sampled = sampled

    def update_config(self, **model_config: Any) -> None:
        """Strands' interface; there is nothing to configure."""

    def get_config(self) -> Any:
        """Strands' interface."""
        return {"model_id": "adversary"}

    async def structured_output(
        self, *args: Any, **kwargs: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Strands' interface; the loop never asks for it.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("an adversary gives no structured output")
        yield {}

    async def stream(
        self,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: str | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """One answer as Strands' events."""
        sent = Sent(system_prompt or "", json.loads(json.dumps(messages)), tuple(tool_specs or ()))
        self.sent.append(sent)
        answer = self._adversary(sent)
        calls = tuple(ToolCall("", name, json.dumps(given)) for name, given in answer.calls)
        sample = Sample(answer.text, "", calls, "tool_calls" if calls else "stop")
        self._sampled(sample)
        for event in stream_events(sample, len(self.sent)):
            yield event


def attack(hooks: AuditHooks, task: Task, row: str, adversary: Adversary) -> Attack:
    """Play one episode and look through everything that was said."""
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return asyncio.run(_attack(hooks, task, row, adversary))


async def _attack(hooks: AuditHooks, task: Task, row: str, adversary: Adversary) -> Attack:
    episode, log = task.start(row), TurnLog()
    model = AdversaryModel(adversary, log.sampled)
    loop = asyncio.get_running_loop()
    limits = Limits(Settings().max_policy_calls, Deadline(loop.time() + EPISODE_S, loop.time))
    stop_reason = await play(episode, model, log, limits)
    reward = episode.reward()
    success = {outcome.name: outcome.success for outcome in hooks.outcomes}
    own = json.dumps([move.arguments for turn in log.turns for move in turn.moves]).lower()
    told = [*_texts(model.sent), *(move.feedback for turn in log.turns for move in turn.moves)]
    # What no policy is sent but every trace keeps must not hold it either.
    told += [repr(episode), json.dumps(episode.summary())]
    secrets = [secret for secret in hooks.secrets(row) if secret.lower() not in own]
    return Attack(
        row,
        math.fsum(reward) if isinstance(reward, list) else reward,
        success[hooks.outcome(episode)],
        stop_reason,
        tuple(text for text in told for secret in secrets if secret.lower() in text.lower()),
    )


def _texts(sent: list[Sent]) -> Iterator[str]:
    """Everything in the last request, which holds all before it."""
    if sent:
        last = sent[-1]
        yield last.system_prompt
        yield json.dumps(list(last.tools))
        yield json.dumps([m for m in last.messages if m["role"] != "assistant"])
