"""Jobs as DescribeJob shows them: their records, their states and the moves between them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from rehearsal.errors import ServiceError, in_use, limit_exceeded, not_found
from rehearsal.packages import Place
from rehearsal.records import Records

JOB = "job"
RUNNING = frozenset({"InProgress", "Stopping"})
FAILURE_REASON_MAX = 1024
"""Characters; FailureReason in the botocore model."""


class Jobs:
    """The registry of jobs. A job's body is what DescribeJob returns, plus `Document`."""

    def __init__(self, records: Records, place: Place, *, max_evaluations: int) -> None:
        self.records = records
        self._place = place
        self._max_evaluations = max_evaluations

    def arn(self, category: str, name: str) -> str:
        """ARN of a job."""
        return self._place.arn(f"job/{category}/{name}")

    def add(
        self,
        name: str,
        category: str,
        role_arn: str,
        schema_version: str,
        document: dict[str, Any],
        tags: list[dict[str, str]],
    ) -> dict[str, Any]:
        """Record a new job, InProgress.

        Raises:
            ServiceError: the name is taken, or a quota is used up.
        """
        for other in self.list():
            if other["JobName"] == name:
                raise in_use(f"Job with name {name} already exists ({other['JobStatus']}).")
        evaluating = [j for j in self.list("AgentRFTEvaluation") if j["JobStatus"] in RUNNING]
        if category == "AgentRFTEvaluation" and len(evaluating) >= self._max_evaluations:
            raise limit_exceeded(
                f"The account-level limit of {self._max_evaluations} concurrent evaluation jobs "
                f"is reached: {', '.join(j['JobName'] for j in evaluating)}."
            )
        now = time.time()
        job = {
            "JobName": name,
            "JobArn": self.arn(category, name),
            "RoleArn": role_arn,
            "JobCategory": category,
            "JobConfigSchemaVersion": schema_version,
            "Document": document,
            "Tags": tags,
            "CreationTime": now,
            "LastModifiedTime": now,
            "JobStatus": "InProgress",
            "SecondaryStatus": "Starting",
            "SecondaryStatusTransitions": [{"Status": "Starting", "StartTime": now}],
            "ServiceOutput": {},
        }
        self._put(job)
        return job

    def get(self, name: str, category: str) -> dict[str, Any]:
        """A job's body. Raises ServiceError when missing."""
        job = self.records.get(JOB, name)
        if job is None or job["JobCategory"] != category:
            raise not_found(f"Job {self.arn(category, name)} was not found.")
        return job

    def list(self, category: str | None = None) -> list[dict[str, Any]]:
        """All jobs, or those of a category."""
        found = self.records.list(JOB)
        return [job for job in found if category in (None, job["JobCategory"])]

    def enter(self, name: str, secondary: str, message: str = "") -> None:
        """Move a job to a secondary status."""
        job = self._require(name)
        now = time.time()
        transitions = job["SecondaryStatusTransitions"]
        transitions[-1].setdefault("EndTime", now)
        entry = {"Status": secondary, "StartTime": now}
        transitions.append({**entry, "StatusMessage": message} if message else entry)
        self._put({**job, "SecondaryStatus": secondary})

    def output(self, name: str, **values: Any) -> None:
        """Set keys of `ServiceOutput`."""
        job = self._require(name)
        self._put({**job, "ServiceOutput": {**job["ServiceOutput"], **values}})

    def stopping(self, name: str) -> None:
        """Move a job to Stopping."""
        self._put({**self._require(name), "JobStatus": "Stopping"})
        self.enter(name, "Stopping")

    def end(self, name: str, status: str, reason: str = "") -> None:
        """Move a job to Completed, Failed or Stopped."""
        self.enter(name, status, reason)
        job = {**self._require(name), "JobStatus": status, "EndTime": time.time()}
        if reason:
            job["FailureReason"] = reason[:FAILURE_REASON_MAX]
        self._put(job)

    def remove(self, name: str, category: str) -> None:
        """Forget a finished job.

        Raises:
            ServiceError: it is missing or still running.
        """
        job = self.get(name, category)
        if job["JobStatus"] in RUNNING:
            raise in_use(f"Job {name} is {job['JobStatus']}; stop it before you delete it.")
        self.records.delete(JOB, name)

    def _require(self, name: str) -> dict[str, Any]:
        job = self.records.get(JOB, name)
        if job is None:
            raise ServiceError("InternalFailure", f"job {name} has no record", 500)
        return job

    def _put(self, job: Mapping[str, Any]) -> None:
        self.records.put(JOB, job["JobName"], {**job, "LastModifiedTime": time.time()})


def described(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job as DescribeJob returns it: the document with its ServiceOutput as one string."""
    document = {**job["Document"], "ServiceOutput": job["ServiceOutput"]}
    hidden = ("Document", "ServiceOutput")
    shown = {key: value for key, value in job.items() if key not in hidden}
    return {**shown, "JobConfigDocument": json.dumps(document)}


def summarised(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job as ListJobs returns it."""
    keys = ("JobArn", "JobName", "JobCategory", "JobStatus", "CreationTime", "LastModifiedTime")
    summary = {key: job[key] for key in keys} | {"JobSecondaryStatus": job["SecondaryStatus"]}
    return summary | ({"EndTime": job["EndTime"]} if "EndTime" in job else {})
