"""The command `mtrl leftovers`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import click
from rich.table import Table

from mtrl.aws import CLOUD_ERRORS, Cloud, CloudCommand, in_words, is_missing
from mtrl.cost.options import price_list, prices_option
from mtrl.deployment import Where, deployment_options, env_of, read_deployment
from mtrl.errors import InputError
from mtrl.leftovers.finding import Found, Thing, find_things, owned
from mtrl.leftovers.ownership import living_stacks, stack_members
from mtrl.leftovers.removing import remove
from mtrl.terminal import console, json_option, print_json, usd

INCIDENTAL = ("role", "function", "tagged")
"""Kinds that a stack brings along; told one by one only on demand."""
INCOMPLETE, LEFT = 1, 3
"""Exit codes: something could not be looked at or removed; something is left."""


@click.command("leftovers", cls=CloudCommand)
@click.option("--all", "all_of_them", is_flag=True, help="Also each role and function of a stack.")
@click.option("--delete", is_flag=True, help="Remove what no stack holds; asks for each thing.")
@deployment_options
@prices_option
@json_option
def leftovers(
    where: Where, all_of_them: bool, delete: bool, prices_path: Path | None, as_json: bool
) -> None:
    """List all that a deployment has left in the account, and what it costs a month.

    Looks for its name and its tag; works before and after `cdk destroy`. What a living stack
    holds is marked: the stack removes it, this command does not.

    Exits with 0 when nothing is left, 3 when something is, 1 when something could not be looked
    at or removed.

    \b
    Examples:
      mtrl leftovers --env dev
      mtrl leftovers --env dev --json
      mtrl leftovers --env dev --delete
    """
    if delete and as_json:
        raise InputError("delete-json", "--delete and --json exclude each other.")
    cloud, prices = where.cloud(), price_list(prices_path)
    prefix = _prefix(cloud, where)
    stacks = living_stacks(cloud, prefix)
    found = find_things(cloud, prefix, prices)
    things = owned(found.things, stack_members(cloud, stacks))
    if as_json:
        print_json(
            {
                "deployment": prefix,
                "stacks": stacks,
                "things": things,
                "usd_month": _sum(things),
                "not_looked_at": found.not_looked_at,
                "not_offered_here": found.not_offered,
            }
        )
    else:
        _show(prefix, things, stacks, found, all_of_them)
    failed = _remove_all(cloud, things) if delete else None
    sys.exit(_exit_code(things, stacks, found, failed))


def _prefix(cloud: Cloud, where: Where) -> str:
    """The deployment's name: as its record says, else as the options do."""
    return read_deployment(cloud, where).deployment if where.record else where.prefix


def _exit_code(
    things: Sequence[Thing], stacks: dict[str, str], found: Found, failed: int | None
) -> int:
    """
    Args:
        failed: things that could not be removed or were kept; None when none was to be.
    """
    if found.not_looked_at:
        return INCOMPLETE
    kept = [thing for thing in things if thing.stack or not thing.removable]
    left = bool(stacks) or bool(things if failed is None else kept)
    if failed:
        return INCOMPLETE
    return LEFT if left else 0


def _show(
    prefix: str,
    things: Sequence[Thing],
    stacks: dict[str, str],
    found: Found,
    all_of_them: bool,
) -> None:
    out = console()
    if stacks:
        out.print(f"{len(stacks)} living stacks: {', '.join(sorted(stacks))}")
    if things:
        told = [t for t in things if all_of_them or not (t.stack and t.kind in INCIDENTAL)]
        out.print(_table(told, bool(stacks)))
        if len(told) < len(things):
            out.print(f"and {len(things) - len(told)} roles, functions and the like of the stacks")
        unknown = [thing for thing in things if thing.usd_month is None]
        out.print(f"\n{len(things)} things, {usd(_sum(things))} a month"
                  + (f" and {len(unknown)} of no known price" if unknown else ""))  # fmt: skip
    else:
        out.print(f"nothing of {prefix} is left")
    if stacks:
        command = f"make destroy ENV={env_of(prefix)}"
        out.print(f"\nremove the stacks with what they hold first:  {command}")
    for line in found.not_looked_at:
        out.print(f"not looked at: {line}")
    if found.not_offered:
        out.print(f"not offered here: {', '.join(found.not_offered)}")


def _table(things: Sequence[Thing], with_stack: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("kind", no_wrap=True)
    table.add_column("name", overflow="fold", ratio=2)
    table.add_column("", overflow="fold", ratio=1, style="dim")
    if with_stack:
        table.add_column("held by", overflow="fold")
    table.add_column("a month", justify="right", no_wrap=True)
    for thing in things:
        cost = "?" if thing.usd_month is None else usd(thing.usd_month)
        owner = [thing.stack or "-"] if with_stack else []
        table.add_row(thing.kind, thing.name, thing.detail, *owner, cost)
    return table


def _sum(things: Sequence[Thing]) -> Decimal:
    return sum((thing.usd_month or Decimal(0) for thing in things), Decimal(0))


def _remove_all(cloud: Cloud, things: Sequence[Thing]) -> int:
    """Ask for each thing and remove it; returns how many were kept or could not be removed."""
    left = 0
    for thing in things:
        if thing.stack or not thing.removable:
            continue
        detail = f" ({thing.detail})" if thing.detail else ""
        if not click.confirm(f"Delete {thing.kind} {thing.name}{detail}?"):
            left += 1
            continue
        try:
            remove(cloud, thing)
        except CLOUD_ERRORS as error:
            if is_missing(error):  # someone was faster
                continue
            click.echo(f"  not removed: {in_words(error).message}", err=True)
            left += 1
    return left
