"""Draws the report's charts as SVG with leather: lines with their intervals, and columns.

Colours are names of the page's style sheet, so that one drawing serves the light and the dark
page. A chart is drawn at the width of a phone and placed in a grid; it is never scaled down.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import leather
from leather import theme
from leather.series import Series
from leather.shapes import Columns, Line
from leather.shapes.base import Shape
from markupsafe import Markup

WIDTH, HEIGHT = 344, 224
"""Pixels; fits a phone of 400 with the page's margins."""
MAX_TICKS = 6

theme.margin = 0.03
theme.background_color = "none"
theme.label_color = theme.legend_color = theme.axis_title_color = "var(--muted)"
theme.tick_color, theme.zero_color = "var(--line)", "var(--axis)"
for _part in ("legend", "axis_title", "tick"):
    setattr(theme, f"{_part}_font_family", "inherit")
    setattr(theme, f"{_part}_font_size", 11)
    setattr(theme, f"{_part}_font_char_width", 7)
    setattr(theme, f"{_part}_font_char_height", 11)
theme.axis_title_gap = 6
theme.legend_gap = 10

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A figure at a step; low and high bound its 95% interval where there is one."""

    step: int
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    """Shown when the point is pointed at."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points."""

    name: str
    color: str
    """A custom property of the style sheet, without the dashes."""
    points: tuple[CurvePoint, ...]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A column."""

    label: str
    value: float
    note: str
    color: str = "accent"


def percent(value: float) -> str:
    """`0.5` as `50%`."""
    return f"{value * 100:.0f}%"


def plain(value: float) -> str:
    """A number as short as it can be."""
    return f"{value:g}"


def line_chart(
    curves: Sequence[Curve],
    *,
    x_name: str,
    label: str,
    y_format: Format = plain,
    y_ticks: Sequence[float] | None = None,
) -> Markup:
    """An SVG of curves over steps.

    Args:
        x_name: the axis' name, with the settings that the curves were played under.
        label: what a screen reader says in place of the picture.
        y_ticks: the axis' marks and its range; chosen from the data when None.
    """
    chart = leather.Chart()
    steps = sorted({point.step for curve in curves for point in curve.points})
    pad = max(1, steps[-1] - steps[0]) * 0.03
    chart.add_x_scale(steps[0] - pad, steps[-1] + pad)
    chart.add_x_axis(ticks=_step_ticks(steps), tick_formatter=_formatter(plain), name=x_name)
    if y_ticks is not None:
        chart.add_y_scale(y_ticks[0], y_ticks[-1])
    chart.add_y_axis(ticks=y_ticks, tick_formatter=_formatter(y_format))
    for curve in curves:
        data = [(point.step, point.value) for point in curve.points]
        color = f"var(--{curve.color})"
        dashes = "5 3" if curve.dashed else None
        chart.add_series(_series(data, None), _Band(curve.points, color))
        chart.add_series(_series(data, curve.name), Line(color, 2, dashes))
        chart.add_series(_series(data, None), _Marks(curve.points, color, hollow=curve.dashed))
    return _svg(chart, WIDTH, HEIGHT, label)


def column_chart(bars: Sequence[Bar], top: float, *, x_name: str, label: str) -> Markup:
    """An SVG of columns whose values are shares of up to `top`."""
    chart = leather.Chart()
    chart.add_y_scale(0, top)
    chart.add_y_axis(ticks=[0, top / 2, top], tick_formatter=_formatter(percent))
    chart.add_x_axis(name=x_name)
    chart.add_series(Series([(bar.label, bar.value) for bar in bars]), _Columns(bars))
    return _svg(chart, WIDTH, HEIGHT - 34, label)


def _series(data: Any, name: str | None) -> Series:
    return Series(data, name=name)


def _formatter(text: Format) -> Callable[[float, int, int], str]:
    return lambda value, index, count: text(float(value))


def _step_ticks(steps: Sequence[int]) -> list[int]:
    """Whole steps at an even distance, at most `MAX_TICKS`."""
    span = steps[-1] - steps[0]
    sizes = (size * 10**power for power in range(9) for size in (1, 2, 5))
    size = next(size for size in sizes if span / size < MAX_TICKS)
    first = -(-steps[0] // size) * size
    return list(range(first, steps[-1] + 1, size))


def _svg(chart: leather.Chart, width: int, height: int, label: str) -> Markup:
    root = ET.Element("svg", {"class": "chart", "role": "img", "aria-label": label})
    root.set("viewBox", f"0 0 {width} {height}")
    root.append(chart.to_svg_group(width, height))
    # ElementTree has escaped every text and attribute.
    return Markup(ET.tostring(root, encoding="unicode"))


class _Unnamed(Shape):
    """A shape that stands in no legend."""

    def validate_series(self, series: Any) -> None:
        """Anything with numbers."""

    def legend_to_svg(self, series: Any, palette: Any) -> list[Any]:
        """No entry."""
        return []


class _Band(_Unnamed):
    """The 95% interval behind a line; a single point has a bar instead."""

    def __init__(self, points: Sequence[CurvePoint], color: str) -> None:
        self._points = [p for p in points if p.low is not None and p.high is not None]
        self._color = color

    def to_svg(
        self, width: float, height: float, x_scale: Any, y_scale: Any, series: Any, palette: Any
    ) -> ET.Element:
        """An area, or a line when there is one point."""
        group = ET.Element("g")

        def place(point: CurvePoint, value: float | None) -> str:
            x = x_scale.project(point.step, 0, width)
            return f"{x:.1f},{y_scale.project(value, height, 0):.1f}"

        edge = [place(p, p.high) for p in self._points]
        edge += [place(p, p.low) for p in reversed(self._points)]
        if len(self._points) > 1:
            area = {"points": " ".join(edge), "fill": self._color, "class": "band"}
            group.append(ET.Element("polygon", area))
        elif edge:
            bar = {"points": " ".join(edge), "stroke": self._color, "stroke-width": "2"}
            group.append(ET.Element("polyline", bar))
        return group


class _Marks(_Unnamed):
    """A mark at every point, which says its figures."""

    def __init__(self, points: Sequence[CurvePoint], color: str, *, hollow: bool) -> None:
        self._points, self._color, self._hollow = points, color, hollow

    def to_svg(
        self, width: float, height: float, x_scale: Any, y_scale: Any, series: Any, palette: Any
    ) -> ET.Element:
        """Circles; hollow ones tell a dashed line's points from a solid one's."""
        group = ET.Element("g")
        for point in self._points:
            mark = ET.SubElement(group, "circle", {"r": "3", "stroke": self._color})
            mark.set("fill", "var(--card)" if self._hollow else self._color)
            mark.set("stroke-width", "1.5")
            mark.set("cx", f"{x_scale.project(point.step, 0, width):.1f}")
            mark.set("cy", f"{y_scale.project(point.value, height, 0):.1f}")
            ET.SubElement(mark, "title").text = point.note
        return group


class _Columns(Columns):
    """Columns with their value above."""

    def __init__(self, bars: Sequence[Bar]) -> None:
        colors = {bar.label: f"var(--{bar.color})" for bar in bars}
        super().__init__(lambda datum: colors[datum.x])
        self._bars = bars

    def to_svg(
        self, width: float, height: float, x_scale: Any, y_scale: Any, series: Any, palette: Any
    ) -> ET.Element:
        """Leather's columns, each with a note and a figure."""
        group = super().to_svg(width, height, x_scale, y_scale, series, palette)
        for column, bar in zip(list(group), self._bars, strict=True):
            ET.SubElement(column, "title").text = bar.note
            middle = float(column.get("x", "0")) + float(column.get("width", "0")) / 2
            text = ET.SubElement(group, "text", {"x": f"{middle:.1f}", "text-anchor": "middle"})
            text.set("y", f"{float(column.get('y', '0')) - 4:.1f}")
            text.set("font-size", "11")
            text.set("fill", "var(--text)")
            text.text = percent(bar.value) if bar.value else ""
        return group
