"""Runs the checks in order and turns whatever goes wrong within one into its finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mtrl.aws import CLOUD_ERRORS, in_words, is_denied, is_not_offered
from mtrl.doctor import account, deployed, machine, permissions, probes
from mtrl.doctor.check import Check, Finding, State, Subject, Verdict, failed, skipped, warning

CHECKS: tuple[Check, ...] = (
    *machine.CHECKS,
    *account.CHECKS,
    *deployed.CHECKS,
    *permissions.CHECKS,
    *probes.CHECKS,
)
"""In the order in which they are run; credentials come before all that needs them."""
GROUPS = ("machine", "account", "deployment")


def examine(subject: Subject, checks: Sequence[Check] = CHECKS) -> Iterator[Finding]:
    """One finding a check, as soon as it is there."""
    unusable = ""
    for check in sorted(checks, key=lambda check: check.asks_cloud):
        if check.asks_cloud and not unusable:
            unusable = _login_fault(subject)
        verdict = _looked(check, subject, unusable)
        unwell = verdict.state in (State.FAILED, State.WARNING)
        yield Finding(
            check=check.name,
            group=check.group,
            state=verdict.state,
            what=verdict.what,
            why=check.why if unwell else "",
            fix=verdict.fix,
        )


def _looked(check: Check, subject: Subject, unusable: str) -> Verdict:
    if check.asks_cloud and unusable:
        if check.name == "credentials":
            return failed(unusable, "aws sso login  # or export AWS_PROFILE=…")
        return skipped("needs working credentials")
    if check.group == "deployment" and subject.deployment is None:
        return skipped("there is no deployment to look at")
    try:
        return check.look(subject)
    except CLOUD_ERRORS as error:
        said = in_words(error)
        if is_denied(error) or is_not_offered(error):
            return skipped(said.message)
        return failed(said.message, said.remedy)
    # One check that stumbles over an answer must not hide what the others find.
    except Exception as error:
        return warning(f"could not be looked at: {type(error).__name__}: {error}")


def _login_fault(subject: Subject) -> str:
    """Why the credentials cannot be used; empty when they can."""
    try:
        _ = subject.caller
    except CLOUD_ERRORS as error:
        return in_words(error).message
    return ""
