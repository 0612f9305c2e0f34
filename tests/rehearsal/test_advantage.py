"""Advantages: rules that hold for every method, and figures worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtrl.job.hyperparameters import ADVANTAGE_METHODS
from rehearsal.advantage import turn_advantages

NO_BASELINE = ("monte_carlo",)
BATCH_SCALED = ("reinforce_pp",)
rewards = st.floats(-2, 2).map(lambda value: round(value, 2))
batches = st.integers(2, 5).flatmap(
    lambda g: st.lists(st.lists(rewards, min_size=g, max_size=g), min_size=1, max_size=5)
)


def advantages(method: str, batch: list[list[float | None]]) -> list[list[float]]:
    nested = [[None if reward is None else [reward] for reward in group] for group in batch]
    tokens = np.ones((len(batch), len(batch[0])))
    found = turn_advantages(method, nested, tokens)
    return [[turns[0] if turns else 0.0 for turns in group] for group in found]


@pytest.mark.parametrize("method", ADVANTAGE_METHODS)
@given(batch=batches)
def test_advantages_are_finite_and_shaped_like_the_rewards(
    method: str, batch: list[list[float | None]]
) -> None:
    found = advantages(method, batch)
    assert [len(group) for group in found] == [len(group) for group in batch]
    assert np.isfinite(np.array(found)).all()


@pytest.mark.parametrize("method", [m for m in ADVANTAGE_METHODS if m != "grpo_passk"])
@given(batch=batches)
def test_within_a_group_a_higher_reward_never_gets_less(
    method: str, batch: list[list[float | None]]
) -> None:
    for group, values in zip(batch, advantages(method, batch), strict=True):
        pairs = sorted(zip(group, values, strict=True))  # type: ignore[type-var]
        ordered = [value for _, value in pairs]
        assert all(a <= b + 1e-9 for a, b in itertools.pairwise(ordered))


@pytest.mark.parametrize(
    "method", [m for m in ADVANTAGE_METHODS if m not in NO_BASELINE + BATCH_SCALED]
)
@given(reward=rewards, size=st.integers(2, 6))
def test_a_tied_group_teaches_nothing(method: str, reward: float, size: int) -> None:
    assert np.allclose(advantages(method, [[reward] * size, [reward] * size]), 0.0)


@pytest.mark.parametrize("method", ADVANTAGE_METHODS)
def test_a_rollout_without_reward_gets_none_and_harms_no_other(method: str) -> None:
    found = advantages(method, [[1.0, None, 0.0], [None, None, 2.0]])
    assert found[0][1] == 0.0
    assert found[1] == [0.0, 0.0, 0.0]
    assert found[0][0] >= found[0][2]


def test_known_figures() -> None:
    batch: list[list[float | None]] = [[1.0, 0.0, 0.0, 0.0]]
    assert advantages("group_based", batch)[0] == pytest.approx([3**0.5] + [-(3**-0.5)] * 3)
    assert advantages("rloo", batch)[0] == pytest.approx([1.0] + [-1 / 3] * 3)
    assert advantages("monte_carlo", batch)[0] == [1.0, 0.0, 0.0, 0.0]
    assert advantages("grpo_passk", batch)[0] == [1.0, 0.0, 0.0, 0.0]
    assert advantages("gpg", [[1.0, 0.0], [1.0, 1.0]])[0] == [1.0, -1.0]


def test_the_optimal_baseline_weighs_by_length() -> None:
    found = turn_advantages("opo", [[[1.0], [0.0]]], np.array([[3.0, 1.0]]))
    assert [turns[0] for turns in found[0]] == pytest.approx([0.25, -0.75])


def test_turns_are_compared_with_the_same_turn_of_the_group() -> None:
    found = turn_advantages("group_based_per_turn", [[[0.0, 1.0], [0.0, 0.0]]], np.ones((1, 2)))
    assert found[0][0] == pytest.approx([1.0, 1.0])
    assert found[0][1] == pytest.approx([-1.0, -1.0])
    shorter = turn_advantages("group_based_per_turn", [[[1.0], [0.0, 0.0]]], np.ones((1, 2)))
    assert [len(turns) for turns in shorter[0]] == [1, 2]
    assert shorter[0][1][1] == 0.0  # nobody else reached that turn
