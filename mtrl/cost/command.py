"""The commands `mtrl cost …`: their options and what they print."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from mtrl.aws import Cloud, CloudCommand, chosen_region, region_option
from mtrl.cost.actual import actual_of, ranges_of, read_estimate
from mtrl.cost.estimate import estimate
from mtrl.cost.inputs import (
    DEPLOYED_IDLE_TIMEOUT_S,
    RANGE,
    Rows,
    deployed_idle_timeout_s,
    deployed_rows,
    estimate_of_job,
    local_rows,
    measured,
    planned,
    reasoning_tokens,
)
from mtrl.cost.measured import Measured
from mtrl.cost.options import KINDS, chosen_prices, price_list, price_option, prices_option
from mtrl.cost.ranges import Range
from mtrl.cost.show import show_actual, show_estimate
from mtrl.deployment import Where, deployment_options, read_deployment
from mtrl.errors import InputError
from mtrl.job.choices import chosen_wire, set_option, typed
from mtrl.jobs.reading import find_job, job_argument
from mtrl.pricing import TokenCounts, token_cost_usd
from mtrl.terminal import console, json_option, plain, print_json, usd
from mtrl.verb import VerbGroup

CENT = Decimal("0.01")
DEFAULT_MODEL = "gpt-oss-20b"
DEFAULT_REGION = "us-east-1"


reasoning_option = click.option(
    "--reasoning",
    default="auto",
    show_default=True,
    metavar="auto|none|reference|low|N|LOW:HIGH",
    help="Reasoning tokens a turn on top of the measured ones. A rehearsal's policy writes none: "
    "auto adds what the reference run wrote.",
)


@click.group("cost", cls=VerbGroup)
def cost() -> None:
    """Estimate a job's cost, read what it has cost, price any counts of tokens."""


@cost.command("tokens")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option("--region", default=DEFAULT_REGION, show_default=True)
@click.option("--prefill", type=click.IntRange(0), default=0, help="Tokens read.")
@click.option("--sample", type=click.IntRange(0), default=0, help="Tokens written.")
@click.option("--train", type=click.IntRange(0), default=0, help="Tokens trained on.")
@price_option
@prices_option
@json_option
def tokens(
    model: str,
    region: str,
    prefill: int,
    sample: int,
    train: int,
    own_prices: tuple[str, ...],
    prices_path: Path | None,
    as_json: bool,
) -> None:
    """Price counts of tokens.

    The table rounds each line to the cent, as a bill does; --json does not round.

    \b
    Examples:
      mtrl cost tokens --prefill 491616806 --sample 159737098 --train 643308554
      mtrl cost tokens --region us-west-2 --prices prices.toml --train 1000000 --json
    """
    prices = chosen_prices(model, region, price_list(prices_path), own_prices)
    counts = TokenCounts(prefill, sample, train)
    parts = {
        kind: token_cost_usd(TokenCounts(**{kind: getattr(counts, kind)}), prices) for kind in KINDS
    }
    if as_json:
        print_json(
            {
                "model": model,
                "region": region,
                "tokens": counts,
                "usd": {**parts, "total": sum(parts.values())},
                "prices": prices,
            }
        )
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("", "tokens", "per million", "cost"):
        table.add_column(heading, justify="right" if heading else "left")
    for kind, amount in parts.items():
        table.add_row(kind, f"{getattr(counts, kind):,}", f"${getattr(prices, kind)}", usd(amount))
    total = sum(map(billed, parts.values()), Decimal(0))
    table.add_row("total", f"{counts.total:,}", "", usd(total), style="bold")
    out = console()
    out.print(table)
    out.print(
        f"\n{model} in {region}; prices: {prices.source} ({prices.as_of})".removesuffix(" ()")
    )


def billed(amount: Decimal) -> Decimal:
    """A line of a bill: whole cents, halves up; below a cent as it is, so that it shows at all."""
    return amount.quantize(CENT, ROUND_HALF_UP) if amount >= CENT else amount


@cost.command("estimate", cls=CloudCommand)
@click.argument("rehearsal", required=False, metavar="[RUN]", type=click.Path(path_type=Path))
@click.option("--traces", multiple=True, type=click.Path(path_type=Path),
              help="Trace files of real rollouts; repeatable.")  # fmt: skip
@click.option("--turns", type=RANGE, help="Turns of one rollout.")
@click.option("--prefill", type=RANGE, help="Tokens read in one rollout.")
@click.option("--sample", type=RANGE, help="Tokens written in one rollout, reasoning included.")
@reasoning_option
@set_option
@click.option("--task", default="wordle", show_default=True)
@click.option("--train", "train_file", type=click.Path(path_type=Path), help="Training rows.")
@click.option("--validation", "validation_file", type=click.Path(path_type=Path),
              help="Held-out rows.")  # fmt: skip
@click.option("--idle-timeout", type=click.FloatRange(0), metavar="SECONDS",
              help=f"Of an AgentCore session.  [default: {DEPLOYED_IDLE_TIMEOUT_S:g}]")  # fmt: skip
@click.option("--model", help=f"[default: {DEFAULT_MODEL}]")
@deployment_options
@price_option
@prices_option
@json_option
def estimated(
    where: Where,
    own_prices: tuple[str, ...],
    prices_path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate a planned job: tokens, AgentCore seconds and hours, each with a range.

    One rollout is measured in a rehearsal (RUN, its folder) or in real traces, or given. The job
    is planned from its hyperparameters (--set) and data sets; with --env, --stack-prefix or
    --deployment from those of a deployment.

    \b
    Examples:
      mtrl cost estimate runs/20261201-090000-seed1
      mtrl cost estimate runs/20261201-090000-seed1 --env prod --json > estimate.json
      mtrl cost estimate --traces rollouts.jsonl --set max_steps=100 --set max_epochs=20
      mtrl cost estimate --turns 4:6 --prefill 4660 --sample 1514 --reasoning none
    """
    prices = price_list(prices_path)
    given = {name: options[name] for name in ("turns", "prefill", "sample")}
    rollout = measured(options["rehearsal"], options["traces"], given)
    reasoning, why = reasoning_tokens(options["reasoning"], rollout)
    values, rows, idle, model, region = _planned_for(where, options)
    token_prices = chosen_prices(model, region, prices, own_prices)
    found = estimate(planned(values, rows), rollout, reasoning, idle, token_prices, prices.runtime)
    if as_json:
        print_json(
            {
                "estimate": found,
                "rollout": rollout,
                "reasoning_tokens_a_turn": reasoning,
                "reasoning": why,
                "idle_timeout_s": idle,
                "model": model,
                "region": region,
                "prices": token_prices,
                "hyperparameters": values,
            }
        )
        return
    priced = f"{model} in {region}; prices: {token_prices.source} ({token_prices.as_of})"
    show_estimate(found, [*_grounds(rollout, reasoning, why, idle), priced], console())


def _planned_for(
    where: Where, options: Mapping[str, Any]
) -> tuple[dict[str, Any], Rows, float, str, str]:
    """Typed hyperparameters, rows, idle timeout, model and Region of the planned job."""
    idle = options["idle_timeout"]
    if where.named:
        cloud = where.cloud()
        d = read_deployment(cloud, where)
        values = typed(chosen_wire(options["chosen"], d.hyperparameters))
        if idle is None:
            idle = deployed_idle_timeout_s(cloud, d)
        return values, deployed_rows(cloud, d), idle, options["model"] or d.model, d.region
    values = typed(chosen_wire(options["chosen"], {}))
    rows = local_rows(options["task"], options["train_file"], options["validation_file"])
    idle = DEPLOYED_IDLE_TIMEOUT_S if idle is None else idle
    return values, rows, idle, options["model"] or DEFAULT_MODEL, where.region or DEFAULT_REGION


def _grounds(rollout: Measured, reasoning: Range, why: str, idle: float) -> list[str]:
    """What an estimate rests on, a sentence each."""
    turns, prefill, sample = (
        "to".join(f" {value:,.0f} " if value >= 100 else f" {value:.1f} " for value in ends).strip()
        for ends in ((r.low, r.high) for r in (rollout.turns, rollout.prefill, rollout.sample))
    )
    added = (
        f"reasoning: {reasoning.low:,.0f} to {reasoning.high:,.0f} tokens a turn more ({why})"
        if reasoning.high
        else f"reasoning: no tokens added ({why})"
    )
    return [
        f"one rollout: {turns} turns, {prefill} tokens read, {sample} written ({rollout.source})",
        added,
        f"AgentCore sessions idle {idle:g} s after their rollout, or are stopped at once (low)",
    ]


@cost.command("actual", cls=CloudCommand)
@job_argument
@click.option("--estimate", "estimate_file", type=click.Path(path_type=Path),
              help="Compare with what `mtrl cost estimate --json` printed.")  # fmt: skip
@click.option("--rehearsal", type=click.Path(path_type=Path),
              help="Compare with an estimate from this rehearsal.")  # fmt: skip
@reasoning_option
@region_option
@prices_option
@json_option
def used(
    job: str | None,
    estimate_file: Path | None,
    rehearsal: Path | None,
    reasoning: str,
    region: str | None,
    prices_path: Path | None,
    as_json: bool,
) -> None:
    """Say what JOB (by default the newest one) has used, beside its estimate if one is given.

    \b
    Examples:
      mtrl cost actual mtrl-dev-run-1-0123456789ab
      mtrl cost actual --estimate estimate.json
      mtrl cost actual --rehearsal runs/20261201-090000-seed1 --json
    """
    if estimate_file and rehearsal:
        raise InputError("two-estimates", "--estimate and --rehearsal exclude each other.")
    cloud, prices = Cloud(chosen_region(region)), price_list(prices_path)
    found = find_job(cloud, job)
    ranges = read_estimate(estimate_file) if estimate_file else None
    if rehearsal:
        planned_cost = estimate_of_job(cloud, found, rehearsal, prices, reasoning)
        ranges = ranges_of(plain(planned_cost))
    actual = actual_of(cloud, found, prices, ranges)
    if as_json:
        print_json(actual)
        return
    out = console()
    out.print(f"{found.name}: {found.view.status}\n", soft_wrap=True)
    show_actual(actual, out)
