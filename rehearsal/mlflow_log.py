"""A job's metrics in a real MLflow store, under the experiment and run that its document names.

MLflow is slow to import and to start, and it blocks: all of it happens in one worker thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_EXPERIMENT = "sagemaker-agent-rft"


@dataclass(frozen=True, slots=True)
class MlflowRun:
    """Names and ids of a job's run, as DescribeJob shows them."""

    experiment_name: str
    run_name: str
    experiment_id: str
    run_id: str

    def details(self) -> dict[str, str]:
        """`ServiceOutput.MlflowDetails`."""
        return {
            "ExperimentName": self.experiment_name,
            "RunName": self.run_name,
            "ExperimentId": self.experiment_id,
            "RunId": self.run_id,
        }


class MlflowLog:
    """Writes runs and metrics to a SQLite file, one call at a time."""

    def __init__(self, folder: Path) -> None:
        self.tracking_uri = f"sqlite:///{folder / 'mlflow.db'}"
        self._artifacts = (folder / "mlflow-artifacts").as_uri()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mlflow")
        self._client: Any = None

    async def open(self) -> None:
        """Import MLflow and prepare the file, so that the first job does not wait for it."""
        await self._call(self._get)

    async def start_run(
        self, experiment: str | None, run_name: str, tags: Mapping[str, str]
    ) -> MlflowRun:
        """Open a run; the same run name in the same experiment is continued."""
        return await self._call(
            self._start_run, experiment or DEFAULT_EXPERIMENT, run_name, dict(tags)
        )

    async def log(self, run_id: str, step: int, metrics: Mapping[str, float]) -> None:
        """Write metrics of one step."""
        await self._call(self._log, run_id, step, dict(metrics))

    async def log_parameters(self, run_id: str, parameters: Mapping[str, Any]) -> None:
        """Write the run's hyperparameters."""
        await self._call(self._log_parameters, run_id, dict(parameters))

    async def end_run(self, run_id: str, status: str) -> None:
        """Close a run as FINISHED, FAILED or KILLED."""
        await self._call(lambda: self._get().set_terminated(run_id, status))

    def close(self) -> None:
        """Wait for what is queued."""
        self._thread.shutdown(wait=True)

    async def _call(self, function: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    def _get(self) -> Any:
        if self._client is None:
            for name in ("mlflow", "alembic"):
                logging.getLogger(name).setLevel(logging.WARNING)
            from mlflow.tracking import MlflowClient

            self._client = MlflowClient(self.tracking_uri)
            self._client.search_experiments(max_results=1)
        return self._client

    def _start_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> MlflowRun:
        client = self._get()
        found = client.get_experiment_by_name(experiment)
        experiment_id = (
            found.experiment_id
            if found
            else client.create_experiment(experiment, artifact_location=self._artifacts)
        )
        same_name = f"tags.`mlflow.runName` = '{run_name}'"
        runs = client.search_runs([experiment_id], filter_string=same_name, max_results=1)
        run = runs[0] if runs else client.create_run(experiment_id, run_name=run_name, tags=tags)
        return MlflowRun(experiment, run_name, experiment_id, run.info.run_id)

    def _log(self, run_id: str, step: int, metrics: dict[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        entries = [Metric(name, float(value), now, step) for name, value in metrics.items()]
        self._get().log_batch(run_id, metrics=entries)

    def _log_parameters(self, run_id: str, parameters: dict[str, Any]) -> None:
        from mlflow.entities import Param

        known = self._get().get_run(run_id).data.params
        fresh = [Param(name, str(value)) for name, value in parameters.items() if name not in known]
        self._get().log_batch(run_id, params=fresh)
