"""The statistics against SciPy, published values and the rules that they have to keep."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mtrl.statistics import (
    clustered_interval,
    mcnemar,
    paired_bootstrap,
    paired_interval,
    pass_at_k,
    sign_flip_p,
    wilson_interval,
)

COUNTS = st.integers(1, 2_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
EVERY_PERMUTATION = 2**31
"""More than there are of the samples here, so that SciPy lists them all."""
OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


@given(COUNTS)
def test_wilson_interval_is_that_of_scipy(counts: tuple[int, int]) -> None:
    successes, n = counts
    expected = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(successes, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_interval_of_81_in_263_is_the_published_one() -> None:
    # Newcombe 1998, table I, method 3.
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_nothing_is_known_from_no_trials() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "n"), [(5, 4), (-1, 4)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="not within"):
        wilson_interval(successes, n)


@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_one_game_a_row_needs_no_correction_for_clusters(solved: list[bool]) -> None:
    wins = [int(win) for win in solved]
    assert clustered_interval(wins, [1] * len(wins)) == wilson_interval(sum(wins), len(wins))


def test_games_of_a_row_that_always_agree_count_once() -> None:
    wins, games = [8] * 30 + [0] * 20, [8] * 50
    low, high = clustered_interval(wins, games)
    rows_low, rows_high = wilson_interval(30, 50)
    assert (low, high) == pytest.approx((rows_low, rows_high), abs=0.01)


def test_an_all_solved_cell_counts_its_rows_and_not_its_games() -> None:
    assert clustered_interval([4] * 20, [4] * 20) == wilson_interval(20, 20)


def test_clustered_interval_covers_the_truth_as_often_as_it_says() -> None:
    draw, hits, trials = random.Random(5), 0, 400
    for _ in range(trials):
        rates = [draw.betavariate(2, 1) for _ in range(60)]
        wins = [sum(draw.random() < rate for _ in range(4)) for rate in rates]
        low, high = clustered_interval(wins, [4] * 60)
        hits += low <= 2 / 3 <= high
    assert 0.92 <= hits / trials <= 0.98


@given(OUTCOMES)
def test_mcnemar_is_the_binomial_test_of_the_discordant_pairs(
    pairs: list[tuple[bool, bool]],
) -> None:
    found = mcnemar([a for a, _ in pairs], [b for _, b in pairs])
    n, fewer = (
        found.only_first + found.only_second,
        min(found.only_first, found.only_second),
    )
    expected = stats.binomtest(fewer, n).pvalue if n else 1.0
    assert found.exact_p == pytest.approx(expected, abs=1e-12)
    assert found.mid_p == pytest.approx(min(1.0, 2 * _mid_tail(fewer, n)), abs=1e-12)


def _mid_tail(fewer: int, n: int) -> float:
    if not n:
        return 1.0
    return float(stats.binom.cdf(fewer, n, 0.5) - 0.5 * stats.binom.pmf(fewer, n, 0.5))


def test_mcnemar_finds_the_published_p_values() -> None:
    # Fagerland, Lydersen and Laake 2013, table 1 (1 and 7 discordant pairs).
    found = mcnemar([True] * 1 + [False] * 7, [False] * 1 + [True] * 7)
    assert (found.exact_p, found.mid_p) == pytest.approx((0.0703, 0.0391), abs=5e-5)


def test_unequal_lengths_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        mcnemar([True, False], [True])


@given(OUTCOMES)
def test_sign_flip_is_mcnemars_exact_test_for_single_games(pairs: list[tuple[bool, bool]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    differences = [int(b) - int(a) for a, b in pairs]
    assert sign_flip_p(differences) == pytest.approx(mcnemar(first, second).exact_p, abs=1e-12)


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=9))
def test_sign_flip_is_scipys_permutation_test_of_paired_samples(differences: list[int]) -> None:
    expected = stats.permutation_test(
        (np.array(differences, float),),
        np.sum,
        permutation_type="samples",
        n_resamples=EVERY_PERMUTATION,
        alternative="two-sided",
    )
    assert sign_flip_p(differences) == pytest.approx(expected.pvalue, abs=1e-9)


def test_bootstrap_agrees_with_scipy() -> None:
    draw = random.Random(3)
    differences = [draw.choice((-1, 0, 0, 1, 1)) for _ in range(128)]
    expected = stats.bootstrap(
        (differences,), np.mean, method="percentile", n_resamples=20_000, rng=1
    ).confidence_interval
    found = paired_bootstrap(differences, resamples=20_000)
    assert found == pytest.approx((expected.low, expected.high), abs=0.01)


def test_bootstrap_repeats_with_its_seed_and_differs_with_another() -> None:
    differences = [0.1 * (i % 7) - 0.2 for i in range(50)]
    assert paired_bootstrap(differences, seed=1) == paired_bootstrap(differences, seed=1)
    assert paired_bootstrap(differences, seed=1) != paired_bootstrap(differences, seed=2)


def test_bootstrap_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no paired rows"):
        paired_bootstrap([])


def test_differences_with_a_spread_are_resampled() -> None:
    differences = [1.0, 0.0, 0.0, -1.0, 1.0]
    assert paired_interval(differences, seed=3) == paired_bootstrap(differences, seed=3)


@given(st.sampled_from([-1.0, -0.5, 0.0, 1.0]), st.integers(1, 300))
def test_rows_that_all_differ_alike_do_not_make_a_sure_thing(same: float, rows: int) -> None:
    low, high = paired_interval([same] * rows)
    assert -1.0 <= low <= same <= high <= 1.0
    assert high - low == pytest.approx(2 * wilson_interval(0, rows)[1])


@given(st.data(), st.integers(1, 8))
def test_pass_at_k_is_the_share_of_k_subsets_with_a_solve(data: st.DataObject, games: int) -> None:
    solved = data.draw(st.integers(0, games))
    k = data.draw(st.integers(1, games))
    without = stats.hypergeom.pmf(0, games, solved, k)
    assert pass_at_k(games, solved, k) == pytest.approx(1 - without, abs=1e-12)


@pytest.mark.parametrize(("games", "solved", "k"), [(2, 1, 3), (2, 3, 1), (2, 1, 0)])
def test_pass_at_k_needs_k_games(games: int, solved: int, k: int) -> None:
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(games, solved, k)
