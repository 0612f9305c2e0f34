"""The figures of a set of games: how well, how surely, in how many turns, at what cost.

Pure functions from games to frozen numbers; shares are in [0, 1], tokens and seconds are totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import fmean

from mtrl.pricing import TokenCounts, TokenPrices, token_cost_usd
from mtrl.report.clusters import FORMAT_FAULTS
from mtrl.report.games import Game
from mtrl.statistics import clustered_interval, pass_at_k

SAME_REWARD = 1e-9
"""Rewards closer than this are a tie."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A solve rate and its 95% interval."""

    solved: int
    games: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Solved over played; 0 when nothing was played."""
        return self.solved / self.games if self.games else 0.0


@dataclass(frozen=True, slots=True)
class Measure:
    """The figures of one set."""

    rate: Rate
    rows: int
    """Different task rows among the games."""
    mean_reward: float | None
    """Over games that have one."""
    mean_turns: float
    mean_turns_solved: float | None
    tokens: TokenCounts
    seconds: float
    """Of all rollouts together, as if one after the other."""
    pass_at: tuple[tuple[int, float], ...]
    """(k, chance that one of k games solves the row); only with several games a row."""
    failures: int
    """Games without a reward."""
    misformed: float
    """Share of games with a move written as text or a call that could not be played."""
    tied: float | None
    """Share of rows whose games all earned the same, which teach nothing; None with one a row."""


def rate(games: Sequence[Game], threshold: float) -> Rate:
    """Solve rate of games, with repeated rows counted as what they are."""
    wins: Counter[str] = Counter()
    played: Counter[str] = Counter()
    for game in games:
        played[game.row_id] += 1
        wins[game.row_id] += game.solved(threshold)
    low, high = clustered_interval([wins[row] for row in played], list(played.values()))
    return Rate(wins.total(), len(games), low, high)


def measure(games: Sequence[Game], threshold: float) -> Measure:
    """Figures of a set.

    Raises:
        ValueError: no games.
    """
    if not games:
        raise ValueError("no games to measure")
    rewards = [game.reward for game in games if game.reward is not None]
    solved = [game.turns for game in games if game.solved(threshold)]
    return Measure(
        rate=rate(games, threshold),
        rows=len({game.row_id for game in games}),
        mean_reward=fmean(rewards) if rewards else None,
        mean_turns=fmean(game.turns for game in games),
        mean_turns_solved=fmean(solved) if solved else None,
        tokens=TokenCounts(
            prefill=sum(game.prefill_tokens for game in games),
            sample=sum(game.sample_tokens for game in games),
        ),
        seconds=sum(game.seconds for game in games),
        pass_at=_pass_at(games, threshold),
        failures=sum(game.reward is None for game in games),
        misformed=fmean(bool(FORMAT_FAULTS & game.faults.keys()) for game in games),
        tied=_tied(games),
    )


def _tied(games: Sequence[Game]) -> float | None:
    """Over rows with several rewards."""
    rewards: dict[str, list[float]] = {}
    for game in games:
        if game.reward is not None:
            rewards.setdefault(game.row_id, []).append(game.reward)
    groups = [group for group in rewards.values() if len(group) > 1]
    return fmean(max(group) - min(group) < SAME_REWARD for group in groups) if groups else None


def _pass_at(games: Sequence[Game], threshold: float) -> tuple[tuple[int, float], ...]:
    """pass@k for k = 1, 2, 4, ... up to the fewest games a row; empty with one game a row."""
    results: dict[str, list[bool]] = {}
    for game in games:
        results.setdefault(game.row_id, []).append(game.solved(threshold))
    fewest = min(map(len, results.values()))
    if fewest < 2:
        return ()
    ks = [2**n for n in range(fewest.bit_length())]
    return tuple(
        (k, fmean(pass_at_k(len(won), sum(won), k) for won in results.values())) for k in ks
    )


def turn_counts(games: Sequence[Game], threshold: float) -> tuple[dict[int, int], int]:
    """Solved games by their turns, without gaps up to the longest, and the unsolved ones."""
    counts = Counter(game.turns for game in games if game.solved(threshold))
    longest = max((game.turns for game in games), default=0)
    return {n: counts[n] for n in range(1, longest + 1)}, len(games) - counts.total()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a set of games costs in tokens, in US dollars."""

    total: Decimal
    per_game: Decimal
    per_solved: Decimal | None
    """None when nothing was solved."""


def cost(measured: Measure, prices: TokenPrices) -> Cost:
    """Token cost of a set."""
    spent = token_cost_usd(measured.tokens, prices)
    solved = measured.rate.solved
    return Cost(spent, spent / measured.rate.games, spent / solved if solved else None)
