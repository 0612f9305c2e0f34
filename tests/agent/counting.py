"""A task small enough to read at once: count to a target, one tool call a number."""

from __future__ import annotations

import json
from typing import Any

from strands import tool

from agent.task import TaskFormatError

SECRET = "PERSIMMON"
"""What the counting task must keep from the policy."""


class CountingEpisode:
    """Done when the target is reached; a number out of order is answered and not counted."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.system_prompt = "You count."
        self.user_prompt = f"Count to {fields['target']}."
        self.target = fields["target"]
        self.per_turn = fields.get("per_turn", False)
        self.answer = fields.get("answer", SECRET)
        self.counted: list[int] = []
        self.faults = 0

        @tool(name="count", description="Say the next number.")
        async def count(number: int) -> str:
            if number == 13:
                raise KeyError(self.answer)
            return self.say(number)

        self.tools = [count]

    @property
    def done(self) -> bool:
        return len(self.counted) >= self.target

    def say(self, number: int) -> str:
        if self.done:
            return "It is over."
        if number != len(self.counted) + 1:
            self.faults += 1
            return f"Not {number}; you are at {len(self.counted)}."
        self.counted.append(number)
        return f"{number} of {self.target}."

    def recover(self, text: str) -> str | None:
        head, _, tail = text.partition("count=")
        return self.say(int(tail)) if tail.isdecimal() and not head.endswith("_") else None

    def reward(self) -> float | list[float]:
        if self.per_turn:
            return [1.0] * len(self.counted)
        return len(self.counted) / self.target - 0.25 * self.faults

    def summary(self) -> dict[str, Any]:
        return {"turns": len(self.counted), "faults": self.faults}


class CountingTask:
    name = "counting"

    def start(self, prompt: str) -> CountingEpisode:
        fields = json.loads(prompt)
        if fields.get("broken"):
            raise RuntimeError(SECRET)
        if "target" not in fields:
            raise TaskFormatError("field 'target' is missing")
        return CountingEpisode(fields)


def row(target: int = 3, **fields: Any) -> str:
    return json.dumps({"id": "row-1", "target": target, "answer": SECRET, **fields})
