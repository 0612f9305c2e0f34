"""The curves over a job's steps: how training and validation went, under which settings.

Training samples at its own temperature and validation at another, so the two are never one line
and every axis names both. Where the games' steps are unknown, recorded metrics stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from mtrl.report.charts import Curve, CurvePoint, Format, line_chart, percent, plain
from mtrl.report.games import GameSet, Kind, Sampling
from mtrl.report.measures import Measure, measure
from mtrl.report.run import Run

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart, and the same figures as a table."""

    title: str
    chart: Markup
    columns: tuple[str, ...]
    """One a curve, with its settings."""
    rows: tuple[tuple[str, ...], ...]
    """Step, then a cell a column."""


@dataclass(frozen=True, slots=True)
class _Figure:
    """What a panel shows: of games, or of a metric that stands in for them."""

    title: str
    read: Callable[[Measure], float | None]
    show: Format
    metrics: dict[Kind, str]
    ticks: tuple[float, ...] | None = None
    interval: bool = False


FIGURES = (
    _Figure(
        "Solve rate",
        lambda m: m.rate.share,
        percent,
        {Kind.VALIDATION: "val/reward/pass_at_1"},
        QUARTERS,
        interval=True,
    ),
    _Figure(
        "Mean reward",
        lambda m: m.mean_reward,
        plain,
        {Kind.TRAINING: "rollout/reward/mean", Kind.VALIDATION: "val/reward/mean"},
    ),
    _Figure(
        "Turns a game",
        lambda m: m.mean_turns,
        plain,
        {Kind.TRAINING: "rollout/turns/mean", Kind.VALIDATION: "val/turns/mean"},
    ),
    _Figure(
        "Sampled tokens a game",
        lambda m: m.tokens.sample / m.rate.games,
        plain,
        {
            Kind.TRAINING: "rollout/tokens/response_mean",
            Kind.VALIDATION: "val/tokens/response_mean",
        },
    ),
    _Figure("Games with a format fault", lambda m: m.misformed, percent, {}, QUARTERS),
    _Figure("Groups that tie and teach nothing", lambda m: m.tied, percent, {}, QUARTERS),
)
COLORS = {Kind.TRAINING: "series-1", Kind.VALIDATION: "series-2"}

_Key = tuple[Kind, Sampling]


def panels(run: Run) -> list[Panel]:
    """The charts over steps; none for a run without steps."""
    played = _measured(run)
    drawn = []
    for figure in FIGURES:
        lines = _of_games(figure, played) or _of_metrics(figure, run)
        if lines:
            drawn.append(_panel(figure, lines))
    return drawn


def _measured(run: Run) -> list[tuple[GameSet, Measure]]:
    return [
        (games, measure(games.games, run.threshold))
        for games in run.sets
        if games.kind in COLORS and games.step is not None
    ]


def _of_games(
    figure: _Figure, played: Sequence[tuple[GameSet, Measure]]
) -> dict[_Key, list[CurvePoint]]:
    lines: dict[_Key, list[CurvePoint]] = {}
    for games, measured in played:
        value = figure.read(measured)
        if value is None or games.step is None:
            continue
        rate = measured.rate
        low, high = (rate.low, rate.high) if figure.interval else (None, None)
        shown = f"{figure.show(value)} of {rate.games} games"
        if low is not None and high is not None:
            shown = f"{value:.1%} [{low:.1%}, {high:.1%}] of {rate.games} games"
        note = f"{games.name}: {shown}"
        point = CurvePoint(games.step, value, low, high, note)
        lines.setdefault((games.kind, games.sampling), []).append(point)
    return lines


def _of_metrics(figure: _Figure, run: Run) -> dict[_Key, list[CurvePoint]]:
    lines: dict[_Key, list[CurvePoint]] = {}
    for point in run.points:
        if figure.metrics.get(point.kind) == point.name:
            note = f"{point.kind.capitalize()}, step {point.step}: {figure.show(point.value)}"
            drawn = CurvePoint(point.step, point.value, note=note)
            lines.setdefault((point.kind, point.sampling), []).append(drawn)
    return lines


def _panel(figure: _Figure, lines: dict[_Key, list[CurvePoint]]) -> Panel:
    kinds = list(Kind)
    ordered = sorted(lines.items(), key=lambda line: (kinds.index(line[0][0]), line[0][1].label))
    curves = [
        Curve(
            name=kind.value,
            color=COLORS[kind],
            points=tuple(sorted(points, key=lambda point: point.step)),
            dashed=kind is Kind.VALIDATION,
        )
        for (kind, _), points in ordered
    ]
    settings = " · ".join(f"{kind.value} {sampling.short}" for (kind, sampling), _ in ordered)
    chart = line_chart(
        curves,
        x_name=f"step ({settings})",
        label=_spoken(figure, ordered),
        y_format=figure.show,
        y_ticks=figure.ticks,
    )
    columns = tuple(f"{kind.capitalize()} ({sampling.label})" for (kind, sampling), _ in ordered)
    return Panel(figure.title, chart, columns, tuple(_rows(figure, [c.points for c in curves])))


def _spoken(figure: _Figure, lines: Sequence[tuple[_Key, list[CurvePoint]]]) -> str:
    """The chart in a sentence a line: from where to where."""
    parts = [
        f"{kind.value} at {sampling.label}: {figure.show(points[0].value)} at step "
        f"{points[0].step}, {figure.show(points[-1].value)} at step {points[-1].step}"
        for (kind, sampling), points in lines
    ]
    return f"{figure.title} over steps; {'; '.join(parts)}"


def _rows(figure: _Figure, lines: Sequence[Sequence[CurvePoint]]) -> Iterator[tuple[str, ...]]:
    by_step = [{point.step: point for point in points} for points in lines]
    for step in sorted({step for points in by_step for step in points}):
        cells = (_cell(figure, points.get(step)) for points in by_step)
        yield (str(step), *cells)


def _cell(figure: _Figure, point: CurvePoint | None) -> str:
    if point is None:
        return ""
    if point.low is None or point.high is None:
        return f"{point.value:.4g}"
    return f"{point.value:.1%} [{point.low:.1%}, {point.high:.1%}]"
