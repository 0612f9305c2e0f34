"""Metrics: figures worked out by hand, and the estimators' rules."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal.billing import Billing
from rehearsal.draws import DrawKey, shuffled
from rehearsal.metrics import pass_at_k, pass_power_k, train_metrics, validation_metrics
from rehearsal.policies import Sample
from rehearsal.rollouts import Rollout


def rollout(group: int, member: int, reward: float | None, turns: int = 2) -> Rollout:
    samples = tuple(
        Sample("x", (), "stop", (1, 2, 3), (-0.5, 0.0, -1.5), 10 * (t + 1)) for t in range(turns)
    )
    return Rollout(
        key=DrawKey(1, "train", 1, group, member),
        rewards=None if reward is None else [reward],
        samples=samples,
        trace=None,
        attempts=1,
        prefill_tokens=sum(s.prefill_tokens for s in samples),
        sample_tokens=sum(s.sample_tokens for s in samples),
        seconds=1.0,
    )


GROUPS = [
    [rollout(0, 0, 1.5), rollout(0, 1, -0.5)],
    [rollout(1, 0, 0.0), rollout(1, 1, 0.0)],
    [rollout(2, 0, 1.0, turns=3), rollout(2, 1, None)],
]
ADVANTAGES = [[[1.0, 1.0], [-1.0, -1.0]], [[0.0], [0.0]], [[0.0], []]]


def test_training_metrics_of_a_small_batch() -> None:
    metrics = train_metrics(GROUPS, ADVANTAGES)
    expected = {
        "rollout/reward/mean": 0.4,
        "rollout/reward/zero_frac": 0.4,
        "rollout/turns/max": 3,
        "rollout/tokens/prompt_mean": 10,
        "rollout/tokens/response_max": 9,
        "rollout/advantage/n_positive": 1,
        "rollout/advantage/n_negative": 1,
        "rollout/logprob/nz_mean": -1.0,
        "analysis/zero_adv_groups": 2,
        "analysis/zero_adv_zero_reward": 1,
        "analysis/zero_adv_nonzero_reward": 1,
        "analysis/batch_completion_ratio": 5 / 6,
        "training/num_trajectories": 5,
        "training/num_datums": 11,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


def test_validation_metrics_of_a_small_batch() -> None:
    metrics = validation_metrics("val/", GROUPS, [1, 2, 4], 1.0)
    assert metrics["val/reward/pass_at_1"] == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert metrics["val/reward/pass_at_2"] == pytest.approx(2 / 3)
    assert metrics["val/reward/pass_power_2"] == 0.0
    assert "val/reward/pass_at_4" not in metrics
    assert metrics["val/reward/failed_rollouts"] == 1


@pytest.mark.parametrize("n", [4, 6])
def test_pass_at_k_is_the_share_of_subsets_with_a_success(n: int) -> None:
    for successes in range(n + 1):
        outcomes = [True] * successes + [False] * (n - successes)
        for k in range(1, n + 1):
            subsets = list(combinations(outcomes, k))
            assert pass_at_k(n, successes, k) == pytest.approx(np.mean([any(s) for s in subsets]))
            assert pass_power_k(n, successes, k) == pytest.approx(
                np.mean([all(s) for s in subsets])
            )


def test_validation_tokens_are_billed_but_not_trained() -> None:
    billing = Billing().with_training(GROUPS[:1]).with_sampling(GROUPS[1:2])
    assert (billing.prefill, billing.sample, billing.train) == (120, 24, 72)
    assert Billing.from_wire(billing.to_wire()) == billing


@given(st.integers(1, 200), st.integers(0, 10**6))
def test_a_shuffle_keeps_every_row_and_depends_on_its_key_alone(count: int, seed: int) -> None:
    order = shuffled(count, seed, "rows", 0)
    assert sorted(order) == list(range(count))
    assert order == shuffled(count, seed, "rows", 0)


def test_uniform_draws_spread_evenly() -> None:
    draws = np.array([DrawKey(1, "train", 1, i, 0).uniform(0) for i in range(4000)])
    assert 0 <= draws.min() < draws.max() < 1
    counts, _ = np.histogram(draws, bins=10, range=(0, 1))
    assert counts.min() > 320
