"""How sure a solve rate and a difference of two are: intervals, paired tests, pass@k.

Pure functions on counts and numbers, standard library only. Everything random takes a seed, so
the same games always give the same figures.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054
"""Standard normal quantile at 0.975."""
RESAMPLES = 4_000
"""Bootstrap resamples: moves a 95% bound by about 0.1 points on 128 words between seeds."""


def wilson_interval(successes: float, n: float) -> tuple[float, float]:
    """95% interval of a proportion (Wilson 1927), as (low, high) within [0, 1].

    Args:
        successes: 0 to n.
        n: trials; may be an effective number (see `clustered_interval`). With n = 0 nothing is
            known and the interval is (0, 1).

    Raises:
        ValueError: successes outside [0, n].
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes {successes} is not within [0, {n}]")
    if n == 0:
        return (0.0, 1.0)
    share = successes / n
    middle = (share + Z_95**2 / (2 * n)) / (1 + Z_95**2 / n)
    half = Z_95 / (1 + Z_95**2 / n) * math.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n**2))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return (low, high)


def clustered_interval(wins: Sequence[int], games: Sequence[int]) -> tuple[float, float]:
    """95% interval of a solve rate when each row was played more than once.

    Games of one row resemble each other, so n games are worth fewer independent ones. The Wilson
    interval is taken at the effective number, n over the design effect (Kish 1965); with one
    game a row it is the plain Wilson interval. When every game of every row ended alike the
    likeness cannot be measured, and only the rows are counted.

    Args:
        wins: solved games of each row.
        games: games of each row, at least 1.

    Raises:
        ValueError: the two differ in length, or a row has no game.
    """
    if len(wins) != len(games) or any(n < 1 for n in games):
        raise ValueError("every row needs its wins and at least one game")
    total, rows = sum(games), len(games)
    if rows == 0 or total == rows:
        return wilson_interval(sum(wins), total)
    rate = sum(wins) / total
    effective = float(rows)
    if 0 < rate < 1 and rows > 1:
        spread = sum((w - rate * n) ** 2 for w, n in zip(wins, games, strict=True))
        clustered = rows / (rows - 1) * spread / total**2
        independent = rate * (1 - rate) / total
        effective = min(float(total), total * independent / clustered) if clustered else total
    return wilson_interval(rate * effective, effective)


@dataclass(frozen=True, slots=True)
class McNemar:
    """Two players on the same rows: what only one of them solved, and how surprising that is."""

    only_first: int
    only_second: int
    exact_p: float
    """Two-sided exact binomial p-value."""
    mid_p: float
    """Two-sided mid-p value: less conservative, recommended for few discordant pairs."""


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """McNemar's test on paired outcomes (Fagerland, Lydersen and Laake 2013).

    Raises:
        ValueError: the two differ in length.
    """
    pairs = list(zip(first, second, strict=True))
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    n, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n
    point = math.comb(n, fewer) / 2**n
    return McNemar(only_first, only_second, min(1.0, 2 * tail), min(1.0, 2 * tail - point))


def sign_flip_p(differences: Sequence[int]) -> float:
    """Exact two-sided p-value that paired whole-number differences lean neither way.

    The share of all sign patterns whose sum is at least as far from 0. With differences of -1, 0
    and 1 this is McNemar's exact test; with several games a row it is its counterpart for the
    differences in solved games.
    """
    sums = {0: 1}
    sizes = [abs(d) for d in differences if d]
    for size in sizes:
        grown: dict[int, int] = {}
        for value, ways in sums.items():
            for reached in (value - size, value + size):
                grown[reached] = grown.get(reached, 0) + ways
        sums = grown
    seen = abs(sum(differences))
    return sum(ways for value, ways in sums.items() if abs(value) >= seen) / 2 ** len(sizes)


def paired_bootstrap(
    differences: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """95% percentile interval of the mean of paired differences (Efron 1979).

    Args:
        differences: one a row, so that games of one row are drawn together.
        seed: of the resampling.

    Raises:
        ValueError: no difference to resample.
    """
    if not differences:
        raise ValueError("no paired rows to resample")
    draw = random.Random(seed)
    n = len(differences)
    means = sorted(math.fsum(draw.choices(differences, k=n)) / n for _ in range(resamples))
    return (_quantile(means, 0.025), _quantile(means, 0.975))


def paired_interval(differences: Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """95% interval of the mean of paired differences of two shares, each within [-1, 1].

    The bootstrap's; but rows that all differ alike have no spread to resample, and then the bound
    is on the share of rows not seen that may behave otherwise (Wilson's, for 0 of n), however far
    those differ.

    Raises:
        ValueError: no differences.
    """
    if len(set(differences)) != 1:
        return paired_bootstrap(differences, seed=seed)
    same = differences[0]
    _, unseen = wilson_interval(0, len(differences))
    return (same - unseen * (same + 1), same + unseen * (1 - same))


def pass_at_k(games: int, solved: int, k: int) -> float:
    """Unbiased chance that at least one of k games solves the row (Chen et al. 2021).

    Raises:
        ValueError: k is not within [1, games], or solved not within [0, games].
    """
    if not 0 <= solved <= games or not 1 <= k <= games:
        raise ValueError(f"pass@{k} of {solved} solved in {games} games is not defined")
    return 1.0 - math.comb(games - solved, k) / math.comb(games, k)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the order statistics, as NumPy's default does."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
