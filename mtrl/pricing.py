"""What tokens, sessions and storage cost: dated prices with a source, and sums over counts.

Counts are tokens; prices are US dollars. Only what a source states is listed; an operator's own
price file lies over it (`mtrl.prices_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from mtrl.errors import InputError

TOKENS_PER_PRICE = 1_000_000
SECONDS_PER_HOUR = 3_600


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars per million tokens."""

    prefill: Decimal
    sample: Decimal
    train: Decimal
    source: str
    as_of: str = ""
    """When the source stated them."""


@dataclass(frozen=True, slots=True)
class RuntimePrices:
    """US dollars for the AgentCore runtime."""

    vcpu_hour: Decimal
    """Per vCPU-hour in which the CPU works."""
    gb_hour: Decimal
    """Per GB-hour of memory for as long as a session lives, idle time included."""
    source: str
    as_of: str = ""


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """US dollars per GB and month of what stays when nothing runs."""

    bucket: Decimal
    logs: Decimal
    source: str
    as_of: str = ""


_REFERENCE = "AWS's public Wordle sample: its billed run, us-east-1"
_AS_OF = "late 2026"

TOKEN_PRICES: dict[tuple[str, str], TokenPrices] = {
    ("gpt-oss-20b", "us-east-1"): TokenPrices(
        Decimal("0.12"), Decimal("0.30"), Decimal("0.36"), _REFERENCE, _AS_OF
    ),
}
"""(model, Region) -> prices."""

RUNTIME_PRICES = RuntimePrices(
    Decimal("0.0895"), Decimal("0.00945"), "AgentCore's price page, us-east-1", _AS_OF
)
STORAGE_PRICES = StoragePrices(
    Decimal("0.023"), Decimal("0.03"), "S3 Standard and CloudWatch Logs, us-east-1", _AS_OF
)


@dataclass(frozen=True, slots=True)
class PriceList:
    """All prices a command works with."""

    tokens: Mapping[tuple[str, str], TokenPrices] = field(default_factory=lambda: TOKEN_PRICES)
    runtime: RuntimePrices = RUNTIME_PRICES
    storage: StoragePrices = STORAGE_PRICES


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

    @property
    def total(self) -> int:
        """All three together."""
        return self.prefill + self.sample + self.train


def prices_for(model: str, region: str, prices: PriceList | None = None) -> TokenPrices:
    """Prices of a model in a Region.

    Raises:
        InputError: no source states them; names the pairs that are known.
    """
    tokens = (prices or PriceList()).tokens
    found = tokens.get((model, region))
    if found is None:
        known = ", ".join(f"{m} in {r}" for m, r in sorted(tokens))
        raise InputError(
            "no-price",
            f"no token price is known for model {model!r} in Region {region!r}.",
            f"Known: {known}. Give your own with a price file (--prices FILE).",
        )
    return found


def token_cost_usd(counts: TokenCounts, prices: TokenPrices) -> Decimal:
    """US dollars for the counts, exact (not rounded)."""
    return (
        counts.prefill * prices.prefill
        + counts.sample * prices.sample
        + counts.train * prices.train
    ) / TOKENS_PER_PRICE


def runtime_cost_usd(vcpu_seconds: float, gb_seconds: float, prices: RuntimePrices) -> Decimal:
    """US dollars for working CPU time and for memory held, exact (not rounded)."""
    cpu = Decimal(str(vcpu_seconds)) * prices.vcpu_hour
    memory = Decimal(str(gb_seconds)) * prices.gb_hour
    return (cpu + memory) / SECONDS_PER_HOUR
