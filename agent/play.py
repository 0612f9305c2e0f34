"""The conversation of one rollout: the policy samples, the episode answers, until one of them ends.

In: an Episode and the rollout's model. Out: a StopReason; the turns go into the log as they happen.
Strands drives tool call, result and next sample; this module decides when that stops, and what to
say to an answer that called no tool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.hooks import AfterToolCallEvent, AfterToolsEvent, HookProvider, HookRegistry
from strands.models.model import Model
from strands.tools.executors import SequentialToolExecutor

from agent.guarded_tool import GuardedTool
from agent.job_runtime import Deadline
from agent.task import Episode, StopReason
from agent.trace import Move, TurnLog

IDLE_LIMIT = 2
"""Answers in a row without a move, after which the policy has quit."""
CUT = "length"
"""The finish reason of an answer that was cut at its token limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a rollout that does not end by itself."""

    max_calls: int
    deadline: Deadline


async def play(
    episode: Episode, model: Model, log: TurnLog, limits: Limits, prompt_hint: str | None = None
) -> StopReason:
    """Play the episode to its end, or to a limit.

    Raises:
        RuntimeCallError: the policy could not be sampled; Strands may have wrapped it.
    """

    def stop() -> StopReason | None:
        if episode.done:
            return StopReason.DONE
        if limits.deadline.remaining <= 0:
            return StopReason.TIME_BUDGET
        return StopReason.CALL_CAP if len(log.turns) >= limits.max_calls else None

    agent = _agent(episode, model, _Watch(log, stop), prompt_hint)
    message = episode.user_prompt
    while True:
        await agent.invoke_async(message)
        if not log.turns[-1].moves:
            feedback = _recover(episode, log)
            if feedback is None and len(log.idle()) >= IDLE_LIMIT:
                cut = all(turn.finish_reason == CUT for turn in log.idle()[-IDLE_LIMIT:])
                return StopReason.MAX_TOKENS if cut else StopReason.QUIT
            message = feedback or _nudge(episode, log)
        reason = stop()
        if reason is not None:
            return reason


def _agent(episode: Episode, model: Model, watch: HookProvider, prompt_hint: str | None) -> Agent:
    prompt = episode.system_prompt
    if prompt_hint:
        prompt = f"{prompt.rstrip()}\n\n{prompt_hint}\n"
    return Agent(
        model=model,
        tools=[GuardedTool(tool) for tool in episode.tools],
        system_prompt=prompt,
        callback_handler=None,
        conversation_manager=NullConversationManager(),
        tool_executor=SequentialToolExecutor(),
        retry_strategy=None,  # the Job Runtime's client retries, within the rollout's budget
        hooks=[watch],
    )


def _recover(episode: Episode, log: TurnLog) -> str | None:
    """Play a move that was written as text; its feedback is the next message."""
    text = log.turns[-1].text
    feedback = episode.recover(text) if text else None
    if feedback is not None:
        tool = episode.tools[0].tool_name if episode.tools else ""
        log.moved(Move(tool, {"text": text}, feedback, recovered=True))
    return feedback


def _nudge(episode: Episode, log: TurnLog) -> str:
    names = " or ".join(tool.tool_name for tool in episode.tools)
    if log.turns[-1].finish_reason == CUT:
        return f"Your answer was cut off before it called a tool. Be brief and call {names} now."
    return f"That was no move. Call {names} to make one."


class _Watch(HookProvider):
    """Logs each tool call, and stops Strands' loop when it is time."""

    def __init__(self, log: TurnLog, stop: Callable[[], StopReason | None]) -> None:
        self._log = log
        self._stop = stop

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Strands' interface."""
        registry.add_callback(AfterToolCallEvent, self._after_call)
        registry.add_callback(AfterToolsEvent, self._after_calls)

    def _after_call(self, event: AfterToolCallEvent) -> None:
        if event.selected_tool is None:
            known = ", ".join(event.agent.tool_registry.registry)
            text = f"There is no tool of that name; call {known}."
            event.result = {**event.result, "content": [{"text": text}]}
        feedback = "\n".join(part.get("text", "") for part in event.result["content"])
        self._log.moved(Move(event.tool_use["name"], event.tool_use["input"], feedback))

    def _after_calls(self, event: AfterToolsEvent) -> None:
        if self._stop() is not None:
            event.agent.cancel(after_current_tools=True)
