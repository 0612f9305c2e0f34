"""What tokens cost: dated prices with a source, and the sum over counts.

Counts are tokens; prices are US dollars per million tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from mtrl.errors import InputError

TOKENS_PER_PRICE = 1_000_000
VCPU_HOUR_USD = Decimal("0.0895")
GB_HOUR_USD = Decimal("0.00945")
"""AgentCore Runtime, us-east-1, late 2026: active vCPU-hours and resident GB-hours."""


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars per million tokens, with where and when they were read."""

    prefill: Decimal
    sample: Decimal
    train: Decimal
    source: str


_REFERENCE = "AWS's public Wordle sample: its billed run of 2026, us-east-1"

TOKEN_PRICES: dict[tuple[str, str], TokenPrices] = {
    ("gpt-oss-20b", "us-east-1"): TokenPrices(
        Decimal("0.12"), Decimal("0.30"), Decimal("0.36"), _REFERENCE
    ),
}
"""(model, Region) -> prices. Only what a source states."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens read while sampling, written by the policy, and trained on."""

    prefill: int = 0
    sample: int = 0
    train: int = 0

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(
            self.prefill + other.prefill, self.sample + other.sample, self.train + other.train
        )


def prices_for(model: str, region: str) -> TokenPrices:
    """Prices of a model in a Region.

    Raises:
        InputError: no source states them; names the pairs that are known.
    """
    prices = TOKEN_PRICES.get((model, region))
    if prices is None:
        known = ", ".join(f"{m} in {r}" for m, r in sorted(TOKEN_PRICES))
        raise InputError(
            "no-price",
            f"no token price is known for model {model!r} in Region {region!r}.",
            f"Known: {known}. Give your own prices instead.",
        )
    return prices


def token_cost_usd(counts: TokenCounts, prices: TokenPrices) -> Decimal:
    """US dollars for the counts, exact (not rounded)."""
    return (
        counts.prefill * prices.prefill
        + counts.sample * prices.sample
        + counts.train * prices.train
    ) / TOKENS_PER_PRICE
