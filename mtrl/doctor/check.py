"""The vocabulary of the doctor: a check, what it looks at, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from mtrl.aws import CLOUD_ERRORS, Cloud
from mtrl.deployment import Deployment, env_of
from mtrl.doctor.programs import Programs


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """A job can run, but something is unwise or could not be made sure of."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Could not be looked at: no permission, not offered here, or nothing to look at."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check saw."""

    state: State
    what: str
    fix: str = ""
    """The command that mends it."""


def ok(what: str) -> Verdict:
    """All is well."""
    return Verdict(State.OK, what)


def failed(what: str, fix: str) -> Verdict:
    """A job would fail."""
    return Verdict(State.FAILED, what, fix)


def warning(what: str, fix: str = "") -> Verdict:
    """A job would run, perhaps."""
    return Verdict(State.WARNING, what, fix)


def skipped(what: str, fix: str = "") -> Verdict:
    """Nothing can be said."""
    return Verdict(State.SKIPPED, what, fix)


@dataclass(frozen=True)
class Subject:
    """What is examined. The slow facts are read once, by the first check that asks."""

    cloud: Cloud
    deployment: Deployment | None
    prefix: str
    """What the names of the deployment's stacks begin with."""
    programs: Programs
    root: Path
    """The repository."""
    probe_limit_s: float = 30.0
    """An agent that has not answered by then has not started (AgentCore's own limit)."""

    @cached_property
    def caller(self) -> dict[str, str]:
        """Account and ARN of whoever runs the command."""
        return self.cloud.client("sts").get_caller_identity()

    @cached_property
    def runtime(self) -> dict[str, Any]:
        """The deployment's AgentCore runtime."""
        control = self.cloud.client("bedrock-agentcore-control")
        return control.get_agent_runtime(agentRuntimeId=self.deployed.runtime_id)

    @cached_property
    def job_role(self) -> dict[str, Any]:
        """The role that jobs run under."""
        name = self.deployed.job_role_arn.rsplit("/", 1)[-1]
        return self.cloud.client("iam").get_role(RoleName=name)["Role"]

    def deploy(self, part: str = "") -> str:
        """The command that deploys one of the stacks, or all of them."""
        what = f"{self.prefix}-{part}" if part else "--all"
        return f"npx cdk deploy {what} -c env={env_of(self.prefix)}"

    @property
    def deployed(self) -> Deployment:
        """The deployment; only checks that need one ask."""
        assert self.deployment is not None
        return self.deployment


def runtime_or_none(subject: Subject) -> dict[str, Any] | None:
    """The runtime, for a check that can do without; its own check reports what is wrong."""
    if subject.deployment is None:
        return None
    try:
        return subject.runtime
    except CLOUD_ERRORS:
        return None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at."""

    name: str
    """Stable, for scripts (kebab-case)."""
    group: str
    """machine, account or deployment."""
    why: str
    """Why its failure would fail a job."""
    look: Callable[[Subject], Verdict]
    asks_cloud: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and its verdict, as they are shown."""

    check: str
    group: str
    state: State
    what: str
    why: str
    fix: str
