"""The whole of an evaluation: its cells' figures, the differences that may be told, the ladder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from mtrl.errors import InputError
from mtrl.evaluate.compare import Difference, comparable, compare
from mtrl.evaluate.figures import Result, result
from mtrl.evaluate.folder import DONE, Entry, Folder
from mtrl.evaluate.plan import Kind
from mtrl.pricing import TokenPrices

VERSION = 1
_RUNGS = {Kind.PLAYER: 0, Kind.BASE: 1, Kind.UPSTREAM: 2, Kind.PACKAGE: 3}
"""Order of the ladder; a hint stands above the same policy without one."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is known so far."""

    name: str
    task: str
    threshold: float
    price_source: str | None
    """Where the token prices are from; None when none are known."""
    results: tuple[Result, ...]
    failed: tuple[Entry, ...]
    differences: tuple[Difference, ...]
    ladder: bool
    """True when the cells are the rungs of a ladder."""

    def to_data(self) -> dict[str, Any]:
        """JSON-ready data: what evaluation.json holds."""
        return {
            "version": VERSION,
            "name": self.name,
            "task": self.task,
            "success_threshold": self.threshold,
            "prices": self.price_source,
            "ladder": self.ladder,
            "cells": [_cell(item) for item in self.results],
            "failed": [
                {"id": entry.cell.id, "job": entry.job, "reason": entry.reason}
                for entry in self.failed
            ],
            "differences": [asdict(difference) for difference in self.differences],
        }


def _cell(item: Result) -> dict[str, Any]:
    cell = item.entry.cell
    return {
        **asdict(item.figures),
        "policy": asdict(cell.policy),
        "conditions": asdict(cell.conditions),
        "rows_sha256": cell.rows_sha,
        "job": item.entry.job,
        "agent_hash": item.entry.agent_hash,
    }


def read_results(
    folder: Folder, threshold: float, prices: TokenPrices | None
) -> tuple[list[Result], list[Entry]]:
    """Every completed cell of a folder, and those that did not complete.

    Raises:
        InputError: a cell's traces cannot be read.
    """
    done = [entry for entry in folder.entries.values() if entry.status == DONE]
    found = []
    for entry in done:
        try:
            found.append(result(entry, folder.traces(entry), threshold, prices))
        except ValueError as error:
            raise InputError(
                "bad-trace",
                f"{folder.path}/cells/{entry.cell.id}.jsonl: {error}.",
                "Delete the file and its entry in ledger.json; the job is found again.",
            ) from None
    return found, [entry for entry in folder.entries.values() if entry.status != DONE]


def rungs(results: Sequence[Result]) -> list[Result]:
    """The cells in the order of a ladder: players in their order, base, hint, trained."""
    return sorted(
        results,
        key=lambda r: (
            _RUNGS[r.entry.cell.policy.kind],
            bool(r.entry.cell.conditions.hint),
        ),
    )


def all_differences(results: Sequence[Result]) -> list[Difference]:
    """The difference of every two cells that differ in one thing."""
    pairs = combinations(results, 2)
    return [compare(one, other) for one, other in pairs if comparable(one, other)]


def ladder_differences(results: Sequence[Result]) -> list[Difference]:
    """Each rung less the base policy without a hint, where the two differ in one thing."""
    bases = [
        item
        for item in results
        if item.entry.cell.policy.kind is Kind.BASE and not item.entry.cell.conditions.hint
    ]
    return [
        compare(base, item)
        for base in bases
        for item in results
        if item is not base and comparable(base, item)
    ]


def chosen_differences(
    results: Sequence[Result], pairs: Sequence[tuple[str, str]]
) -> list[Difference]:
    """The differences that the operator asked for.

    Raises:
        InputError: no such cell, several of that name, or two that cannot be compared.
    """
    return [compare(_find(results, one), _find(results, other)) for one, other in pairs]


def _find(results: Sequence[Result], text: str) -> Result:
    """The cell whose id begins with `text`."""
    found = [item for item in results if item.figures.id.startswith(text)]
    exact = [item for item in found if item.figures.id == text]
    if len(exact or found) == 1:
        return (exact or found)[0]
    known = ", ".join(item.figures.id for item in found or results) or "none"
    what = f"{len(found)} cells begin with it" if found else "no completed cell begins with it"
    raise InputError("no-such-cell", f"--compare {text}: {what}.", f"Cells: {known}.")
