"""`mtrl report`: what it writes, where it logs, and what it says when it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agent.trace import Trace
from mtrl.cli import main
from mtrl.pricing import TOKEN_PRICES
from mtrl.report.command import mlflow_target
from mtrl.report.folder import read_folder
from mtrl.report.run import MlflowTarget
from mtrl.report.sections import measured

Line = Callable[..., str]


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No AWS and no MLflow but what a test sets up."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.chdir(tmp_path)


def report(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments])


def test_a_rehearsals_folder_becomes_a_page(rehearsal: Path, tmp_path: Path) -> None:
    result = report(str(rehearsal))
    assert result.exit_code == 0, result.output
    assert result.output == "report.html (0.1 MB)\n"
    page = (tmp_path / "report.html").read_text()
    assert "20261201-090000-seed1" in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_is_there_is_replaced(rehearsal: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text("old")
    assert report(str(rehearsal), "-o", str(out)).exit_code == 0
    assert out.read_text().startswith("<!doctype html>")


def test_a_file_of_bare_traces_becomes_a_page(
    tmp_path: Path, play: Callable[..., Trace], rows: Callable[[str], list[dict[str, Any]]]
) -> None:
    file = tmp_path / "solver.jsonl"
    traces = [play(row, [row["answer"]]).to_json() for row in rows("validation")[:3]]
    file.write_text("\n".join(traces) + "\n")
    assert report(str(file)).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "3 of 3 games" in page
    assert '<th scope="row">solver</th>' in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no/such/path"], "no/such/path: no such folder or file."),
        (["empty"], "empty has no trace files"),
        (["bad"], "bad/base.jsonl, line 1: "),
        (["broken"], "broken/summary.json: "),
        (["good.jsonl", "-o", "no/such/page.html"], "--out no/such/page.html: "),
        (["good.jsonl", "--rows", "no.jsonl"], "no.jsonl is not a file."),
        (["good.jsonl", "--prices", "no.toml"], "--prices no.toml: "),
    ],
)
def test_what_cannot_be_used_is_named_without_a_traceback(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    line: Line,
    play: Callable[..., Trace],
    rows: Callable[[str], list[dict[str, Any]]],
) -> None:
    for folder in ("empty", "bad", "broken"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bad" / "base.jsonl").write_text("{}\n")
    (tmp_path / "broken" / "summary.json").write_text("{")
    (tmp_path / "good.jsonl").write_text(line(play(rows("train")[0], ["crane"])) + "\n")
    result = report(*arguments)
    assert result.exit_code == 2, result.output
    assert f"error: {says}" in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "report.html").exists()


def test_the_runs_own_mlflow_comes_before_the_environments(
    rehearsal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read_folder(rehearsal)
    assert mlflow_target(run) is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///elsewhere.db")
    found = mlflow_target(run)
    assert found is not None
    assert (found.tracking_uri, found.run_name) == ("sqlite:///elsewhere.db", run.title)
    own = MlflowTarget("sqlite:///own.db", run_id="r")
    assert mlflow_target(replace(run, mlflow=own)) == own


@pytest.mark.slow
def test_the_page_is_logged_to_the_run_of_its_name(
    rehearsal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    first, second = report(str(rehearsal)), report(str(rehearsal))
    assert first.exit_code == 0, first.output
    assert second.output == first.output
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("mtrl-reports")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "20261201-090000-seed1"
    assert [item.path for item in client.list_artifacts(run.info.run_id, "report")] == [
        "report/report.html"
    ]
    assert f"logged to MLflow as {run.info.run_id}/report/report.html" in first.output


@pytest.mark.slow
def test_an_mlflow_that_fails_costs_no_report(
    rehearsal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nothing listens there
    result = report(str(rehearsal))
    assert result.exit_code == 0
    assert "not logged to MLflow: " in result.stderr
    assert (tmp_path / "report.html").exists()


def test_an_evaluations_folder_is_a_matrix_with_its_failed_cells_named(
    tmp_path: Path,
    line: Line,
    play: Callable[..., Trace],
    rows: Callable[[str], list[dict[str, Any]]],
) -> None:
    def cell(label: str, kind: str, effort: str | None, status: str, traced: bool) -> Any:
        policy = {"label": label, "kind": kind, "target": "", "model": ""}
        conditions = {"temperature": 1.0, "effort": effort, "hint": None, "repeats": 1}
        return {
            "cell": {"policy": policy, "conditions": conditions, "rows_sha": "", "values": []},
            "status": status, "job": f"job-{label}-{effort}", "agent_hash": "abc",
            "reason": "no quota" if status == "failed" else "", "traced": traced,
        }  # fmt: skip

    cells = [
        cell("base", "base", "low", "completed", True),
        cell("base", "base", "high", "completed", True),
        cell("solver", "player", None, "completed", True),
        cell("tuned", "package", "low", "failed", False),
    ]
    (tmp_path / "traces").mkdir()
    (tmp_path / "ledger.json").write_text(json.dumps({"version": 1, "cells": cells}))
    held_out = rows("validation")[:4]
    base = [line(play(row, [row["answer"]], reasoning_effort=effort))
            for effort in ("low", "high") for row in held_out]  # fmt: skip
    solver = [line(play(row, ["crane", row["answer"]])) for row in held_out]
    (tmp_path / "traces" / "base.jsonl").write_text("\n".join(base) + "\n")
    (tmp_path / "traces" / "solver.jsonl").write_text("\n".join(solver) + "\n")
    run = read_folder(tmp_path)
    assert [(games.name, games.sampling.effort) for games in run.sets] == [
        ("base", "low"), ("base", "high"), ("solver", None),
    ]  # fmt: skip
    assert run.notes == ("tuned at temperature 1, effort low is failed: no quota.",)
    priced = measured(run, run.compared, TOKEN_PRICES["gpt-oss-20b", "us-east-1"])
    assert [item.cost is not None for item in priced] == [True, True, False]
    assert report(str(tmp_path)).exit_code == 0
