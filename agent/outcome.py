"""What became of a rollout: its state while it runs, its score, and the reply to the service.

In: the episode, the turns and the reason they ended. Out: an `Outcome`. The reward comes from the
episode alone and is computed once; a rollout with nothing to score has none.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.job_runtime import Deadline
from agent.payload import Trajectory
from agent.redact import redact
from agent.task import Episode, StopReason
from agent.trace import Trace, TurnLog

Status = Literal["completed", "failed", "skipped"]
Reward = float | list[float]

SCORED_WITHOUT_MOVE = frozenset(
    {
        StopReason.DONE,
        StopReason.QUIT,
        StopReason.CALL_CAP,
        StopReason.TIME_BUDGET,
        StopReason.MAX_TOKENS,
    }
)
"""Ends that the policy brought about itself, so that having made no move is its doing too."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a rollout."""

    status: Status
    """completed: the reward is reported; skipped: the service had processed it already."""
    reward: Reward | None
    stop_reason: str
    error: str | None
    trace: Trace | None
    """None when the payload does not even say which trajectory it is."""

    def to_json(self) -> str:
        """The reply to the service, in ASCII."""
        reply = {
            "status": self.status,
            "reward": self.reward,
            "stop_reason": self.stop_reason,
            "error": self.error,
            "trace": None if self.trace is None else self.trace.to_dict(),
        }
        return json.dumps(reply, default=str)


@dataclass(slots=True)
class Rollout:
    """One rollout while it runs."""

    trajectory: Trajectory
    deadline: Deadline
    """Of the play; reports have a while longer."""
    started: float
    row_id: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    episode: Episode | None = None
    log: TurnLog = field(default_factory=TurnLog)
    stop_reason: StopReason = StopReason.BAD_ROW
    error: str | None = None
    processed: bool = False
    """True when the service said, while sampling, that the trajectory is over."""
    summary: dict[str, Any] = field(default_factory=dict)
    """The episode's, once it is scored."""

    def score(self) -> Reward | None:
        """The reward, or None when there is nothing to score."""
        if self.episode is None:
            return None
        try:
            self.summary = self.episode.summary()
            if self.log.turns and (
                has_move(self.summary) or self.stop_reason in SCORED_WITHOUT_MOVE
            ):
                return _checked(self.episode.reward())
        except Exception as error:
            # Only the type: the message of a task's own fault may hold the answer.
            self.stop_reason = StopReason.TASK_ERROR
            self.add_error(f"the task failed to score the episode ({type(error).__name__})")
        return None

    def add_error(self, message: str) -> None:
        """Note one more thing that went wrong."""
        self.error = f"{self.error}; {message}" if self.error else message

    def outcome(self, status: Status, reward: Reward | None, task: str, now: float) -> Outcome:
        """Close the rollout; `now` is on the clock of `started`."""
        trace = Trace(
            task=task,
            row_id=self.row_id,
            job_arn=redact(self.trajectory.job_arn),
            trajectory_id=self.trajectory.trajectory_id,
            settings=self.settings,
            turns=tuple(self.log.turns),
            stop_reason=self.stop_reason,
            reward=reward,
            summary=self.summary,
            seconds=round(now - self.started, 4),
            error=self.error,
        )
        return Outcome(status, reward, self.stop_reason, self.error, trace)


def has_move(summary: dict[str, Any]) -> bool:
    """True when an episode's summary shows at least one move that counts."""
    return summary.get("turns", 0) > 0


def _checked(reward: Reward) -> Reward:
    rewards = reward if isinstance(reward, list) else [reward]
    if not rewards or not all(math.isfinite(value) for value in rewards):
        raise ValueError("a reward must be one or more finite numbers")
    return reward
