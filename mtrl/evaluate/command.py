"""The command `mtrl evaluate`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from agent.settings import REASONING_EFFORTS
from agent.task import TASKS, load_task
from mtrl.aws import Cloud, CloudCommand
from mtrl.cost.options import chosen_prices, price_list, price_option, prices_option
from mtrl.dataset.build import folder_of
from mtrl.dataset.remote import download
from mtrl.deployment import Deployment, Where, deployment_options, read_deployment
from mtrl.errors import InputError
from mtrl.evaluate.choices import (
    NO_EFFORT,
    TRAINED,
    chosen_conditions,
    chosen_policies,
    chosen_values,
    needs_deployment,
    newest_package,
    players_of,
)
from mtrl.evaluate.display import show
from mtrl.evaluate.folder import Folder
from mtrl.evaluate.jobs import Waiting
from mtrl.evaluate.plan import Cell, Kind, Policy, matrix
from mtrl.evaluate.results import (
    Evaluation,
    all_differences,
    chosen_differences,
    ladder_differences,
    read_results,
    rungs,
)
from mtrl.evaluate.rows import RowSet, check, read_rows
from mtrl.evaluate.run import Round, play
from mtrl.evaluate.site import Site, deployed
from mtrl.job.hyperparameters import EVALUATION
from mtrl.pricing import TokenPrices
from mtrl.terminal import console, json_option, print_json

NAME = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
FOLDERS = Path("evaluations")
FAILED_EXIT = 1
MODEL, REGION = "gpt-oss-20b", "us-east-1"
"""Whose prices are shown when no deployment names a model."""


@click.command(cls=CloudCommand)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="[LABEL=]POLICY",
    help="base, trained, job:NAME, the ARN of a model package, the URL of an OpenAI-compatible "
    "server (URL#model), or one of the task's players; repeatable.  [default: base]",
)
@click.option(
    "--effort",
    "efforts",
    multiple=True,
    type=click.Choice([*REASONING_EFFORTS, NO_EFFORT]),
    help="Reasoning effort, written into the rows; repeatable.  [default: the model's own]",
)
@click.option(
    "--temperature",
    "temperatures",
    multiple=True,
    type=click.FloatRange(0, 2),
    default=[1.0],
    show_default=True,
    help="Repeatable.",
)
@click.option(
    "--hint",
    "hints",
    multiple=True,
    help="A line added to the system prompt, beside playing without one; repeatable.",
)
@click.option(
    "--repeats", type=click.IntRange(1, 32), default=1, show_default=True, help="Games a row."
)
@click.option("--ladder", is_flag=True, help="Players, base, base with a hint, trained.")
@click.option(
    "--rows",
    "rows_from",
    metavar="FILE|S3URI",
    help="Held-out rows.  [default: the deployment's, else those of the task]",
)
@click.option("--limit", type=click.IntRange(1), help="Only so many rows, from the first.")
@click.option("--name", default="evaluation", show_default=True, help="A new name plays anew.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder.  [default: evaluations/NAME]")
@click.option(
    "--compare",
    "compared",
    nargs=2,
    multiple=True,
    metavar="CELL CELL",
    help="Only this difference; repeatable. CELL is the beginning of a cell's id.",
)
@click.option("--task", default="wordle", show_default=True)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A hyperparameter of the evaluation job, e.g. sampling_max_tokens=8192; repeatable.",
)
@click.option(
    "--success-threshold",
    "threshold",
    default=EVALUATION["success_threshold"].default,
    show_default=True,
)
@click.option("--accept-eula", is_flag=True, help="Accept the base model's licence.")
@click.option("--beside-training", is_flag=True, help="Also while a training job runs.")
@click.option(
    "--max-wait", default=240.0, show_default=True, help="Minutes to wait for a job's place."
)
@click.option("--dry-run", is_flag=True, help="Show the cells, play nothing.")
@deployment_options
@prices_option
@price_option
@json_option
@click.pass_context
def evaluate(ctx: click.Context, where: Where, as_json: bool, **options: Any) -> None:
    """Evaluate policies on held-out rows, over a matrix of conditions.

    Runs one evaluation job a cell and tells the figures with their uncertainty. What is done is
    kept in the folder: the same command goes on where it was broken off.

    \b
    Examples:
      mtrl evaluate --policy base --policy trained --effort low --effort medium --repeats 4
      mtrl evaluate --ladder
      mtrl evaluate --policy random --policy solver
      mtrl evaluate --policy vllm=http://127.0.0.1:8000/v1#gpt-oss-20b --temperature 0
    """
    _check_names(options)
    texts = _policy_texts(options)
    cloud, d = _deployment(where, texts, options)
    rows = _rows(cloud, d, options)
    policies = chosen_policies(texts, options["task"], cloud, d)
    if options["ladder"]:
        policies += _trained_rung(cloud, d)
    cells = _cells(policies, rows, options)
    if options["dry_run"]:
        _show_plan(cells, rows, as_json)
        return
    folder = Folder(options["out"] or FOLDERS / options["name"])
    with folder.opened():
        say = lambda text: click.echo(text, err=True)  # noqa: E731
        waiting = Waiting(options["max_wait"] * 60, say)
        round_ = Round(
            options["name"], options["task"], rows, folder, waiting, options["beside_training"]
        )
        play(round_, cells, _site(cloud, d, cells, folder, options))
        evaluation = _evaluation(folder, _prices(d, options), options)
        folder.write_results(evaluation.to_data(), [item.entry for item in evaluation.results])
    if as_json:
        print_json(evaluation.to_data())
    else:
        show(evaluation, console())
        click.echo(str(folder.path))
    if evaluation.failed:
        ctx.exit(FAILED_EXIT)


def _check_names(options: Mapping[str, Any]) -> None:
    if options["task"] not in TASKS:
        raise InputError(
            "unknown-task",
            f"--task {options['task']}: no such task.",
            f"Known: {', '.join(TASKS)}.",
        )
    if not NAME.fullmatch(options["name"]):
        raise InputError(
            "bad-name",
            f"--name {options['name']}: it becomes part of job names.",
            "Use letters, digits and single hyphens.",
        )


def _policy_texts(options: Mapping[str, Any]) -> list[str]:
    """What `--policy` names; a ladder puts its own before it."""
    texts = list(options["policies"])
    if options["ladder"]:
        ladder = getattr(players_of(options["task"]), "LADDER", ())
        texts = [*ladder, str(Kind.BASE), *texts]
    return texts or [str(Kind.BASE)]


def _deployment(
    where: Where, texts: list[str], options: Mapping[str, Any]
) -> tuple[Cloud | None, Deployment | None]:
    """The deployment, unless everything is played on this machine."""
    rows_there = (options["rows_from"] or "").startswith("s3://")
    if not needs_deployment(texts, options["task"]):
        return (where.cloud() if rows_there else None), None
    cloud = where.cloud()
    return cloud, read_deployment(cloud, where)


def _rows(cloud: Cloud | None, d: Deployment | None, options: Mapping[str, Any]) -> RowSet:
    source = options["rows_from"] or (d and (d.evaluation_uri or d.validation_uri))
    source = source or str(folder_of(options["task"]) / "validation.jsonl")
    if not source.startswith("s3://"):
        return read_rows([Path(source)], source, options["limit"])
    assert cloud is not None
    with tempfile.TemporaryDirectory() as folder:
        return read_rows(download(cloud, source, Path(folder)), source, options["limit"])


def _trained_rung(cloud: Cloud | None, d: Deployment | None) -> list[Policy]:
    """The newest trained model, if there is one."""
    package = newest_package(cloud, d) if cloud and d else None
    if package is None:
        click.echo("there is no trained model yet: the ladder ends without it", err=True)
        return []
    return [Policy(TRAINED, Kind.PACKAGE, package)]


def _cells(policies: list[Policy], rows: RowSet, options: Mapping[str, Any]) -> list[Cell]:
    """The matrix; of a ladder only the base policy is also played with a hint."""
    hints = list(options["hints"])
    if options["ladder"] and not hints:
        hints = [hint] if (hint := getattr(players_of(options["task"]), "HINT", "")) else []
    conditions = chosen_conditions(
        options["temperatures"], options["efforts"], hints, options["repeats"]
    )
    values = chosen_values(options["settings"], options["threshold"])
    task = load_task(options["task"])
    for condition in conditions:
        check(rows, condition, task)
    cells = matrix(policies, conditions, rows.sha256, values)
    if options["ladder"]:
        cells = [c for c in cells if not c.conditions.hint or c.policy.kind is Kind.BASE]
    return cells


def _site(
    cloud: Cloud | None,
    d: Deployment | None,
    cells: list[Cell],
    folder: Folder,
    options: Mapping[str, Any],
) -> Site | None:
    """The deployment as a place for jobs, when a cell still needs one."""
    wanted = any(not c.policy.local and folder.done(c) is None for c in cells)
    if not wanted or cloud is None or d is None:
        return None
    return deployed(cloud, d, accept_eula=options["accept_eula"] or d.accept_eula)


def _prices(d: Deployment | None, options: Mapping[str, Any]) -> TokenPrices | None:
    model, region = (d.model, d.region) if d else (MODEL, REGION)
    known = price_list(options["prices_path"])
    if not options["own_prices"] and (model, region) not in known.tokens:
        return None
    return chosen_prices(model, region, known, options["own_prices"])


def _evaluation(
    folder: Folder, prices: TokenPrices | None, options: Mapping[str, Any]
) -> Evaluation:
    results, failed = read_results(folder, options["threshold"], prices)
    if options["ladder"]:
        results = rungs(results)
    found = Evaluation(
        name=options["name"],
        task=options["task"],
        threshold=options["threshold"],
        price_source=prices.source if prices else None,
        results=tuple(results),
        failed=tuple(failed),
        differences=(),
        ladder=options["ladder"],
    )
    if options["compared"]:
        differences = chosen_differences(results, options["compared"])
    elif options["ladder"]:
        differences = ladder_differences(results)
    else:
        differences = all_differences(results)
    return replace(found, differences=tuple(differences))


def _show_plan(cells: list[Cell], rows: RowSet, as_json: bool) -> None:
    if as_json:
        print_json({"rows": len(rows.prompts), "cells": [{"id": c.id, "title": c.title,
                    "conditions": c.conditions} for c in cells]})  # fmt: skip
        return
    for cell in cells:
        games = len(rows.prompts) * cell.conditions.repeats
        click.echo(f"{cell.id}  {cell.title}: {games} games")
