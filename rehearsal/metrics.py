"""A step's or an evaluation's figures under the service's own metric names.

Pure functions from played rollouts to numbers. Rollouts come in groups: one list per task row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rehearsal.advantage import EPSILON
from rehearsal.rollouts import Rollout

Groups = Sequence[Sequence[Rollout]]
Metrics = dict[str, float]
ZERO_LOGPROB = 1e-12
"""Log-probabilities closer to 0 than this are tokens that could not have been others."""


def train_metrics(groups: Groups, advantages: Sequence[Sequence[Sequence[float]]]) -> Metrics:
    """Metrics of one training step: `training/`, `rollout/` and `analysis/`."""
    rollouts = [rollout for group in groups for rollout in group]
    usable = [rollout for rollout in rollouts if rollout.rewards is not None]
    flat = [value for group in advantages for turns in group for value in turns[:1]]
    return {
        **_training(groups, usable),
        **_rewards("rollout/reward/", usable),
        **_turns("rollout/turns/", usable),
        **_tokens("rollout/tokens/", usable),
        **_logprobs("rollout/logprob/", groups, usable),
        **_advantages("rollout/advantage/", flat),
        **_analysis(groups, rollouts, usable),
    }


def validation_metrics(
    prefix: str, groups: Groups, k_values: Iterable[int], threshold: float
) -> Metrics:
    """Metrics of a validation (`val/`) or an evaluation (`eval/`)."""
    rollouts = [rollout for group in groups for rollout in group]
    usable = [rollout for rollout in rollouts if rollout.rewards is not None]
    return {
        **_rewards(f"{prefix}reward/", usable),
        **_within_groups(f"{prefix}reward/", groups),
        f"{prefix}reward/rollouts_per_prompt": max(map(len, groups), default=0),
        f"{prefix}reward/num_prompts": len(groups),
        f"{prefix}reward/succeeded_rollouts": len(usable),
        f"{prefix}reward/failed_rollouts": len(rollouts) - len(usable),
        f"{prefix}reward/success_threshold": threshold,
        **_pass_rates(f"{prefix}reward/", groups, k_values, threshold),
        **_turns(f"{prefix}turns/", usable),
        **_tokens(f"{prefix}tokens/", usable),
        **_logprobs(f"{prefix}logprob/", groups, usable),
    }


def pass_at_k(n: int, successes: int, k: int) -> float:
    """Unbiased chance that one of k samples succeeds (Chen et al. 2021), from n samples."""
    return 1.0 - comb(n - successes, k) / comb(n, k)


def pass_power_k(n: int, successes: int, k: int) -> float:
    """Unbiased chance that all of k samples succeed, from n samples."""
    return comb(successes, k) / comb(n, k)


def successes(group: Sequence[Rollout], threshold: float) -> int:
    """How many rollouts of a group reach the success threshold."""
    return sum(r.reward is not None and r.reward >= threshold for r in group)


def _pass_rates(prefix: str, groups: Groups, ks: Iterable[int], threshold: float) -> Metrics:
    found: Metrics = {}
    for k in ks:
        counted = [(len(g), successes(g, threshold)) for g in groups if len(g) >= k]
        if counted:
            found[f"{prefix}pass_at_{k}"] = _mean([pass_at_k(n, c, k) for n, c in counted])
            found[f"{prefix}pass_power_{k}"] = _mean([pass_power_k(n, c, k) for n, c in counted])
    return found


def _training(groups: Groups, usable: Sequence[Rollout]) -> Metrics:
    actions = [float(sum(s.sample_tokens for s in r.samples)) for r in usable]
    read = [float(sum(s.prefill_tokens for s in r.samples)) for r in usable]
    datums = sum(len(r.samples) for r in usable)
    trainable, fixed = sum(actions), sum(read)
    return {
        "training/num_groups": len(groups),
        "training/num_trajectories": len(usable),
        "training/total_tokens": trainable + fixed,
        "training/num_datums": datums,
        "training/datums_per_trajectory": datums / max(len(usable), 1),
        "training/action_tokens_mean": _mean(actions),
        "training/obs_tokens_mean": _mean(read),
        "training/trainable_token_positions": trainable,
        "training/nontrainable_token_positions": fixed,
        "training/trainable_token_ratio": trainable / max(trainable + fixed, 1),
    }


def _rewards(prefix: str, usable: Sequence[Rollout]) -> Metrics:
    rewards = [r.reward for r in usable if r.reward is not None]
    stats = _stats(prefix, rewards, ("mean", "std", "min", "max"))
    stats[f"{prefix}valid_mean"] = stats[f"{prefix}mean"]
    stats[f"{prefix}zero_frac"] = _mean([float(abs(reward) < EPSILON) for reward in rewards])
    return stats


def _within_groups(prefix: str, groups: Groups) -> Metrics:
    rewards = [[r.reward for r in g if r.reward is not None] for g in groups]
    present = [np.array(group) for group in rewards if group]
    return {
        f"{prefix}{name}_within_groups": _mean([float(function(group)) for group in present])
        for name, function in (("min", np.min), ("mean", np.mean), ("max", np.max), ("std", np.std))
    }


def _turns(prefix: str, usable: Sequence[Rollout]) -> Metrics:
    return _stats(prefix, [float(len(r.samples)) for r in usable], ("mean", "min", "max"))


def _tokens(prefix: str, usable: Sequence[Rollout]) -> Metrics:
    prompts = [float(r.samples[0].prefill_tokens) for r in usable if r.samples]
    responses = [float(sum(s.sample_tokens for s in r.samples)) for r in usable]
    spread = _stats(f"{prefix}response_", responses, ("mean", "std", "min", "max"))
    return {f"{prefix}prompt_mean": _mean(prompts), **spread}


def _logprobs(prefix: str, groups: Groups, usable: Sequence[Rollout]) -> Metrics:
    values = _array([p for r in usable for s in r.samples for p in s.logprobs])
    zero = np.abs(values) < ZERO_LOGPROB
    count = int(zero.sum())
    return {
        f"{prefix}zero_count": count,
        f"{prefix}zero_frac": count / max(len(values), 1),
        f"{prefix}zero_per_group": count / max(len(groups), 1),
        **_stats(f"{prefix}nz_", values[~zero].tolist(), ("mean", "std", "min", "max")),
    }


def _advantages(prefix: str, values: Sequence[float]) -> Metrics:
    return {
        **_stats(prefix, values, ("mean", "std", "min", "max")),
        f"{prefix}n_positive": sum(value > 0 for value in values),
        f"{prefix}n_negative": sum(value < 0 for value in values),
    }


def _analysis(groups: Groups, rollouts: Sequence[Rollout], usable: Sequence[Rollout]) -> Metrics:
    rewards = [[r.reward for r in g if r.reward is not None] for g in groups]
    present = [_array(group) for group in rewards if group]
    tied = [group for group in present if np.ptp(group) < EPSILON]
    zero = sum(float(np.max(np.abs(group))) < EPSILON for group in tied)
    means = [float(group.mean()) for group in present]
    return {
        "analysis/batch_completion_ratio": len(usable) / max(len(rollouts), 1),
        "analysis/batch_valid_ratio": _mean([float(len(r.samples) > 0) for r in rollouts]),
        "analysis/zero_adv_groups": len(tied),
        "analysis/zero_adv_zero_reward": zero,
        "analysis/zero_adv_nonzero_reward": len(tied) - zero,
        "analysis/reward_variance_across_groups": float(np.var(_array(means))) if means else 0.0,
        "analysis/mean_group_reward_spread": _mean([float(np.ptp(group)) for group in present]),
    }


def _stats(prefix: str, values: Sequence[float], names: Sequence[str]) -> Metrics:
    array = _array(values)
    functions: dict[str, Any] = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max}
    return {
        f"{prefix}{name}": float(functions[name](array)) if len(array) else 0.0 for name in names
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(_array(values))) if len(values) else 0.0


def _array(values: Sequence[float]) -> NDArray[np.float64]:
    return np.asarray(values, float)
