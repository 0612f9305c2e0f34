"""Options that every command which names a price takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeVar

import click

from mtrl.errors import InputError
from mtrl.prices_file import read_prices
from mtrl.pricing import PriceList, TokenPrices, prices_for

F = TypeVar("F", bound=Callable[..., Any])
KINDS = ("prefill", "sample", "train")


def prices_option(command: F) -> F:
    """Adds `--prices FILE`, handed over as `prices_path`."""
    return click.option(
        "--prices",
        "prices_path",
        type=click.Path(path_type=Path),
        envvar="MTRL_PRICES",
        help="TOML file with your own prices (or MTRL_PRICES).",
    )(command)


def price_option(command: F) -> F:
    """Adds `--price KIND=USD`, handed over as `own_prices`."""
    return click.option(
        "--price",
        "own_prices",
        multiple=True,
        metavar="KIND=USD",
        help="Your own price per million tokens, e.g. train=0.40; repeatable.",
    )(command)


def chosen_prices(
    model: str, region: str, prices: PriceList, own: tuple[str, ...] = ()
) -> TokenPrices:
    """Prices of a model with single ones replaced by the operator's own.

    Raises:
        InputError: no price is known, or one of `own` is not KIND=USD.
    """
    given = dict(_price(text) for text in own)
    if given.keys() == set(KINDS):
        own_kinds = (given[kind] for kind in KINDS)
        return TokenPrices(*own_kinds, source="your own prices")
    found = prices_for(model, region, prices)
    if not given:
        return found
    return replace(found, **given, source=f"{found.source}; {', '.join(given)} your own")


def price_list(path: Path | None) -> PriceList:
    """The prices that `--prices` leads to; see `read_prices`."""
    return read_prices(path)


def _price(text: str) -> tuple[str, Decimal]:
    kind, _, amount = text.partition("=")
    if kind not in KINDS:
        raise InputError(
            "bad-price",
            f"--price {text}: {kind!r} is no kind of token.",
            f"Use {', '.join(KINDS)}.",
        )
    try:
        value = Decimal(amount)
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0:
        raise InputError(
            "bad-price",
            f"--price {text}: {amount!r} is not a price.",
            f"Write US dollars per million tokens, e.g. --price {kind}=0.30.",
        )
    return kind, value
