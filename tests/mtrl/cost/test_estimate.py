"""`mtrl cost estimate`: the reference run's bill, planning, measuring, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mtrl.cli import main
from mtrl.cost import reference
from mtrl.cost.estimate import estimate
from mtrl.cost.measured import Measured
from mtrl.cost.plan import plan_job, validations
from mtrl.cost.ranges import Range
from mtrl.job.hyperparameters import TRAINING, parse
from mtrl.pricing import RUNTIME_PRICES, TOKEN_PRICES

PRICES = TOKEN_PRICES["gpt-oss-20b", "us-east-1"]
REFERENCE_JOB = ["--set", "max_steps=100", "--set", "max_epochs=20"]


def values(**chosen: str) -> Mapping[str, Any]:
    return parse(TRAINING, chosen)


def run(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(main, ["cost", "estimate", *arguments])
    assert result.exit_code == exit_code, result.output
    assert "Traceback" not in result.output
    return result.output


def trace(turns: int, prefill: int, sample: int, text: str = "") -> dict[str, Any]:
    turn = {
        "text": text,
        "reasoning": "",
        "moves": [],
        "finish_reason": "stop",
        "prefill_tokens": prefill,
        "sample_tokens": sample,
        "seconds": 0.1,
    }
    return {
        "task": "wordle", "row_id": "r", "job_arn": "arn", "trajectory_id": "t", "settings": {},
        "turns": [turn] * turns, "stop_reason": "done", "reward": 1.0, "summary": {},
        "seconds": 1.0, "error": None, "schema_version": 1,
    }  # fmt: skip


def write_traces(file: Path, traces: list[dict[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(t) + "\n" for t in traces))
    return file


def rehearsal(folder: Path, policy: str = "behaviour") -> Path:
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps({"policy": policy}))
    write_traces(folder / "traces/base.jsonl", [{"trace": trace(6, 650, 17)}] * 4)
    write_traces(folder / "traces/trained.jsonl", [{"trace": trace(4, 600, 17)}] * 4)
    return folder


def test_the_reference_runs_own_rollouts_estimate_its_own_bill() -> None:
    given = ["--turns", "4:6", "--prefill", "4660", "--sample", "1514", "--reasoning", "none"]
    found = json.loads(run(*REFERENCE_JOB, *given, "--idle-timeout", "900", "--json"))["estimate"]
    assert found["plan"]["training_rollouts"] == 102_400
    assert found["plan"]["validation_rollouts"] == 11 * 128
    assert found["token_usd"]["low"] <= 338.50 <= found["token_usd"]["high"] * 1.002
    assert found["token_usd"]["expected"] == pytest.approx(338.50, rel=0.03)
    assert found["runtime_usd"]["low"] <= 79 <= found["runtime_usd"]["high"]
    assert found["hours"]["low"] <= 12 + 40 / 60 <= found["hours"]["high"] * 1.001


def test_a_rehearsals_policy_writes_no_reasoning_so_the_reference_runs_is_added(
    tmp_path: Path,
) -> None:
    folder = str(rehearsal(tmp_path / "run"))
    sample = {
        kind: json.loads(run(folder, "--reasoning", kind, "--json"))["estimate"]["tokens"]["sample"]
        for kind in ("auto", "none", "reference", "low", "100", "50:150")
    }
    assert sample["auto"] == sample["reference"]
    assert sample["none"]["expected"] < sample["low"]["expected"] < sample["auto"]["expected"]
    assert sample["50:150"]["low"] < sample["100"]["low"]
    assert "floor" in run(folder, "--reasoning", "none")


def test_the_rehearsals_trained_policy_is_the_low_end_and_its_base_the_high_one(
    tmp_path: Path,
) -> None:
    found = json.loads(run(str(rehearsal(tmp_path / "run")), "--json"))
    assert found["rollout"]["turns"] == {"low": 4, "expected": 5, "high": 6}
    assert found["rollout"]["prefill"] == {"low": 2400, "expected": 3150, "high": 3900}


def test_a_language_model_that_was_rehearsed_needs_no_reasoning_added(tmp_path: Path) -> None:
    folder = rehearsal(tmp_path / "run", policy="upstream")
    found = json.loads(run(str(folder), "--json"))
    assert found["reasoning_tokens_a_turn"]["high"] == 0


def test_a_few_real_rollouts_give_the_interval_of_their_mean(tmp_path: Path) -> None:
    real = [trace(4, 900, 300), trace(5, 900, 280), trace(6, 950, 320)]
    file = write_traces(tmp_path / "real.jsonl", real)
    found = json.loads(run("--traces", str(file), "--json"))["rollout"]
    assert 4 <= found["turns"]["low"] < 5 == found["turns"]["expected"] < found["turns"]["high"]
    assert found["reasons"] is True
    single = write_traces(tmp_path / "one.jsonl", real[:1])
    alone = json.loads(run("--traces", str(single), "--json"))["rollout"]
    assert alone["sample"]["low"] == alone["sample"]["high"] == 1200


@given(
    st.integers(1, 1000), st.integers(0, 100), st.integers(32, 900), st.sampled_from([32, 64, 128])
)
def test_validations_are_the_steps_that_are_due(
    steps: int, every: int, rows: int, batch: int
) -> None:
    due = [s for s in range(steps + 1) if s in (0, steps) or (every and s % every == 0)]
    assert validations(steps, every) == len(due)
    if rows >= batch:
        plan = plan_job(values(global_batch_size=str(batch), max_steps=str(steps)), rows, 10)
        assert plan.training_rollouts == plan.steps * batch * 8
        assert plan.steps <= min(steps, rows // batch)  # max_epochs is 1


amounts = st.floats(0, 1e6)


@given(amounts, amounts, st.floats(0, 900), st.floats(0, 900))
def test_more_tokens_or_idle_time_never_cost_less(
    one: float, other: float, idle: float, longer: float
) -> None:
    plan = plan_job(values(max_steps="1"), 128, 0)

    def total(tokens: float, seconds: float) -> tuple[float, float, float]:
        amount = Range.exactly(tokens)
        rollout = Measured(Range(4, 5, 6), amount, amount, True, "")
        none = Range.exactly(0)
        return estimate(plan, rollout, none, seconds, PRICES, RUNTIME_PRICES).total_usd.values

    less, more = sorted((one, other))
    short, long = sorted((idle, longer))
    assert all(a <= b for a, b in zip(total(less, short), total(more, long), strict=True))


def test_the_dated_reference_data_agree_with_each_other() -> None:
    assert pytest.approx(1.6, abs=0.05) == (reference.EXTRA_ROLLOUTS.high - 1) * 100
    assert pytest.approx(1514, abs=1) == reference.SAMPLE_TOKENS
    assert 41 < reference.SECONDS_PER_ROLLOUT < 42
    assert reference.REASONING_TOKENS.low > 200


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], "folder of a rehearsal"),
        (["--turns", "4"], "--prefill and --sample"),
        (["--turns", "x", "--prefill", "1", "--sample", "1"], "LOW:HIGH"),
        (["--turns", "1:2:3", "--prefill", "1", "--sample", "1"], "LOW:HIGH"),
        (["nowhere"], "nowhere"),
        (["--traces", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--turns", "4", "--prefill", "1", "--sample", "1", "--traces", "x"], "one way"),
        (["--turns", "4", "--prefill", "1", "--sample", "1", "--reasoning", "much"], "much"),
        (["--turns", "4", "--prefill", "1", "--sample", "1", "--set", "max_steps"], "max_steps"),
        (["--turns", "4", "--prefill", "1", "--sample", "1", "--set", "max_steps=0"], "max_steps"),
        (["--turns", "4", "--prefill", "1", "--sample", "1", "--train", "no.jsonl"], "no.jsonl"),
    ],
)
def test_what_cannot_be_estimated_is_named(options: list[str], named: str) -> None:
    assert named in run(*options, exit_code=2)


@pytest.mark.parametrize("line", ["{}", "[]", "not json", '{"schema_version": 99}'])
def test_a_file_that_holds_no_traces_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(line + "\n")
    assert "bad.jsonl" in run("--traces", str(file), exit_code=2)


def test_too_few_rows_for_a_batch_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text('{"prompt": "one"}\n')
    options = ["--turns", "4", "--prefill", "1", "--sample", "1", "--train", str(file)]
    assert "do not fill one batch" in run(*options, exit_code=2)


def test_the_table_names_what_it_rests_on(tmp_path: Path) -> None:
    text = run(str(rehearsal(tmp_path / "run")), *REFERENCE_JOB)
    assert "reasoning: 235 to 362 tokens a turn more" in text
    assert all(len(line) <= 100 for line in text.splitlines())
