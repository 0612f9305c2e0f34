"""How the operator's commands speak: one JSON object for scripts, or text that fits the terminal.

Numbers, times and money are written here, so that they look the same everywhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import click
from rich.console import Console

PIPE_WIDTH = 100
"""Columns of a text that does not go to a terminal."""
SPARKS = "▁▂▃▄▅▆▇█"
F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Adds `--json`, handed over as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")(
        command
    )


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or `PIPE_WIDTH` columns wide in a pipe."""
    found = Console(highlight=False, stderr=stderr)
    if not found.is_terminal:
        found = Console(highlight=False, stderr=stderr, width=PIPE_WIDTH)
    return found


def print_json(value: Any) -> None:
    """Print data as one JSON object."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """JSON-ready data: dataclasses as objects, money as numbers, times as ISO 8601 text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def usd(amount: Decimal | float) -> str:
    """An amount as people write it: "$338.50", and "$0.0042" below a cent."""
    value = float(amount)
    if 0 < abs(value) < 0.01:
        return f"${value:.4f}"
    return f"${value:,.2f}"


def count(number: float) -> str:
    """A large number shortened: "491.6 M", "12.3 k", "640"."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{number / (1e3 if unit == 'k' else size):,.1f} {unit}"
    return f"{number:,.0f}"


def span(seconds: float) -> str:
    """A duration: "12 h 40 min", "3 min 5 s", "8 s"."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole} s"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago: "3 min 5 s ago"."""
    return f"{span(((now or datetime.now(UTC)) - moment).total_seconds())} ago"


def fold_command(command: str, width: int) -> list[str]:
    """A shell command on lines of at most `width` columns, still one command when pasted.

    Lines end in a backslash; within quotes they break after a comma, which JSON does not mind. A
    word that is longer than a line stays whole.
    """
    lines, line = [], ""
    for word in _WORDS.findall(command):
        if line and len(line) + 1 + len(word) > width - 2:
            lines.append(f"{line} \\")
            line = word
        else:
            line = f"{line} {word}" if line else word
        while len(line) > width and (cut := line.rfind(", ", 0, width)) > 0:
            lines.append(line[: cut + 1])
            line = line[cut + 2 :]
    return [*lines, line]


_WORDS = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\S)+")
"""Words of a shell command: quotes hold together what they enclose."""


def sparkline(values: Sequence[float], width: int) -> str:
    """A curve of at most `width` characters; longer ones are averaged down to it.

    Values that are not finite leave a gap.
    """
    if not values or width < 1:
        return ""
    parts = _averaged(values, width)
    seen = [value for value in parts if math.isfinite(value)]
    if not seen:
        return " " * len(parts)
    low, high = min(seen), max(seen)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        SPARKS[round((value - low) * scale)] if math.isfinite(value) else " " for value in parts
    )


def _averaged(values: Sequence[float], width: int) -> list[float]:
    if len(values) <= width:
        return list(values)
    edges = [i * len(values) // width for i in range(width + 1)]
    return [sum(values[start:end]) / (end - start) for start, end in itertools.pairwise(edges)]
