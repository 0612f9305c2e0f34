"""The `mtrl` command: its verbs, and how errors reach a person."""

from __future__ import annotations

import sys
from typing import Any

import click

from mtrl.audit.command import audit
from mtrl.completion import completion
from mtrl.cost.command import cost
from mtrl.dataset.cli import dataset
from mtrl.doctor.command import doctor
from mtrl.errors import MtrlError
from mtrl.evaluate.command import evaluate
from mtrl.jobs.command import jobs, mlflow, stop
from mtrl.jobs.logs_command import logs
from mtrl.leftovers.command import leftovers
from mtrl.play import play
from mtrl.rehearse.command import rehearse
from mtrl.report.command import report
from mtrl.train.command import train
from mtrl.verb import VerbGroup
from mtrl.watch.command import watch


class _Group(VerbGroup):
    """Prints an MtrlError as message and remedy; `--debug` shows the traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MtrlError as error:
            if ctx.params.get("debug"):
                raise
            click.secho(f"error: {error.message}", fg="red", err=True)
            if error.remedy:
                click.echo(error.remedy, err=True)
            sys.exit(error.exit_code)


@click.group(cls=_Group)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def main(debug: bool) -> None:
    """Rehearse, run and judge multi-turn RL jobs for a tool-calling agent."""


main.add_command(audit)
main.add_command(completion)
main.add_command(cost)
main.add_command(dataset)
main.add_command(doctor)
main.add_command(evaluate)
main.add_command(jobs)
main.add_command(leftovers)
main.add_command(logs)
main.add_command(mlflow)
main.add_command(play)
main.add_command(rehearse)
main.add_command(report)
main.add_command(stop)
main.add_command(train)
main.add_command(watch)
