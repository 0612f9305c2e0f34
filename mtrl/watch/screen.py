"""The picture of a running job: its state, a bar, its cost, sparkline curves, and warnings.

Everything is cut to the terminal's width; the picture replaces itself and never scrolls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mtrl.jobs.money import budget_usd, spent_usd
from mtrl.jobs.reading import Job
from mtrl.pricing import PriceList
from mtrl.terminal import count, span, sparkline, usd
from mtrl.watch.curves import METRICS, Curves
from mtrl.watch.diagnosis import Diagnosis
from mtrl.watch.evidence import Sample

BAR = 24
NAME_WIDTH = 18
VALUES_WIDTH = 22
LONGEST_CURVE = 60
STYLES = {"Completed": "green", "Failed": "bold red", "Stopping": "yellow", "Stopped": "yellow"}


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is shown at one moment."""

    job: Job
    prices: PriceList
    curves: Curves = field(default_factory=dict)
    samples: Sequence[Sample] = ()
    findings: Sequence[Diagnosis] = ()
    trouble: str = ""
    notes: Sequence[str] = ()
    seconds_a_step: float | None = None
    """As seen by this watch; None before it has seen two steps."""


def draw(picture: Picture, width: int, now: datetime | None = None) -> RenderableType:
    """The picture, no line longer than `width`."""
    lines = [
        _headline(picture, now or datetime.now(UTC)),
        _progress(picture),
        _money(picture),
        *_curve_lines(picture, width),
    ]
    if picture.trouble:
        lines.append(Text(f"! {picture.trouble}", style="yellow"))
    for finding in picture.findings:
        lines.append(Text(f"! {finding.title} ({finding.evidence})", style="red"))
    lines += [Text(note, style="dim") for note in picture.notes]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


def _headline(picture: Picture, now: datetime) -> Text:
    job = picture.job
    state = job.view.status
    if job.view.secondary not in (state, ""):
        state += f" ({job.view.secondary})"
    style = STYLES.get(job.view.status, "cyan")
    age = span(((job.ended or now) - job.created).total_seconds())
    return Text.assemble((job.name, "bold"), "  ", (state, style), f"  {age}")


def _progress(picture: Picture) -> Text:
    view = picture.job.view
    if not view.total_steps:
        return Text("no step yet")
    done = min(BAR, BAR * view.step // view.total_steps)
    parts = [f"step {view.step}/{view.total_steps}", "█" * done + "░" * (BAR - done)]
    if picture.seconds_a_step and view.step < view.total_steps and picture.job.running:
        left = picture.seconds_a_step * (view.total_steps - view.step)
        parts.append(f"{span(picture.seconds_a_step)} a step, {span(left)} left")
    return Text("  ".join(parts))


def _money(picture: Picture) -> Text:
    tokens = picture.job.view.tokens
    text = (
        f"tokens: {count(tokens.prefill)} read, {count(tokens.sample)} written, "
        f"{count(tokens.train)} trained"
    )
    spent = spent_usd(picture.job, picture.prices)
    if spent is not None:
        text += f"  {usd(spent)}"
        limit = budget_usd(picture.job)
        if limit is not None:
            text += f" of {usd(limit)}"
    return Text(text)


def _curve_lines(picture: Picture, width: int) -> Iterable[Text]:
    room = min(LONGEST_CURVE, width - NAME_WIDTH - VALUES_WIDTH - 2)
    for name, values in shown_curves(picture.curves, picture.samples):
        line = sparkline(values, max(room, 0))
        ends = f"{_short(values[0])} → {_short(values[-1])}"
        yield Text(f"{name:<{NAME_WIDTH}} {line:<{max(room, 0)}} {ends:>{VALUES_WIDTH}}".rstrip())


def shown_curves(curves: Curves, samples: Sequence[Sample]) -> list[tuple[str, tuple[float, ...]]]:
    """Names and values of the curves that are worth a line."""
    lines = [
        (title, curves[metric].values)
        for metric, title in METRICS.items()
        if title and metric in curves
    ]
    rewards = tuple(s.mean_reward for s in samples if s.mean_reward is not None)
    if "rollout/reward/mean" not in curves and rewards:
        lines.insert(0, ("reward", rewards))
    shares = tuple(sample.text_share for sample in samples if sample.moves)
    if shares:
        lines.append(("moves as text", shares))
    return lines


def _short(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}"


def log_line(picture: Picture) -> str:
    """One line for a log: what has changed since the line before is seen by its numbers."""
    view = picture.job.view
    parts = [f"{datetime.now(UTC):%H:%M:%S}", view.status]
    if view.total_steps:
        parts.append(f"step {view.step}/{view.total_steps}")
    parts += [
        f"{name} {_short(values[-1])}"
        for name, values in shown_curves(picture.curves, picture.samples)[:3]
    ]
    spent = spent_usd(picture.job, picture.prices)
    if spent is not None:
        parts.append(usd(spent))
    return "  ".join(parts)


def curve_table(curves: Curves) -> Table:
    """The curves' first, best and last values, for the end of a watch."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for heading in ("first", "highest", "last"):
        table.add_column(heading, justify="right")
    for name, values in shown_curves(curves, ()):
        table.add_row(name, _short(values[0]), _short(max(values)), _short(values[-1]))
    return table
