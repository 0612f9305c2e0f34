"""How many rollouts a job will play: from its hyperparameters and the rows of its data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtrl.errors import InputError


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A training job before it starts."""

    steps: int
    training_rollouts: int
    validations: int
    validation_rollouts: int
    concurrency: int
    """Rollouts under way at once."""

    @property
    def rollouts(self) -> int:
        """All of them."""
        return self.training_rollouts + self.validation_rollouts


def plan_job(values: Mapping[str, Any], train_rows: int, validation_rows: int) -> JobPlan:
    """Plan a training job.

    Args:
        values: typed hyperparameters with the defaults filled in.
        validation_rows: 0 when the job has no validation channel.

    Raises:
        InputError: the rows do not fill one batch.
    """
    batch = values["global_batch_size"]
    per_epoch = train_rows // batch
    if not per_epoch:
        raise InputError(
            "small-dataset",
            f"global_batch_size {batch}: {train_rows} training rows do not fill one batch.",
            "Add rows, or take a smaller batch (32, 64 or 128).",
        )
    steps = min(values["max_steps"], values["max_epochs"] * per_epoch)
    times = validations(steps, values["val_every"]) if validation_rows else 0
    return JobPlan(
        steps=steps,
        training_rollouts=steps * batch * values["group_size"],
        validations=times,
        validation_rollouts=times * validation_rows,
        concurrency=values["rollout_max_concurrency"],
    )


def validations(steps: int, every: int) -> int:
    """How often a job validates: before step 1, every `every` steps (0: never), after the last."""
    due = {0, steps} | (set(range(0, steps + 1, every)) if every else set())
    return len(due)
