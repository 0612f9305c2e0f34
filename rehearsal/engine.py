"""Runs a job from its record to its end: loads the rows, plays, learns, records every step.

What a step leaves is written in one order: files, then one transaction with the packages and the
job's progress. A job that was running when the process died goes on after its last recorded step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mtrl.job.document import (
    EvaluationDocument,
    TrainingDocument,
)
from mtrl.job.identity import TRAINING_CATEGORY, document_hash
from rehearsal.agent_client import AgentClient
from rehearsal.checkpoint import CheckpointError
from rehearsal.errors import ServiceError
from rehearsal.jobs import RUNNING, Jobs
from rehearsal.mlflow_log import MlflowLog, MlflowRun
from rehearsal.objects import ObjectStore
from rehearsal.packages import Packages, Place
from rehearsal.policies import PolicyError
from rehearsal.policies.registry import PolicyRegistry
from rehearsal.rollouts import JobFailed, RolloutRunner, RolloutSettings
from rehearsal.rows import RowsError
from rehearsal.settings import ServiceSettings
from rehearsal.trajectories import Trajectories

log = logging.getLogger("rehearsal.engine")
EXPECTED_FAILURES = (JobFailed, RowsError, CheckpointError, ServiceError, PolicyError)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a job runs on."""

    settings: ServiceSettings
    place: Place
    jobs: Jobs
    packages: Packages
    objects: ObjectStore
    trajectories: Trajectories
    agent: AgentClient
    policies: PolicyRegistry
    mlflow: MlflowLog
    endpoint: Callable[[], str]
    """Base URL of the job runtime, as rollouts are told."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job while it runs: its parsed document and typed hyperparameters."""

    parts: Parts
    name: str
    arn: str
    document: TrainingDocument | EvaluationDocument
    values: dict[str, Any]

    @property
    def output_uri(self) -> str:
        """Where the job's files go."""
        return f"{self.document.output_data_config.s3_output_path.rstrip('/')}/{self.name}"

    def runner(self) -> RolloutRunner:
        """Plays this job's rollouts."""
        settings = self.parts.settings
        return RolloutRunner(
            RolloutSettings(
                job_arn=self.arn,
                endpoint=self.parts.endpoint(),
                region=settings.region,
                temperature=self.values["temperature"],
                top_p=self.values["sampling_top_p"],
                max_tokens=self.values["sampling_max_tokens"],
                timeout_s=self.values["rollout_timeout"] * settings.timeout_scale,
                max_attempts=1 + self.values["rollout_max_retries"],
                concurrency=min(self.values["rollout_max_concurrency"], settings.concurrency),
            ),
            self.parts.agent,
            self.parts.trajectories,
        )

    async def start_mlflow(self) -> MlflowRun | None:
        """Open the job's MLflow run, if its document names a resource, and publish its ids."""
        config = self.document.mlflow
        if config is None:
            return None
        run = await self.parts.mlflow.start_run(
            config.mlflow_experiment_name,
            config.mlflow_run_name or self.name,
            {"job_name": self.name, "document_hash": document_hash(self.document.to_wire())},
        )
        await self.parts.mlflow.log_parameters(run.run_id, self.values)
        self.parts.jobs.output(self.name, MlflowDetails=run.details())
        return run


class Engine:
    """Starts, stops and resumes the jobs' tasks."""

    def __init__(self, parts: Parts, bodies: dict[str, Callable[[RunningJob], Any]]) -> None:
        """
        Args:
            bodies: job category -> coroutine function that runs such a job.
        """
        self._parts = parts
        self._bodies = bodies
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stop_requested: set[str] = set()

    def start(self, job: dict[str, Any]) -> None:
        """Run a recorded job in the background."""
        name = job["JobName"]
        task = asyncio.create_task(self._run(job), name=f"job-{name}")
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    def resume_all(self) -> None:
        """Go on with the jobs that were running when the process ended."""
        for job in self._parts.jobs.list():
            if job["JobStatus"] == "Stopping":
                self._finish_stop(job["JobName"])
            elif job["JobStatus"] in RUNNING:
                self._parts.jobs.enter(job["JobName"], "Restarting", "the service was restarted")
                self.start(job)

    def stop(self, name: str) -> None:
        """Stop a running job; what it has recorded stays."""
        self._parts.jobs.stopping(name)
        self._stop_requested.add(name)
        task = self._tasks.get(name)
        if task is None:
            self._finish_stop(name)
        else:
            task.cancel()

    async def shutdown(self) -> None:
        """End all tasks and leave their jobs InProgress, to be resumed by the next process."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, job: dict[str, Any]) -> None:
        name = job["JobName"]
        try:
            await self._bodies[job["JobCategory"]](running_job(self._parts, job))
            self._end(name, "Completed")
        except asyncio.CancelledError:
            if name in self._stop_requested:
                self._finish_stop(name)
        except EXPECTED_FAILURES as error:
            self._end(name, "Failed", str(error))
        except Exception as error:
            log.exception("job %s broke", name)
            self._end(name, "Failed", f"Internal error: {type(error).__name__}: {error}")

    def _finish_stop(self, name: str) -> None:
        self._stop_requested.discard(name)
        self._end(name, "Stopped")

    def _end(self, name: str, status: str, reason: str = "") -> None:
        promote_last_adapter(self._parts.jobs, name)
        self._parts.jobs.end(name, status, reason)


def running_job(parts: Parts, job: dict[str, Any]) -> RunningJob:
    """A recorded job, ready to run."""
    kind = TrainingDocument if job["JobCategory"] == TRAINING_CATEGORY else EvaluationDocument
    document = kind.model_validate(job["Document"])
    return RunningJob(parts, job["JobName"], job["JobArn"], document, document.values())


def promote_last_adapter(jobs: Jobs, name: str) -> None:
    """Name a training job's last adapter as its output, however the job ended."""
    job = next(job for job in jobs.list() if job["JobName"] == name)
    adapter = job["ServiceOutput"].get("ModelCheckpoint", {}).get("ModelPackageArn")
    if adapter:
        jobs.output(name, OutputModelPackageArn=adapter)
