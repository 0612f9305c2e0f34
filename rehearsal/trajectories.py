"""The rollouts that are under way: what was sampled on each, and the reward that came back.

A trajectory is open while its rollout plays, ready or failed once the agent completes it, and
rewarded when its reward has arrived. A repeated report is answered as the service does: done
already. Trajectories live in memory; a restarted service plays the unfinished step again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from rehearsal.errors import ServiceError, validation
from rehearsal.policies import ChatRequest, Policy, Sample


class TrajectoryStatus(StrEnum):
    """Where a trajectory stands."""

    OPEN = "open"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"
    """The service no longer waits for it: rewarded, timed out or given up."""


@dataclass(slots=True)
class Trajectory:
    """One attempt at one rollout."""

    trajectory_id: str
    job_arn: str
    policy: Policy
    draw: Callable[[int, str], float]
    defaults: dict[str, float | int]
    """temperature, top_p and max_tokens where the request leaves them out."""
    status: TrajectoryStatus = TrajectoryStatus.OPEN
    samples: dict[int, Sample] = field(default_factory=dict)
    """By turn: a repeated request for a turn (its reply was lost) replaces, never adds."""
    rewards: list[float] | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the trajectory is failed or has its reward."""

    def ordered_samples(self) -> list[Sample]:
        """The samples by turn."""
        return [self.samples[turn] for turn in sorted(self.samples)]


class Trajectories:
    """All trajectories of the running jobs, by id."""

    def __init__(self) -> None:
        self._open: dict[str, Trajectory] = {}

    def add(self, trajectory: Trajectory) -> None:
        """Register a new one."""
        self._open[trajectory.trajectory_id] = trajectory

    def forget(self, trajectory_ids: Iterable[str]) -> None:
        """Drop those of a step that is recorded; later reports on them are 404."""
        for trajectory_id in trajectory_ids:
            self._open.pop(trajectory_id, None)

    def get(self, job_arn: str, trajectory_id: str) -> Trajectory:
        """The trajectory with this id in this job.

        Raises:
            ServiceError: ResourceNotFoundException (404).
        """
        trajectory = self._open.get(trajectory_id)
        if trajectory is None or trajectory.job_arn != job_arn:
            raise ServiceError(
                "ResourceNotFoundException",
                f"Trajectory {trajectory_id} of job {job_arn} was not found.",
                404,
            )
        return trajectory

    async def sample(self, job_arn: str, trajectory_id: str, request: ChatRequest) -> Sample:
        """Sample the policy on a trajectory and remember the answer."""
        trajectory = self.get(job_arn, trajectory_id)
        if trajectory.status is not TrajectoryStatus.OPEN:
            raise _wrong_status(trajectory, "sampled")
        sample = await trajectory.policy.sample(request, trajectory.draw)
        trajectory.samples[request.turn] = sample
        return sample

    def complete(self, job_arn: str, trajectory_id: str, status: str) -> None:
        """CompleteRollout: the agent is done playing."""
        if status not in (TrajectoryStatus.READY, TrajectoryStatus.FAILED):
            raise validation(f"Status: {status!r} is not one of ready, failed")
        trajectory = self.get(job_arn, trajectory_id)
        if trajectory.status is not TrajectoryStatus.OPEN:
            raise ServiceError(
                "ConflictException",
                f"Cannot transition trajectory {trajectory_id} from "
                f"{trajectory.status} to {status}",
                409,
            )
        trajectory.status = TrajectoryStatus(status)
        if trajectory.status is TrajectoryStatus.FAILED:
            trajectory.settled.set()

    def reward(self, job_arn: str, trajectory_id: str, rewards: list[float]) -> None:
        """UpdateReward: one reward, or one per turn."""
        trajectory = self.get(job_arn, trajectory_id)
        if trajectory.status is not TrajectoryStatus.READY or trajectory.rewards is not None:
            raise _wrong_status(trajectory, "rewarded")
        trajectory.rewards = rewards
        trajectory.settled.set()


def _wrong_status(trajectory: Trajectory, verb: str) -> ServiceError:
    status = "rewarded" if trajectory.rewards is not None else str(trajectory.status)
    return ServiceError(
        "ConflictException",
        f"Trajectory {trajectory.trajectory_id} is not in valid status to be {verb}: {status}",
        409,
    )
