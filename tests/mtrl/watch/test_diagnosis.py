"""Each way in which a job goes wrong is told apart from the others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mtrl.jobs.reading import Job, read_job
from mtrl.watch.curves import Curve
from mtrl.watch.diagnosis import Cause, diagnose
from mtrl.watch.evidence import Sample

NO_SAMPLING = "No sampling requests were received"
NO_REWARD = "no reward was received in time"


def job(status: str = "Failed", reason: str = "", secondary: str = "") -> Job:
    moment = datetime(2026, 12, 1, tzinfo=UTC)
    return read_job(
        {
            "JobName": "j",
            "JobArn": "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/j",
            "JobCategory": "AgentRFT",
            "JobConfigDocument": json.dumps({"TrainingConfig": {"HyperParameters": {}}}),
            "CreationTime": moment,
            "JobStatus": status,
            "SecondaryStatus": secondary or status,
            "FailureReason": reason,
        }
    )


def sample(**changes: Any) -> Sample:
    values = {"step": None, "games": 100, "moves": 500, "text_moves": 0, "failed": 0}
    return Sample(**{**values, **changes})


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (NO_SAMPLING, Cause.NEVER_REACHED_POLICY),
        (
            f"{NO_SAMPLING}: /v1/chat/completions: gave up at the deadline; connection failed",
            Cause.NEVER_REACHED_POLICY,
        ),
        ("agent not reached: ConnectError (phase train, step 1)", Cause.NEVER_REACHED_POLICY),
        (f"{NO_SAMPLING}: answer: is missing (phase train, step 1)", Cause.BAD_ROWS),
        (f"Rollout r failed: {NO_REWARD}", Cause.NO_REWARD),
        (f"{NO_SAMPLING}: /v1/chat/completions: 403 AccessDenied", Cause.AUTHENTICATION),
        ("ExpiredTokenException: the security token is expired", Cause.AUTHENTICATION),
        ("no object under s3://b/rows.jsonl", Cause.DATA),
        ("MaxRuntimeInSeconds (60) exceeded", Cause.RUNTIME_LIMIT),
        ("something new", Cause.UNKNOWN),
        ("", Cause.UNKNOWN),
    ],
)
def test_the_reason_of_a_failure_names_its_cause(reason: str, cause: Cause) -> None:
    found = diagnose(job(reason=reason), {}, [])
    assert [finding.cause for finding in found] == [cause]
    assert found[0].advice and all("{" not in line for line in found[0].advice)


def test_what_the_rollouts_said_weighs_more_than_the_services_reason() -> None:
    refused = sample(failed=40, errors=("/update-reward: 403 token refused",))
    found = diagnose(job(reason=f"Rollout r: {NO_REWARD}"), {}, [sample(), refused])
    assert found[0].cause is Cause.AUTHENTICATION
    assert "403 token refused" in found[0].evidence
    assert len(found) == 1


def test_rows_that_no_rollout_could_read_are_the_cause() -> None:
    unread = sample(failed=100, bad_rows=100, errors=("answer: is missing",))
    assert diagnose(job(reason=NO_SAMPLING), {}, [unread])[0].cause is Cause.BAD_ROWS


def text_shares(*shares: float) -> list[Sample]:
    return [sample(text_moves=round(500 * share)) for share in shares]


@pytest.mark.parametrize(
    ("shares", "drifts"),
    [
        ((0.02, 0.02, 0.05, 0.10, 0.25, 0.40), True),
        ((0.05, 0.30), True),
        ((0.30, 0.30, 0.30, 0.30), False),
        ((0.40, 0.20, 0.05, 0.02), False),
        ((0.02, 0.05, 0.08), False),
        ((0.9,), False),
        ((), False),
    ],
)
def test_a_rising_share_of_moves_as_text_is_format_drift(
    shares: tuple[float, ...], drifts: bool
) -> None:
    found = diagnose(job("InProgress"), {}, text_shares(*shares))
    assert [f.cause for f in found] == ([Cause.FORMAT_DRIFT] if drifts else [])


def test_a_rise_that_may_be_chance_is_no_drift() -> None:
    few = [sample(moves=10, text_moves=1), sample(moves=10, text_moves=3)]
    assert diagnose(job("InProgress"), {}, few) == []


def test_more_than_one_in_a_hundred_broken_rollouts_are_reported() -> None:
    broken = sample(failed=2, errors=("the rollout broke (KeyError)",))
    found = diagnose(job("InProgress"), {}, [broken])
    assert [f.cause for f in found] == [Cause.ROLLOUTS_BREAK]
    assert "KeyError" in found[0].evidence
    assert diagnose(job("InProgress"), {}, [sample(failed=1, errors=("x",))]) == []


def curve(*values: float) -> Curve:
    return Curve(tuple(range(1, len(values) + 1)), values)


def test_groups_that_tie_and_answers_that_are_cut_are_reported() -> None:
    curves = {
        "analysis/zero_adv_groups": curve(1, 30, 30, 31),
        "training/num_groups": curve(32, 32, 32, 32),
    }
    found = diagnose(job("InProgress"), curves, [sample(cut=10)])
    assert [f.cause for f in found] == [Cause.GROUPS_TIE, Cause.ANSWERS_CUT]
    assert "95%" in found[0].evidence and "4,096" in found[1].evidence


def test_a_healthy_job_has_no_findings() -> None:
    curves = {"analysis/zero_adv_groups": curve(1, 2, 1), "training/num_groups": curve(32, 32, 32)}
    assert diagnose(job("InProgress"), curves, text_shares(0.02, 0.03, 0.02)) == []
