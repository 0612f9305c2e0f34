"""A job's curves from its MLflow run, read when a step has been recorded.

MLflow is imported late, and left alone for a while when it cannot be read: DescribeJob alone is
enough for a watch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mtrl.aws import CLOUD_ERRORS, Cloud, in_words
from mtrl.errors import MtrlError
from mtrl.jobs.reading import Job

RETRY_AFTER_S = 300.0
"""After a failure."""
METRICS = {
    "rollout/reward/mean": "reward",
    "val/reward/mean": "held-out reward",
    "val/reward/pass_at_1": "held-out solved",
    "rollout/turns/mean": "turns",
    "rollout/tokens/response_mean": "tokens written",
    "analysis/zero_adv_groups": "",
    "training/num_groups": "",
}
"""The service's metric -> its name on the screen; "" is read for the diagnosis alone."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over steps."""

    steps: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.values[-1]


Curves = Mapping[str, Curve]


class CurveReader:
    """Reads the curves of one job."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: Curves = {}
        self._read_at_step = -1
        self._not_before = float("-inf")
        self.note = ""
        """Why there are no curves, if there are none."""

    def read(self, cloud: Cloud, job: Job) -> Curves:
        """The curves; read again only when the job has recorded another step or has ended."""
        step = job.view.step + (not job.running)
        if step == self._read_at_step or self._clock() < self._not_before:
            return self._found
        try:
            self._found = _curves(cloud, job)
            self._read_at_step, self.note = step, ""
        except CLOUD_ERRORS as error:
            self._fail(in_words(error).message)
        except MtrlError as error:
            self._fail(error.message)
        return self._found

    def _fail(self, why: str) -> None:
        self.note = f"no curves: {why.splitlines()[0]}"
        self._not_before = self._clock() + RETRY_AFTER_S


def _curves(cloud: Cloud, job: Job) -> Curves:
    from mtrl.report.job import mlflow_target
    from mtrl.report.mlflow_store import open_store

    target = mlflow_target(cloud, job)
    if target is None or target.run_id is None:
        return {}
    with open_store(target) as client:
        return {
            name: curve
            for name in METRICS
            if (curve := _curve(client.get_metric_history(target.run_id, name)))
        }


def _curve(history: Sequence[object]) -> Curve | None:
    """A metric's newest value at each step."""
    by_step = {m.step: m.value for m in history}  # pyright: ignore[reportAttributeAccessIssue]
    steps = sorted(by_step)
    return Curve(tuple(steps), tuple(by_step[s] for s in steps)) if steps else None
