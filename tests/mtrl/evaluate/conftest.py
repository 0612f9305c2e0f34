"""Cells, trace lines and results made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from agent.trace import Trace, Turn
from mtrl.evaluate.figures import Result, result
from mtrl.evaluate.folder import DONE, Entry
from mtrl.evaluate.plan import Cell, Conditions, Kind, Policy
from mtrl.pricing import TokenPrices

PRICES = TokenPrices(Decimal(1), Decimal(2), Decimal(0), "by hand")


def line(row: str, solved: bool, turns: int = 3, **settings: Any) -> str:
    """A job's trace line of one game: 1,000 tokens read and 100 sampled."""
    turn = Turn("", "", (), "stop", 1_000, 100, 0.1)
    reward = 1.5 - 0.1 * turns if solved else -0.5
    trace = Trace(
        task="wordle",
        row_id=row,
        job_arn="arn",
        trajectory_id=f"{row}-{turns}",
        settings={"temperature": 1.0, "reasoning_effort": None, "prompt_hint": None} | settings,
        turns=(turn,),
        stop_reason="done",
        reward=reward,
        summary={"turns": turns, "solved": solved, "outcome": "solved" if solved else "lost"},
        seconds=1.0,
    )
    return json.dumps(
        {
            "phase": "eval",
            "step": 0,
            "reward": reward,
            "prefill_tokens": 1_000,
            "sample_tokens": 100,
            "trace": trace.to_dict(),
        }
    )


def body(lines: Sequence[str]) -> bytes:
    """Trace lines as a job leaves them."""
    return "".join(f"{one}\n" for one in lines).encode()


class Hand:
    """Makes results."""

    line = staticmethod(line)
    body = staticmethod(body)
    prices = PRICES
    cell = Cell(Policy("base", Kind.BASE), Conditions(1.0), "a" * 64)
    trained = replace(cell, policy=Policy("trained", Kind.PACKAGE, "arn:model-package/x/1"))
    solver = replace(cell, policy=Policy("solver", Kind.PLAYER, "solver"), conditions=Conditions())

    @staticmethod
    def entry(cell: Cell, **changes: Any) -> Entry:
        """A completed cell."""
        return replace(Entry(cell, DONE, "job-1", "hash", traced=True), **changes)

    def result(self, cell: Cell, lines: Sequence[str], **changes: Any) -> Result:
        """A completed cell with its games."""
        return result(self.entry(cell, **changes), body(lines), 1.0, PRICES)

    def games(self, cell: Cell, solved: Sequence[bool], **settings: Any) -> Result:
        """One game a row."""
        found = settings or {"temperature": cell.conditions.temperature}
        return self.result(cell, [line(f"r{i}", won, **found) for i, won in enumerate(solved)])


@pytest.fixture
def hand() -> Hand:
    return Hand()
