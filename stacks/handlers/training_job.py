"""A SageMaker training job as a CloudFormation resource (CDK Provider framework).

Create submits a job, Update with a new run id submits another, Delete stops and deletes one. The
job's name derives from run id and document, so the same request always meets the same job and
nothing that CloudFormation repeats or rolls back can buy a second one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from mtrl.job.builder import RESUME_LAST
from mtrl.job.identity import (
    SCHEMA_VERSION,
    TRAINING_CATEGORY,
    canonical_json,
    document_changes,
    job_name,
)
from stacks.handlers import jobs
from stacks.handlers.checkpoints import last_checkpoint

ROLE_WAIT_S = 180
"""A fresh IAM role is not assumable everywhere at once; so long is a refusal for it retried."""
REMOVAL_WAIT_S = 300
RETRY_DELAY_S = 10
LOG_GROUP = "/aws/sagemaker/Job/AgentRFT"
_UNUSABLE = ("Failed", "Stopped", "Deleting", "DeleteFailed")
"""States in which a Create finds a job with our name when an earlier attempt broke off."""


class JobError(Exception):
    """A request that cannot be carried out; the message is what the deployment shows."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the resource's properties ask for."""

    prefix: str
    run_id: str
    document: dict[str, Any]
    """As synthesised: the checkpoint to resume may still be the word "last"."""
    role_arn: str
    tags: dict[str, str]
    early_watch_s: float

    @property
    def name(self) -> str:
        """The job's name: the same for the same run id and document."""
        return job_name(self.prefix, self.run_id, self.document)

    def same_job(self, other: Request) -> bool:
        """True when both ask for one and the same run."""
        return self.run_id == other.run_id and self.document == other.document


def parse_request(properties: Mapping[str, Any]) -> Request:
    """Read the resource's properties (CloudFormation hands every value over as a string)."""
    return Request(
        prefix=properties["Prefix"],
        run_id=properties["RunId"],
        document=json.loads(properties["Document"]),
        role_arn=properties["RoleArn"],
        tags=json.loads(properties.get("Tags") or "{}"),
        early_watch_s=float(properties.get("EarlyWatchSeconds") or 0),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request led to, handed from the first step to the waiting one."""

    physical_id: str
    watch: bool = False
    """True when the job is new and its first minutes have to be watched."""
    remove: tuple[str, ...] = ()
    """Names of jobs whose removal has begun and has to be waited for."""


class TrainingJob:
    """Carries out the requests. Clock and sleep are passed in for the tests."""

    def __init__(
        self,
        sagemaker: Any,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sagemaker = sagemaker
        self._sleep = sleep
        self._clock = clock

    def create(self, request: Request) -> Outcome:
        """Submit the job, or find the one that this request made before.

        Raises:
            JobError: the service refuses the job, or there is no checkpoint to go on from.
        """
        job = jobs.describe(self._sagemaker, request.name)
        if job is not None and job["JobStatus"] in _UNUSABLE:
            self._clear(request.name)
            job = None
        arn = job["JobArn"] if job is not None else self._submit(request)
        return Outcome(arn, watch=True)

    def update(self, request: Request, previous: Request, current_arn: str) -> Outcome:
        """Submit another job if the run id is new, otherwise keep the one there is.

        A roll-back arrives here too: the request then names the job that exists, and `previous`
        the one that is given up, which is removed.

        Raises:
            JobError: the document changed and the run id did not; lists what changed.
        """
        current = jobs.job_name_of(current_arn)
        if request.name == current or request.same_job(previous):
            given_up = () if previous.name in (current, request.name) else (previous.name,)
            return self._removal(current_arn, given_up)
        if request.run_id == previous.run_id:
            raise JobError(_changed_message(request, previous))
        return self.create(request)

    def delete(self, physical_id: str, request: Request | None) -> Outcome:
        """Begin to remove the job.

        Args:
            physical_id: the job's ARN, or whatever CloudFormation made up for a resource whose
                creation it never saw end; then the request's own job is meant.
            request: None when the properties cannot be read.
        """
        name = jobs.job_name_of(physical_id) or (request.name if request else None)
        return self._removal(physical_id, (name,) if name else ())

    def settled(self, outcome: Outcome, early_watch_s: float) -> bool:
        """True once jobs to remove are gone and a new job has shown that it works.

        Raises:
            JobError: the new job failed; it has been removed, the message holds the reason.
            RemovalError: the service could not delete a job.
        """
        waiting = [name for name in outcome.remove if not jobs.removed(self._sagemaker, name)]
        if waiting:
            return False
        return not outcome.watch or self._healthy(outcome.physical_id, early_watch_s)

    def _removal(self, physical_id: str, names: tuple[str, ...]) -> Outcome:
        for name in names:
            jobs.removed(self._sagemaker, name, first=True)
        return Outcome(physical_id, remove=names)

    def _healthy(self, arn: str, early_watch_s: float) -> bool:
        name = jobs.job_name_of(arn) or arn
        job = jobs.describe(self._sagemaker, name)
        if job is None:
            raise JobError(f"job {name} was deleted while the deployment watched its start.")
        if job["JobStatus"] == "Failed":
            jobs.delete(self._sagemaker, name)
            reason = job.get("FailureReason") or "the service gave no reason"
            raise JobError(
                f"job {name} failed: {reason} (log group {LOG_GROUP}). The job was removed."
            )
        age_s = self._clock() - job["CreationTime"].timestamp()
        started = jobs.progress_of(job)[0] > 0
        return job["JobStatus"] != "InProgress" or started or age_s >= early_watch_s

    def _clear(self, name: str) -> None:
        """Remove what an earlier attempt left under our name, and wait until it is gone."""
        deadline = self._clock() + REMOVAL_WAIT_S
        first = True
        while not jobs.removed(self._sagemaker, name, first=first):
            if self._clock() >= deadline:
                raise JobError(
                    f"job {name} of an earlier attempt is still being deleted. Deploy again later."
                )
            first = False
            self._sleep(RETRY_DELAY_S)

    def _submit(self, request: Request) -> str:
        document = self._resumed(request)
        deadline = self._clock() + ROLE_WAIT_S
        while True:
            try:
                return self._sagemaker.create_job(
                    JobName=request.name,
                    RoleArn=request.role_arn,
                    JobCategory=TRAINING_CATEGORY,
                    JobConfigSchemaVersion=SCHEMA_VERSION,
                    JobConfigDocument=canonical_json(document),
                    Tags=[{"Key": k, "Value": v} for k, v in sorted(request.tags.items())],
                )["JobArn"]
            except ClientError as error:
                if jobs.code_of(error) == "ResourceInUse":
                    return self._made_meanwhile(request.name, error)
                if not _role_not_ready(error) or self._clock() >= deadline:
                    raise JobError(self._refusal_message(request, error)) from error
            self._sleep(RETRY_DELAY_S)

    def _made_meanwhile(self, name: str, error: ClientError) -> str:
        job = jobs.describe(self._sagemaker, name)
        if job is None:
            raise JobError(f"job {name}: {jobs.message_of(error)}. Deploy again.") from error
        return job["JobArn"]

    def _resumed(self, request: Request) -> dict[str, Any]:
        """The document with the checkpoint's ARN in place of the word "last"."""
        packages = request.document["ModelPackageConfig"]
        if packages.get("InputModelPackageArn") != RESUME_LAST:
            return request.document
        arn = last_checkpoint(self._sagemaker, request.prefix, request.name, request.document)
        return {**request.document, "ModelPackageConfig": {**packages, "InputModelPackageArn": arn}}

    def _refusal_message(self, request: Request, error: ClientError) -> str:
        said = f"job {request.name} was refused: {jobs.message_of(error)}"
        if jobs.code_of(error) != "ResourceLimitExceeded":
            return said
        busy = [job["JobName"] for job in jobs.active_jobs(self._sagemaker)]
        running = f"Active jobs: {', '.join(busy)}. " if busy else ""
        return (
            f"{said}. {running}Stop one or wait for it, or have the quota raised in Service "
            "Quotas (Amazon SageMaker), then deploy again."
        )


def _role_not_ready(error: ClientError) -> bool:
    return "assume" in jobs.message_of(error).lower()


def _changed_message(request: Request, previous: Request) -> str:
    changes = document_changes(previous.document, request.document)
    return (
        f"the job's document changed, but run_id is still {request.run_id!r}:\n  "
        + "\n  ".join(changes)
        + "\nGive a new run id (-c run_id=...) to train anew, or undo the change. "
        "Nothing was submitted."
    )


def _request_or_none(properties: Mapping[str, Any]) -> Request | None:
    try:
        return parse_request(properties)
    except (KeyError, ValueError):
        return None


@jobs.answerable
def on_event(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """First step of the Provider framework."""
    training = TrainingJob(jobs.client("sagemaker"))
    kind, properties = event["RequestType"], event["ResourceProperties"]
    if kind == "Delete":
        outcome = training.delete(event["PhysicalResourceId"], _request_or_none(properties))
    elif kind == "Update":
        previous = parse_request(event["OldResourceProperties"])
        outcome = training.update(parse_request(properties), previous, event["PhysicalResourceId"])
    else:
        outcome = training.create(parse_request(properties))
    name = jobs.job_name_of(outcome.physical_id)
    return {
        "PhysicalResourceId": outcome.physical_id,
        "Watch": outcome.watch,
        "Remove": list(outcome.remove),
        "Data": {"JobArn": outcome.physical_id, "JobName": name or ""},
    }


@jobs.answerable
def is_complete(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Waiting step of the Provider framework: `event` holds what `on_event` returned."""
    outcome = Outcome(event["PhysicalResourceId"], event["Watch"], tuple(event["Remove"]))
    early_watch_s = float(event["ResourceProperties"].get("EarlyWatchSeconds") or 0)
    training = TrainingJob(jobs.client("sagemaker"))
    return {"IsComplete": training.settled(outcome, early_watch_s)}
