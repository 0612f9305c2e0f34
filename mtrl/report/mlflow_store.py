"""The run's MLflow: its recorded curves in, the finished report out as an artifact.

MLflow takes seconds to import, so that happens here, and only when there is a store to speak to.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtrl.errors import MtrlError
from mtrl.report.curves import FIGURES
from mtrl.report.games import Kind, Sampling
from mtrl.report.run import MlflowTarget, Point

EXPERIMENT = "mtrl-reports"
"""Where the report of a run that MLflow does not know is logged."""
IMPATIENT = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
"""MLflow's own settings, where the operator has set none: it would try for minutes otherwise."""
FOLDER = "report"
"""Of the run's artifacts."""


def log_report(report: Path, target: MlflowTarget) -> str:
    """Log the file and say where, as `run/folder/file`.

    Raises:
        MtrlError: MLflow is not installed, cannot be reached, or does not take the file.
    """
    with open_store(target) as client:
        run_id = target.run_id or _run(client, target)
        client.log_artifact(run_id, str(report), FOLDER)
    return f"{run_id}/{FOLDER}/{report.name}"


def read_points(target: MlflowTarget, sampling: Mapping[Kind, Sampling]) -> tuple[Point, ...]:
    """Every step's value of the metrics that a curve is drawn from.

    Args:
        target: with its run's id.
        sampling: what each kind was sampled under.

    Raises:
        MtrlError: MLflow is not installed or cannot be reached.
    """
    wanted = [(kind, name) for figure in FIGURES for kind, name in figure.metrics.items()]
    with open_store(target) as client:
        return tuple(
            Point(kind, metric.step, name, metric.value, sampling[kind])
            for kind, name in wanted
            for metric in client.get_metric_history(target.run_id, name)
        )


@contextmanager
def open_store(target: MlflowTarget) -> Iterator[Any]:
    """A client, whose failures reach a person in words."""
    try:
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise MtrlError("no-mlflow", f"MLflow cannot be imported: {error}.") from error
    for name, value in IMPATIENT.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield MlflowClient(target.tracking_uri)
    # MLflow lets errors of its stores and of their drivers through as they are.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MtrlError("mlflow-failed", f"{target.tracking_uri}: {reason}.") from error


def _run(client: Any, target: MlflowTarget) -> str:
    """The newest run of the target's name in its experiment, or in any; made when missing."""
    name = target.run_name or "report"
    same_name = f"tags.`mlflow.runName` = '{name}'"
    if target.experiment is None:
        everywhere = [found.experiment_id for found in client.search_experiments()]
    else:
        experiment = client.get_experiment_by_name(target.experiment)
        everywhere = [experiment.experiment_id] if experiment else []
    runs = client.search_runs(everywhere, same_name, max_results=1) if everywhere else []
    if runs:
        return runs[0].info.run_id
    title = target.experiment or EXPERIMENT
    known = client.get_experiment_by_name(title)
    experiment_id = known.experiment_id if known else client.create_experiment(title)
    run = client.create_run(experiment_id, run_name=name)
    client.set_terminated(run.info.run_id)
    return run.info.run_id
