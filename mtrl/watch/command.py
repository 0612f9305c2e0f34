"""The command `mtrl watch`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from mtrl.aws import Cloud, CloudCommand, chosen_region, region_option
from mtrl.cost.options import price_list, prices_option
from mtrl.jobs.reading import find_job, job_argument
from mtrl.jobs.table import job_facts
from mtrl.pricing import PriceList
from mtrl.terminal import console, fold_command, json_option, print_json
from mtrl.watch.evidence import samples_as_data
from mtrl.watch.following import Follower
from mtrl.watch.looking import Lookout
from mtrl.watch.screen import Picture, curve_table, draw, log_line
from mtrl.watch.verdict import Verdict

EVERY_S = 15.0
PATIENCE_MIN = 60.0
REFRESH_PER_S = 2
INTERRUPTED = 130


@click.command("watch", cls=CloudCommand)
@job_argument
@click.option("--every", default=EVERY_S, show_default=True, metavar="SECONDS",
              type=click.FloatRange(0.2), help="Between two looks.")  # fmt: skip
@click.option("--patience", default=PATIENCE_MIN, show_default=True, metavar="MINUTES",
              type=click.FloatRange(0),
              help="How long the service may be out of reach.")  # fmt: skip
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), metavar="USD",
              help="Stop the job at this cost of tokens, while this watch runs.")  # fmt: skip
@click.option("--once", is_flag=True, help="Look once and exit with 0.")
@region_option
@prices_option
@json_option
def watch(
    job: str | None,
    every: float,
    patience: float,
    max_cost: float | None,
    once: bool,
    region: str | None,
    prices_path: Path | None,
    as_json: bool,
) -> None:
    """Follow JOB (by default the newest one) to its end: progress, cost, curves, what is wrong.

    Rides out throttling, restarts of the service and expired credentials. Stopping the watch
    leaves the job alone; a budget that the job carries is enforced.

    Exits with 0 when the job completed, 1 when it failed or was deleted, 3 when it was stopped,
    4 when AWS could not be asked, 130 on Ctrl-C.

    \b
    Examples:
      mtrl watch
      mtrl watch mtrl-dev-run-1-0123456789ab --every 60
      mtrl watch --once --json
    """
    cloud, prices = Cloud(chosen_region(region)), price_list(prices_path)
    found = find_job(cloud, job)
    follower = Follower(
        Lookout(found, cloud, every, patience * 60),
        found,
        prices,
        lambda picture: None,
        max_cost=None if max_cost is None else Decimal(str(max_cost)),
    )
    if once:
        _show_once(follower.once(), as_json)
        return
    out = console(stderr=as_json)
    try:
        ending, picture = _follow(follower, out)
    except KeyboardInterrupt:
        click.echo(f"\nthe job goes on; watch it again:  mtrl watch {found.name}", err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        print_json(_facts(picture, ending))
    else:
        _show_ending(ending, picture, out)
    sys.exit(ending.exit_code)


def _follow(follower: Follower, out: Console) -> tuple[Verdict, Picture]:
    if not out.is_terminal:
        follower.show = _line_by_line(out)
        return follower.follow()
    with Live(console=out, refresh_per_second=REFRESH_PER_S, transient=True) as live:
        follower.show = lambda picture: live.update(draw(picture, out.width))
        return follower.follow()


def _line_by_line(out: Console) -> Callable[[Picture], None]:
    """For a log: a line whenever a step, a state, a trouble or a finding is new."""
    said: list[Any] = []

    def show(picture: Picture) -> None:
        view = picture.job.view
        causes = [finding.cause for finding in picture.findings]
        now = [view.status, view.secondary, view.step, picture.trouble, causes]
        if now == said:
            return
        said[:] = now
        out.print(Text(log_line(picture)))
        if picture.trouble:
            out.print(Text(f"  ! {picture.trouble}"))
        for finding in picture.findings:
            out.print(Text(f"  ! {finding.title} ({finding.evidence})"))

    return show


def _show_once(picture: Picture, as_json: bool) -> None:
    if as_json:
        print_json(_facts(picture, None))
    else:
        out = console()
        out.print(draw(picture, out.width))


def _show_ending(ending: Verdict, picture: Picture, out: Console) -> None:
    out.print(Text(picture.job.name, style="bold"), soft_wrap=True)
    out.print(ending.sentence)
    if picture.curves:
        out.print()
        out.print(curve_table(picture.curves))
    for finding in picture.findings:
        out.print()
        out.print(Text(finding.title, style="red"))
        out.print(f"  {finding.evidence}")
        if finding.advice != ending.next:
            _commands(finding.advice, out)
    out.print("\nnext")
    _commands(ending.next, out)


def _commands(commands: tuple[str, ...], out: Console) -> None:
    for command in commands:
        typed, hash_sign, why = command.partition("#")
        lines = fold_command(typed.rstrip(), out.width - 2)
        comment = f"   # {why.strip()}" if hash_sign else ""
        if len(lines) > 1 or len(lines[0]) + len(comment) + 2 > out.width:
            if comment:
                out.print(Text(f"  # {why.strip()}"))
            comment = ""
        out.print(Text("\n".join(f"  {line}" for line in lines) + comment), soft_wrap=True)


def _facts(picture: Picture, ending: Verdict | None) -> dict[str, Any]:
    prices: PriceList = picture.prices
    return {
        **job_facts(picture.job, prices),
        "outcome": ending.outcome if ending else None,
        "sentence": ending.sentence if ending else None,
        "next": list(ending.next) if ending else [],
        "findings": list(picture.findings),
        "trouble": picture.trouble or None,
        "curves": {
            name: {"steps": c.steps, "values": c.values} for name, c in picture.curves.items()
        },
        "rollouts": samples_as_data(picture.samples),
    }
