"""The command `mtrl doctor`: what it asks for, and how its findings are shown."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from mtrl.aws import CloudCommand
from mtrl.deployment import Deployment, Where, deployment_options, read_deployment
from mtrl.doctor.check import Finding, State, Subject
from mtrl.doctor.examination import CHECKS, GROUPS, examine
from mtrl.doctor.programs import Programs
from mtrl.errors import InputError
from mtrl.terminal import console, fold_command, json_option, print_json

MARKS = {
    State.OK: ("✓", "green"),
    State.WARNING: ("!", "yellow"),
    State.FAILED: ("✗", "red"),
    State.SKIPPED: ("-", "dim"),
}
NAMES = tuple(check.name for check in CHECKS)


@click.command("doctor", cls=CloudCommand)
@click.option(
    "--group", "groups", multiple=True, type=click.Choice(GROUPS), help="Only these; repeatable."
)
@click.option(
    "--check", "only", multiple=True, type=click.Choice(NAMES), metavar="NAME",
    help="Only this check; repeatable.",
)  # fmt: skip
@deployment_options
@json_option
def doctor(where: Where, groups: tuple[str, ...], only: tuple[str, ...], as_json: bool) -> None:
    """Look for what would fail a job: on this machine, in the account, in the deployment.

    Every finding says what is wrong, why it would fail a job, and which command mends it. What
    may not be looked at, or is not there to be looked at, is skipped and does not fail.

    Exits with 1 when a check failed.

    \b
    Examples:
      mtrl doctor --env dev
      mtrl doctor --group machine
      mtrl doctor --env prod --check runtime-answers --json
    """
    checks = [
        check
        for check in CHECKS
        if (not groups or check.group in groups) and (not only or check.name in only)
    ]
    subject, note = subject_of(where)
    findings = examine(subject, checks)
    if as_json:
        found = list(findings)
        print_json({"ok": healthy(found), "deployment": note, "findings": found})
    else:
        found = show(findings, console())
        if note:
            click.echo(f"deployment not looked at: {note}")
    sys.exit(0 if healthy(found) else 1)


def subject_of(where: Where) -> tuple[Subject, str]:
    """What to examine, and why there is no deployment in it (empty when there is one).

    Raises:
        InputError: a deployment was named and cannot be read.
    """
    cloud = where.cloud()
    deployment: Deployment | None = None
    note = ""
    try:
        deployment = read_deployment(cloud, where)
    except InputError as error:
        if where.named:
            raise
        note = error.message
    prefix = deployment.deployment if deployment else where.prefix
    return Subject(cloud, deployment, prefix, Programs(), Path.cwd()), note


def healthy(findings: Iterable[Finding]) -> bool:
    """True when no check failed."""
    return all(finding.state is not State.FAILED for finding in findings)


def show(findings: Iterable[Finding], out: Console) -> list[Finding]:
    """Print each finding as it comes; returns them all."""
    seen: list[Finding] = []
    for finding in findings:
        if not seen or seen[-1].group != finding.group:
            out.print(Text(finding.group, style="bold"))
        seen.append(finding)
        _show_one(finding, out)
    counts = Counter(finding.state for finding in seen)
    out.print()
    out.print(", ".join(f"{counts[state]} {state}" for state in State if counts[state]))
    return seen


def _show_one(finding: Finding, out: Console) -> None:
    mark, style = MARKS[finding.state]
    line = Text.assemble((f"{mark} {finding.check}", style), ("  ", ""), (finding.what, ""))
    out.print(Padding(line, (0, 0, 0, 2), expand=False))
    if finding.why:
        out.print(Padding(Text(finding.why, style="dim"), (0, 0, 0, 6), expand=False))
    if finding.fix:
        lines = fold_command(finding.fix, out.width - 11)
        out.print(Text("      fix: " + "\n           ".join(lines)), soft_wrap=True)
