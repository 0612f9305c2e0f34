"""A rehearsal service with a real agent, as tests of several rooms use it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from mtrl.job.identity import SCHEMA_VERSION, TERMINAL_STATUSES
from mtrl.job.progress import JobView, job_view
from mtrl.rehearse.environment import BUCKET, Environment, create_environment
from mtrl.rehearse.processes import LocalParts, local_parts

DATASETS = Path(__file__).parents[1] / "datasets" / "wordle"
JOB_TIMEOUT_S = 240


class Cloud:
    """What a test needs to submit jobs and to look at what they left."""

    def __init__(self, parts: LocalParts, environment: Environment) -> None:
        self.parts = parts
        self.environment = environment
        self.sagemaker = parts.client("sagemaker")
        self.s3 = parts.client("s3")

    def put_rows(self, key: str, source: str, count: int) -> str:
        """Upload the first rows of a Wordle data set."""
        lines = (DATASETS / f"{source}.jsonl").read_text().splitlines()[:count]
        self.s3.put_object(Bucket=BUCKET, Key=key, Body="\n".join(lines).encode())
        return f"s3://{BUCKET}/{key}"

    def training(self, train_uri: str, **hyperparameters: str) -> dict[str, Any]:
        """A small training document."""
        env = self.environment
        return {
            "AgentConfig": {"BedrockAgentCoreConfig": {"AgentRuntimeArn": env.runtime_arn}},
            "InputDataConfig": [channel("train", train_uri)],
            "OutputDataConfig": {"S3OutputPath": env.uri("output")},
            "ModelPackageConfig": {
                "OutputModelPackageGroupArn": env.output_group_arn,
                "IntermediateCheckpointModelPackageGroupArn": env.checkpoint_group_arn,
            },
            "TrainingConfig": {
                "BaseModelArn": env.model_arn(),
                "AcceptEula": True,
                "MlflowConfig": {"MlflowResourceArn": env.mlflow_arn},
                "HyperParameters": {
                    "global_batch_size": "32",
                    "group_size": "2",
                    "val_every": "0",
                    **hyperparameters,
                },
            },
        }

    def evaluation(self, rows_uri: str, model: str | None = None) -> dict[str, Any]:
        """A small evaluation document."""
        env = self.environment
        return {
            "AgentConfig": {"BedrockAgentCoreConfig": {"AgentRuntimeArn": env.runtime_arn}},
            "InputDataConfig": [channel("evaluation", rows_uri)],
            "OutputDataConfig": {
                "S3OutputPath": env.uri("output"),
                "MlflowConfig": {"MlflowResourceArn": env.mlflow_arn},
            },
            "EvaluationConfig": {
                "BaseModelArn": env.model_arn(model),
                "AcceptEula": True,
                "HyperParameters": {"temperature": "1"},
            },
        }

    def create(self, name: str, document: dict[str, Any], category: str = "AgentRFT") -> None:
        """CreateJob."""
        self.sagemaker.create_job(
            JobName=name,
            JobCategory=category,
            RoleArn=self.environment.role_arn,
            JobConfigSchemaVersion=SCHEMA_VERSION,
            JobConfigDocument=json.dumps(document),
        )

    def view(self, name: str, category: str = "AgentRFT") -> JobView:
        """DescribeJob."""
        return job_view(self.sagemaker.describe_job(JobName=name, JobCategory=category))

    def until(self, name: str, reached: Any, category: str = "AgentRFT") -> JobView:
        """Poll until the job's view satisfies `reached`."""
        deadline = time.monotonic() + JOB_TIMEOUT_S
        while time.monotonic() < deadline:
            view = self.view(name, category)
            if reached(view):
                return view
            time.sleep(0.1)
        raise AssertionError(f"{name}: {self.view(name, category)}")

    def finish(self, name: str, category: str = "AgentRFT") -> JobView:
        """Poll until the job has ended."""
        return self.until(name, lambda view: view.status in TERMINAL_STATUSES, category)

    def traces(self, job: str, name: str) -> list[dict[str, Any]]:
        """A trace file of a job."""
        key = f"output/{job}/traces/{name}.jsonl"
        body = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return [json.loads(line) for line in body.splitlines()]


def channel(name: str, uri: str) -> dict[str, Any]:
    """One input of a job."""
    source = {"S3DataType": "S3Prefix", "S3Uri": uri}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def cloud_starter(base: Path) -> Callable[..., AbstractContextManager[Cloud]]:
    """Opens services below a folder: start(name, seed, concurrency, options, agent_environment).

    The same name opens the same state again, as a restart does.
    """
    environments: dict[str, Environment] = {}

    @contextmanager
    def start(
        name: str,
        seed: int = 7,
        concurrency: int = 32,
        options: Sequence[str] = (),
        agent_environment: Mapping[str, str] | None = None,
        *,
        rotating_keys: bool = False,
    ) -> Iterator[Cloud]:
        folder = base / name
        folder.mkdir(exist_ok=True)
        own = ["--seed", str(seed), "--concurrency", str(concurrency), *options]
        with local_parts(
            folder, "us-east-1", own, 1, "wordle", agent_environment, rotating_keys=rotating_keys
        ) as parts:
            if name not in environments:
                environments[name] = create_environment(parts)
            yield Cloud(parts, environments[name])

    return start
