"""The commands of the runbook are commands that exist, with options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from mtrl.cli import main

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


def commands() -> list[str]:
    text = RUNBOOK.read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`(mtrl [^`|]+)`", text)
    return sorted({line for line in [*lines, *inline] if line.startswith("mtrl ")})


def parse(line: str) -> click.Command:
    """The command that a line calls; click raises for an option or argument that it lacks."""
    words = shlex.split(line.split(" >> ")[0])[1:]
    command: click.Command = main
    context = click.Context(main, info_name="mtrl")
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_parser(context).parse_args(args=list(words))
    return command


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_runbook_can_be_typed(line: str) -> None:
    parse(line)


def test_the_runbook_covers_the_operators_verbs() -> None:
    verbs = {parse(line).name for line in commands()}
    assert verbs >= {
        "doctor", "estimate", "actual", "tokens", "train", "watch", "stop", "jobs", "mlflow",
        "logs", "leftovers", "report", "rehearse", "audit",
    }  # fmt: skip


def test_every_check_that_the_runbook_names_exists() -> None:
    from mtrl.doctor.examination import CHECKS

    named = set(re.findall(r"--check ([a-z-]+)", RUNBOOK.read_text()))
    assert named and named <= {check.name for check in CHECKS}
