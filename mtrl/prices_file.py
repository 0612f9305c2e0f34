"""An operator's own prices: a TOML file that lies over the known ones.

[tokens.gpt-oss-20b.us-west-2]      # US dollars per million tokens
prefill = 0.12
sample = 0.30
train = 0.36
source = "price page"
as_of = "2026-12-01"

[runtime]                            # US dollars per hour
vcpu_hour = 0.0895
gb_hour = 0.00945

[storage]                            # US dollars per GB and month
bucket = 0.023
logs = 0.03
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mtrl.errors import InputError
from mtrl.pricing import PriceList, TokenPrices

Usd = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
_OWN = "your own prices"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = ""
    as_of: str = ""


class _Tokens(_Table):
    prefill: Usd
    sample: Usd
    train: Usd


class _Runtime(_Table):
    vcpu_hour: Usd | None = None
    gb_hour: Usd | None = None


class _Storage(_Table):
    bucket: Usd | None = None
    logs: Usd | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: dict[str, dict[str, _Tokens]] = Field(default_factory=dict)
    runtime: _Runtime = _Runtime()
    storage: _Storage = _Storage()


def read_prices(path: Path | None) -> PriceList:
    """The known prices with those of the file laid over them; the known ones without a file.

    Raises:
        InputError: the file cannot be read, or a key or value is not allowed; by name.
    """
    known = PriceList()
    if path is None:
        return known
    file = _read(path)
    tokens = dict(known.tokens)
    for model, regions in file.tokens.items():
        for region, given in regions.items():
            tokens[model, region] = TokenPrices(
                given.prefill, given.sample, given.train, given.source or _OWN, given.as_of
            )
    return PriceList(
        tokens=tokens,
        runtime=replace(known.runtime, **_given(file.runtime)),
        storage=replace(known.storage, **_given(file.storage)),
    )


def _given(table: _Table) -> dict[str, Decimal | str]:
    """The table's values; a table with a price in it is the operator's own throughout."""
    values = {k: v for k, v in table.model_dump().items() if v not in (None, "")}
    return {"source": _OWN, "as_of": "", **values} if values else {}


def _read(path: Path) -> _File:
    try:
        # Prices stay the decimal numbers that were typed.
        return _File.model_validate(tomllib.loads(path.read_text(), parse_float=Decimal))
    except OSError as error:
        raise InputError("prices-unreadable", f"--prices {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("prices-unreadable", f"--prices {path}: not TOML: {error}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            "bad-prices",
            f"--prices {path}: {where}: {first['msg']}.",
            "Tables: [tokens.MODEL.REGION] with prefill, sample, train; [runtime] with "
            "vcpu_hour, gb_hour; [storage] with bucket, logs.",
        ) from None
