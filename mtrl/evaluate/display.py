"""An evaluation as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtrl.evaluate.compare import Difference
from mtrl.evaluate.figures import CellFigures
from mtrl.evaluate.results import Evaluation
from mtrl.terminal import count, usd


def show(evaluation: Evaluation, console: Console) -> None:
    """Print cells, turns, differences, notes and failures."""
    figures = [item.figures for item in evaluation.results]
    if figures:
        console.print(_cells(figures, "rung" if evaluation.ladder else "cell"))
        console.print(_turns(figures))
    if evaluation.differences:
        titles = {item.id: item.title for item in figures}
        console.print(_differences(evaluation.differences, titles))
    for item in figures:
        for note in item.notes:
            console.print(Text(f"{item.id}: {note}", style="yellow"))
    for entry in evaluation.failed:
        why = entry.reason or f"job {entry.job} has not ended"
        console.print(Text(f"{entry.cell.id}: {entry.status}: {why}", style="red"))
    if evaluation.price_source:
        console.print(Text(f"token prices: {evaluation.price_source}", style="dim"))


def _table(title: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(title)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _cells(figures: Sequence[CellFigures], title: str) -> Table:
    several = any(item.pass_at for item in figures)
    table = _table(
        title,
        "games",
        "solved",
        "95% interval",
        "reward",
        *(["pass@k"] if several else []),
        "sampled",
        "read",
        "$/game",
        "$/solved",
    )
    for item in figures:
        table.add_row(
            item.title,
            str(item.games),
            f"{item.solve_rate:.1%}",
            f"{item.low:.1%} to {item.high:.1%}",
            "-" if item.mean_reward is None else f"{item.mean_reward:+.3f}",
            *([_pass_at(item)] if several else []),
            count(item.sample_per_game),
            count(item.prefill_per_game),
            _money(item.usd_per_game),
            _money(item.usd_per_solved),
        )
    table.caption = "sampled and read: tokens a game"
    table.caption_justify = "left"
    return table


def _pass_at(item: CellFigures) -> str:
    """The largest k."""
    if not item.pass_at:
        return "-"
    k = max(item.pass_at, key=int)
    return f"{item.pass_at[k]:.1%} @{k}"


def _money(amount: float | None) -> str:
    return "-" if amount is None else usd(amount)


def _turns(figures: Sequence[CellFigures]) -> Table:
    """How many games were solved in how many turns."""
    turns = sorted({int(n) for item in figures for n in item.solved_in if n.isdigit()})
    table = _table("games solved in turn", *map(str, turns), "unsolved", "mean")
    for item in figures:
        if item.solved_in:
            counts = [str(item.solved_in.get(str(n), 0)) for n in turns]
            mean = f"{item.turns_to_solve:.2f}" if item.turns_to_solve else "-"
            table.add_row(item.title, *counts, str(item.solved_in["unsolved"]), mean)
    return table


def _differences(differences: Sequence[Difference], titles: dict[str, str]) -> Table:
    table = _table("difference", "rows", "solved", "95% interval", "p", "only 1st", "only 2nd")
    for item in differences:
        table.add_row(
            f"{titles[item.first]} -> {titles[item.second]}",
            str(item.rows),
            f"{100 * item.solve_rate:+.1f} pt",
            f"{100 * item.low:+.1f} to {100 * item.high:+.1f}",
            f"{item.p:.4f}" if item.p >= 0.0001 else "< 0.0001",
            str(item.only_first),
            str(item.only_second),
        )
    return table
