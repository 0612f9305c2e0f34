"""`mtrl cost tokens`: any counts at dated prices, and an operator's own in their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mtrl.cli import main
from mtrl.pricing import TOKEN_PRICES, TokenCounts, token_cost_usd

REFERENCE = ["--prefill", "491616806", "--sample", "159737098", "--train", "643308554"]
REFERENCE_USD = 338.50
PRICES = TOKEN_PRICES["gpt-oss-20b", "us-east-1"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["cost", "tokens", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["cost", "tokens", *arguments])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output


def test_the_reference_run_costs_what_it_was_billed_within_a_cent() -> None:
    found = json.loads(run(*REFERENCE, "--model", "gpt-oss-20b", "--region", "us-east-1", "--json"))
    assert found["usd"]["total"] == pytest.approx(REFERENCE_USD, abs=0.01)
    assert found["usd"]["train"] == pytest.approx(231.59, abs=0.01)
    assert found["prices"]["source"] and found["prices"]["as_of"]


def test_the_table_adds_up_as_a_bill_does() -> None:
    text = run(*REFERENCE)
    assert "$338.50" in text and "$58.99" in text and "$47.92" in text and "$231.59" in text


@given(*[st.integers(0, 10**12)] * 6)
def test_cost_is_additive(a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    one, two = TokenCounts(a, b, c), TokenCounts(d, e, f)
    together = token_cost_usd(one + two, PRICES)
    assert together == token_cost_usd(one, PRICES) + token_cost_usd(two, PRICES)


def test_a_price_file_lies_over_the_known_prices_and_adds_regions(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(
        "[tokens.gpt-oss-20b.us-west-2]\nprefill = 1\nsample = 2\ntrain = 3.5\n"
        'as_of = "2026-12-01"\n'
    )
    options = ["--region", "us-west-2", "--prices", str(file), "--json"]
    found = json.loads(run("--train", "2000000", *options))
    assert found["usd"]["total"] == 7.0
    assert found["prices"]["as_of"] == "2026-12-01"


def test_a_single_own_price_replaces_one_and_all_three_need_no_known_model() -> None:
    one = json.loads(run("--train", "1000000", "--price", "train=0.50", "--json"))
    assert one["usd"]["total"] == 0.5
    prices = [part for kind in ("prefill", "sample", "train") for part in ("--price", f"{kind}=1")]
    own = json.loads(run("--train", "1000000", "--model", "mine", *prices, "--json"))
    assert own["usd"]["total"] == 1.0


def test_a_region_without_a_price_is_named_with_what_is_known() -> None:
    text = refused("--region", "us-west-2", "--train", "1")
    assert "us-west-2" in text and "gpt-oss-20b in us-east-1" in text and "--prices" in text


@pytest.mark.parametrize("price", ["sampl=3", "sample", "sample=-1", "sample=nan", "sample=x"])
def test_a_bad_price_is_named(price: str) -> None:
    assert f"--price {price}" in refused("--price", price)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[tokens.m.r]\nprefill = 1\nsample = 2\n", "tokens.m.r.train"),
        ("[tokens.m.r]\nprefill = 1\nsample = 2\ntrain = -3\n", "tokens.m.r.train"),
        ("[token.m.r]\n", "token"),
        ("[tokens", "not TOML"),
    ],
)
def test_a_bad_price_file_is_named_by_its_key(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    assert named in refused("--prices", str(file))


def test_a_missing_price_file_is_named() -> None:
    assert "nowhere.toml" in refused("--prices", "nowhere.toml")
