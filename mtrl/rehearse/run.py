"""One rehearsal: evaluate the base policy, train, evaluate the trained one, write the summary.

All of it through the job API with boto3: the same calls, documents and files as on AWS.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from mtrl.errors import InputError, MtrlError
from mtrl.job import hyperparameters
from mtrl.job.builder import TrainingParts, training_document
from mtrl.job.evaluation import EvaluationParts, evaluation_document
from mtrl.job.identity import (
    EVALUATION_CATEGORY,
    SCHEMA_VERSION,
    TERMINAL_STATUSES,
    TRAINING_CATEGORY,
    document_hash,
    job_name,
)
from mtrl.job.progress import JobView, job_view
from mtrl.rehearse.display import RunDisplay, StepFigures
from mtrl.rehearse.environment import BUCKET, EXPERIMENT, Environment
from mtrl.rehearse.processes import LocalParts
from mtrl.rehearse.results import Figures, figures

POLL_S = 0.5
EVALUATION_TEMPERATURE = 1.0
QUALIFIER = "rehearsal"


@dataclass(slots=True)
class Rehearsal:
    """A run in progress: what it talks to, where it writes, and what it has found so far."""

    parts: LocalParts
    environment: Environment
    folder: Path
    run_id: str
    display: RunDisplay
    train_uri: str
    validation_uri: str
    hub_name: str | None
    values: Mapping[str, Any]
    """The training job's hyperparameters, as the operator set them."""
    running: tuple[str, str] | None = None
    """(name, category) of the job under way."""
    finished: dict[str, JobView] = field(default_factory=dict)
    rollouts: int = 0
    rollout_seconds: float = 0.0

    @property
    def threshold(self) -> float:
        """Reward from which a rollout counts as solved."""
        default = hyperparameters.TRAINING["success_threshold"].default
        return float(self.values.get("success_threshold", default))

    def evaluate(self, label: str, package_arn: str | None = None) -> Figures:
        """Evaluate on the held-out rows at temperature 1.0."""
        document = evaluation_document(
            EvaluationParts(
                base_model_arn=self.environment.model_arn(self.hub_name),
                runtime_arn=self.environment.runtime_arn,
                qualifier=QUALIFIER,
                rows_uri=self.validation_uri,
                output_uri=self.environment.uri("output"),
                mlflow_arn=self.environment.mlflow_arn,
                mlflow_experiment=EXPERIMENT,
                mlflow_run=f"{self.run_id}-{label}",
                hyperparameters=hyperparameters.to_wire({"temperature": EVALUATION_TEMPERATURE}),
                package_arn=package_arn,
            ),
            accept_eula=True,
        )
        view = self._run_job(EVALUATION_CATEGORY, label, document)
        lines = self._copy_traces(view.name, "eval", label)
        return figures(lines, self.threshold)

    def train(self) -> JobView:
        """Train; steps are shown as they are recorded."""
        document = self.training_document()
        return self._run_job(TRAINING_CATEGORY, "train", document)

    def training_document(self) -> dict[str, Any]:
        """The training job's document."""
        env = self.environment
        return training_document(
            TrainingParts(
                base_model_arn=env.model_arn(self.hub_name),
                runtime_arn=env.runtime_arn,
                qualifier=QUALIFIER,
                train_uri=self.train_uri,
                validation_uri=self.validation_uri,
                output_uri=env.uri("output"),
                output_group_arn=env.output_group_arn,
                checkpoint_group_arn=env.checkpoint_group_arn,
                mlflow_arn=env.mlflow_arn,
                mlflow_experiment=EXPERIMENT,
                mlflow_run=f"{self.run_id}-train",
                hyperparameters=hyperparameters.to_wire(self.values),
            ),
            accept_eula=True,
        )

    def learned(self, package_arn: str) -> list[dict[str, Any]]:
        """What a trained package's behaviours became."""
        package = self._sagemaker.describe_model_package(ModelPackageName=package_arn)
        container = package["InferenceSpecification"]["Containers"][0]
        uri = container["ModelDataSource"]["S3DataSource"]["S3Uri"]
        key = uri.split("/", 3)[3].rstrip("/")
        return json.loads(self._read(f"{key}/behaviours.json"))

    def stop(self) -> None:
        """Stop the job under way and wait until it has stopped."""
        if self.running is None:
            return
        name, category = self.running
        job = {"JobName": name, "JobCategory": category}
        self._sagemaker.stop_job(**job)
        while job_view(self._sagemaker.describe_job(**job)).status not in TERMINAL_STATUSES:
            time.sleep(POLL_S)

    def _run_job(self, category: str, label: str, document: dict[str, Any]) -> JobView:
        name = job_name("rehearsal", f"{self.run_id}-{label}", document)
        try:
            self._sagemaker.create_job(
                JobName=name,
                JobCategory=category,
                RoleArn=self.environment.role_arn,
                JobConfigSchemaVersion=SCHEMA_VERSION,
                JobConfigDocument=json.dumps(document),
            )
        except ClientError as error:
            raise InputError("job-refused", error.response["Error"]["Message"]) from None
        self.running = (name, category)
        view = self._watch(name, category)
        self.running = None
        self.finished[label] = view
        if view.status != "Completed":
            raise MtrlError(
                "job-ended",
                f"job {name} ended as {view.status}: {view.failure_reason or 'no reason given'}",
                f"Logs and traces lie in {self.folder}.",
            )
        return view

    def _watch(self, name: str, category: str) -> JobView:
        """Follow a job to its end; each recorded step's traces are copied and shown."""
        last: StepFigures | None = None
        shown = 0
        while True:
            described = self._sagemaker.describe_job(JobName=name, JobCategory=category)
            view = job_view(described)
            for step in range(shown + 1, view.step + 1):
                lines = self._copy_traces(name, f"train-{step:05d}", f"train-{step:05d}")
                last = StepFigures(step, figures(lines, self.threshold))
                self.display.step(view, last)
            shown = view.step
            if view.status in TERMINAL_STATUSES:
                self._copy_validation(name)
                self._count_time(described)
                return view
            self.display.update(view, last)
            self.parts.check_alive()
            time.sleep(POLL_S)

    def _copy_traces(self, job: str, source: str, target: str) -> list[dict[str, Any]]:
        body = self._read(f"output/{job}/traces/{source}.jsonl")
        traces = self.folder / "traces"
        traces.mkdir(exist_ok=True)
        (traces / f"{target}.jsonl").write_bytes(body)
        lines = [json.loads(line) for line in body.splitlines()]
        self.rollouts += len(lines)
        return lines

    def _copy_validation(self, job: str) -> None:
        prefix = f"output/{job}/traces/val-"
        s3 = self.parts.client("s3")
        for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ()):
            name = item["Key"].rsplit("/", 1)[-1].removesuffix(".jsonl")
            self._copy_traces(job, name, name)

    def _count_time(self, described: Mapping[str, Any]) -> None:
        """Add the time in which rollouts were played: from Training or Evaluating to the end."""
        for transition in described["SecondaryStatusTransitions"]:
            if transition["Status"] in ("Training", "Evaluating"):
                span = transition.get("EndTime", described["EndTime"]) - transition["StartTime"]
                self.rollout_seconds += span.total_seconds()

    def _read(self, key: str) -> bytes:
        return self.parts.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()

    @property
    def _sagemaker(self) -> Any:
        return self.parts.client("sagemaker")


@contextmanager
def stopped_cleanly(rehearsal: Rehearsal) -> Iterator[None]:
    """On Ctrl-C stop the job that is under way, then go on with the interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        rehearsal.display.say("stopping the job ...")
        rehearsal.stop()
        raise


def document_hashes(rehearsal: Rehearsal) -> dict[str, str]:
    """Hash of the training document."""
    return {"document": document_hash(rehearsal.training_document())}
