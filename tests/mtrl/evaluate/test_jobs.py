"""One job a cell: met again by its name, waited for, and read from wherever its games lie."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mtrl.aws import Cloud
from mtrl.deployment import Deployment
from mtrl.errors import InputError, MtrlError
from mtrl.evaluate.folder import Entry, Folder
from mtrl.evaluate.jobs import (
    Waiting,
    fetch_traces,
    find_job_of,
    obtain,
    put_rows,
    refuse_beside_training,
)
from mtrl.evaluate.rows import RowSet
from mtrl.evaluate.run import Round, play
from mtrl.evaluate.site import Site, deployed, document
from mtrl.jobs.reading import Job, read_job

REGION = "us-east-1"
ACCOUNT = "000000000000"
RUNTIME = f"arn:aws:bedrock-agentcore:{REGION}:{ACCOUNT}:runtime/agent-1"
D = Deployment(
    deployment="mtrl-test",
    region=REGION,
    account=ACCOUNT,
    bucket="some-bucket",
    output_uri="s3://some-bucket/output/",
    train_uri="s3://some-bucket/train.jsonl",
    runtime_arn=RUNTIME,
    runtime_endpoint="job",
    mlflow_app_arn=f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:mlflow-app/app-1",
    mlflow_experiment="mtrl-test",
    output_group_arn=f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model-package-group/out",
    checkpoint_group_arn=f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model-package-group/ckpt",
    job_role_arn=f"arn:aws:iam::{ACCOUNT}:role/job",
    model="gpt-oss-20b",
    base_model_arn=f"arn:aws:sagemaker:{REGION}:aws:hub-content/SageMakerPublicHub/Model/"
    "openai-reasoning-gpt-oss-20b",
    agent_bundle_hash="abc",
)
NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def site(aws: Any) -> Site:
    return deployed(Cloud(REGION), D, accept_eula=True)


@pytest.fixture
def made(site: Site, hand: Any) -> dict[str, Any]:
    """The document of a cell."""
    return document(site, hand.cell, "s3://some-bucket/rows.jsonl", "run-1")


class Jobs:
    """The service's jobs: name -> status, and how often CreateJob is still refused."""

    def __init__(self, aws: Any, refuse: Any, document: dict[str, Any]) -> None:
        self.statuses: dict[str, str] = {}
        self.refusals: list[tuple[str, str]] = []
        self._refuse, self._document = refuse, document
        aws.on("sagemaker", "DescribeJob", self._describe)
        aws.on("sagemaker", "CreateJob", self._create)
        aws.on("sagemaker", "ListJobs", {"JobSummaries": []})

    def _describe(self, params: dict[str, Any]) -> Any:
        name = params["JobName"]
        if name not in self.statuses:
            return self._refuse("ResourceNotFound", operation="DescribeJob")
        return described(name, self.statuses[name], self._document)

    def _create(self, params: dict[str, Any]) -> Any:
        if self.refusals:
            return self._refuse(*self.refusals.pop(0), operation="CreateJob")
        self.statuses[params["JobName"]] = "InProgress"
        return {"JobArn": arn(params["JobName"])}


def arn(name: str, category: str = "AgentRFTEvaluation") -> str:
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:job/{category}/{name}"


def described(
    name: str, status: str, document: dict[str, Any], category: str = "AgentRFTEvaluation"
) -> dict[str, Any]:
    return {
        "JobName": name,
        "JobArn": arn(name, category),
        "RoleArn": D.job_role_arn,
        "JobCategory": category,
        "JobConfigSchemaVersion": "1.0.0",
        "JobConfigDocument": json.dumps(document),
        "JobStatus": status,
        "SecondaryStatus": "Evaluating",
        "SecondaryStatusTransitions": [],
        "CreationTime": NOW,
        "LastModifiedTime": NOW,
        "Tags": [],
    }


@pytest.fixture
def jobs(aws: Any, made: dict[str, Any]) -> Jobs:
    from botocore.exceptions import ClientError

    def refuse(code: str, message: str = "", operation: str = "") -> ClientError:
        return ClientError({"Error": {"Code": code, "Message": message or code}}, operation)

    return Jobs(aws, refuse, made)


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[str] = []

    def waiting(self, longest_s: float = 600.0) -> Waiting:
        return Waiting(longest_s, self.said.append, self.sleep, lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_document_is_what_the_service_accepts(made: dict[str, Any]) -> None:
    assert made["EvaluationConfig"]["HyperParameters"] == {
        "temperature": "1",
        "eval_group_size": "1",
        "pass_k_values": "[1]",
    }
    assert made["EvaluationConfig"]["AcceptEula"] is True
    assert "ModelPackageConfig" not in made


def test_a_licence_that_is_not_accepted_is_asked_for(aws: Any) -> None:
    with pytest.raises(InputError, match="licence"):
        deployed(Cloud(REGION), D, accept_eula=False)


def test_a_repeated_command_finds_its_job(site: Site, jobs: Jobs, made: dict[str, Any]) -> None:
    first, new = obtain(site, "e-1", made, Clock().waiting())
    assert new
    jobs.statuses[first.name] = "Completed"
    again, new = obtain(site, "e-1", made, Clock().waiting())
    assert (again.name, new) == (first.name, False)
    assert len(jobs.statuses) == 1


def test_a_failed_job_is_followed_by_one_of_another_name(
    site: Site, jobs: Jobs, made: dict[str, Any]
) -> None:
    names = []
    for _ in range(3):
        job, new = obtain(site, "e-1", made, Clock().waiting())
        assert new
        names.append(job.name)
        jobs.statuses[job.name] = "Failed"
    assert len(set(names)) == 3
    assert all(len(name) <= 63 for name in names)


def test_a_quota_that_is_used_up_is_waited_out(
    site: Site, jobs: Jobs, made: dict[str, Any]
) -> None:
    clock = Clock()
    jobs.refusals = [("ResourceLimitExceeded", "one evaluation job at a time")] * 3
    job, new = obtain(site, "e-1", made, clock.waiting())
    assert new
    assert jobs.statuses == {job.name: "InProgress"}
    assert clock.now == 60.0
    assert clock.said == ["waiting for a place: one evaluation job at a time"]


def test_a_quota_that_stays_used_up_ends_the_wait_with_what_to_do(
    site: Site, jobs: Jobs, made: dict[str, Any]
) -> None:
    jobs.refusals = [("ResourceLimitExceeded", "one at a time")] * 99
    with pytest.raises(MtrlError) as failure:
        obtain(site, "e-1", made, Clock().waiting(longest_s=50))
    assert "--max-wait" in failure.value.remedy
    assert not jobs.statuses


def test_a_call_that_was_answered_by_nobody_meets_its_own_job(
    site: Site, jobs: Jobs, made: dict[str, Any], aws: Any
) -> None:
    def create(params: dict[str, Any]) -> Any:
        jobs.statuses[params["JobName"]] = "InProgress"
        return jobs._refuse("ResourceInUse", operation="CreateJob")

    aws.on("sagemaker", "CreateJob", create)
    job, _ = obtain(site, "e-1", made, Clock().waiting())
    assert job.running


def test_a_failed_cell_is_told_and_played_by_a_new_job_next_time(
    site: Site, jobs: Jobs, hand: Any, aws: Any, tmp_path: Path
) -> None:
    rows = RowSet("rows", ('{"prompt": "Play.", "answer": "crane", "id": "r-1"}',))
    aws.on("s3", "PutObject", {})
    aws.on("s3", "GetObject", jobs._refuse("NoSuchKey", operation="GetObject"))
    aws.on("logs", "FilterLogEvents", logged([]))
    clock = Clock()

    def played(then: str) -> Entry:
        def end(seconds: float) -> None:
            clock.sleep(seconds)
            jobs.statuses = dict.fromkeys(jobs.statuses, then)

        waiting = replace(clock.waiting(), sleep=end)
        with Folder(tmp_path).opened() as folder:
            play(Round("e", "wordle", rows, folder, waiting), [hand.cell], site)
            return folder.entries[hand.cell.id]

    first = played("Failed")
    assert (first.status, first.reason) == ("failed", "Failed: no reason given")
    jobs.statuses = {first.job: "Failed"}
    second = played("Completed")
    assert second.status == "completed"
    assert second.job != first.job
    assert any(text.endswith("failed: no reason given") for text in clock.said)
    assert played("Failed") == second


def test_a_refused_document_is_told(site: Site, jobs: Jobs, made: dict[str, Any]) -> None:
    jobs.refusals = [("ValidationException", "HyperParameters.temperature: too hot")]
    with pytest.raises(InputError, match="too hot"):
        obtain(site, "e-1", made, Clock().waiting())


def test_a_training_job_on_the_same_runtime_is_not_disturbed(
    site: Site, aws: Any, made: dict[str, Any]
) -> None:
    summary = {
        "JobName": "train-1",
        "JobArn": arn("train-1", "AgentRFT"),
        "JobCategory": "AgentRFT",
        "JobStatus": "InProgress",
        "JobSecondaryStatus": "Training",
        "CreationTime": NOW,
        "LastModifiedTime": NOW,
    }
    aws.on("sagemaker", "ListJobs", {"JobSummaries": [summary]})
    training = {"AgentConfig": made["AgentConfig"]}
    aws.on(
        "sagemaker",
        "DescribeJob",
        lambda params: described(params["JobName"], "InProgress", training, "AgentRFT"),
    )
    with pytest.raises(InputError, match="train-1 is using the same runtime"):
        refuse_beside_training(site)
    other = {"BedrockAgentCoreConfig": {"AgentRuntimeArn": f"{RUNTIME}-other"}}
    training["AgentConfig"] = other
    refuse_beside_training(site)


def test_rows_are_kept_under_the_hash_of_their_content(site: Site, aws: Any) -> None:
    aws.on("s3", "PutObject", {})
    uris = [put_rows(site, body) for body in (b"a", b"b", b"a")]
    assert uris[0] == uris[2] != uris[1]
    assert uris[0].startswith("s3://some-bucket/evaluations/rows-")


def completed(made: dict[str, Any]) -> Job:
    return read_job(described("e-1", "Completed", made))


def logged(lines: Iterator[str] | list[str]) -> dict[str, Any]:
    numbered = zip(count(), lines, strict=False)
    return {"events": [{"message": line, "eventId": str(n)} for n, line in numbered]}


def test_games_that_are_not_in_the_output_are_read_from_the_agents_log(
    site: Site, aws: Any, hand: Any, jobs: Jobs, made: dict[str, Any]
) -> None:
    aws.on("s3", "GetObject", jobs._refuse("NoSuchKey", operation="GetObject"))
    trace = json.loads(hand.line("a", True))["trace"] | {"job_arn": arn("e-1")}
    other = {**trace, "job_arn": arn("e-12")}
    aws.on("logs", "FilterLogEvents", logged([json.dumps(trace), json.dumps(other)]))
    lines = fetch_traces(site, completed(made)).splitlines()
    assert [json.loads(line)["job_arn"] for line in lines] == [arn("e-1")]
    [asked] = aws.asked("FilterLogEvents")
    assert asked["logGroupName"] == "/aws/bedrock-agentcore/runtimes/agent-1-job"


def test_games_that_are_nowhere_are_no_error(
    site: Site, aws: Any, jobs: Jobs, made: dict[str, Any]
) -> None:
    aws.on("s3", "GetObject", jobs._refuse("NoSuchKey", operation="GetObject"))
    missing = jobs._refuse("ResourceNotFoundException", operation="FilterLogEvents")
    aws.on("logs", "FilterLogEvents", missing)
    assert fetch_traces(site, completed(made)) == b""


def test_a_log_that_may_not_be_read_is_told(
    site: Site, aws: Any, jobs: Jobs, made: dict[str, Any]
) -> None:
    from botocore.exceptions import ClientError

    aws.on("s3", "GetObject", jobs._refuse("NoSuchKey", operation="GetObject"))
    denied = jobs._refuse("AccessDeniedException", operation="FilterLogEvents")
    aws.on("logs", "FilterLogEvents", denied)
    with pytest.raises(ClientError, match="AccessDenied"):
        fetch_traces(site, completed(made))


def test_a_job_that_was_deleted_meanwhile_is_told(site: Site, jobs: Jobs) -> None:
    with pytest.raises(MtrlError, match="deleted meanwhile"):
        find_job_of(site, "gone")
