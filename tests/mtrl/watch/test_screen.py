"""The picture of a job fits every terminal and says what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mtrl.jobs.reading import Job, read_job
from mtrl.pricing import PriceList
from mtrl.terminal import SPARKS, fold_command, sparkline
from mtrl.watch.curves import METRICS, Curve
from mtrl.watch.diagnosis import Cause, Diagnosis
from mtrl.watch.evidence import Sample
from mtrl.watch.screen import Picture, draw

START = datetime(2026, 12, 1, tzinfo=UTC)
MODEL = "arn:aws:sagemaker:us-east-1:aws:hub-content/SageMakerPublicHub/Model/"


def job(step: int = 37) -> Job:
    document = {
        "TrainingConfig": {"BaseModelArn": MODEL + "openai-reasoning-gpt-oss-20b"},
        "ServiceOutput": {
            "ProgressInfo": {"MaxSteps": 100, "CurrentStep": step},
            "BillableTokenUsage": {
                "PrefillTokenCount": 491_616_806,
                "SampleTokenCount": 159_737_098,
                "TrainTokenCount": 643_308_554,
            },
        },
    }
    return read_job(
        {
            "JobName": "mtrl-prod-a-very-long-run-id-that-fills-the-name-0123456789ab",
            "JobArn": "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/j",
            "JobCategory": "AgentRFT",
            "JobConfigDocument": json.dumps(document),
            "CreationTime": START,
            "JobStatus": "InProgress",
            "SecondaryStatus": "Training",
            "Tags": [{"Key": "mtrl:max-cost-usd", "Value": "500"}],
        }
    )


def picture(**changes: Any) -> Picture:
    curves = {name: Curve(tuple(range(100)), tuple(x / 7 for x in range(100))) for name in METRICS}
    finding = Diagnosis(Cause.FORMAT_DRIFT, "t" * 90, "e" * 90, ("mtrl stop",))
    full = Picture(
        job=job(),
        prices=PriceList(),
        curves=curves,
        samples=[Sample(1, 8, 40, 2, 0)],
        findings=[finding],
        trouble="throttled by the service",
        notes=["a note " * 30],
        seconds_a_step=456.0,
    )
    return replace(full, **changes)


def drawn(shown: Picture, width: int) -> list[str]:
    out = Console(width=width, force_terminal=False, color_system=None)
    with out.capture() as capture:
        out.print(draw(shown, width, START + timedelta(hours=4)))
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_is_longer_than_the_terminal_and_none_is_folded(width: int) -> None:
    lines = drawn(picture(), width)
    assert max(map(len, lines)) <= width
    assert len(lines) == 3 + 5 + 1 + 1 + 1 + 1


def test_a_wide_terminal_shows_step_time_cost_and_budget() -> None:
    text = "\n".join(drawn(picture(), 160))
    assert "step 37/100" in text and "7 min 36 s a step, 7 h 58 min left" in text
    assert "$338.51 of $500.00" in text and "4 h 0 min" in text
    assert "throttled" in text and "moves as text" in text


def test_a_job_without_steps_curves_or_price_is_drawn_too() -> None:
    bare = replace(job(), document={})
    lines = drawn(Picture(job=replace(bare, view=replace(bare.view, total_steps=0)),
                          prices=PriceList(tokens={})), 80)  # fmt: skip
    assert "no step yet" in lines[1] and "$" not in lines[2]


@given(st.lists(st.floats(-1e9, 1e9), max_size=300), st.integers(0, 120))
def test_a_sparkline_is_as_wide_as_it_may_be_and_spans_its_range(
    values: list[float], width: int
) -> None:
    line = sparkline(values, width)
    assert len(line) == (min(len(values), width) if width else 0)
    if len(set(values)) > 1 and len(values) <= width:
        assert SPARKS[0] in line and SPARKS[-1] in line


def test_values_that_are_not_finite_leave_a_gap() -> None:
    assert sparkline([0.0, float("nan"), 1.0], 3) == f"{SPARKS[0]} {SPARKS[-1]}"


@given(st.lists(st.text("abc-=/", min_size=1, max_size=30), min_size=1, max_size=20))
def test_a_folded_command_is_still_the_same_command(words: list[str]) -> None:
    command = " ".join(words)
    lines = fold_command(command, 40)
    assert " ".join(line.removesuffix(" \\") for line in lines) == command
    assert all(len(line) <= 40 or " " not in line for line in lines)


def test_json_within_quotes_is_folded_after_its_commas() -> None:
    policy = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "A": "b"}]})
    lines = fold_command(f"aws iam put --policy '{policy}'", 40)
    assert max(map(len, lines)) <= 40
    quoted = "\n".join(lines).split("'")[1]
    assert json.loads(quoted) == json.loads(policy)
