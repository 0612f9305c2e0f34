"""Refuses to change an AgentCore runtime while a job uses it (CDK Provider framework).

The runtime depends on this resource, so a refusal comes before anything is touched and rolls the
deployment back to what was there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from stacks.handlers import jobs


class RuntimeInUse(Exception):
    """A job uses the runtime; names it and the ways out."""


class RuntimeGuard:
    """Answers whether the runtime may get a new specification."""

    def __init__(self, sagemaker: Any, agentcore: Any) -> None:
        self._sagemaker = sagemaker
        self._agentcore = agentcore

    def check(self, runtime_name: str, endpoint: str, *, force: bool) -> None:
        """Return if the runtime may be given the specification that `endpoint` is named after.

        A specification that already has its endpoint is what runs, or what a roll-back returns
        to: it passes.

        Raises:
            RuntimeInUse: jobs use the runtime, and the update is not forced.
        """
        runtime = self._runtime(runtime_name)
        if runtime is None or endpoint in self._endpoints(runtime["agentRuntimeId"]):
            return
        users = [_described(job) for job in jobs.active_jobs(self._sagemaker)
                 if _uses(job, runtime["agentRuntimeArn"])]  # fmt: skip
        if not users:
            return
        said = f"runtime {runtime_name} is in use by {'; '.join(users)}"
        if force:
            print(f"forced: {said}")
            return
        raise RuntimeInUse(
            f"{said}. A new version would fail it. Wait for it or stop it, "
            "or deploy with -c force=true and lose it. Nothing was changed."
        )

    def _runtime(self, name: str) -> dict[str, Any] | None:
        pages = self._agentcore.get_paginator("list_agent_runtimes").paginate()
        found = (r for page in pages for r in page["agentRuntimes"])
        return next((r for r in found if r["agentRuntimeName"] == name), None)

    def _endpoints(self, runtime_id: str) -> set[str]:
        pages = self._agentcore.get_paginator("list_agent_runtime_endpoints").paginate(
            agentRuntimeId=runtime_id
        )
        try:
            return {e["name"] for page in pages for e in page["runtimeEndpoints"]}
        except ClientError as error:
            if jobs.is_missing(error):
                return set()
            raise


def _uses(job: dict[str, Any], runtime_arn: str) -> bool:
    config = jobs.document_of(job).get("AgentConfig", {}).get("BedrockAgentCoreConfig") or {}
    used = config.get("AgentRuntimeArn", "")
    return used == runtime_arn or used.startswith((f"{runtime_arn}:", f"{runtime_arn}/"))


def _described(job: dict[str, Any]) -> str:
    done, planned = jobs.progress_of(job)
    progress = f", step {done} of {planned}" if planned else ""
    return f"job {job['JobName']} ({job['JobCategory']}, {job['JobStatus']}{progress})"


@jobs.answerable
def on_event(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Only step of the Provider framework."""
    properties = event["ResourceProperties"]
    if event["RequestType"] != "Delete":
        guard = RuntimeGuard(jobs.client("sagemaker"), jobs.client("bedrock-agentcore-control"))
        force = properties.get("Force") == "true"
        guard.check(properties["RuntimeName"], properties["Endpoint"], force=force)
    return {"PhysicalResourceId": f"guard-of-{properties['RuntimeName']}"}
