"""The files of a model package: an adapter, and for a resumable checkpoint its optimizer too.

An adapter is named as Hugging Face names it. Its tensor is the behaviour policy's weights;
`behaviours.json` says in words what each weight means and what training did to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from rehearsal.learner import LearnerState
from rehearsal.objects import ObjectStore

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_MODEL = "adapter_model.safetensors"
BEHAVIOURS = "behaviours.json"
OPTIMIZER = "optimizer.safetensors"
TRAINER_STATE = "trainer_state.json"

Vector = NDArray[np.float64]


class CheckpointError(ValueError):
    """A model package whose files cannot be used; the message names the file."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What must be the same for a checkpoint to be resumed."""

    base_model: str
    hyperparameters: Mapping[str, Any]
    datasets: Mapping[str, str]
    """Channel -> SHA-256 of its bytes."""

    def differences(self, other: Fingerprint) -> list[str]:
        """What `other` changes, by name; empty when a resume is allowed."""
        changed = []
        if self.base_model != other.base_model:
            changed.append(f"base model {self.base_model} -> {other.base_model}")
        for kind, before, after in (
            ("hyperparameter", self.hyperparameters, other.hyperparameters),
            ("data set", self.datasets, other.datasets),
        ):
            for name in sorted(before.keys() | after.keys()):
                if before.get(name) != after.get(name):
                    changed.append(f"{kind} {name}: {before.get(name)} -> {after.get(name)}")
        return changed


def adapter_files(
    weights_K: Vector,
    start_K: Vector,
    names: Sequence[str],
    meanings: Mapping[str, str],
    base_model: str,
) -> dict[str, bytes]:
    """An adapter by file name.

    Args:
        start_K: the weights that the job began with.
        meanings: behaviour -> what it does, as a verb phrase.
    """
    config = {
        "base_model_name_or_path": base_model,
        "peft_type": "BEHAVIOUR_SOFTMAX",
        "behaviours": list(names),
    }
    learned = [
        {
            "behaviour": name,
            "meaning": meanings[name],
            "before": round(float(before), 6),
            "after": round(float(after), 6),
        }
        for name, before, after in zip(names, start_K, weights_K, strict=True)
    ]
    return {
        ADAPTER_CONFIG: _json(config),
        ADAPTER_MODEL: save({"weights": weights_K, "start": start_K}),
        BEHAVIOURS: _json(learned),
    }


def optimizer_files(state: LearnerState, fingerprint: Fingerprint, seed: int) -> dict[str, bytes]:
    """What a resumable checkpoint holds beside its adapter."""
    trainer = {
        "step": state.step,
        "seed": seed,
        "base_model": fingerprint.base_model,
        "hyperparameters": dict(fingerprint.hyperparameters),
        "datasets": dict(fingerprint.datasets),
    }
    moments = {"moment1": state.moment1_K, "moment2": state.moment2_K}
    return {OPTIMIZER: save(moments), TRAINER_STATE: _json(trainer)}


def write_files(store: ObjectStore, uri: str, files: Mapping[str, bytes]) -> None:
    """Write a package's files below `uri`."""
    for name, body in files.items():
        store.write(f"{uri.rstrip('/')}/{name}", body)


def read_weights(store: ObjectStore, uri: str, names: Sequence[str]) -> tuple[Vector, Vector]:
    """Weights of an adapter, and those that its job began with."""
    config = json.loads(_read(store, uri, ADAPTER_CONFIG))
    if config.get("behaviours") != list(names):
        raise CheckpointError(
            f"{uri}/{ADAPTER_CONFIG}: its behaviours are not those of this task; "
            "it was trained for another task or an older version"
        )
    tensors = load(_read(store, uri, ADAPTER_MODEL))
    return tensors["weights"], tensors["start"]


def read_fingerprint(store: ObjectStore, uri: str) -> Fingerprint:
    """What a resumable checkpoint was trained with."""
    trainer = json.loads(_read(store, uri, TRAINER_STATE))
    return Fingerprint(trainer["base_model"], trainer["hyperparameters"], trainer["datasets"])


def read_state(store: ObjectStore, uri: str, names: Sequence[str]) -> tuple[LearnerState, Vector]:
    """Learner of a resumable checkpoint, and the weights that its job began with."""
    weights_K, start_K = read_weights(store, uri, names)
    moments = load(_read(store, uri, OPTIMIZER))
    step = int(json.loads(_read(store, uri, TRAINER_STATE))["step"])
    return LearnerState(weights_K, moments["moment1"], moments["moment2"], step), start_K


def _read(store: ObjectStore, uri: str, name: str) -> bytes:
    try:
        return store.read(f"{uri.rstrip('/')}/{name}")
    except FileNotFoundError:
        raise CheckpointError(f"{uri}: the package has no {name}") from None


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode()
