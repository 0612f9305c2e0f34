"""The report's tables: from a run's sets to rows that the page shows as they are.

Every row says what its games were sampled under. No difference is computed between sets whose
sampling differs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from mtrl.errors import InputError
from mtrl.pricing import PriceList, TokenPrices, prices_for, token_cost_usd
from mtrl.rehearse.results import Lesson, lessons
from mtrl.report.answers import Answers
from mtrl.report.charts import Bar, column_chart
from mtrl.report.clusters import Cluster, clusters, faults_of
from mtrl.report.games import Game, GameSet, Kind, Sampling
from mtrl.report.measures import Cost, Measure, Rate, cost, measure, rate, turn_counts
from mtrl.report.run import Run
from mtrl.statistics import McNemar, mcnemar, paired_bootstrap

MAX_CHARTS = 12
"""Distributions drawn; the table below them has every set."""
UNSOLVED = "not"
"""The distribution's last column."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A set, its figures, and its place among the run's sets."""

    index: int
    games: GameSet
    measure: Measure
    cost: Cost | None
    """None when no price is known."""


def measured(run: Run, sets: Sequence[GameSet], prices: TokenPrices | None) -> list[Measured]:
    """Figures of some of the run's sets."""
    places = {id(games): index for index, games in enumerate(run.sets)}
    found = []
    for games in sets:
        figures = measure(games.games, run.threshold)
        priced = prices if games.policy not in run.unpriced else None
        spent = cost(figures, priced) if priced else None
        found.append(Measured(places[id(games)], games, figures, spent))
    return found


def known_prices(run: Run, prices: PriceList) -> tuple[TokenPrices | None, str]:
    """Prices of the run's model, or why there are none."""
    try:
        return prices_for(run.model, run.region, prices), ""
    except InputError as error:
        return None, error.message


@dataclass(frozen=True, slots=True)
class Matrix:
    """Policies against sampling settings, the more numerous down; a cell may be empty."""

    policies_down: bool
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Measured | None, ...]], ...]


def matrix(sets: Sequence[Measured]) -> Matrix:
    """Arrange the compared sets so that they fit a page."""
    names = list(dict.fromkeys(item.games.name for item in sets))
    settings = list(dict.fromkeys(item.games.sampling.label for item in sets))
    at = {(item.games.name, item.games.sampling.label): item for item in sets}
    if len(settings) <= len(names):
        rows = [(name, tuple(at.get((name, s)) for s in settings)) for name in names]
        return Matrix(True, tuple(settings), tuple(rows))
    rows = [(s, tuple(at.get((name, s)) for name in names)) for s in settings]
    return Matrix(False, tuple(names), tuple(rows))


@dataclass(frozen=True, slots=True)
class Difference:
    """Two policies on the same rows under the same sampling."""

    first: str
    second: str
    sampling: Sampling
    rows: int
    points: float
    """Second's solve rate less first's, as a share."""
    low: float
    high: float
    """95% bootstrap interval of `points`, over rows."""
    test: McNemar | None
    """None when a row was played more than once."""


def difference(run: Run) -> Difference | None:
    """The run's one comparison: two evaluations that differ in the policy alone."""
    sets = run.of(Kind.EVALUATION)
    if len(sets) != 2 or sets[0].sampling != sets[1].sampling:
        return None
    first, second = (_by_row(games, run.threshold) for games in sets)
    rows = sorted(first.keys() & second.keys())
    if not rows:
        return None
    shares = [(_share(first[row]), _share(second[row])) for row in rows]
    changes = [b - a for a, b in shares]
    once = all(len(first[row]) == len(second[row]) == 1 for row in rows)
    low, high = paired_bootstrap(changes)
    return Difference(
        first=sets[0].name,
        second=sets[1].name,
        sampling=sets[0].sampling,
        rows=len(rows),
        points=sum(changes) / len(rows),
        low=low,
        high=high,
        test=mcnemar([bool(a) for a, _ in shares], [bool(b) for _, b in shares]) if once else None,
    )


def _by_row(games: GameSet, threshold: float) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = {}
    for game in games.games:
        found.setdefault(game.row_id, []).append(game.solved(threshold))
    return found


def _share(won: Sequence[bool]) -> float:
    return sum(won) / len(won)


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many turns the games of the compared sets took."""

    turns: tuple[int, ...]
    rows: tuple[tuple[Measured, tuple[int, ...], int], ...]
    """(set, solved games by turns, unsolved games)."""
    charts: tuple[tuple[Measured, Markup], ...]


def distribution(sets: Sequence[Measured], threshold: float) -> Distribution:
    """Solved games by turns, and the unsolved ones, of every set."""
    counts = [(item, *turn_counts(item.games.games, threshold)) for item in sets]
    longest = max((max(solved, default=0) for _, solved, _ in counts), default=0)
    turns = tuple(range(1, longest + 1))
    rows = tuple(
        (item, tuple(solved.get(n, 0) for n in turns), lost) for item, solved, lost in counts
    )
    top = _top([n / row[0].measure.rate.games for row in rows for n in (*row[1], row[2])])
    charts = tuple((row[0], _turn_chart(row, turns, top)) for row in rows[:MAX_CHARTS])
    return Distribution(turns, rows, charts)


def _top(shares: Sequence[float]) -> float:
    """The columns' common height: the highest with room for its figure, in fifths, at most 1."""
    return min(1.0, math.ceil((max(shares, default=0.0) + 0.04) * 5) / 5)


def _turn_chart(
    row: tuple[Measured, tuple[int, ...], int], turns: Sequence[int], top: float
) -> Markup:
    item, solved, lost = row
    total = item.measure.rate.games
    bars = [
        Bar(str(n), count / total, f"{count} of {total} games solved in {n}")
        for n, count in zip(turns, solved, strict=True)
    ]
    bars.append(Bar(UNSOLVED, lost / total, f"{lost} of {total} games not solved", "faint"))
    spoken = ", ".join(bar.note for bar in bars if bar.value)
    label = f"Turns to solve, {item.games.name}: {spoken}"
    return column_chart(bars, top, x_name="turns to solve · not solved", label=label)


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A kind of fault, and per set: (games that show it, times it happened)."""

    cluster: Cluster
    cells: tuple[tuple[Measured, int, int], ...]


def faults(sets: Sequence[Measured]) -> list[FaultRow]:
    """Error clusters of the compared sets."""
    everything = [game for item in sets for game in item.games.games]
    counted = {item.index: [faults_of(game) for game in item.games.games] for item in sets}
    return [
        FaultRow(
            cluster,
            tuple(
                (
                    item,
                    sum(cluster.key in found for found in counted[item.index]),
                    sum(found.get(cluster.key, 0) for found in counted[item.index]),
                )
                for item in sets
            ),
        )
        for cluster in clusters(everything)
    ]


@dataclass(frozen=True, slots=True)
class Familiarity:
    """A set's solve rate on training rows and on held-out ones."""

    games: GameSet
    seen: Rate | None
    unseen: Rate | None


def familiarity(run: Run, answers: Answers) -> list[Familiarity]:
    """Seen against unseen rows: the compared sets, and the last training step if there is one.

    Rows that the dataset does not have are left out; without the training data nothing is known
    to be unseen.
    """
    if not answers.training:
        return []
    sets = list(run.compared)
    training = run.of(Kind.TRAINING)
    if training:
        last = max(games.step or 0 for games in training)
        sets += [g for g in training if (g.step or 0) == last and not any(g is s for s in sets)]
    found = []
    for games in sets:
        split: dict[bool, list[Game]] = {True: [], False: []}
        for game in games.games:
            if game.row_id in answers.known:
                split[game.row_id in answers.training].append(game)
        seen, unseen = (rate(part, run.threshold) if part else None for part in split.values())
        found.append(Familiarity(games, seen, unseen))
    return [item for item in found if item.seen or item.unseen]


def learned(run: Run) -> list[Lesson]:
    """What training did to the behaviours, the strongest change first.

    Raises:
        InputError: the run's record of it is not one.
    """
    try:
        return lessons(run.learned)
    except (KeyError, TypeError) as error:
        raise InputError(
            "bad-lessons",
            f"what {run.title} learned cannot be read: {error!r}.",
            "Each entry has behaviour, meaning, before and after.",
        ) from error


def run_cost(run: Run, prices: TokenPrices | None) -> str:
    """What the whole run's tokens cost, in US dollars; empty when it is not known."""
    if run.tokens is None or prices is None:
        return ""
    return f"${token_cost_usd(run.tokens, prices):.2f}"
