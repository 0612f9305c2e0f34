"""The command `mtrl train`: from a deployment to a submitted job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from mtrl.aws import Cloud, CloudCommand
from mtrl.cost.estimate import Estimate, round_up_budget
from mtrl.cost.inputs import deployed_estimate
from mtrl.cost.options import price_list, prices_option
from mtrl.deployment import TAG, Deployment, Where, deployment_options, read_deployment
from mtrl.doctor.check import Subject
from mtrl.doctor.programs import Programs
from mtrl.errors import InputError
from mtrl.job.choices import chosen_wire, set_option, typed
from mtrl.job.identity import MAX_COST_TAG, document_hash, job_name
from mtrl.jobs.reading import Job, complete_job
from mtrl.jobs.table import job_facts
from mtrl.pricing import PriceList, prices_for
from mtrl.terminal import console, json_option, print_json, usd
from mtrl.train.documents import document_of, starting_from
from mtrl.train.gates import Gates, pass_gates
from mtrl.train.resuming import (
    NEWEST,
    job_to_resume,
    last_checkpoint,
    refused_changes,
    rewritten_data,
    trained_package,
)
from mtrl.train.submission import submit


@dataclass(frozen=True, slots=True)
class Order:
    """A job as it will be submitted."""

    name: str
    document: Mapping[str, Any]
    tags: Mapping[str, str]
    origin: str
    """What it starts from, for a person."""
    guard_usd: float | None
    """At which the deployment's budget guard stops any job."""


@click.command("train", cls=CloudCommand)
@click.option("--run-id", help="Your name for the run.  [default: date and time]")
@set_option
@click.option(
    "--resume",
    is_flag=False,
    flag_value=NEWEST,
    metavar="[JOB]",
    shell_complete=complete_job,
    help="Go on with a failed or stopped job (the deployment's newest) at its last checkpoint.",
)
@click.option(
    "--as-before", is_flag=True, help="With --resume: hyperparameters and data of that job."
)
@click.option(
    "--from",
    "origin",
    metavar="PACKAGE|JOB",
    shell_complete=complete_job,
    help="Start a new run from a trained model.",
)
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), metavar="USD",
              help="Stop the job once its tokens have cost so much.")  # fmt: skip
@click.option("--rehearsal", type=click.Path(path_type=Path), help="Estimate from this rehearsal.")
@click.option("--accept-eula", is_flag=True, help="Accept the base model's licence.")
@click.option("--skip-audit", is_flag=True, help="Submit although the audit is not passed.")
@click.option("--skip-doctor", is_flag=True, help="Submit although the doctor is not passed.")
@click.option("--dry-run", is_flag=True, help="Show the job, submit nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@deployment_options
@prices_option
@json_option
def train(where: Where, prices_path: Path | None, as_json: bool, **options: Any) -> None:
    """Submit a training job of a deployment, without deploying anew.

    The job is what a deployment would submit: the same document from the deployment's outputs.
    Audit and doctor have to be passed first.

    \b
    Examples:
      mtrl train --env dev --max-cost 50
      mtrl train --env prod --set max_steps=200 --rehearsal runs/20261201-090000-seed1
      mtrl train --resume
      mtrl train --resume mtrl-dev-run-1-0123456789ab --as-before --yes --json
      mtrl train --from mtrl-dev-run-1-0123456789ab --set learning_rate=2e-5
    """
    cloud = where.cloud()
    deployment = read_deployment(cloud, where)
    prices = price_list(prices_path)
    # With --json, stdout is the answer's alone.
    say: Callable[[str], None] = lambda text: click.echo(text, err=as_json)  # noqa: E731
    order = _order(cloud, deployment, options, prices)
    estimate = _estimate(cloud, deployment, options["rehearsal"], order, prices)
    if options["dry_run"]:
        _show_order(order, estimate, as_json)
        return
    _pass_gates(cloud, deployment, options, order, say)
    if not as_json:
        _show_order(order, estimate, as_json=False)
    if not options["yes"]:
        click.confirm("Submit?", abort=True, err=as_json)
    job, new = submit(cloud, order.name, order.document, deployment.job_role_arn, order.tags)
    _show_job(job, new, prices, as_json)


def _order(cloud: Cloud, d: Deployment, options: Mapping[str, Any], prices: PriceList) -> Order:
    if options["resume"] and options["origin"]:
        raise InputError(
            "two-origins",
            "--resume and --from exclude each other.",
            "--resume goes on with a broken run, --from starts a new one from a trained model.",
        )
    if options["as_before"] and not options["resume"]:
        raise InputError("as-before", "--as-before: only with --resume.")
    run_id = options["run_id"] or f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    accepted = options["accept_eula"] or d.accept_eula
    document, origin = _document(cloud, d, run_id, accepted, options)
    tags = {
        TAG: d.deployment,
        "mtrl:run-id": run_id,
        "mtrl:document": document_hash(document),
        "mtrl:agent-bundle": d.agent_bundle_hash,
        "mtrl:dataset": d.dataset_hash,
        MAX_COST_TAG: _budget(d, options["max_cost"], prices),
    }
    kept = {key: value for key, value in tags.items() if value}
    name = job_name(d.deployment, run_id, document)
    return Order(name, document, kept, origin, d.budget_usd)


def _budget(d: Deployment, max_cost: float | None, prices: PriceList) -> str:
    if max_cost is None:
        return ""
    prices_for(d.model, d.region, prices)  # without a price nobody could tell when to stop
    return f"{Decimal(str(max_cost)):f}"


def _document(
    cloud: Cloud, d: Deployment, run_id: str, accepted: bool, options: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    base = d.hyperparameters
    if options["resume"]:
        job = job_to_resume(cloud, options["resume"], d)
        if options["as_before"]:
            base = job.document["TrainingConfig"].get("HyperParameters", {})
        wire = chosen_wire(options["chosen"], base)
        document = document_of(d, run_id, wire, accepted)
        if options["as_before"]:
            document["InputDataConfig"] = job.document["InputDataConfig"]
        return _resumed(cloud, job, document, d)
    document = document_of(d, run_id, chosen_wire(options["chosen"], base), accepted)
    if options["origin"]:
        package = trained_package(cloud, options["origin"], d)
        return starting_from(document, package, d.region), f"trained model {package}"
    return document, "the base model"


def _resumed(
    cloud: Cloud, job: Job, document: dict[str, Any], d: Deployment
) -> tuple[dict[str, Any], str]:
    rewritten = rewritten_data(cloud, job)
    changes = [*refused_changes(job.document, document), *rewritten.changed]
    if changes:
        lines = "\n".join(f"  {change}" for change in changes)
        raise InputError(
            "changed-since",
            f"--resume {job.name}: a resumed job has to keep its base model, LoRA settings, "
            f"hyperparameters and data. Changed:\n{lines}",
            "Take the change back, or add --as-before, or start a new run from the job's model:  "
            f"mtrl train --from {job.name}",
        )
    for line in rewritten.unsure:
        click.echo(f"{line}; the service refuses the job if its content changed", err=True)
    arn = last_checkpoint(cloud, job)
    return starting_from(document, arn, d.region), f"checkpoint {arn} of {job.name}"


def _estimate(
    cloud: Cloud, d: Deployment, rehearsal: Path | None, order: Order, prices: PriceList
) -> Estimate | None:
    if rehearsal is None:
        return None
    wire = order.document["TrainingConfig"]["HyperParameters"]
    return deployed_estimate(cloud, d, typed(wire), rehearsal, prices)


def _pass_gates(
    cloud: Cloud,
    d: Deployment,
    options: Mapping[str, Any],
    order: Order,
    say: Callable[[str], None],
) -> None:
    subject = Subject(cloud, d, d.deployment, Programs(), Path.cwd())
    gates = Gates(not options["skip_audit"], not options["skip_doctor"], say)
    values = typed(order.document["TrainingConfig"]["HyperParameters"])
    pass_gates(gates, subject, values["success_threshold"])


def _show_order(order: Order, estimate: Estimate | None, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "submitted": False,
                "name": order.name,
                "tags": order.tags,
                "document": order.document,
                "estimate": estimate,
            }
        )
        return
    out = console()
    out.print(f"job     {order.name}", soft_wrap=True)
    out.print(f"from    {order.origin}", soft_wrap=True)
    values = order.document["TrainingConfig"]["HyperParameters"]
    out.print("set     " + ", ".join(f"{k}={v}" for k, v in sorted(values.items())))
    if MAX_COST_TAG in order.tags:
        out.print(f"budget  {usd(float(order.tags[MAX_COST_TAG]))} of tokens, then it is stopped")
        if order.guard_usd is not None and order.guard_usd < float(order.tags[MAX_COST_TAG]):
            out.print(f"        (by the deployment's own budget already at {usd(order.guard_usd)})")
    if estimate:
        low, expected, high = estimate.total_usd.values
        out.print(
            f"cost    {usd(expected)} expected ({usd(low)} to {usd(high)}), AgentCore included"
        )
        if MAX_COST_TAG not in order.tags:
            advised = round_up_budget(estimate.token_usd.high)
            out.print(f"        no budget is set; --max-cost {advised} would cover its tokens")


def _show_job(job: Job, new: bool, prices: PriceList, as_json: bool) -> None:
    if as_json:
        print_json({"submitted": new, **job_facts(job, prices)})
        return
    if not new:
        click.echo(f"{job.name}\nis there already ({job.view.status}); give another --run-id",
                   err=True)  # fmt: skip
        sys.exit(0 if job.running else 1)
    click.echo(f"submitted\n\nwatch it:  mtrl watch {job.name}")
