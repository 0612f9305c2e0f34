"""`mtrl jobs`, `mtrl stop` and `mtrl mlflow` against a rehearsal service."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError


@pytest.fixture(scope="module")
def done() -> dict[str, str]:
    """The name of a finished job, once one has run in this module."""
    return {}


def finished_job(operator: Any, done: dict[str, str]) -> str:
    if "name" not in done:
        done["name"] = operator.train("--run-id", "listed", "--set", "max_steps=1")
        operator.finished(done["name"])
    return done["name"]


def test_a_finished_job_is_listed_with_its_steps_and_its_cost(operator: Any, done: Any) -> None:
    name = finished_job(operator, done)
    found = operator.data("jobs", "--prefix", "mtrl-test-listed")["jobs"]
    assert [job["name"] for job in found] == [name]
    job = found[0]
    assert (job["status"], job["step"], job["total_steps"]) == ("Completed", 1, 1)
    assert job["spent_usd"] > 0 and job["tokens"]["train"] > 0
    assert job["tags"]["mtrl:run-id"] == "listed"


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_the_terminal_and_holds_the_whole_name(
    operator: Any, done: Any, width: int
) -> None:
    name = finished_job(operator, done)
    operator.monkeypatch.setenv("COLUMNS", str(width))
    operator.monkeypatch.setattr("mtrl.terminal.PIPE_WIDTH", width)
    lines = operator.run("jobs").output.splitlines()
    assert max(map(len, lines)) <= width
    assert name in "".join(line.split(" ")[0] for line in lines)


def test_jobs_of_no_prefix_and_active_ones_can_be_none(operator: Any, done: Any) -> None:
    finished_job(operator, done)
    assert operator.data("jobs", "--prefix", "nobody")["jobs"] == []
    assert operator.data("jobs", "--active", "--prefix", "mtrl-test-listed")["jobs"] == []
    assert "no jobs" in operator.run("jobs", "--prefix", "nobody").output


def test_a_job_is_stopped_once_and_stopping_it_again_is_no_fault(operator: Any) -> None:
    name = operator.train("--run-id", "stopped", "--set", "max_steps=30", "--set", "max_epochs=30")
    operator.until(name, lambda job: job.view.step >= 1)
    declined = operator.run("stop", name, stdin="n\n")
    assert declined.exit_code == 1 and "spent on tokens" in declined.output
    found = operator.data("stop", name, "--yes")
    assert found["status"] == "Stopped" and found["checkpoint"]
    again = operator.run("stop", name, "--yes")
    assert again.exit_code == 0 and f"mtrl train --resume {name}" in again.output


def test_the_tracking_store_of_a_job_is_named_with_its_run(operator: Any, done: Any) -> None:
    name = finished_job(operator, done)
    found = operator.data("mlflow", name)
    assert found["url"].startswith("sqlite:///")
    assert found["run"]["RunName"] == "mtrl-test-listed"
    assert operator.run("mlflow", name).stdout.strip() == found["url"]


def test_a_job_that_is_not_there_is_named(operator: Any) -> None:
    for verb in (["stop"], ["mlflow"], ["cost", "actual"], ["watch"], ["logs"]):
        result = operator.run(*verb, "nobody")
        assert result.exit_code == 2 and "'nobody'" in result.output, verb


def test_names_are_completed_with_the_tab_key(operator: Any, done: Any) -> None:
    name = finished_job(operator, done)
    operator.monkeypatch.setenv("_MTRL_COMPLETE", "bash_complete")
    operator.monkeypatch.setenv("COMP_WORDS", "mtrl stop mtrl-test-list")
    operator.monkeypatch.setenv("COMP_CWORD", "2")
    from click.testing import CliRunner

    from mtrl.cli import main

    result = CliRunner().invoke(main, [], prog_name="mtrl")
    assert name in result.output


def test_what_a_job_used_stands_beside_the_estimate_of_a_rehearsal(
    operator: Any, done: Any, tmp_path: Any
) -> None:
    name = finished_job(operator, done)
    estimate = [
        "cost", "estimate", "--turns", "3:7", "--prefill", "1000:6000", "--sample", "50:150",
        "--reasoning", "none",
    ]  # fmt: skip
    file = tmp_path / "estimate.json"
    file.write_text(json.dumps(operator.data(*estimate, "--set", "max_steps=1")))
    found = operator.data("cost", "actual", name, "--estimate", str(file))
    low, high = (found["estimate"]["train"][end] for end in ("low", "high"))
    assert low < found["tokens"]["train"] < high
    assert found["total_usd"] == found["token_usd"] and found["runtime_usd"] is None
    assert "not offer" in found["notes"][0]
    text = operator.run("cost", "actual", name, "--estimate", str(file)).output
    assert "within" in text and "step 1/1" in text


def test_an_estimate_that_is_none_is_named(operator: Any, done: Any, tmp_path: Any) -> None:
    name = finished_job(operator, done)
    file = tmp_path / "estimate.json"
    file.write_text("{}")
    result = operator.run("cost", "actual", name, "--estimate", str(file))
    assert result.exit_code == 2 and "estimate.json" in result.output


def test_without_credentials_the_command_says_so_and_exits_with_4(operator: Any, aws: Any) -> None:
    aws.on("sagemaker", "ListJobs", NoCredentialsError())
    result = operator.run("jobs")
    assert result.exit_code == 4 and "aws sso login" in result.output


def test_an_endpoint_that_nobody_listens_at_is_named(operator: Any) -> None:
    operator.monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    operator.monkeypatch.setattr("mtrl.aws.ATTEMPTS", 1)
    result = operator.run("jobs")
    assert result.exit_code == 4 and "http://127.0.0.1:9" in result.output
