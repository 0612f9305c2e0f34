"""The figures of a cell: solve rate with its interval, reward, pass@k, turns, tokens, cost.

From the traces of its games when there are any, else as far as the job's own metrics go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from mtrl.evaluate.folder import Entry
from mtrl.evaluate.plan import Kind
from mtrl.pricing import TokenCounts, TokenPrices, token_cost_usd
from mtrl.report.games import Game, Sampling, read_line
from mtrl.report.measures import Measure, measure, turn_counts
from mtrl.statistics import wilson_interval

NO_COST = TokenPrices(Decimal(0), Decimal(0), Decimal(0), "a scripted player samples no model")


@dataclass(frozen=True, slots=True)
class CellFigures:
    """One row of the evaluation."""

    id: str
    title: str
    games: int
    solve_rate: float
    low: float
    high: float
    """95% interval of the solve rate; of several games a row, for clusters."""
    mean_reward: float | None
    turns_to_solve: float | None
    pass_at: dict[str, float]
    """k -> chance that one of k games solves the row."""
    solved_in: dict[str, int]
    """Turns -> games solved in so many; "unsolved" for the rest."""
    prefill_per_game: float
    sample_per_game: float
    usd_per_game: float | None
    usd_per_solved: float | None
    """None where no price is known, or nothing was solved."""
    failures: int
    """Rollouts without a reward."""
    notes: tuple[str, ...] = ()
    traced: bool = True
    """False when only the job's own metrics are known: then it cannot be compared."""


@dataclass(frozen=True, slots=True)
class Result:
    """A completed cell: what was planned, what was played, what it amounts to."""

    entry: Entry
    games: tuple[Game, ...]
    threshold: float
    figures: CellFigures
    sampling: frozenset[Sampling] = field(default_factory=frozenset)
    """What the games say that they were sampled under."""


def result(entry: Entry, traces: bytes, threshold: float, prices: TokenPrices | None) -> Result:
    """Read a completed cell.

    Raises:
        ValueError: trace lines that are none, or of a newer schema.
    """
    games = tuple(read_line(line)[0] for line in traces.splitlines() if line.strip())
    paid = _prices(entry, prices)
    if not games:
        return Result(entry, (), threshold, _from_metrics(entry, paid))
    sampling = frozenset(game.sampling for game in games if game.sampling != Sampling())
    figures = _figures(entry, games, measure(games, threshold), threshold, paid)
    return Result(entry, games, threshold, figures, sampling)


def _prices(entry: Entry, prices: TokenPrices | None) -> TokenPrices | None:
    """A player's moves cost nothing; what an upstream server's cost is not known."""
    if entry.cell.policy.kind is Kind.PLAYER:
        return NO_COST
    return None if entry.cell.policy.kind is Kind.UPSTREAM else prices


def _figures(
    entry: Entry,
    games: Sequence[Game],
    measured: Measure,
    threshold: float,
    prices: TokenPrices | None,
) -> CellFigures:
    solved, unsolved = turn_counts(games, threshold)
    count = len(games)
    usd = float(token_cost_usd(measured.tokens, prices)) if prices else None
    wins = measured.rate.solved
    return CellFigures(
        id=entry.cell.id,
        title=entry.cell.title,
        games=count,
        solve_rate=measured.rate.share,
        low=measured.rate.low,
        high=measured.rate.high,
        mean_reward=measured.mean_reward,
        turns_to_solve=measured.mean_turns_solved,
        pass_at={str(k): chance for k, chance in measured.pass_at},
        solved_in={str(n): c for n, c in solved.items()} | {"unsolved": unsolved},
        prefill_per_game=measured.tokens.prefill / count,
        sample_per_game=measured.tokens.sample / count,
        usd_per_game=None if usd is None else usd / count,
        usd_per_solved=usd / wins if usd is not None and wins else None,
        failures=measured.failures,
        notes=tuple(_notes(entry, games, threshold)),
    )


def _notes(entry: Entry, games: Sequence[Game], threshold: float) -> list[str]:
    """Where the games are not what was planned, or not what their reward says."""
    planned, notes = entry.cell.conditions, []
    played = [game for game in games if game.trace is not None]
    if entry.cell.policy.sampled:
        for name, wanted, seen in (
            ("effort", planned.effort, [game.sampling.effort for game in played]),
            ("hint", planned.hint, [game.sampling.hint for game in played]),
            ("temperature", planned.temperature, [game.sampling.temperature for game in played]),
        ):
            # Without a setting of its own a row is played with the agent's.
            wrong = 0 if wanted is None else sum(value != wanted for value in seen)
            if wrong:
                notes.append(f"{wrong} of {len(seen)} games ran without {name} {wanted}")
    differing = sum(
        game.trace.summary["solved"] != game.solved(threshold)
        for game in played
        if game.trace and isinstance(game.trace.summary.get("solved"), bool)
    )
    if differing:
        notes.append(f"{differing} games are solved by the task's count and not by reward >= "
                     f"{threshold:g}, or the other way round")  # fmt: skip
    return notes


def _from_metrics(entry: Entry, prices: TokenPrices | None) -> CellFigures:
    """What the job itself counted. Games of one row are counted once in the interval."""
    metrics = entry.metrics
    rows = int(metrics.get("eval/reward/num_prompts", 0))
    games = rows * int(metrics.get("eval/reward/rollouts_per_prompt", 1))
    rate = metrics.get("eval/reward/pass_at_1", 0.0)
    low, high = wilson_interval(rate * rows, rows)
    tokens = TokenCounts(entry.tokens.get("prefill", 0), entry.tokens.get("sample", 0))
    usd = float(token_cost_usd(tokens, prices)) if prices else None
    solved = rate * games
    prefix = "eval/reward/pass_at_"
    return CellFigures(
        id=entry.cell.id,
        title=entry.cell.title,
        games=games,
        solve_rate=rate,
        low=low,
        high=high,
        mean_reward=metrics.get("eval/reward/mean"),
        turns_to_solve=None,
        pass_at={k.removeprefix(prefix): v for k, v in metrics.items() if k.startswith(prefix)},
        solved_in={},
        prefill_per_game=tokens.prefill / max(games, 1),
        sample_per_game=tokens.sample / max(games, 1),
        usd_per_game=usd / games if usd is not None and games else None,
        usd_per_solved=usd / solved if usd is not None and solved else None,
        failures=int(metrics.get("eval/reward/failed_rollouts", 0)),
        notes=("no traces were found: from the job's own metrics",),
        traced=False,
    )
