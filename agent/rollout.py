"""One rollout, from payload to reported reward.

In: the JSON that the service posted. Out: an `Outcome` with the trace. The order is fixed: read the
payload and the row, play, score once, report completion, report the reward. Whatever breaks, a game
with a move in it reports its reward, and `failed` is reported only when there is nothing to score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any, TypeVar

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
from agent.outcome import Outcome, Reward, Rollout, has_move
from agent.payload import PayloadError, RolloutPayload, Trajectory, parse_payload
from agent.play import Limits, play
from agent.policy import Policy, RolloutSampling
from agent.row import EFFORT, HINT, Row, read_row
from agent.settings import REPORT_RESERVE_S, Settings, SettingsError
from agent.task import StopReason, Task, TaskFormatError

SHUTDOWN_GRACE_S = 20.0
"""Seconds in which a cancelled rollout still reports."""
STUCK_GRACE_S = 5.0
"""How long after its deadline a play that does not yield is cut off."""
T = TypeVar("T")


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
        rollout = Rollout(trajectory, deadline, started)
        row = self._begin(rollout, payload)
        if row is not None:
            sampling = RolloutSampling(
                trajectory, payload.inference, row.reasoning_effort, deadline
            )
            await self._play(rollout, sampling, row.prompt_hint)
        return await _to_the_end(self._finish(rollout))

    async def _refuse(self, error: PayloadError, deadline: Deadline, started: float) -> Outcome:
        """A payload that cannot be played, reported if it says for whom."""
        try:
            if error.trajectory is None:
                raise error
            trajectory = resolve(error.trajectory, self._settings)
        except PayloadError:
            return Outcome("failed", None, StopReason.BAD_ROW, str(error), None)
        rollout = Rollout(trajectory, deadline, started, error=str(error))
        return await _to_the_end(self._finish(rollout))

    def _begin(self, rollout: Rollout, payload: RolloutPayload) -> Row | None:
        """Read the row and begin its episode; None, with the reason noted, when that fails."""
        try:
            row = read_row(payload.prompt, self._settings)
            rollout.row_id = row.row_id
            rollout.settings = {
                **asdict(payload.inference),
                EFFORT: row.reasoning_effort,
                HINT: row.prompt_hint,
            }
            rollout.episode = self._task.start(payload.prompt)
        except (SettingsError, TaskFormatError) as error:
            rollout.add_error(str(error))
            return None
        except Exception as error:
            # Only the type: the message of a task's own fault may hold the answer.
            rollout.stop_reason = StopReason.TASK_ERROR
            rollout.add_error(f"the task failed to start the row ({type(error).__name__})")
            return None
        return row

    async def _play(
        self, rollout: Rollout, sampling: RolloutSampling, prompt_hint: str | None
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
            rollout.add_error("the rollout was cancelled")
            rollout.deadline = rollout.deadline.within(0)
        except TimeoutError:
            rollout.stop_reason = StopReason.TIME_BUDGET
        except Exception as error:
            _note_failure(rollout, error)
        if sampling.reasoning_effort and not self._policy.takes_effort(rollout.trajectory):
            rollout.settings |= {EFFORT: None, f"{EFFORT}_refused": sampling.reasoning_effort}

    async def _finish(self, rollout: Rollout) -> Outcome:
        """Score and report."""
        cancelled = rollout.stop_reason is StopReason.CANCELLED
        deadline = rollout.deadline.after(SHUTDOWN_GRACE_S if cancelled else REPORT_RESERVE_S)
        reward = rollout.score()
        status = "failed" if reward is None else "completed"
        if rollout.processed:
            status, reward = "skipped", reward if has_move(rollout.summary) else None
        try:
            if reward is not None:
                await self._report(rollout.trajectory, reward, deadline)
            elif not rollout.processed:
                await self._runtime.complete(rollout.trajectory, "failed", deadline)
        except RuntimeCallError as error:
            rollout.add_error(f"report failed: {error}")
            status = "failed"
        return rollout.outcome(status, reward, self._task.name, self._runtime.clock())

    async def _report(self, trajectory: Trajectory, reward: Reward, deadline: Deadline) -> None:
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


def _note_failure(rollout: Rollout, error: Exception) -> None:
    """Why the play broke off, from the exception that Strands may have wrapped."""
    cause: BaseException = error
    while isinstance(cause, EventLoopException):
        cause = cause.original_exception
    if isinstance(cause, CallTimeoutError):
        rollout.stop_reason = StopReason.TIME_BUDGET
    elif isinstance(cause, RuntimeCallError):
        rollout.stop_reason = StopReason.POLICY_ERROR
        rollout.add_error(str(cause))
        rollout.processed = isinstance(cause, TrajectoryProcessedError)
    else:
        rollout.stop_reason = StopReason.TASK_ERROR
        rollout.add_error(f"the rollout broke ({type(cause).__name__})")


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
