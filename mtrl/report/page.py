"""Writes the page: one HTML file that needs nothing else and may fetch nothing else.

The style and the script stand in the file; its content security policy allows these two by their
hashes and refuses everything else, so that nothing a model wrote can run or load.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mtrl.pricing import PriceList
from mtrl.rehearse.results import SLIGHT
from mtrl.report import sections
from mtrl.report.answers import Answers
from mtrl.report.curves import panels
from mtrl.report.replay import BLOCK, MAX_BYTES, pack
from mtrl.report.run import Run
from mtrl.report.views import MARKS

ASSETS = files("mtrl.report") / "assets"


def render(
    run: Run,
    answers: Answers,
    prices: PriceList | None = None,
    max_replay_bytes: int = MAX_BYTES,
) -> bytes:
    """The page of a run, in UTF-8.

    Args:
        prices: the operator's own; the known ones when None.
        max_replay_bytes: room for the replayed games; the rest of the page is a few hundred kB.
    """
    style, script = _asset("page.css"), _asset("page.js")
    html = _template().render(
        style=Markup(style),
        script=Markup(script),
        policy=_content_policy(style, script),
        run=run,
        answers=answers,
        **_content(run, answers, prices or PriceList(), max_replay_bytes),
    )
    # A lone half of a character cannot be written; it becomes "?".
    return html.encode("utf-8", "replace")


def _content(
    run: Run, answers: Answers, price_list: PriceList, max_replay_bytes: int
) -> dict[str, Any]:
    prices, no_price = sections.known_prices(run, price_list)
    compared = sections.measured(run, run.compared, prices)
    everything = sections.measured(run, run.sets, prices)
    replay = pack(run, answers, max_replay_bytes)
    return {
        "prices": prices,
        "no_price": no_price,
        "run_cost": sections.run_cost(run, prices),
        "compared": compared,
        "panels": panels(run),
        "matrix": sections.matrix(compared),
        "difference": sections.difference(run),
        "distribution": sections.distribution(compared, run.threshold),
        "faults": sections.faults(compared),
        "familiarity": sections.familiarity(run, answers),
        "lessons": sections.learned(run),
        "slight": SLIGHT,
        "replay": replay,
        "block": BLOCK,
        "guide": Markup(_data(_guide(run, everything))),
    }


def _guide(run: Run, everything: list[sections.Measured]) -> dict[str, Any]:
    """What the script must know besides the games."""
    rows = sections.faults(everything)
    return {
        "sets": [f"{item.games.name} ({item.games.sampling.label})" for item in everything],
        "names": [item.games.name for item in everything],
        "faults": {row.cluster.key: row.cluster.title for row in rows},
        "marks": MARKS,
        "threshold": run.threshold,
    }


def _data(value: Any) -> str:
    """JSON that can stand in a script element: no character opens or closes markup."""
    text = json.dumps(value)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _content_policy(style: str, script: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


@lru_cache
def _template() -> Any:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"share": _share, "signed": _signed, "usd": _usd, "count": _count}
    return environment.from_string(_asset("page.html.j2"))


def _share(value: float) -> str:
    return f"{value:.1%}"


def _signed(value: float, digits: int = 2) -> str:
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _usd(value: Any) -> str:
    """Dollars and cents, or two significant digits below a dollar."""
    if value >= 1 or value == 0:
        return f"${value:,.2f}"
    return f"${value:.{1 - math.floor(math.log10(value))}f}"


def _count(value: float) -> str:
    return f"{value:,.0f}"
