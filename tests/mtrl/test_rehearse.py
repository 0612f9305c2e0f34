"""`mtrl rehearse` as a person runs it: what it prints, leaves behind, refuses and survives."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mtrl.cli import main

ROOT = Path(__file__).parents[2]
SMALL = ("--steps", "1", "--set", "group_size=2")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from mtrl.cli import main; main()", "rehearse", *arguments]


def run(*arguments: str, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, "--out", str(out)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )


def few_rows(folder: Path, count: int) -> Path:
    lines = (ROOT / "datasets/wordle/validation.jsonl").read_text().splitlines()[:count]
    path = folder / "few.jsonl"
    path.write_text("\n".join(lines))
    return path


def summary_of(done: subprocess.CompletedProcess[str]) -> tuple[Path, dict[str, Any]]:
    folder = Path(done.stdout.rstrip().splitlines()[-1])
    return folder, json.loads((folder / "summary.json").read_text())


def test_a_run_ends_with_its_folder_and_a_summary_of_all_that_happened(tmp_path: Path) -> None:
    rows = few_rows(tmp_path, 8)
    done = run(
        *SMALL, "--set", "learning_rate=1e-4", "--validation", str(rows), out=tmp_path / "runs"
    )
    assert done.returncode == 0, done.stderr
    folder, summary = summary_of(done)
    assert summary["status"] == "completed"
    assert (summary["steps"], summary["seed"]) == (1, 1)
    for which in ("base", "trained"):
        figures = summary[which]
        assert figures["rollouts"] == 8
        low, high = figures["interval"]
        assert 0 <= low <= figures["solve_rate"] <= high <= 1
    assert summary["rollouts"] == 64 + 2 * 8 + 2 * 8  # a step, two validations, two evaluations
    assert summary["tokens"]["prefill"] > summary["tokens"]["sample"] > 0
    assert set(summary["hashes"]) == {"document", "agent", "train", "validation"}
    learned = json.loads((folder / "learned.json").read_text())
    assert {item["behaviour"] for item in learned} >= {"fits_all_clues", "repeats_guesses"}
    traces = {path.name for path in (folder / "traces").iterdir()}
    assert traces == {
        f"{n}.jsonl" for n in ("base", "trained", "train-00001", "val-00000", "val-00001")
    }
    assert re.search(r"step 1/1 .*reward .*solved .*tokens \(\$", done.stdout)
    assert "what the reward taught the policy" in done.stdout


@pytest.mark.slow
def test_a_scripted_policy_is_measured_and_not_trained(tmp_path: Path) -> None:
    rows = few_rows(tmp_path, 8)
    done = run("--policy", "solver", "--validation", str(rows), out=tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    _, summary = summary_of(done)
    assert summary["steps"] == 0
    assert "trained" not in summary
    assert summary["base"]["solve_rate"] > 0.7


def test_rows_that_would_fail_the_job_are_refused_by_line_before_it_begins(tmp_path: Path) -> None:
    bad = few_rows(tmp_path, 3)
    with bad.open("a") as file:
        file.write("\n" + json.dumps({"prompt": json.dumps({"prompt": "Play.", "id": "x"})}))
    done = run(*SMALL, "--validation", str(bad), out=tmp_path / "runs")
    assert done.returncode == 2
    assert "few.jsonl:4" in done.stderr
    assert "answer" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_job_that_fails_ends_the_run_with_the_jobs_own_reason(tmp_path: Path) -> None:
    arguments = ["--policy", "upstream", "--upstream-url", "http://127.0.0.1:9/v1"]
    rows = few_rows(tmp_path, 1)
    done = run(*arguments, "--validation", str(rows), out=tmp_path / "runs")
    assert done.returncode == 1
    assert "upstream policy not reached" in done.stderr
    assert "Traceback" not in done.stderr
    folder = next((tmp_path / "runs").iterdir())
    assert json.loads((folder / "summary.json").read_text())["status"] == "failed"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--task", "chess"], "--task chess"),
        (["--policy", "upstream"], "--upstream-url"),
        (["--policy", "nobody"], "--policy nobody"),
        (["--steps", "0"], "--steps"),
        (["--set", "group_size=99"], "group_size"),
        (["--set", "group_sise=8"], "group_sise"),
        (["--set", "nothing"], "NAME=VALUE"),
        (["--train", "/nowhere/rows.jsonl"], "/nowhere/rows.jsonl"),
        (["--concurrency", "0"], "--concurrency"),
    ],
)
def test_bad_options_are_named_before_anything_starts(
    tmp_path: Path, arguments: list[str], named: str
) -> None:
    result = CliRunner().invoke(main, ["rehearse", *arguments, "--out", str(tmp_path / "runs")])
    assert result.exit_code == 2
    assert named in result.output
    assert not (tmp_path / "runs").exists()


def test_an_output_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["rehearse", "--out", str(tmp_path / "file" / "runs")])
    assert result.exit_code == 2
    assert "--out" in result.output


def test_ctrl_c_stops_the_job_and_leaves_a_summary(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(
            "--steps",
            "50",
            "--set",
            "group_size=2",
            "--out",
            str(tmp_path / "runs"),
            "--validation",
            str(few_rows(tmp_path, 8)),
        ),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        # tests that a shell runs in the background ignore Ctrl-C, and a child would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if line.startswith("step 1/"):
            process.send_signal(signal.SIGINT)
            break
    rest = process.communicate(timeout=120)[0]
    assert process.returncode == 130, seen + rest
    folder = Path(rest.rstrip().splitlines()[-1])
    assert json.loads((folder / "summary.json").read_text())["status"] == "stopped"
    assert (folder / "traces" / "train-00001.jsonl").exists()
    deadline = time.monotonic() + 20
    while _processes_of(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _processes_of(folder)


def _processes_of(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.slow
def test_the_main_job_learns_from_a_fifth_or_less_to_nine_tenths_or_more(tmp_path: Path) -> None:
    done = run(out=tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    _, summary = summary_of(done)
    print(json.dumps({k: summary[k] for k in ("base", "trained", "rollouts_per_second")}))
    assert summary["base"]["rollouts"] == summary["trained"]["rollouts"] == 128
    assert summary["base"]["solve_rate"] <= 0.20
    assert summary["trained"]["solve_rate"] >= 0.90
    assert summary["trained"]["mean_turns_solved"] <= 4.2
