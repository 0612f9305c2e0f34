"""`python -m rehearsal.local_cloud deploy|destroy`: what the make targets run."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import click

from mtrl.errors import MtrlError
from mtrl.job.identity import TERMINAL_STATUSES, TRAINING_CATEGORY
from rehearsal.local_cloud.cloud import LocalCloud
from rehearsal.local_cloud.inventory import inventory

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".local-cloud" / "state"
ENVIRONMENT = "local"
JOB_LIMIT_S = 1_800


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A local account for the real CDK CLI."""


@main.command()
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def deploy(options: tuple[str, ...]) -> None:
    """Deploy all stacks and wait for the job; OPTIONS go to `cdk deploy`."""
    cloud = LocalCloud(ROOT, FOLDER)
    cloud.start()
    cloud.bootstrap()
    cloud.cdk("deploy", "--all", "-c", f"env={ENVIRONMENT}", "--require-approval", "never",
              "--progress", "events", *options)  # fmt: skip
    wait_for_jobs(cloud)
    click.echo("\n".join(["", "In the account now:", *inventory(cloud.client)]))


@main.command()
def destroy() -> None:
    """Destroy all stacks, show that nothing is left, and end the local cloud."""
    cloud = LocalCloud(ROOT, FOLDER)
    cloud.cdk("destroy", "--all", "--force", "-c", f"env={ENVIRONMENT}", "--progress", "events")
    cloud.remove_bootstrap()
    left = inventory(cloud.client)
    if left:
        raise MtrlError("leftovers", "left in the account:\n  " + "\n  ".join(left))
    cloud.stop()
    shutil.rmtree(FOLDER)
    click.echo("Nothing is left in the account.")


def wait_for_jobs(cloud: LocalCloud, limit_s: float = JOB_LIMIT_S) -> None:
    """Wait until every training job has ended, saying how far it is.

    Raises:
        MtrlError: a job did not complete.
    """
    sagemaker = cloud.client("sagemaker")
    summaries = sagemaker.list_jobs(JobCategory=TRAINING_CATEGORY)["JobSummaries"]
    deadline = time.monotonic() + limit_s
    for name in [summary["JobName"] for summary in summaries]:
        said = ""
        while True:
            job = sagemaker.describe_job(JobName=name, JobCategory=TRAINING_CATEGORY)
            output = json.loads(job["JobConfigDocument"]).get("ServiceOutput", {})
            info = output.get("ProgressInfo", {})
            now = f"{name}: {job['JobStatus']}, step {info.get('CurrentStep', 0)}"
            if now != said:
                click.echo(now)
                said = now
            if job["JobStatus"] in TERMINAL_STATUSES or time.monotonic() > deadline:
                break
            time.sleep(1)
        if job["JobStatus"] != "Completed":
            reason = job.get("FailureReason", "")
            raise MtrlError("job-failed", f"job {name} is {job['JobStatus']}. {reason}")


if __name__ == "__main__":
    try:
        main()
    except MtrlError as error:
        click.secho(f"error: {error}", fg="red", err=True)
        sys.exit(error.exit_code)
