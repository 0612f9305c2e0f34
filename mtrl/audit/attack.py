"""One adversary against one episode, in the agent's own loop: nothing of the loop is imitated."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent.audit import Adversary, AuditHooks, Sent
from agent.chat import Sample, ToolCall
from agent.job_runtime import Deadline
from agent.play import Limits, play
from agent.policy import PolicyModel, Query
from agent.settings import Settings
from agent.task import Task
from agent.trace import TurnLog
from mtrl.audit.exploits import Attack

EPISODE_S = 30.0
"""An adversary that keeps the loop longer than this has found a fault of another kind."""
NOISY = ("strands", "agent")
"""Loggers of what the adversaries do wrong."""
NOTHING: Any = None
"""In place of a rollout's sampling parameters, which an adversary has no use for."""


class AdversaryPolicy:
    """An adversary in the place of `agent.policy.Policy`; keeps all that it was sent."""

    def __init__(self, adversary: Adversary) -> None:
        self.sent: list[Sent] = []
        """One an answer: the whole conversation until then."""
        self._adversary = adversary

    async def sample(self, rollout: Any, query: Query) -> Sample:
        """One answer."""
        messages = json.loads(json.dumps(query.messages))
        self.sent.append(Sent(query.system_prompt or "", messages, tuple(query.tool_specs or ())))
        answer = self._adversary(self.sent[-1])
        calls = tuple(ToolCall("", name, json.dumps(given)) for name, given in answer.calls)
        return Sample(answer.text, "", calls, "tool_calls" if calls else "stop")


def attack(hooks: AuditHooks, task: Task, row: str, adversary: Adversary) -> Attack:
    """Play one episode and look through everything that was said."""
    with _quiet():
        return asyncio.run(_attack(hooks, task, row, adversary))


@contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


async def _attack(hooks: AuditHooks, task: Task, row: str, adversary: Adversary) -> Attack:
    episode, log = task.start(row), TurnLog()
    policy: Any = AdversaryPolicy(adversary)
    model = PolicyModel(policy, rollout=NOTHING, sampled=log.sampled)
    loop = asyncio.get_running_loop()
    limits = Limits(Settings().max_policy_calls, Deadline(loop.time() + EPISODE_S, loop.time))
    stop_reason = await play(episode, model, log, limits)
    reward = episode.reward()
    success = {outcome.name: outcome.success for outcome in hooks.outcomes}
    own = json.dumps([move.arguments for turn in log.turns for move in turn.moves]).lower()
    told = [*_texts(policy.sent), *(move.feedback for turn in log.turns for move in turn.moves)]
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
