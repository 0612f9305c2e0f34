"""The command `mtrl report`: from a folder, a file or a job to one page."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from mtrl.aws import Cloud, CloudCommand, chosen_region, region_option
from mtrl.cost.options import price_list, prices_option
from mtrl.errors import InputError, MtrlError
from mtrl.pricing import PriceList
from mtrl.report.answers import join
from mtrl.report.folder import read_folder
from mtrl.report.mlflow_store import EXPERIMENT, log_report
from mtrl.report.run import MlflowTarget, Run

TRACKING_URI = "MLFLOW_TRACKING_URI"
"""MLflow's own environment variable."""


@click.command("report", cls=CloudCommand)
@click.argument("source", metavar="PATH_OR_JOB")
@click.option(
    "-o",
    "--out",
    default="report.html",
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The page to write.",
)
@click.option(
    "--rows",
    "row_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Data file with the rows that were played, for their answers; repeatable.",
)
@click.option(
    "--mlflow/--no-mlflow",
    default=True,
    show_default=True,
    help=f"Log the page as an artifact where the run's MLflow (or {TRACKING_URI}) is known.",
)
@region_option
@prices_option
def report(
    source: str,
    out: Path,
    row_files: tuple[Path, ...],
    mlflow: bool,
    region: str | None,
    prices_path: Path | None,
) -> None:
    """Write one self-contained HTML page about a run.

    PATH_OR_JOB is the folder of a rehearsal or an evaluation, a folder or file of traces, or the
    name of a job. The page works offline: curves, intervals, errors, cost, and a replay of the
    games.

    \b
    Examples:
      mtrl report runs/20261201-093000-seed1
      mtrl report mtrl-dev-run-1-0123456789ab -o run-1.html
    """
    prices = price_list(prices_path)
    run = read_source(source, region)
    write_report(run, out, list(row_files), prices)
    click.echo(f"{out} ({out.stat().st_size / 1e6:.1f} MB)")
    target = mlflow_target(run) if mlflow else None
    if target is not None:
        try:
            click.echo(f"logged to MLflow as {log_report(out, target)}")
        except MtrlError as error:
            click.secho(f"not logged to MLflow: {error.message}", fg="yellow", err=True)


def read_source(source: str, region: str | None = None) -> Run:
    """Read a run from a path, or from a job when there is no such path.

    Raises:
        InputError: neither is there.
    """
    path = Path(source)
    if path.exists():
        return read_folder(path)
    if os.sep in source and not source.startswith("arn:"):
        raise InputError(
            "no-such-path", f"{source}: no such folder or file.", "Give a path or a job's name."
        )
    from mtrl.report.job import read_job_run

    return read_job_run(Cloud(chosen_region(region)), source)


def write_report(
    run: Run, out: Path, row_files: list[Path] | None = None, prices: PriceList | None = None
) -> None:
    """Write a run's page; a page that is there is replaced whole.

    Raises:
        InputError: the page cannot be written, or `row_files` cannot be read.
    """
    from mtrl.report.page import render  # templates and charts take a while to load

    page = render(run, join(run, row_files), prices)
    try:
        with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}.", delete=False) as f:
            f.write(page)
        os.chmod(f.name, 0o644)
        os.replace(f.name, out)
    except OSError as error:
        raise InputError("cannot-write", f"--out {out}: {error.strerror}.") from error


def mlflow_target(run: Run) -> MlflowTarget | None:
    """Where to log: the run's own MLflow, else the one that the environment names."""
    uri = os.environ.get(TRACKING_URI)
    if run.mlflow is not None or not uri:
        return run.mlflow
    return MlflowTarget(uri, experiment=EXPERIMENT, run_name=run.title)
