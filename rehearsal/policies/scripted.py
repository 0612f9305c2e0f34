"""Policies that follow a script: a task's players, from solver to adversary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rehearsal import tokens
from rehearsal.policies import ChatRequest, Sample, tool_call
from rehearsal.policies.behaviour import BehaviourSpace

Player = Callable[[Any, int, float], dict[str, Any]]
"""(what the conversation tells, turn, draw in [0, 1)) -> {"text"} or {"tool", "arguments"}."""


class ScriptedPolicy:
    """Answers with what a player does; see Policy."""

    def __init__(self, player: Player, space: BehaviourSpace) -> None:
        self._player = player
        self._space = space

    async def sample(self, request: ChatRequest, draw: Callable[[int, str], float]) -> Sample:
        """The player's move; certain, so every log-probability is 0."""
        turn = request.turn
        move = self._player(self._space.read(request.messages), turn, draw(turn, "move"))
        if "tool" in move:
            calls = (tool_call(turn, move["tool"], move["arguments"]),)
            ids = tokens.call_tokens(move["tool"], move["arguments"])
        else:
            calls = ()
            ids = tokens.text_tokens(move["text"])
        return Sample(
            content=move.get("text"),
            tool_calls=calls,
            finish_reason="tool_calls" if calls else "stop",
            token_ids=tuple(ids),
            logprobs=(0.0,) * len(ids),
            prefill_tokens=tokens.prefill_tokens(
                {"messages": request.messages, "tools": list(request.tools)}
            ),
        )
