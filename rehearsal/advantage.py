"""How the rewards of a group become advantages, by each of the service's methods.

Pure array functions. Dimensions: P problems (task rows), G rollouts of each. A missing rollout is
NaN and gets advantage 0; a group with fewer than two rewards teaches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

EPSILON = 1e-6
"""Keeps the division by a standard deviation finite; below it a group counts as tied."""

Array = NDArray[np.float64]


def monte_carlo(rewards_PG: Array) -> Array:
    """The reward itself, without a baseline (Williams 1992, REINFORCE)."""
    return rewards_PG.copy()


def group_based(rewards_PG: Array) -> Array:
    """GRPO: reward minus the group's mean, in its standard deviations (Shao et al. 2024)."""
    spread = np.nanstd(rewards_PG, axis=1, keepdims=True)
    return _over(_centred(rewards_PG), spread)


def rloo(rewards_PG: Array) -> Array:
    """Reward minus the mean of the group's other rewards (Ahmadian et al. 2024)."""
    count = np.sum(~np.isnan(rewards_PG), axis=1, keepdims=True)
    return _centred(rewards_PG) * count / np.maximum(count - 1, 1)


def reinforce_pp(rewards_PG: Array) -> Array:
    """Reward normalised over the whole batch (Hu 2025, REINFORCE++)."""
    return _over(rewards_PG - np.nanmean(rewards_PG), np.nanstd(rewards_PG))


def reinforce_pp_baseline(rewards_PG: Array) -> Array:
    """Group mean as the baseline, the batch's deviation as the scale (Hu 2025)."""
    centred = _centred(rewards_PG)
    return _over(centred, np.nanstd(centred))


def gpg(rewards_PG: Array) -> Array:
    """Group-centred, scaled up by the share of groups that are not tied (Chu et al. 2025)."""
    centred = _centred(rewards_PG)
    tied = np.nanmax(np.abs(centred), axis=1) < EPSILON
    live = max(int((~tied).sum()), 1)
    return centred * (len(rewards_PG) / live)


def opo(rewards_PG: Array, tokens_PG: Array) -> Array:
    """Reward minus the length-weighted mean of its group (Hao et al. 2025, optimal baseline)."""
    weights = np.where(np.isnan(rewards_PG), 0.0, tokens_PG)
    total = np.maximum(weights.sum(axis=1, keepdims=True), EPSILON)
    return rewards_PG - np.nansum(weights * rewards_PG, axis=1, keepdims=True) / total


def grpo_passk(rewards_PG: Array) -> Array:
    """Credits only each group's best rollout, with its lead over the second best (k = G).

    Walder and Karkhanis 2025: the policy gradient of the largest reward of a group.
    """
    filled = np.where(np.isnan(rewards_PG), -np.inf, rewards_PG)
    if filled.shape[1] < 2:
        return np.zeros_like(rewards_PG)
    top_two = np.sort(filled, axis=1)[:, -2:]
    lead = np.where(np.isfinite(top_two[:, 0]), top_two[:, 1] - top_two[:, 0], 0.0)
    advantage = np.zeros_like(rewards_PG)
    advantage[np.arange(len(filled)), filled.argmax(axis=1)] = lead
    return advantage


def group_based_per_turn(
    rewards_PGT: Sequence[Sequence[Sequence[float]]],
) -> list[list[list[float]]]:
    """GRPO on each turn's reward-to-go, against the group's rollouts that reached the turn."""
    return [_per_turn(group) for group in rewards_PGT]


def _per_turn(rewards_GT: Sequence[Sequence[float]]) -> list[list[float]]:
    longest = max((len(turns) for turns in rewards_GT), default=0)
    to_go_GT = np.full((len(rewards_GT), longest), np.nan)
    for g, turns in enumerate(rewards_GT):
        to_go_GT[g, : len(turns)] = np.cumsum(np.asarray(turns, float)[::-1])[::-1]
    if not longest:
        return [[] for _ in rewards_GT]
    advantage_GT = np.nan_to_num(group_based(to_go_GT.T).T)
    return [advantage_GT[g, : len(turns)].tolist() for g, turns in enumerate(rewards_GT)]


_METHODS: dict[str, Callable[[Array], Array]] = {
    "monte_carlo": monte_carlo,
    "group_based": group_based,
    "rloo": rloo,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
    "gpg": gpg,
    "grpo_passk": grpo_passk,
}


def turn_advantages(
    method: str, rewards_PGT: Sequence[Sequence[Sequence[float] | None]], tokens_PG: Array
) -> list[list[list[float]]]:
    """Advantage of every turn of every rollout.

    Args:
        method: one of hyperparameters.ADVANTAGE_METHODS.
        rewards_PGT: rewards per turn, one per rollout (a single one spreads over its turns by the
            caller), or None for a rollout that has none.
        tokens_PG: sampled tokens of each rollout (used by `opo`).

    Returns:
        Nested as rewards_PGT; a missing rollout gives an empty list, a single reward a list of
        one. Groups with fewer than two rewards give zeros.
    """
    present = [[turns if turns is not None else [] for turns in group] for group in rewards_PGT]
    if method == "group_based_per_turn":
        return group_based_per_turn(present)
    rewards_PG = np.array(
        [[sum(turns) if turns else np.nan for turns in group] for group in present], float
    )
    with np.errstate(invalid="ignore"):
        advantage_PG = (
            opo(rewards_PG, tokens_PG) if method == "opo" else _METHODS[method](rewards_PG)
        )
    alone = np.sum(~np.isnan(rewards_PG), axis=1) < 2
    advantage_PG[alone] = 0.0
    return [
        [[value] * len(turns) for value, turns in zip(row, group, strict=True)]
        for row, group in zip(np.nan_to_num(advantage_PG).tolist(), present, strict=True)
    ]


def _centred(rewards_PG: Array) -> Array:
    return rewards_PG - np.nanmean(rewards_PG, axis=1, keepdims=True)


def _over(value: Array, spread: Array | np.floating) -> Array:
    return np.where(spread < EPSILON, 0.0, value / np.maximum(spread, EPSILON))
