"""`mtrl logs`: a job's states, its log and its agent's, and what there is without any."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mtrl.errors import InputError
from mtrl.jobs.logs import in_a_sentence, parse_since

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def event(message: str, second: int = 0) -> dict[str, Any]:
    moment = int(NOW.timestamp() * 1000) + second * 1000
    return {"message": message, "timestamp": moment}


@pytest.fixture(scope="module")
def done() -> dict[str, str]:
    """The name of a finished job, once one has run in this module."""
    return {}


def finished_job(operator: Any, done: dict[str, str]) -> str:
    if "name" not in done:
        done["name"] = operator.train("--run-id", "written", "--set", "max_steps=1")
        operator.finished(done["name"])
    return done["name"]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("10m", NOW - timedelta(minutes=10)),
        ("2h", NOW - timedelta(hours=2)),
        ("1d", NOW - timedelta(days=1)),
        ("2026-12-01T09:00", datetime(2026, 12, 1, 9, tzinfo=UTC)),
        ("2026-12-01T09:00+02:00", datetime(2026, 12, 1, 7, tzinfo=UTC)),
    ],
)
def test_times_are_read_as_people_write_them(text: str, moment: datetime) -> None:
    assert parse_since(text, NOW) == moment


def test_a_time_that_is_none_is_named() -> None:
    with pytest.raises(InputError, match="yesterday"):
        parse_since("yesterday")


def test_without_a_log_service_the_jobs_states_are_shown(operator: Any, done: Any) -> None:
    name = finished_job(operator, done)
    result = operator.run("logs", name)
    assert result.exit_code == 0
    assert "Training" in result.stdout and "Completed" in result.stdout
    assert "no logs here" in result.stderr


def test_why_a_job_failed_is_among_its_states(operator: Any) -> None:
    record = operator.record(train_uri="s3://mtrl-rehearsal/nothing.jsonl")
    operator.write("deployment/outputs.json", json.dumps(record).encode())
    name = operator.train("--run-id", "failing")
    operator.finished(name)
    assert "no object under" in operator.run("logs", name).stdout


def test_the_jobs_own_log_is_read_from_its_stream(operator: Any, done: Any, aws: Any) -> None:
    name = finished_job(operator, done)
    aws.on("logs", "FilterLogEvents", {"events": [event("step 1 done")]})
    found = operator.data("logs", name)
    assert found["entries"][-1]["text"] == "step 1 done"
    (asked,) = aws.asked("FilterLogEvents")
    assert asked["logGroupName"] == "/aws/sagemaker/Job/AgentRFT"
    assert asked["logStreamNamePrefix"] == f"{name}/"


def test_the_agents_traces_are_told_in_a_sentence_and_left_alone_when_asked(
    operator: Any, done: Any, aws: Any
) -> None:
    name = finished_job(operator, done)
    body = operator.parts.client("s3").get_object(
        Bucket="mtrl-rehearsal", Key=f"output/{name}/traces/train-00001.jsonl"
    )["Body"]
    trace = json.dumps(json.loads(next(body.iter_lines()))["trace"])
    aws.on("logs", "FilterLogEvents", {"events": [event(trace), event("Traceback: boom", 1)]})
    lines = operator.run("logs", name, "--agent").stdout.splitlines()
    assert "rollout of train-" in lines[0] and "reward" in lines[0]
    assert lines[1].endswith("Traceback: boom")
    raw = operator.run("logs", name, "--agent", "--raw").stdout
    assert '"schema_version"' in raw
    assert aws.asked("FilterLogEvents")[0]["endTime"]


def test_the_deployments_agent_is_read_before_there_is_any_job(operator: Any, aws: Any) -> None:
    aws.on("logs", "FilterLogEvents", {"events": [event("cannot import agent")]})
    result = operator.run("logs", "--agent", "--since", "10m")
    assert "cannot import agent" in result.stdout
    (asked,) = aws.asked("FilterLogEvents")
    assert asked["logGroupName"].endswith("/rehearsal-rehearsal")
    assert "endTime" not in asked


def test_following_ends_with_the_job_and_shows_each_line_once(
    operator: Any, done: Any, aws: Any
) -> None:
    name = finished_job(operator, done)
    aws.on("logs", "FilterLogEvents", {"events": [event("once")]})
    result = operator.run("logs", name, "--follow")
    assert result.exit_code == 0 and result.stdout.count("once") == 1
    both = operator.run("logs", name, "--follow", "--json")
    assert both.exit_code == 2 and "exclude each other" in both.output


def test_a_line_that_is_no_trace_stays_as_it_is() -> None:
    for line in ("plain text", '{"level": "info"}', '{"cut'):
        assert in_a_sentence(line) == line
