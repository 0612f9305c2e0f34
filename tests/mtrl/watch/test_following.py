"""A watch of real jobs: killed, restarted, throttled, stopped, over budget, broken."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from mtrl.aws import Cloud
from mtrl.jobs.reading import find_job
from mtrl.pricing import PriceList
from mtrl.rehearse.environment import BUCKET
from mtrl.watch.diagnosis import Cause
from mtrl.watch.following import Follower
from mtrl.watch.looking import Lookout
from mtrl.watch.screen import Picture
from mtrl.watch.verdict import Verdict

REGION = "us-east-1"
LONG = ["--set", "max_steps=30", "--set", "max_epochs=30"]


class Watched:
    """Follows a job; `between` is called with each picture before the next look."""

    def __init__(self, name: str, between: Callable[[Picture], None], **options: Any) -> None:
        self.pictures: list[Picture] = []
        cloud = Cloud(REGION)
        job = find_job(cloud, name)

        def sleep(_: float) -> None:
            between(self.pictures[-1])
            time.sleep(0.2)

        self.verdict: Verdict
        self.follower = Follower(
            Lookout(job, cloud, every_s=0.2, patience_s=120),
            job,
            PriceList(),
            self.pictures.append,
            sleep=sleep,
            **options,
        )
        self.verdict, self.last = self.follower.follow()


@pytest.mark.slow
def test_a_watch_outlives_the_service_and_sees_the_job_go_on(own_operator: Any) -> None:
    with own_operator() as operator:
        operator.monkeypatch.setattr("mtrl.aws.ATTEMPTS", 1)
        name = operator.train("--set", "max_steps=3", "--set", "max_epochs=30")
        killed: list[int] = []

        def between(picture: Picture) -> None:
            service = operator.parts.service
            if picture.job.view.step >= 1 and not killed:
                service.kill()
                killed.append(picture.job.view.step)
            elif service.ended is not None and picture.trouble:
                service.restart()

        watched = Watched(name, between)
        assert killed and any("not reachable" in p.trouble for p in watched.pictures)
        steps = [p.job.view.step for p in watched.pictures]
        assert steps == sorted(steps), "what was reached is never taken back"
        assert (watched.verdict.outcome, watched.verdict.exit_code) == ("completed", 0)
        assert watched.last.job.view.step == 3
        assert watched.last.curves["rollout/reward/mean"].steps == (1, 2, 3)


def test_throttling_is_shown_and_ridden_out(operator: Any, aws: Any) -> None:
    operator.monkeypatch.setattr("mtrl.aws.ATTEMPTS", 1)
    name = operator.train("--run-id", "throttled", "--set", "max_steps=1")
    calls: list[int] = []

    def describe(params: Any) -> Any:
        calls.append(1)
        if len(calls) % 3 == 2:
            error: Any = {"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}
            raise ClientError(error, "DescribeJob")
        return operator.parts.client("sagemaker").describe_job(**params)

    aws.on("sagemaker", "DescribeJob", describe)
    watched = Watched(name, lambda picture: None)
    assert any("throttled" in picture.trouble for picture in watched.pictures)
    assert watched.verdict.outcome == "completed"


def test_a_job_that_someone_else_stops_is_said_to_be(operator: Any, aws: Any) -> None:
    name = operator.train("--run-id", "theirs", *LONG)
    event = {
        "Username": "ann",
        "CloudTrailEvent": json.dumps({"requestParameters": {"jobName": name}}),
    }
    aws.on("cloudtrail", "LookupEvents", {"Events": [{"CloudTrailEvent": "{}"}, event]})

    def between(picture: Picture) -> None:
        if picture.job.view.step >= 1 and picture.job.view.status == "InProgress":
            client = operator.parts.client("sagemaker")
            client.stop_job(JobName=name, JobCategory="AgentRFT")

    watched = Watched(name, between)
    assert (watched.verdict.outcome, watched.verdict.exit_code) == ("stopped", 3)
    assert "Stopped by ann after" in watched.verdict.sentence
    assert watched.verdict.next == (f"mtrl train --resume {name}",)


def test_a_budget_stops_the_job(operator: Any) -> None:
    name = operator.train("--run-id", "dear", "--max-cost", "0.01", *LONG)
    watched = Watched(name, lambda picture: None)
    assert (watched.verdict.outcome, watched.verdict.exit_code) == ("stopped-by-budget", 3)
    assert "$0.01" in watched.verdict.sentence
    assert watched.last.job.view.status == "Stopped"


def test_a_watch_can_set_a_budget_of_its_own(operator: Any) -> None:
    name = operator.train("--run-id", "capped", *LONG)
    watched = Watched(name, lambda picture: None, max_cost=Decimal("0.01"))
    assert watched.verdict.outcome == "stopped-by-budget"


def test_a_job_that_is_deleted_under_the_watch_is_said_to_be(operator: Any) -> None:
    name = operator.train("--run-id", "gone", *LONG)
    client = operator.parts.client("sagemaker")
    operator.until(name, lambda job: job.view.step >= 1)
    operator.data("stop", name, "--yes")
    real = Lookout.look

    def look(self: Lookout) -> Any:
        client.delete_job(JobName=name, JobCategory="AgentRFT")
        operator.monkeypatch.setattr(Lookout, "look", real)
        return real(self)

    operator.monkeypatch.setattr(Lookout, "look", look)
    result = operator.run("watch", name, "--every", "0.2")
    assert result.exit_code == 1 and "Deleted by someone" in result.output


def test_rows_that_the_agent_cannot_read_are_named_as_the_cause(operator: Any) -> None:
    row = json.dumps({"prompt": json.dumps({"prompt": "Play.", "id": "x"})})
    operator.write("datasets/bad.jsonl", "\n".join([row] * 32).encode())
    record = operator.record(train_uri=f"s3://{BUCKET}/datasets/bad.jsonl")
    operator.write("deployment/outputs.json", json.dumps(record).encode())
    name = operator.train("--run-id", "bad-rows", "--set", "rollout_max_retries=1")
    found = operator.data("watch", name, "--every", "0.2", exit_code=1)
    assert found["outcome"] == "failed"
    assert found["findings"][0]["cause"] == Cause.BAD_ROWS
    text = operator.run("watch", name).output
    assert "mtrl dataset check" in text and "next" in text


@pytest.mark.slow
def test_an_agent_that_is_gone_is_told_from_an_agent_that_is_refused(own_operator: Any) -> None:
    with own_operator() as operator:
        operator.parts.agents[0].kill()
        name = operator.train("--set", "rollout_max_retries=1")
        found = operator.data("watch", name, "--every", "0.2", exit_code=1)
        assert found["findings"][0]["cause"] == Cause.NEVER_REACHED_POLICY


@pytest.mark.slow
def test_an_agent_with_the_wrong_keys_is_an_authentication_fault(own_operator: Any) -> None:
    with own_operator(agent={"AWS_SECRET_ACCESS_KEY": "another"}) as operator:
        name = operator.train("--set", "rollout_max_retries=1")
        found = operator.data("watch", name, "--every", "0.5", exit_code=1)
        assert found["findings"][0]["cause"] == Cause.AUTHENTICATION


def test_rising_moves_as_text_in_the_traces_are_reported_while_the_job_runs(
    operator: Any,
) -> None:
    name = operator.train("--run-id", "drift", "--set", "max_steps=1")
    operator.finished(name)
    s3 = operator.parts.client("s3")
    prefix = f"output/{name}/traces/train-"
    body = s3.get_object(Bucket=BUCKET, Key=f"{prefix}00001.jsonl")["Body"].read()
    lines = [json.loads(line) for line in body.splitlines()]
    for line in lines:
        for turn in line["trace"]["turns"]:
            for move in turn["moves"]:
                move["recovered"] = True
    written = "\n".join(json.dumps(line) for line in lines).encode()
    operator.write(f"{prefix}00002.jsonl", written)
    found = operator.data("watch", name, "--once")
    assert [f["cause"] for f in found["findings"]] == [Cause.FORMAT_DRIFT]
    assert found["rollouts"][-1]["text_share"] == 1.0
    assert "stop" in found["findings"][0]["advice"][0]


@pytest.mark.parametrize("width", [80, 160])
def test_what_a_watch_prints_fits(operator: Any, width: int) -> None:
    name = operator.train("--run-id", "printed", "--set", "max_steps=1")
    operator.finished(name)
    operator.monkeypatch.setattr("mtrl.terminal.PIPE_WIDTH", width)
    lines = operator.run("watch", name).output.splitlines()
    assert max(map(len, lines)) <= width
    assert any("mtrl report" in line for line in lines)


def test_with_no_tracking_store_the_watch_goes_by_the_job_alone(operator: Any, aws: Any) -> None:
    name = operator.train("--run-id", "blind", "--set", "max_steps=1")
    operator.finished(name)
    error: Any = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
    aws.on("sagemaker", "CreatePresignedMlflowAppUrl", ClientError(error, "Presign"))
    operator.monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    found = operator.data("watch", name, "--once")
    assert found["status"] == "Completed" and found["curves"] == {}
    assert "no curves" in operator.run("watch", name, "--once").output


def test_rollouts_are_read_from_the_agents_log_where_there_are_no_files(
    operator: Any, aws: Any
) -> None:
    name = operator.train("--run-id", "logged", "--set", "max_steps=1")
    operator.finished(name)
    s3 = operator.parts.client("s3")
    key = f"output/{name}/traces/train-00001.jsonl"
    body = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    traces = [json.loads(line)["trace"] for line in body.splitlines()]
    s3.delete_object(Bucket=BUCKET, Key=key)
    events = [{"message": json.dumps(t, separators=(",", ":")), "timestamp": 1} for t in traces]
    aws.on("logs", "FilterLogEvents", {"events": [*events, {"message": f'/{name}"{{cut'}]})
    found = operator.data("watch", name, "--once")
    assert found["rollouts"][0]["games"] == len(traces)
    asked = aws.asked("FilterLogEvents")[0]
    assert asked["logGroupName"] == "/aws/bedrock-agentcore/runtimes/rehearsal-rehearsal"
