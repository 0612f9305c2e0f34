"""What an audit found: one frozen value, as JSON for scripts and as text for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.audit import AuditHooks
from mtrl.audit.exploits import Exploits
from mtrl.audit.groups import GROUP_SIZE, GroupSpread
from mtrl.audit.learned import Learned, Measured
from mtrl.audit.ordering import Finding
from mtrl.audit.search import Band
from mtrl.rehearse.display import lessons as lesson_table
from mtrl.rehearse.results import lessons

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Audit:
    """The whole of an audit."""

    task: str
    reward: str
    threshold: float
    bands: tuple[Band | None, ...]
    groups: tuple[GroupSpread, ...]
    exploits: Exploits
    learned: tuple[Learned, ...]
    """Under the audited reward, then under the one to compare with; empty without --optimise."""
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.findings


def to_data(audit: Audit, hooks: AuditHooks) -> dict[str, Any]:
    """The audit as JSON-ready data."""
    return {
        "version": REPORT_VERSION,
        "ok": audit.ok,
        "task": audit.task,
        "reward": audit.reward,
        "success_threshold": audit.threshold,
        "bands": [_band(band, hooks) for band in audit.bands if band],
        "groups": [asdict(group) for group in audit.groups],
        "adversaries": [asdict(exploit) for exploit in audit.exploits.adversaries],
        "honest_loser": audit.exploits.honest_loser,
        "learned": [asdict(learned) for learned in audit.learned],
        "findings": [asdict(finding) for finding in audit.findings],
    }


def _band(band: Band, hooks: AuditHooks) -> dict[str, Any]:
    return {
        "outcome": band.outcome.name,
        "success": band.outcome.success,
        "least": band.low.reward,
        "mean": band.mean,
        "most": band.high.reward,
        "least_game": hooks.describe(band.low.play),
        "most_game": hooks.describe(band.high.play),
    }


def show(audit: Audit, console: Console) -> None:
    """Print the audit."""
    console.print(f"task {audit.task}, reward {audit.reward}\n")
    console.print(_bands(audit))
    console.print(_groups(audit.groups))
    console.print(_exploits(audit.exploits))
    if audit.learned:
        _show_learned(audit.learned, console)
    for finding in audit.findings:
        console.print(Text(f"FAULT {finding.code}: {finding.message}", style="red"))
        for line in finding.evidence:
            console.print(Text(f"      {line}"))
    verdict = "no fault found" if audit.ok else f"faults: {len(audit.findings)}"
    console.print(Text(verdict, style="green" if audit.ok else "bold red"))


def _table(title: str, *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(title)
    for number in numbers:
        table.add_column(number, justify="right")
    return table


def _bands(audit: Audit) -> Table:
    table = _table("outcome", "least reward", "mean", "most")
    for band in filter(None, audit.bands):
        amounts = (band.low.reward, band.mean, band.high.reward)
        table.add_row(band.outcome.name, *(f"{amount:+.3f}" for amount in amounts))
    table.add_section()
    table.add_row(f"success_threshold {audit.threshold:g}")
    table.add_row("")
    return table


def _groups(groups: Sequence[GroupSpread]) -> Table:
    table = _table(f"groups of {GROUP_SIZE} games", "tied", "mean spread")
    for group in groups:
        table.add_row(group.name, f"{group.tied} of {group.groups}", f"{group.mean_spread:.3f}")
    table.add_row("")
    return table


def _exploits(exploits: Exploits) -> Table:
    table = _table("adversary", "most reward", "least lead of an honest loser")
    for one in exploits.adversaries:
        table.add_row(one.name, f"{one.highest:+.3f}", f"{one.margin:+.3f}")
    low, high = exploits.honest_loser
    table.add_row("(honest loser)", f"{low:+.3f} to {high:+.3f}")
    table.add_row("")
    return table


def _show_learned(learned: Sequence[Learned], console: Console) -> None:
    first = learned[0]
    console.print(_outcomes(learned))
    if len(learned) > 1:
        console.print(_weights(learned))
    console.print(lesson_table(lessons([asdict(behaviour) for behaviour in first.behaviours])))
    console.print()


def _weights(learned: Sequence[Learned]) -> Table:
    """Each behaviour's weight under the rewards that are compared."""
    trained = (f"trained on {one.reward}" for one in learned)
    table = _table("weight of a behaviour", "untrained", *trained)
    for number, behaviour in enumerate(learned[0].behaviours):
        after = (f"{one.behaviours[number].after:+.2f}" for one in learned)
        table.add_row(behaviour.name, f"{behaviour.before:+.2f}", *after)
    table.add_row("")
    return table


def _outcomes(learned: Sequence[Learned]) -> Table:
    first = learned[0]
    title = f"after {first.steps} steps of {first.games // first.steps} games"
    table = _table(title, "solved", "turns a win", f"reward {first.reward}")
    table.add_row("untrained", *_cells(first.before, paid=True))
    for one in learned:
        table.add_row(f"trained on {one.reward}", *_cells(one.after, paid=one is first))
    if first.yardstick:
        table.add_row("a good player", *_cells(first.yardstick, paid=True))
    table.add_row("")
    return table


def _cells(measured: Measured, *, paid: bool) -> tuple[str, str, str]:
    """Rewards of another kind are not shown: they cannot be compared."""
    return (
        f"{measured.solve_rate:.1%}",
        f"{measured.turns_to_win:.2f}" if measured.turns_to_win else "-",
        f"{measured.reward:+.3f}" if paid else "-",
    )
