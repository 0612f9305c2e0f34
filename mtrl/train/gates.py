"""What has to be passed before money is spent: the audit of the reward, and the doctor."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from agent.settings import Settings as AgentSettings
from mtrl.doctor.check import State, Subject, runtime_or_none
from mtrl.doctor.examination import examine
from mtrl.errors import MtrlError


class GateError(MtrlError):
    """A gate was not passed; nothing was submitted."""


@dataclass(frozen=True, slots=True)
class Gates:
    """Which gates are to be passed, and whom to tell of each."""

    audit: bool
    doctor: bool
    say: Callable[[str], None]


def pass_gates(gates: Gates, subject: Subject, success_threshold: float) -> None:
    """Run the gates.

    Raises:
        GateError: one is not passed; says what is wrong, how to mend it, how to go on anyway.
    """
    if gates.audit:
        _audit(gates, subject, success_threshold)
    if gates.doctor:
        _doctor(gates, subject)


def _audit(gates: Gates, subject: Subject, success_threshold: float) -> None:
    task = agent_task(subject)
    gates.say(f"audit of task {task} ...")
    report = audit_report(task, success_threshold)
    if report["ok"]:
        return
    faults = "\n".join(f"  {finding['message']}" for finding in report["findings"])
    raise GateError(
        "audit-failed",
        f"the reward of task {task} does not pass its audit:\n{faults}",
        f"See `mtrl audit {task}`; --skip-audit submits anyway.",
    )


def agent_task(subject: Subject) -> str:
    """The task that the deployed agent plays."""
    environment = (runtime_or_none(subject) or {}).get("environmentVariables") or {}
    return environment.get("AGENT_TASK") or AgentSettings().task


def audit_report(task: str, success_threshold: float) -> dict[str, Any]:
    """The audit's own report. Imported late: it brings the whole agent with it."""
    from mtrl.audit.command import audit

    printed = io.StringIO()
    options = [task, "--json", "--success-threshold", str(success_threshold)]
    with redirect_stdout(printed):
        audit.main(options, standalone_mode=False)
    return json.loads(printed.getvalue())


def _doctor(gates: Gates, subject: Subject) -> None:
    gates.say("doctor ...")
    ill = [finding for finding in examine(subject) if finding.state is State.FAILED]
    if not ill:
        return
    lines = [f"  {f.check}: {f.what}\n    {f.why}\n    fix: {f.fix}" for f in ill]
    raise GateError(
        "doctor-failed",
        "the doctor found what would fail the job:\n" + "\n".join(lines),
        "See `mtrl doctor`; --skip-doctor submits anyway.",
    )
