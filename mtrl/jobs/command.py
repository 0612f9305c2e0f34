"""The commands `mtrl jobs`, `mtrl stop` and `mtrl mlflow`."""

from __future__ import annotations

from pathlib import Path

import click

from mtrl.aws import Cloud, CloudCommand, chosen_region, region_option
from mtrl.cost.options import price_list, prices_option
from mtrl.errors import InputError
from mtrl.jobs.money import spent_usd
from mtrl.jobs.reading import Job, find_job, job_argument
from mtrl.jobs.stopping import ask_to_stop, wait_until_ended
from mtrl.jobs.table import job_facts, jobs_table, newest_jobs, steps
from mtrl.pricing import PriceList
from mtrl.terminal import console, json_option, print_json, usd

URL_LIFE_S = 300
SESSION_LIFE_S = 12 * 3600
"""Of a presigned MLflow URL, and of the browser session that it opens."""


@click.command("jobs", cls=CloudCommand)
@click.option("--limit", default=15, show_default=True, type=click.IntRange(1, 500))
@click.option("--prefix", help="Only jobs whose names begin with this, e.g. mtrl-dev.")
@click.option("--active", is_flag=True, help="Only jobs that run or are being stopped.")
@region_option
@prices_option
@json_option
def jobs(
    limit: int,
    prefix: str | None,
    active: bool,
    region: str | None,
    prices_path: Path | None,
    as_json: bool,
) -> None:
    """List training and evaluation jobs, newest first, with what each has spent on tokens.

    \b
    Examples:
      mtrl jobs
      mtrl jobs --active --json
      mtrl jobs --prefix mtrl-prod --limit 50
    """
    prices = price_list(prices_path)
    found = newest_jobs(Cloud(chosen_region(region)).client("sagemaker"), limit, prefix, active)
    if as_json:
        print_json({"jobs": [job_facts(job, prices) for job in found]})
    elif found:
        console().print(jobs_table(found, prices))
    else:
        click.echo("no jobs")


@click.command("stop", cls=CloudCommand)
@job_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Until it has stopped.")
@region_option
@prices_option
@json_option
def stop(
    job: str | None,
    yes: bool,
    wait: bool,
    region: str | None,
    prices_path: Path | None,
    as_json: bool,
) -> None:
    """Stop JOB (by default the newest one); its last checkpoint is kept.

    Exits with 0 when the job no longer runs or is on its way there.

    \b
    Examples:
      mtrl stop mtrl-dev-run-1-0123456789ab
      mtrl stop --yes --no-wait --json
    """
    cloud, prices = Cloud(chosen_region(region)), price_list(prices_path)
    sagemaker = cloud.client("sagemaker")
    found = find_job(cloud, job)
    if found.view.status == "InProgress":
        if not yes:
            click.confirm(_question(found, prices), abort=True, err=as_json)
        found = ask_to_stop(sagemaker, found)
    out = console()
    if wait and found.running:
        if out.is_terminal and not as_json:
            with out.status(f"waiting for {found.name} to stop"):
                found = wait_until_ended(sagemaker, found)
        else:
            found = wait_until_ended(sagemaker, found)
    if as_json:
        print_json(job_facts(found, prices))
        return
    out.print(f"{found.name}\nis {found.view.status} at step {steps(found)}", soft_wrap=True)
    if found.checkpoint:
        out.print(f"go on from its last checkpoint:  mtrl train --resume {found.name}",
                  soft_wrap=True)  # fmt: skip


def _question(job: Job, prices: PriceList) -> str:
    spent = spent_usd(job, prices)
    cost = "" if spent is None else f", {usd(spent)} spent on tokens"
    return f"Stop {job.name} (step {steps(job)}{cost})?"


@click.command("mlflow", cls=CloudCommand)
@job_argument
@click.option(
    "--expires",
    default=URL_LIFE_S,
    show_default=True,
    type=click.IntRange(5, 300),
    metavar="SECONDS",
    help="How long the URL can be opened.",
)
@region_option
@json_option
def mlflow(job: str | None, expires: int, region: str | None, as_json: bool) -> None:
    """Print a URL to the MLflow App that holds JOB's curves (by default the newest job's).

    \b
    Examples:
      mtrl mlflow
      xdg-open "$(mtrl mlflow mtrl-dev-run-1-0123456789ab)"
    """
    cloud = Cloud(chosen_region(region))
    found = find_job(cloud, job)
    url = tracking_url(cloud, found, expires)
    details = found.view.output.get("MlflowDetails") or {}
    if as_json:
        print_json({"url": url, "app": found.mlflow["MlflowResourceArn"], "run": details})
        return
    click.echo(url)
    if not url.startswith("http"):
        click.echo(f"a tracking store: mlflow ui --backend-store-uri {url}", err=True)
    if details:
        experiment, run = details.get("ExperimentName"), details.get("RunName")
        click.echo(f"experiment {experiment}, run {run}", err=True)


def tracking_url(cloud: Cloud, job: Job, expires: int = URL_LIFE_S) -> str:
    """A presigned URL of the job's MLflow App.

    Raises:
        InputError: the job has no MLflow App.
    """
    arn = job.mlflow.get("MlflowResourceArn")
    if not arn:
        raise InputError("no-mlflow", f"job {job.name} writes to no MLflow App.")
    answer = cloud.client("sagemaker").create_presigned_mlflow_app_url(
        Arn=arn, ExpiresInSeconds=expires, SessionExpirationDurationInSeconds=SESSION_LIFE_S
    )
    return answer["AuthorizedUrl"]
