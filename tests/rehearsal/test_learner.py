"""The policy update: it climbs, it respects its settings, it can be resumed exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtrl.job import hyperparameters
from rehearsal import checkpoint
from rehearsal.checkpoint import CheckpointError, Fingerprint
from rehearsal.learner import AdamConfig, LearnerState, ScoredTurn, policy_gradient, update
from rehearsal.objects import FileObjects

CONFIG = AdamConfig.from_hyperparameters(hyperparameters.parse(hyperparameters.TRAINING, {}))


def turn(score: list[float], advantage: float) -> ScoredTurn:
    return ScoredTurn(np.array(score, np.float32), advantage)


def test_the_gradient_is_the_mean_of_advantage_times_score() -> None:
    gradient = policy_gradient([turn([1.0, 0.0], 2.0), turn([0.0, 4.0], -1.0)], 2)
    assert gradient == pytest.approx([1.0, -2.0])
    assert policy_gradient([], 2) == pytest.approx([0.0, 0.0])


def test_the_first_step_moves_every_weight_by_the_learning_rate() -> None:
    state = update(LearnerState.fresh(np.zeros(2)), np.array([0.3, -0.01]), CONFIG)
    assert state.weights_K == pytest.approx([CONFIG.learning_rate, -CONFIG.learning_rate], rel=1e-4)
    assert state.step == 1


def test_ascent_finds_the_maximum_of_a_concave_function() -> None:
    state = LearnerState.fresh(np.zeros(2))
    config = replace(CONFIG, learning_rate=0.05)
    for _ in range(300):
        state = update(state, -(state.weights_K - np.array([1.0, -2.0])), config)
    assert state.weights_K == pytest.approx([1.0, -2.0], abs=0.02)


def test_the_gradient_norm_is_clipped_and_weights_decay() -> None:
    start = LearnerState.fresh(np.array([1.0]))
    clipped = update(start, np.array([100.0]), replace(CONFIG, clip_norm=1.0))
    assert clipped.moment1_K == pytest.approx([0.1])
    unclipped = update(start, np.array([100.0]), replace(CONFIG, clip_norm=0.0))
    assert unclipped.moment1_K == pytest.approx([10.0])
    decayed = update(start, np.array([0.0]), replace(CONFIG, weight_decay=0.5))
    assert decayed.weights_K == pytest.approx([1 - CONFIG.learning_rate * 0.5])


def test_a_checkpoint_brings_the_learner_back_to_the_bit(tmp_path: Path) -> None:
    store = FileObjects(tmp_path)
    names, meanings = ("a", "b"), {"a": "does a", "b": "does b"}
    state = LearnerState.fresh(np.array([0.1, 0.2]))
    for _ in range(3):
        state = update(state, np.array([0.3, -0.7]), CONFIG)
    prints = Fingerprint("model", {"group_size": 8}, {"train": "abc"})
    files = checkpoint.adapter_files(state.weights_K, np.zeros(2), names, meanings, "model")
    files |= checkpoint.optimizer_files(state, prints, seed=1)
    checkpoint.write_files(store, "s3://bucket/step-3", files)
    loaded, start = checkpoint.read_state(store, "s3://bucket/step-3", names)
    assert loaded.step == 3
    for name in ("weights_K", "moment1_K", "moment2_K"):
        assert np.array_equal(getattr(loaded, name), getattr(state, name))
    assert np.array_equal(start, np.zeros(2))
    assert checkpoint.read_fingerprint(store, "s3://bucket/step-3") == prints


def test_what_a_resume_changes_is_named() -> None:
    before = Fingerprint("model", {"group_size": 8, "lora_rank": 32}, {"train": "abc"})
    after = Fingerprint("other", {"group_size": 8, "lora_rank": 16}, {"train": "xyz"})
    assert before.differences(before) == []
    changed = " ".join(before.differences(after))
    assert all(word in changed for word in ("base model", "lora_rank", "data set train"))
    assert "group_size" not in changed


def test_an_adapter_of_another_task_is_refused(tmp_path: Path) -> None:
    store = FileObjects(tmp_path)
    files = checkpoint.adapter_files(np.zeros(1), np.zeros(1), ("a",), {"a": "does a"}, "model")
    checkpoint.write_files(store, "s3://bucket/x", files)
    with pytest.raises(CheckpointError, match="another task"):
        checkpoint.read_weights(store, "s3://bucket/x", ("b",))
    with pytest.raises(CheckpointError, match=r"no adapter_config\.json"):
        checkpoint.read_weights(store, "s3://bucket/none", ("a",))
