"""Plays rollouts: invokes the agent, waits for each reward, retries, and says why one is lost.

A rollout's attempts share their draws, so a retry plays the same game. What the service treats as
fatal for a whole job (no sampling request, no reward in time) is fatal here too, after retries.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rehearsal.agent_client import AgentClient, AgentDown, AgentReply, AgentUnreachable
from rehearsal.draws import DrawKey
from rehearsal.policies import Policy, Sample
from rehearsal.trajectories import Trajectories, Trajectory, TrajectoryStatus

AGENT_WAIT_S = 30.0
"""How long an attempt waits for an agent that accepts no connection; a restart takes about 10 s."""
AGENT_BACKOFF_S = (0.1, 2.0)
"""First and longest wait between two tries to connect; each is twice the one before."""


class JobFailed(Exception):
    """The job cannot go on; the message becomes its FailureReason."""


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """One rollout to play."""

    key: DrawKey
    prompt: str


@dataclass(frozen=True, slots=True)
class Rollout:
    """One played rollout."""

    key: DrawKey
    rewards: list[float] | None
    """None when the agent reported it as failed."""
    samples: tuple[Sample, ...]
    trace: dict[str, Any] | None
    attempts: int
    prefill_tokens: int
    """Over all attempts, as billed."""
    sample_tokens: int
    seconds: float
    failure: str | None = None

    @property
    def reward(self) -> float | None:
        """The episode's reward: the sum of its turns' rewards."""
        return None if self.rewards is None else sum(self.rewards)


@dataclass(slots=True)
class _Attempts:
    """What a rollout's attempts have used so far."""

    count: int = 0
    prefill_tokens: int = 0
    sample_tokens: int = 0
    failures: list[str] = field(default_factory=list)

    def charge(self, samples: Sequence[Sample]) -> None:
        self.count += 1
        self.prefill_tokens += sum(sample.prefill_tokens for sample in samples)
        self.sample_tokens += sum(sample.sample_tokens for sample in samples)


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """Limits and sampling of one job's rollouts."""

    job_arn: str
    endpoint: str
    region: str
    temperature: float
    top_p: float
    max_tokens: int
    timeout_s: float
    max_attempts: int
    concurrency: int


class RolloutRunner:
    """Plays the rollouts of one job at a bounded concurrency."""

    def __init__(
        self,
        settings: RolloutSettings,
        agent: AgentClient,
        trajectories: Trajectories,
        on_rollout: Callable[[Rollout], None] = lambda rollout: None,
    ) -> None:
        self._settings = settings
        self._agent = agent
        self._trajectories = trajectories
        self._on_rollout = on_rollout

    def at_temperature(self, temperature: float) -> RolloutRunner:
        """The same runner at another sampling temperature."""
        settings = replace(self._settings, temperature=temperature)
        return RolloutRunner(settings, self._agent, self._trajectories, self._on_rollout)

    async def run(self, plans: Sequence[RolloutPlan], policy: Policy) -> list[Rollout]:
        """Play all plans with one policy; results in the order of the plans.

        Raises:
            JobFailed: a rollout stayed without sampling or reward after all its attempts.
        """
        slots = asyncio.Semaphore(self._settings.concurrency)
        played: list[str] = []

        async def play(plan: RolloutPlan) -> Rollout:
            async with slots:
                rollout = await self._play(plan, policy, played)
                self._on_rollout(rollout)
                return rollout

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(play(plan)) for plan in plans]
        except* JobFailed as failures:
            raise failures.exceptions[0] from None
        finally:
            self._trajectories.forget(played)
        return [task.result() for task in tasks]

    async def _play(self, plan: RolloutPlan, policy: Policy, played: list[str]) -> Rollout:
        started = time.monotonic()
        used = _Attempts()
        while True:
            trajectory = self._open(plan, policy)
            played.append(trajectory.trajectory_id)
            trace, failure = await self._attempt(plan, trajectory)
            samples = trajectory.ordered_samples()
            trajectory.status = TrajectoryStatus.CLOSED
            used.charge(samples)
            last_attempt = used.count >= self._settings.max_attempts
            if failure and not last_attempt:
                used.failures.append(failure)
                continue
            if failure and trajectory.rewards is None and not _reported_failed(failure):
                raise JobFailed(_job_failure(failure, plan.key, used.count))
            return Rollout(
                key=plan.key,
                rewards=trajectory.rewards,
                samples=tuple(samples),
                trace=trace,
                attempts=used.count,
                prefill_tokens=used.prefill_tokens,
                sample_tokens=used.sample_tokens,
                seconds=time.monotonic() - started,
                failure=failure,
            )

    def _open(self, plan: RolloutPlan, policy: Policy) -> Trajectory:
        trajectory = Trajectory(
            trajectory_id=f"rollout-{uuid.uuid4().hex}{uuid.uuid4().hex[:8]}",
            job_arn=self._settings.job_arn,
            policy=policy,
            draw=plan.key.uniform,
            defaults=self._inference(),
        )
        self._trajectories.add(trajectory)
        return trajectory

    def _inference(self) -> dict[str, float | int]:
        return {
            "temperature": self._settings.temperature,
            "topP": self._settings.top_p,
            "maxTokens": self._settings.max_tokens,
        }

    def _metadata(self, trajectory: Trajectory) -> Mapping[str, str]:
        return {
            "jobArn": trajectory.job_arn,
            "rolloutId": trajectory.trajectory_id,
            "endpoint": self._settings.endpoint,
            "region": self._settings.region,
        }

    async def _invoke(self, plan: RolloutPlan, trajectory: Trajectory) -> AgentReply:
        """Start the rollout, once the agent accepts a connection."""
        give_up = time.monotonic() + AGENT_WAIT_S
        wait, longest = AGENT_BACKOFF_S
        while True:
            try:
                return await self._agent.invoke(
                    plan.prompt, self._metadata(trajectory), self._inference()
                )
            except AgentDown:
                if time.monotonic() + wait > give_up:
                    raise
                await asyncio.sleep(wait)
                wait = min(2 * wait, longest)

    async def _attempt(
        self, plan: RolloutPlan, trajectory: Trajectory
    ) -> tuple[dict[str, Any] | None, str | None]:
        """Play once. Returns the agent's trace, and why there is no reward (None if there is)."""
        trace = None
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                reply = await self._invoke(plan, trajectory)
                trace = reply.trace
                if reply.status == "failed" and not trajectory.settled.is_set():
                    return trace, _failure(trajectory, reply.error)
                await trajectory.settled.wait()
        except AgentDown as error:
            return trace, f"{NO_SAMPLING}: {error}"
        except AgentUnreachable as error:
            return trace, str(error) if trajectory.rewards is None else None
        except TimeoutError:
            return trace, _failure(trajectory, None) if trajectory.rewards is None else None
        if trajectory.status is TrajectoryStatus.FAILED:
            return trace, _failure(trajectory, reply.error)
        return trace, None


NO_SAMPLING = "No sampling requests were received"
NO_REWARD = "no reward was received in time"
REPORTED_FAILED = "the agent reported the rollout as failed"


def _failure(trajectory: Trajectory, error: str | None) -> str:
    detail = f": {error}" if error else ""
    if not trajectory.samples:
        return f"{NO_SAMPLING}{detail}"
    if trajectory.status is TrajectoryStatus.FAILED:
        return f"{REPORTED_FAILED}{detail}"
    return f"{NO_REWARD}{detail}"


def _reported_failed(failure: str) -> bool:
    return failure.startswith(REPORTED_FAILED)


def _job_failure(failure: str, key: DrawKey, attempts: int) -> str:
    return (
        f"{failure} (phase {key.phase}, step {key.step}, row {key.group + 1}, "
        f"rollout {key.rollout + 1}, after {attempts} attempts)"
    )
