"""The tab key: scripts for every shell, and what is completed without asking AWS."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mtrl.cli import main


def completed(line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("_MTRL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    return CliRunner().invoke(main, [], prog_name="mtrl").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_every_shell(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0 and "_MTRL_COMPLETE" in result.output


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_takes_its_script() -> None:
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_commands_hyperparameters_and_environments_are_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert "leftovers" in completed("mtrl left", monkeypatch)
    assert "learning_rate=" in completed("mtrl train --set learn", monkeypatch)
    environments = completed("mtrl doctor --env ", monkeypatch)
    assert "dev" in environments and "prod" in environments
    assert "runtime-answers" in completed("mtrl doctor --check runtime-a", monkeypatch)


def test_without_aws_no_job_is_completed_and_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert completed("mtrl watch mtrl-", monkeypatch).strip() == ""


def every_verb(command: click.Command = main) -> Iterator[click.Command]:
    yield command
    for verb in getattr(command, "commands", {}).values():
        yield from every_verb(verb)


@pytest.mark.parametrize("verb", every_verb(), ids=lambda verb: verb.name)
def test_a_verb_takes_h_even_when_it_is_run_without_mtrl(verb: click.Command) -> None:
    assert verb.get_help_option_names(click.Context(verb)) == ["-h", "--help"]


VERBS = [
    "audit", "cost", "cost actual", "cost estimate", "cost tokens", "doctor", "jobs", "leftovers",
    "logs", "mlflow", "stop", "train", "watch",
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_json_and_examples(verb: str) -> None:
    text = CliRunner().invoke(main, [*verb.split(), "-h"]).output
    if verb not in ("cost", "audit"):
        assert "Examples:" in text
    if verb != "cost":
        assert "--json" in text
