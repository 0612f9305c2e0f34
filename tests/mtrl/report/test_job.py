"""A job's report: from the service on this machine, and from the parts that AWS has."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber
from click.testing import CliRunner

from agent.trace import Trace
from mtrl.cli import main
from mtrl.dataset.build import folder_of
from mtrl.errors import InputError
from mtrl.job.builder import TrainingParts, training_document
from mtrl.job.identity import SCHEMA_VERSION
from mtrl.job.progress import job_view
from mtrl.rehearse.environment import BUCKET, create_environment, upload
from mtrl.rehearse.processes import local_parts
from mtrl.report.answers import join
from mtrl.report.games import Kind
from mtrl.report.job import read_job_run

NAME = "mtrl-dev-run-1-0123456789ab"
ACCOUNT = "111122223333"
CREATED = datetime(2026, 12, 1, tzinfo=UTC)


class StubbedCloud:
    """boto3's own clients with answers laid out in advance, in order."""

    region = "us-east-1"

    def __init__(self) -> None:
        keys = {"aws_access_key_id": "AK", "aws_secret_access_key": "SK"}
        self._clients = {
            service: boto3.client(service, region_name=self.region, **keys)
            for service in ("sagemaker", "s3", "logs")
        }
        self.stubs = {name: Stubber(client) for name, client in self._clients.items()}
        for stub in self.stubs.values():
            stub.activate()

    def client(self, service: str) -> Any:
        return self._clients[service]

    def answer(self, service: str, operation: str, answer: dict[str, Any], **expects: Any) -> None:
        self.stubs[service].add_response(operation, answer, expects or None)

    def describe(self, category: str, config: dict[str, Any], **document: Any) -> None:
        kind = "EvaluationConfig" if "Evaluation" in category else "TrainingConfig"
        whole = {
            "AgentConfig": {
                "BedrockAgentCoreConfig": {
                    "AgentRuntimeArn": f"arn:aws:bedrock-agentcore:us-east-1:{ACCOUNT}:runtime/wrd",
                    "Qualifier": "job",
                }
            },
            "InputDataConfig": [],
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            kind: config,
            **document,
        }
        if "Evaluation" in category:
            self.stubs["sagemaker"].add_client_error(
                "describe_job", "ValidationException", "Job was not found", 400
            )
        self.answer(
            "sagemaker",
            "describe_job",
            {
                "JobName": NAME,
                "JobArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:job/{category}/{NAME}",
                "JobCategory": category,
                "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/job",
                "JobStatus": "Completed",
                "SecondaryStatus": "Completed",
                "SecondaryStatusTransitions": [],
                "JobConfigSchemaVersion": SCHEMA_VERSION,
                "JobConfigDocument": json.dumps(whole),
                "CreationTime": CREATED,
                "LastModifiedTime": CREATED,
                "EndTime": CREATED,
            },
        )

    def objects(self, files: dict[str, str]) -> None:
        """One listing of the traces' prefix, and the objects in the order of their keys."""
        keys = sorted(files)
        self.answer("s3", "list_objects_v2", {"Contents": [{"Key": key} for key in keys]},
                    Bucket="bucket", Prefix=f"out/{NAME}/traces/")  # fmt: skip
        for key in keys:
            body = files[key].encode()
            stream = StreamingBody(io.BytesIO(body), len(body))
            self.answer("s3", "get_object", {"Body": stream}, Bucket="bucket", Key=key)


@pytest.fixture
def cloud() -> StubbedCloud:
    return StubbedCloud()


BASE = {"BaseModelArn": "arn:aws:sagemaker:us-east-1:aws:hub-content/SageMakerPublicHub/Model/"
        "openai-reasoning-gpt-oss-20b"}  # fmt: skip


def test_an_evaluations_games_are_its_packages(
    cloud: StubbedCloud,
    play: Callable[..., Trace],
    line: Callable[..., str],
    rows: Callable[[str], list[dict[str, Any]]],
) -> None:
    package = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:model-package/models/3"
    cloud.describe("AgentRFTEvaluation", BASE,
                   ModelPackageConfig={"InputModelPackageArn": package})  # fmt: skip
    lines = [line(play(row, [row["answer"]], reasoning_effort="low")) for row in rows("validation")]
    cloud.objects({f"out/{NAME}/traces/eval.jsonl": "\n".join(lines) + "\n"})
    run = read_job_run(cloud, NAME)  # pyright: ignore[reportArgumentType]
    (games,) = run.sets
    assert (games.name, games.sampling.effort) == ("models/3", "low")
    assert run.source == "Evaluation job, Completed"
    assert (run.model, run.region) == ("gpt-oss-20b", "us-east-1")
    assert len(join(run).by_row) > 0


def test_without_trace_files_the_agents_log_is_read(
    cloud: StubbedCloud, play: Callable[..., Trace], rows: Callable[[str], list[dict[str, Any]]]
) -> None:
    cloud.describe("AgentRFT", BASE)
    cloud.objects({})
    row = rows("train")[0]
    arn = f"arn:aws:sagemaker:us-east-1:<account>:job/AgentRFT/{NAME}"
    trace = play(row, ["crane", row["answer"]]).to_json().replace(
        "arn:aws:sagemaker:us-east-1:<account>:job/AgentRFT/job1", arn
    )  # fmt: skip
    other = trace.replace(NAME, "another-job")
    events = [{"message": text} for text in (trace, other, f'{trace[:200]} /{NAME}"')]
    cloud.answer("logs", "filter_log_events", {"events": events},
                 logGroupName="/aws/bedrock-agentcore/runtimes/wrd-job", startTime=ANY,
                 endTime=ANY, filterPattern=ANY)  # fmt: skip
    run = read_job_run(cloud, NAME)  # pyright: ignore[reportArgumentType]
    (games,) = run.sets
    assert (games.kind, games.step, len(games.games)) == (Kind.TRAINING, None, 1)
    assert run.notes == ("1 lines of the agent's log were cut and are left out.",)


def test_a_job_that_left_nothing_says_what_was_looked_for(cloud: StubbedCloud) -> None:
    cloud.describe("AgentRFT", BASE)
    cloud.objects({})
    cloud.stubs["logs"].add_client_error(
        "filter_log_events", "AccessDeniedException", "not allowed", 400
    )
    with pytest.raises(InputError, match="no traces in s3://bucket/out/") as caught:
        read_job_run(cloud, NAME)  # pyright: ignore[reportArgumentType]
    assert "Its log could not be read: not allowed." in caught.value.message


@pytest.mark.slow
def test_a_training_job_on_this_machine_becomes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split, count in (("train", 32), ("validation", 4)):
        kept = (folder_of("wordle") / f"{split}.jsonl").read_text().splitlines()[:count]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(kept) + "\n")
    with local_parts(tmp_path, "us-east-1", [], 1, "wordle") as parts:
        environment = create_environment(parts)
        s3, sagemaker = parts.client("s3"), parts.client("sagemaker")
        document = training_document(
            TrainingParts(
                base_model_arn=environment.model_arn(),
                runtime_arn=environment.runtime_arn,
                qualifier="rehearsal",
                train_uri=upload(s3, "data/train.jsonl", tmp_path / "train.jsonl"),
                validation_uri=upload(s3, "data/validation.jsonl", tmp_path / "validation.jsonl"),
                output_uri=f"s3://{BUCKET}/output",
                output_group_arn=environment.output_group_arn,
                checkpoint_group_arn=environment.checkpoint_group_arn,
                mlflow_arn=environment.mlflow_arn,
                mlflow_experiment="e",
                mlflow_run="r",
                hyperparameters={"global_batch_size": "32", "group_size": "2", "max_steps": "1"},
            ),
            accept_eula=True,
        )
        sagemaker.create_job(
            JobName="job1",
            JobCategory="AgentRFT",
            RoleArn=environment.role_arn,
            JobConfigSchemaVersion=SCHEMA_VERSION,
            JobConfigDocument=json.dumps(document),
        )
        described: dict[str, Any] = {}
        while not described or job_view(described).status == "InProgress":
            described = sagemaker.describe_job(JobName="job1", JobCategory="AgentRFT")
        assert job_view(described).status == "Completed"
        for name, value in parts.keys.environment("us-east-1").items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", parts.url)
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        out = tmp_path / "report.html"
        result = CliRunner().invoke(main, ["report", "job1", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "logged to MLflow as " in result.output
    page = out.read_text()
    for text in ("Training job, Completed", "Validation, step 1", "What the policy learned",
                 "72 of 72 games"):  # fmt: skip
        assert text in page
