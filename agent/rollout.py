"""One rollout, from payload to reported reward.

In: the JSON that the service posted. Out: an `Outcome` with the trace. The order is fixed: read the
payload and the row, play, compute the reward once from the episode alone, report completion, report
the reward. Whatever breaks, a game with a move in it reports its reward, and `failed` is reported
only when there is nothing to score.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

from strands.types.exceptions import EventLoopException

from agent.job_runtime import (
    CallTimeoutError,
    Deadline,
    JobRuntime,
    RuntimeCallError,
    TrajectoryProcessedError,
    TrajectoryUnknownError,
    resolve,
)
from agent.payload import PayloadError, RolloutPayload, Trajectory, parse_payload
from agent.play import Limits, play
from agent.policy import EFFORT, Policy, RolloutSampling
from agent.settings import (
    REPORT_RESERVE_S,
    Settings,
    SettingsError,
    check_effort,
    check_hint,
)
from agent.task import Episode, StopReason, Task, TaskFormatError
from agent.trace import Trace, TurnLog

SHUTDOWN_GRACE_S = 20.0
"""Seconds in which a cancelled rollout still reports."""
STUCK_GRACE_S = 5.0
"""How long after its deadline a play that does not yield is cut off."""
POLICY_OWN = frozenset(
    {
        StopReason.DONE,
        StopReason.QUIT,
        StopReason.CALL_CAP,
        StopReason.TIME_BUDGET,
        StopReason.MAX_TOKENS,
    }
)
"""Ends that the policy brought about itself: they are scored even without a move."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """What the rollout itself reads from a row; the rest is the task's."""

    row_id: str
    reasoning_effort: str | None
    prompt_hint: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a rollout."""

    status: Literal["completed", "failed", "skipped"]
    """completed: the reward is reported; skipped: the service had processed it already."""
    reward: float | list[float] | None
    stop_reason: str
    error: str | None
    trace: Trace | None
    """None when the payload does not even say which trajectory it is."""

    def to_json(self) -> str:
        """The reply to the service, in ASCII."""
        trace = None if self.trace is None else asdict(self.trace)
        return json.dumps(
            {
                "status": self.status,
                "reward": self.reward,
                "stop_reason": self.stop_reason,
                "error": self.error,
                "trace": trace,
            }
        )


@dataclass(slots=True)
class _Rollout:
    """The state of one rollout while it runs."""

    trajectory: Trajectory
    deadline: Deadline
    started: float
    row_id: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    episode: Episode | None = None
    log: TurnLog = field(default_factory=TurnLog)
    stop_reason: StopReason = StopReason.BAD_ROW
    error: str | None = None
    processed: bool = False


def has_move(episode: Episode) -> bool:
    """True when the episode has at least one move that counts."""
    return episode.summary().get("turns", 0) > 0


def read_row(prompt: str, settings: Settings) -> Row:
    """Read a row's id and its own settings, which win over the environment's.

    A row that is not a JSON object has neither: its id is then a digest of its text.

    Raises:
        SettingsError: a setting of the row that breaks its rule.
    """
    try:
        row = json.loads(prompt)
    except (ValueError, RecursionError):
        row = None
    row = row if isinstance(row, dict) else {}
    own = row.get("settings") or {}
    if not isinstance(own, dict):
        raise SettingsError("settings", own, "a row's settings must be an object")
    row_id = row.get("id")
    digest = hashlib.sha256(prompt.encode()).hexdigest()[:16]
    return Row(
        row_id=str(row_id) if isinstance(row_id, str | int) else digest,
        reasoning_effort=check_effort(f"settings.{EFFORT}", own[EFFORT])
        if EFFORT in own
        else settings.reasoning_effort,
        prompt_hint=check_hint("settings.prompt_hint", own["prompt_hint"])
        if "prompt_hint" in own
        else settings.prompt_hint,
    )


class Rollouts:
    """Plays rollouts, any number at once, on one event loop."""

    def __init__(self, settings: Settings, runtime: JobRuntime, task: Task) -> None:
        self._settings = settings
        self._runtime = runtime
        self._task = task
        self._policy = Policy(runtime, settings.policy_stream)

    async def run(self, raw: object) -> Outcome:
        """Play one payload. Never raises for what a payload, a policy or the network may do."""
        started = self._runtime.clock()
        deadline = Deadline(started + self._settings.rollout_budget_s, self._runtime.clock)
        try:
            payload = parse_payload(raw)
            trajectory = resolve(payload.trajectory, self._settings)
        except PayloadError as error:
            return await self._refuse(error, deadline, started)
        rollout = _Rollout(trajectory, deadline, started)
        sampling = self._prepare(rollout, payload)
        if sampling is not None:
            await self._play(rollout, *sampling)
        return await _to_the_end(self._finish(rollout))

    async def _refuse(self, error: PayloadError, deadline: Deadline, started: float) -> Outcome:
        """A payload that cannot be played, reported if it says for whom."""
        try:
            if error.trajectory is None:
                raise error
            trajectory = resolve(error.trajectory, self._settings)
        except PayloadError:
            return Outcome("failed", None, StopReason.BAD_ROW, str(error), None)
        rollout = _Rollout(trajectory, deadline, started, error=str(error))
        return await _to_the_end(self._finish(rollout))

    def _prepare(
        self, rollout: _Rollout, payload: RolloutPayload
    ) -> tuple[RolloutSampling, str | None] | None:
        """Read the row and begin its episode; None when it cannot be played."""
        try:
            row = read_row(payload.prompt, self._settings)
            rollout.row_id = row.row_id
            rollout.settings = {
                **asdict(payload.inference),
                EFFORT: row.reasoning_effort,
                "prompt_hint": row.prompt_hint,
            }
            rollout.episode = self._task.start(payload.prompt)
        except (SettingsError, TaskFormatError) as error:
            rollout.error = str(error)
            return None
        except Exception as error:
            # Only the type: the message of a task's own fault may hold the answer.
            rollout.stop_reason = StopReason.TASK_ERROR
            rollout.error = f"the task failed to start the row ({type(error).__name__})"
            return None
        sampling = RolloutSampling(
            rollout.trajectory, payload.inference, row.reasoning_effort, rollout.deadline
        )
        return sampling, row.prompt_hint

    async def _play(
        self, rollout: _Rollout, sampling: RolloutSampling, prompt_hint: str | None
    ) -> None:
        """Play the episode and note how it ended."""
        assert rollout.episode is not None
        limits = Limits(self._settings.max_policy_calls, rollout.deadline)
        model = self._policy.model(sampling, rollout.log.sampled)
        try:
            async with asyncio.timeout(rollout.deadline.remaining + STUCK_GRACE_S):
                rollout.stop_reason = await play(
                    rollout.episode, model, rollout.log, limits, prompt_hint
                )
        except asyncio.CancelledError:
            _uncancel()
            rollout.stop_reason = StopReason.CANCELLED
            rollout.error = "the rollout was cancelled"
            rollout.deadline = rollout.deadline.within(0)
        except TimeoutError:
            rollout.stop_reason = StopReason.TIME_BUDGET
        except Exception as error:
            _note_failure(rollout, error)
        if sampling.reasoning_effort and not self._policy.takes_effort(rollout.trajectory):
            rollout.settings |= {EFFORT: None, f"{EFFORT}_refused": sampling.reasoning_effort}

    async def _finish(self, rollout: _Rollout) -> Outcome:
        """Score and report; the reward is computed here, once."""
        if rollout.processed:
            return self._outcome(rollout, "skipped", None)
        grace = (
            SHUTDOWN_GRACE_S if rollout.stop_reason is StopReason.CANCELLED else REPORT_RESERVE_S
        )
        deadline = rollout.deadline.after(grace)
        reward = self._score(rollout)
        try:
            if reward is None:
                await self._runtime.complete(rollout.trajectory, "failed", deadline)
                return self._outcome(rollout, "failed", None)
            await self._report(rollout.trajectory, reward, deadline)
        except RuntimeCallError as error:
            rollout.error = "; ".join(filter(None, (rollout.error, f"report failed: {error}")))
            return self._outcome(rollout, "failed", reward)
        return self._outcome(rollout, "completed", reward)

    def _score(self, rollout: _Rollout) -> float | list[float] | None:
        """The reward, or None when there is nothing to score."""
        episode = rollout.episode
        if episode is None or not rollout.log.turns:
            return None
        try:
            if has_move(episode) or rollout.stop_reason in POLICY_OWN:
                return episode.reward()
        except Exception as error:
            rollout.stop_reason = StopReason.TASK_ERROR
            rollout.error = f"the task failed to score the episode ({type(error).__name__})"
        return None

    async def _report(
        self, trajectory: Trajectory, reward: float | list[float], deadline: Deadline
    ) -> None:
        """Completion, then reward: the reward also when the completion did not get through."""
        first_half = deadline.within(deadline.remaining / 2)
        try:
            await self._runtime.complete(trajectory, "ready", first_half)
        except TrajectoryUnknownError:
            raise
        except RuntimeCallError as error:
            await self._runtime.update_reward(trajectory, reward, deadline)
            raise error
        await self._runtime.update_reward(trajectory, reward, deadline)

    def _outcome(
        self,
        rollout: _Rollout,
        status: Literal["completed", "failed", "skipped"],
        reward: float | list[float] | None,
    ) -> Outcome:
        trace = Trace(
            task=self._task.name,
            row_id=rollout.row_id,
            job_arn=rollout.trajectory.job_arn,
            trajectory_id=rollout.trajectory.trajectory_id,
            settings=rollout.settings,
            turns=tuple(rollout.log.turns),
            stop_reason=rollout.stop_reason,
            reward=reward,
            summary=rollout.episode.summary() if rollout.episode is not None else {},
            seconds=round(self._runtime.clock() - rollout.started, 4),
            error=rollout.error,
        )
        return Outcome(status, reward, rollout.stop_reason, rollout.error, trace)


def _note_failure(rollout: _Rollout, error: Exception) -> None:
    """Why the play broke off, from the exception that Strands may have wrapped."""
    cause: BaseException = error
    while isinstance(cause, EventLoopException):
        cause = cause.original_exception
    if isinstance(cause, CallTimeoutError):
        rollout.stop_reason = StopReason.TIME_BUDGET
    elif isinstance(cause, RuntimeCallError):
        rollout.stop_reason = StopReason.POLICY_ERROR
        rollout.error = str(cause)
        rollout.processed = isinstance(cause, TrajectoryProcessedError)
    else:
        rollout.stop_reason = StopReason.TASK_ERROR
        rollout.error = f"the rollout broke ({type(cause).__name__})"


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` even while this task is being cancelled: a report half sent is none."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            _uncancel()
    return task.result()


def _uncancel() -> None:
    """Take back the cancellation that was just caught, so that what follows can wait again."""
    current = asyncio.current_task()
    if current is not None:
        current.uncancel()
