"""The command `mtrl audit`."""

from __future__ import annotations

from random import Random

import click

from mtrl.audit.exploits import try_exploits
from mtrl.audit.groups import judge_groups, spreads
from mtrl.audit.hooks import load_hooks
from mtrl.audit.optimisation import judge_learned, optimise
from mtrl.audit.ordering import judge
from mtrl.audit.report import Audit, show, to_data
from mtrl.audit.search import find_bands
from mtrl.errors import InputError
from mtrl.job.hyperparameters import TRAINING
from mtrl.terminal import console, json_option, print_json
from mtrl.verb import Verb


@click.command(cls=Verb)
@click.argument("task", default="wordle")
@click.option("--reward", help="One of the task's rewards; the one it trains with by default.")
@click.option("--optimise", "train", is_flag=True, help="Train a small policy on the reward too.")
@click.option("--steps", type=click.IntRange(1, 1000), help="Steps of --optimise.")
@click.option(
    "--success-threshold",
    "threshold",
    default=TRAINING["success_threshold"].default,
    show_default=True,
    help="The job's success_threshold.",
)
@click.option("--seed", default=1, show_default=True, help="Same seed, same audit.")
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    task: str,
    reward: str | None,
    train: bool,
    steps: int | None,
    threshold: float,
    seed: int,
    as_json: bool,
) -> None:
    """Judge the reward of TASK before a policy is trained on it. No model, no AWS.

    Looks for the extreme rewards of every outcome, for groups that can only tie, and for
    adversaries that profit or see the answer. Exits with 1 when something is wrong.
    """
    hooks = load_hooks(task)
    chosen = reward or hooks.rewards[0]
    if chosen not in hooks.rewards:
        raise InputError(
            "unknown-reward",
            f"--reward {chosen}: task {task!r} has no such reward.",
            f"Known: {', '.join(hooks.rewards)}.",
        )
    draw, subject = Random(seed), hooks.task(chosen)
    bands = find_bands(hooks, subject, draw)
    groups = spreads(hooks, subject, draw)
    exploits = try_exploits(hooks, subject, draw)
    findings = [*judge(bands, hooks, threshold), *judge_groups(groups), *exploits.findings]
    learned = []
    if train:
        compared = dict.fromkeys((chosen, hooks.rewards[0]))
        click.echo(f"training on {' and '.join(compared)}: a minute or so", err=True)
        learned = optimise(task, list(compared), steps, seed)
        findings += judge_learned(learned[0])
    found = Audit(
        task,
        chosen,
        threshold,
        tuple(bands),
        tuple(groups),
        exploits,
        tuple(learned),
        tuple(findings),
    )
    if as_json:
        print_json(to_data(found, hooks))
    else:
        show(found, console())
    if not found.ok:
        ctx.exit(1)
