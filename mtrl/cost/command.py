"""The commands `mtrl cost …`: their options and what they print."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import click
from rich.table import Table

from mtrl.cost.options import KINDS, chosen_prices, price_list, price_option, prices_option
from mtrl.pricing import TokenCounts, token_cost_usd
from mtrl.terminal import console, json_option, print_json, usd

CENT = Decimal("0.01")
DEFAULT_MODEL = "gpt-oss-20b"
DEFAULT_REGION = "us-east-1"


@click.group("cost")
def cost() -> None:
    """Estimate a job's cost, read what it has cost, price any counts of tokens."""


@cost.command("tokens")
@click.option("--model", default=DEFAULT_MODEL, show_default=True)
@click.option("--region", default=DEFAULT_REGION, show_default=True)
@click.option("--prefill", type=click.IntRange(0), default=0, help="Tokens read.")
@click.option("--sample", type=click.IntRange(0), default=0, help="Tokens written.")
@click.option("--train", type=click.IntRange(0), default=0, help="Tokens trained on.")
@price_option
@prices_option
@json_option
def tokens(
    model: str,
    region: str,
    prefill: int,
    sample: int,
    train: int,
    own_prices: tuple[str, ...],
    prices_path: Path | None,
    as_json: bool,
) -> None:
    """Price counts of tokens.

    The table rounds each line to the cent, as a bill does; --json does not round.

    \b
    Examples:
      mtrl cost tokens --prefill 491616806 --sample 159737098 --train 643308554
      mtrl cost tokens --region us-west-2 --prices prices.toml --train 1000000 --json
    """
    prices = chosen_prices(model, region, price_list(prices_path), own_prices)
    counts = TokenCounts(prefill, sample, train)
    parts = {
        kind: token_cost_usd(TokenCounts(**{kind: getattr(counts, kind)}), prices) for kind in KINDS
    }
    if as_json:
        print_json(
            {
                "model": model,
                "region": region,
                "tokens": counts,
                "usd": {**parts, "total": sum(parts.values())},
                "prices": prices,
            }
        )
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("", "tokens", "per million", "cost"):
        table.add_column(heading, justify="right" if heading else "left")
    for kind, amount in parts.items():
        table.add_row(kind, f"{getattr(counts, kind):,}", f"${getattr(prices, kind)}", usd(amount))
    total = sum(map(billed, parts.values()), Decimal(0))
    table.add_row("total", f"{counts.total:,}", "", usd(total), style="bold")
    out = console()
    out.print(table)
    out.print(
        f"\n{model} in {region}; prices: {prices.source} ({prices.as_of})".removesuffix(" ()")
    )


def billed(amount: Decimal) -> Decimal:
    """A line of a bill: whole cents, halves up; below a cent as it is, so that it shows at all."""
    return amount.quantize(CENT, ROUND_HALF_UP) if amount >= CENT else amount
