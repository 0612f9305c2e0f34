"""The seam between the rollout path and a task.

A task turns a dataset row's text into an Episode; the rollout plays the episode and reads its
reward. Nothing outside a task's folder knows what the task is about. A new task is a folder
beside `wordle` with a module `task` that defines `TASK`, and one line in `TASKS`.
"""

from __future__ import annotations

import importlib
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

TASKS = {"wordle": "agent.wordle"}
"""Task name -> package. The one line that a new task adds outside its own folder."""


class StopReason(StrEnum):
    """Why a rollout's conversation ended."""

    DONE = "done"
    """The episode is over by its own rules (solved, or no attempts left)."""
    QUIT = "quit"
    """The policy answered with neither a tool call nor a recoverable move, twice in a row."""
    CALL_CAP = "call_cap"
    """The cap on policy turns was reached."""
    TIME_BUDGET = "time_budget"
    """The wall-clock budget of the rollout was used up."""
    MAX_TOKENS = "max_tokens"
    """The policy's answer was cut at its token limit, twice in a row."""
    POLICY_ERROR = "policy_error"
    """The policy endpoint kept failing after retries."""
    CANCELLED = "cancelled"
    """The runtime shut down or the caller gave up."""
    BAD_ROW = "bad_row"
    """The payload or its row could not be read; nothing was sampled."""
    TASK_ERROR = "task_error"
    """The task's own code failed."""


class TaskFormatError(ValueError):
    """A dataset row that cannot be turned into an episode.

    The message names the row's field and its fault, never the answer's value.
    """


@runtime_checkable
class Episode(Protocol):
    """One play of one task row. It serves one rollout and is thrown away."""

    system_prompt: str
    user_prompt: str
    """All that the policy reads at the start, besides the tools' descriptions."""
    tools: list[Any]
    """Strands tools bound to this episode."""

    @property
    def done(self) -> bool:
        """True once no further move is accepted."""
        ...

    def recover(self, text: str) -> str | None:
        """Apply a move that was written as plain text.

        Returns the feedback for the policy, or None when `text` holds no move.
        """
        ...

    def reward(self) -> float | list[float]:
        """The reward of the moves so far: one for the episode, or one per turn."""
        ...

    def summary(self) -> dict[str, Any]:
        """JSON-safe facts for traces and reports; never the answer."""
        ...


@runtime_checkable
class Task(Protocol):
    """A task's entry point: `load_task(name)` returns one.

    A task may also have `identity(prompt) -> str`: what makes two rows the same. Checks of the
    data use it to find duplicates and overlap; without it they compare the prompts.
    """

    name: str

    def start(self, prompt: str) -> Episode:
        """Begin an episode from a row's text.

        Raises:
            TaskFormatError: the row cannot be read; names the field.
        """
        ...


def load_task(name: str) -> Task:
    """Return the registered task called `name`.

    Raises:
        KeyError: no such task; the message lists the known ones.
    """
    package = TASKS.get(name)
    if package is None:
        raise KeyError(f"no task named {name!r}; known tasks: {', '.join(sorted(TASKS))}")
    task: Task = importlib.import_module(f"{package}.task").TASK
    return task
