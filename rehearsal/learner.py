"""The group-relative policy update of the behaviour policy: a gradient ascent step with Adam.

The rehearsal is synchronous: the policy that is updated is the one that sampled, so the
importance ratio is 1 and `ppo`, `cispo` and `importance_sampling` have one and the same gradient,
advantage times score; the clipping thresholds have nothing to clip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHT_STEP_PER_LEARNING_RATE = 6_000.0
"""Weight change per unit of the job's learning rate. A LoRA of a 20B model moves by 4e-5 a step,
a dozen behaviour weights have to move by about a quarter to learn as much in as many steps."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoredTurn:
    """One sampled turn with its advantage."""

    score_K: NDArray[np.float32]
    advantage: float


@dataclass(frozen=True, slots=True)
class LearnerState:
    """Weights and optimizer of the K behaviours after `step` updates."""

    weights_K: Vector
    moment1_K: Vector
    moment2_K: Vector
    step: int = 0

    @classmethod
    def fresh(cls, weights_K: Vector) -> LearnerState:
        """A new optimizer around given weights."""
        return cls(weights_K, np.zeros_like(weights_K), np.zeros_like(weights_K))


@dataclass(frozen=True, slots=True)
class AdamConfig:
    """Optimizer settings, from the job's hyperparameters."""

    learning_rate: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    clip_norm: float
    """Largest gradient norm; 0 means no clipping."""

    @classmethod
    def from_hyperparameters(cls, values: Mapping[str, Any]) -> AdamConfig:
        """Read the job's typed hyperparameters."""
        return cls(
            learning_rate=values["learning_rate"] * WEIGHT_STEP_PER_LEARNING_RATE,
            beta1=values["adam_beta1"],
            beta2=values["adam_beta2"],
            eps=values["adam_eps"],
            weight_decay=values["adam_weight_decay"],
            clip_norm=values["adam_grad_clip_norm"],
        )


def policy_gradient(turns: Sequence[ScoredTurn], weights: int) -> Vector:
    """Mean over turns of advantage times score: the ascent direction of the expected reward."""
    if not turns:
        return np.zeros(weights)
    scores_NK = np.stack([turn.score_K for turn in turns]).astype(np.float64)
    advantages_N = np.array([turn.advantage for turn in turns])
    return advantages_N @ scores_NK / len(turns)


def update(state: LearnerState, gradient_K: Vector, config: AdamConfig) -> LearnerState:
    """One Adam step uphill (Kingma and Ba 2015; decoupled decay as in Loshchilov, Hutter 2019)."""
    norm = float(np.linalg.norm(gradient_K))
    if config.clip_norm and norm > config.clip_norm:
        gradient_K = gradient_K * (config.clip_norm / norm)
    step = state.step + 1
    moment1 = config.beta1 * state.moment1_K + (1 - config.beta1) * gradient_K
    moment2 = config.beta2 * state.moment2_K + (1 - config.beta2) * gradient_K**2
    direction = (moment1 / (1 - config.beta1**step)) / (
        np.sqrt(moment2 / (1 - config.beta2**step)) + config.eps
    )
    decayed = state.weights_K * (1 - config.learning_rate * config.weight_decay)
    return LearnerState(decayed + config.learning_rate * direction, moment1, moment2, step)
