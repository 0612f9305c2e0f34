"""Shows an estimate, and an estimate beside what a job has really used."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from mtrl.cost.actual import Actual
from mtrl.cost.estimate import Estimate
from mtrl.cost.ranges import Range
from mtrl.terminal import count, usd

KINDS = ("prefill", "sample", "train")


def show_estimate(found: Estimate, notes: Sequence[str], out: Console) -> None:
    """Print an estimate and what it rests on."""
    plan = found.plan
    out.print(
        f"{plan.steps} steps: {plan.training_rollouts:,} training rollouts, "
        f"{plan.validations} validations of {plan.validation_rollouts:,} rollouts together\n"
    )
    table = _table("", "low", "expected", "high")
    for kind in KINDS:
        table.add_row(f"{kind} tokens", *map(count, found.tokens[kind].values))
    table.add_row("tokens", *_money(found.token_usd))
    table.add_section()
    for name, amount in _session_rows(found):
        table.add_row(name, *map(count, amount.values))
    table.add_row("AgentCore", *_money(found.runtime_usd))
    table.add_section()
    table.add_row("total", *_money(found.total_usd), style="bold")
    table.add_row("hours", *(f"{hours:.1f}" for hours in found.hours.values))
    out.print(table)
    out.print()
    for note in notes:
        out.print(f"- {note}")


def _session_rows(found: Estimate) -> list[tuple[str, Range]]:
    sessions = found.sessions
    return [
        ("session seconds", sessions.seconds),
        ("vCPU seconds", sessions.vcpu_seconds),
        ("GB seconds", sessions.gb_seconds),
    ]


def show_actual(actual: Actual, out: Console) -> None:
    """Print what a job has used, beside the estimate for as much of it as is done."""
    if actual.estimate is None:
        table = _table(f"step {actual.steps}", "used")
        for name, used, _ in _lines(actual):
            table.add_row(name, used)
    else:
        table = _table(f"step {actual.steps}", "used", "estimated", "")
        for name, used, ranged in _lines(actual):
            table.add_row(name, used, *_compared(ranged))
    out.print(table)
    for note in actual.notes:
        out.print(f"- {note}")


def _lines(actual: Actual) -> list[tuple[str, str, tuple[str, str] | None]]:
    def line(name: str, value: float | None, key: str, money: bool) -> tuple:
        used = "-" if value is None else usd(value) if money else count(value)
        ranged = (actual.estimate or {}).get(key)
        if ranged is None:
            return name, used, None
        form = usd if money else count
        text = f"{form(ranged.low)} to {form(ranged.high)}"
        if value is None:
            return name, used, (text, "")
        place = "below" if value < ranged.low else "above" if value > ranged.high else "within"
        return name, used, (text, place)

    tokens = actual.tokens
    return [
        *(line(f"{kind} tokens", getattr(tokens, kind), kind, False) for kind in KINDS),
        line("tokens", actual.token_usd, "token_usd", True),
        line("vCPU seconds", actual.vcpu_seconds, "vcpu_seconds", False),
        line("GB seconds", actual.gb_seconds, "gb_seconds", False),
        line("AgentCore", actual.runtime_usd, "runtime_usd", True),
        line("total", actual.total_usd, "total_usd", True),
    ]


def _compared(ranged: tuple[str, str] | None) -> tuple[str, str]:
    return ranged or ("", "")


def _money(amount: Range) -> tuple[str, str, str]:
    low, expected, high = (usd(value) for value in amount.values)
    return low, expected, high


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table
