"""Every hyperparameter of a training or evaluation job: type, default and range, once.

Source: Amazon SageMaker AI developer guide, multi-turn RL hyperparameters (schema 1.0.0). On the
wire every value is a string; `parse` turns a flat mapping of strings into typed values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class HyperparameterError(ValueError):
    """A hyperparameter with an unknown name or a value outside its range."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"HyperParameters.{name}: {message}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Spec:
    """Type, default and range of one hyperparameter."""

    kind: type
    """int, float, str, or list (a JSON list of positive integers)."""
    default: Any
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] = ()
    above_minimum: bool = False
    """True when `minimum` itself is not allowed."""

    def parse(self, name: str, raw: str) -> Any:
        """Return the typed value of `raw`.

        Raises:
            HyperparameterError: wrong type or out of range; names both.
        """
        value = self._convert(name, raw)
        if self.choices and value not in self.choices:
            raise HyperparameterError(name, f"{raw!r} is not one of {_listed(self.choices)}")
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int | float) and not self._in_range(number):
                raise HyperparameterError(name, f"{raw!r} is outside {self.range_text()}")
        return value

    def _convert(self, name: str, raw: str) -> Any:
        if self.kind is str:
            return raw
        if self.kind is list:
            return _int_list(name, raw)
        try:
            return self.kind(raw)
        except ValueError:
            noun = "a whole number" if self.kind is int else "a number"
            raise HyperparameterError(name, f"{raw!r} is not {noun}") from None

    def _in_range(self, number: float) -> bool:
        if number != number:  # NaN compares false with every bound
            return False
        if self.minimum is not None and (
            number < self.minimum or (self.above_minimum and number == self.minimum)
        ):
            return False
        return self.maximum is None or number <= self.maximum

    def range_text(self) -> str:
        """The range as people write it: "[0, 2]", "(0, 0.01]", "[1, unbounded)"."""
        low = "(" if self.above_minimum else "["
        high = "unbounded)" if self.maximum is None else f"{self.maximum:g}]"
        return f"{low}{self.minimum:g}, {high}" if self.minimum is not None else f"up to {high}"


def _int_list(name: str, raw: str) -> list[int]:
    try:
        value = json.loads(raw)
    except (json.JSONDecodeError, RecursionError):
        value = None
    if not (
        isinstance(value, list)
        and value
        and all(isinstance(k, int) and not isinstance(k, bool) for k in value)
    ):
        raise HyperparameterError(name, f"{raw!r} is not a JSON list of whole numbers")
    return value


def _listed(choices: tuple[Any, ...]) -> str:
    return ", ".join(str(choice) for choice in choices)


ADVANTAGE_METHODS = (
    "monte_carlo",
    "group_based",
    "group_based_per_turn",
    "rloo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "opo",
    "grpo_passk",
    "gpg",
)
LOSS_FNS = ("importance_sampling", "ppo", "cispo")

TRAINING: dict[str, Spec] = {
    "global_batch_size": Spec(int, 128, choices=(32, 64, 128)),
    "group_size": Spec(int, 8, 2, 32),
    "advantage_method": Spec(str, "group_based", choices=ADVANTAGE_METHODS),
    "loss_fn": Spec(str, "ppo", choices=LOSS_FNS),
    "clip_low_threshold": Spec(float, 0.8, 0, 1),
    "clip_high_threshold": Spec(float, 1.2, 1, 10),
    "temperature": Spec(float, 1.0, 0, 2),
    "sampling_top_p": Spec(float, 1.0, 0, 1),
    "sampling_max_tokens": Spec(int, 4096, 512, 8192),
    "pass_k_values": Spec(list, [1, 2, 4, 8, 16, 32], 1),
    "success_threshold": Spec(float, 1.0),
    "max_epochs": Spec(int, 1, 1, 30),
    "max_steps": Spec(int, 50, 1, 1000),
    "val_every": Spec(int, 10, 0, 100),
    "lora_rank": Spec(int, 32, 16, 64),
    "lora_alpha": Spec(int, 64, 16, 128),
    "learning_rate": Spec(float, 4e-5, 0, 1e-2, above_minimum=True),
    "adam_beta1": Spec(float, 0.9, 0, 0.999999),
    "adam_beta2": Spec(float, 0.95, 0, 0.999999),
    "adam_eps": Spec(float, 1e-8, 1e-16, 1e-2),
    "adam_weight_decay": Spec(float, 0.0, 0, 1),
    "adam_grad_clip_norm": Spec(float, 1.0, 0, 100),
    "rollout_max_concurrency": Spec(int, 96, 32, 96),
    "rollout_timeout": Spec(int, 600, 300, 86400),
    "rollout_max_retries": Spec(int, 3, 1, 10),
    "max_steps_off_policy": Spec(int, 3, 0, 10),
}
"""AgentRFT jobs."""

EVALUATION: dict[str, Spec] = {
    "eval_group_size": Spec(int, 1, 1, 32),
    "temperature": Spec(float, 0.0, 0, 2),
    "sampling_top_p": Spec(float, 1.0, 0, 1),
    "sampling_max_tokens": Spec(int, 4096, 512, 8192),
    "pass_k_values": Spec(list, [1], 1),
    "success_threshold": Spec(float, 1.0),
    "rollout_timeout": Spec(int, 600, 300, 86400),
    "rollout_max_concurrency": Spec(int, 96, 32, 96),
    "rollout_max_retries": Spec(int, 3, 1, 10),
}
"""AgentRFTEvaluation jobs. The nested form and the `sampling_temperature`, `top_p` and
`max_tokens` that some clients send are refused by the service, so they are by us. The bounds of
`eval_group_size` are those of training's `group_size` (32 is also the largest k of pass@k)."""


def parse(specs: Mapping[str, Spec], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Validate a flat mapping of strings and fill in the defaults.

    Args:
        specs: TRAINING or EVALUATION.
        raw: as in the job document: every value a string.

    Raises:
        HyperparameterError: the first unknown name, non-string value or value out of range.
    """
    for name, value in raw.items():
        if name not in specs:
            raise HyperparameterError(name, f"unknown; known names: {', '.join(sorted(specs))}")
        if not isinstance(value, str):
            raise HyperparameterError(
                name, f"must be a string on the wire, got {type(value).__name__}"
            )
    return {
        name: spec.parse(name, raw[name]) if name in raw else spec.default
        for name, spec in specs.items()
    }


def to_wire(values: Mapping[str, Any]) -> dict[str, str]:
    """Write typed values as the service wants them: flat strings, lists as JSON."""
    return {
        name: json.dumps(value) if isinstance(value, list) else _number_text(value)
        for name, value in values.items()
    }


def _number_text(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
