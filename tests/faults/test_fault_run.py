"""The program behind `make faults`: a short run of it, and proof that its checks can fail."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest

from agent.task import load_task
from benchmarks import faults
from benchmarks.fault_counts import Counts, JobRecord, count
from rehearsal.faults import CHAT, COMPLETE, REWARD

JOB = "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/faulty-0"
PROMPT = json.dumps({"id": "w-1", "prompt": "Play.", "answer": "haste"})
WORDS = ("crony", "build", "haste")


def said(word: str) -> dict[str, Any]:
    calls = [["guess_word", json.dumps({"guess": word})]]
    return {"text": "", "calls": calls, "finish": "tool_calls"}


def played(trajectory: str) -> list[dict[str, Any]]:
    """What the ledger holds of a game that meets a refusal, a cut and a lost acknowledgement."""
    common = {"job": JOB, "trajectory": trajectory, "temperature": 1.0, "rewards": None}
    entries: list[dict[str, Any]] = []
    for turn, word in enumerate(WORDS):
        asked = {"path": CHAT, "turn": turn, "history": [said(w) for w in WORDS[:turn]]}
        refused = {"faults": ["throttled"], "status": 429, "delivered": None, "applied": False}
        cut = {"faults": ["stream-cut"], "status": None, "delivered": None, "applied": True}
        whole = {"faults": [], "status": 200, "delivered": said(word), "applied": True}
        entries += [{**common, **asked, **end} for end in (refused, cut, whole)]
    for path in (COMPLETE, REWARD):
        report = {"path": path, "turn": 0, "history": [], "delivered": None}
        lost = {"faults": ["lost-acknowledgement"], "status": None, "applied": True}
        again = {"faults": [], "status": 409, "applied": False}
        entries += [{**common, **report, **end} for end in (lost, again)]
    return entries


def line(rollout: int) -> dict[str, Any]:
    trace = {"trajectory_id": f"t-{rollout}", "row_id": "w-1"}
    return {"row": 0, "rollout": rollout, "attempts": 1, "reward": earned(), "trace": trace}


def earned() -> float:
    episode: Any = load_task("wordle").start(PROMPT)
    for word in WORDS:
        episode.guess(word)
    return episode.reward()


def counted(ledger: list[Any], lines: list[Any], calm: list[Any], **changes: Any) -> Counts:
    job = {"arn": JOB, "status": "Completed", "temperature": 1.0, "prompts": [PROMPT]}
    record = JobRecord(**{**job, "expected": 2, "lines": lines, "calm_lines": calm, **changes})
    return count(ledger, [record], load_task("wordle"))


@pytest.fixture
def run() -> tuple[list[Any], list[Any], list[Any]]:
    """Ledger, lines and calm lines of two rollouts without fault of the agent's."""
    lines = [line(0), line(1)]
    return played("t-0") + played("t-1"), lines, copy.deepcopy(lines)


def test_a_run_that_lost_nothing_counts_zero(run: Any) -> None:
    counts = counted(*run)
    assert not counts.failed
    assert (counts.rollouts, counts.compared, counts.retried) == (2, 2, 0)
    assert counts.calls == {CHAT: 6, COMPLETE: 2, REWARD: 2}


def test_a_missing_reward_and_an_unrecorded_rollout_are_lost(run: Any) -> None:
    ledger, lines, calm = run
    lines[0]["reward"] = None
    assert len(counted(ledger, lines, calm).lost) == 1
    assert len(counted(ledger, lines[1:], calm).lost) == 1
    unheard = [e for e in ledger if not (e["path"] == REWARD and e["trajectory"] == "t-1")]
    assert counted(unheard, lines[1:], calm, expected=1).lost == ["t-1"]


def test_a_reward_that_was_not_earned_is_wrong(run: Any) -> None:
    ledger, lines, calm = run
    lines[0]["reward"] += 0.01
    assert len(counted(ledger, lines, calm).wrong) == 2  # by replay, and beside the calm run
    lines[0]["reward"] -= 0.01
    calm[1]["reward"] += 0.01
    assert len(counted(ledger, lines, calm).wrong) == 1


def test_a_reward_that_nothing_was_kept_to_replay_from_is_wrong(run: Any) -> None:
    ledger, lines, calm = run
    assert counted(ledger, lines, calm).replayed == 2
    lines[0]["trace"] = None
    assert len(counted(ledger, lines, calm).wrong) == 1


def test_a_reward_applied_twice_or_a_rollout_recorded_twice_is_double(run: Any) -> None:
    ledger, lines, calm = run
    again = next(e for e in ledger if e["path"] == REWARD and e["applied"])
    assert counted([*ledger, again], lines, calm).double == ["t-0"]
    assert len(counted(ledger, [*lines, lines[0]], calm).double) == 1


def test_a_conversation_parameter_or_row_of_another_rollout_is_crossed(run: Any) -> None:
    ledger, lines, calm = run
    for change in (
        lambda: ledger[5].update(history=[said("other")]),
        lambda: ledger[5].update(history=[]),
        lambda: ledger[5].update(temperature=0.9),
        lambda: ledger[5].update(job=f"{JOB}-other"),
        lambda: lines[0]["trace"].update(row_id="w-2"),
    ):
        before = copy.deepcopy((ledger, lines))
        change()
        assert counted(ledger, lines, calm).crossed
        ledger[:], lines[:] = before


def test_a_job_that_is_not_completed_fails_the_run(run: Any) -> None:
    assert counted(*run, status="Failed").failed


@pytest.mark.parametrize(
    ("rollouts", "concurrency"), [(1024, 128), (64, 32), (512, 64), (2048, 192), (128, 64)]
)
def test_a_plan_adds_up_to_what_was_asked(rollouts: int, concurrency: int) -> None:
    plan = faults.make_plan(rollouts, concurrency, 0.1, 1, True)
    assert plan.rollouts == rollouts
    assert plan.concurrency * plan.jobs == concurrency
    assert plan.batch in faults.BATCHES
    assert 2 <= plan.group <= 32


@pytest.mark.parametrize(
    ("rollouts", "concurrency", "named"),
    [(100, 32, "--rollouts"), (64, 16, "--concurrency"), (64, 400, "--concurrency")],
)
def test_a_plan_that_the_service_would_refuse_is_refused_by_name(
    rollouts: int, concurrency: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        faults.make_plan(rollouts, concurrency, 0.1, 1, True)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [[], ["--json"]], ids=["stream", "json"])
def test_under_every_fault_no_rollout_is_lost_wrong_doubled_or_crossed(
    answers: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["faults", "--rollouts", "64", "--concurrency", "32", *answers]
    monkeypatch.setattr(sys, "argv", arguments)
    assert faults.main() == 0, capsys.readouterr().err
    assert "| lost | 0 |" in capsys.readouterr().out
