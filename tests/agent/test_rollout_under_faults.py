"""One rollout over HTTP whose time runs out, or whose job runtime fails for a while or for good."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agent.settings import Settings

Invoke = Callable[..., SimpleNamespace]
COUNTING = Settings(task="counting")


# The budget.


def test_the_time_budget_ends_a_game_and_its_moves_count(
    invoke: Invoke, fake: Any, kit: Any, clock: Any
) -> None:
    def slow(call: Any) -> Any:
        clock.now += 150
        return kit.call_count(call.turn + 1)

    fake.policy = slow
    outcome = invoke(kit.row(target=9))
    assert (outcome.status, outcome.stop_reason) == ("completed", "time_budget")
    assert fake.trajectories["t-1"].rewards == [[pytest.approx(3 / 9)]]


def test_a_policy_that_keeps_failing_ends_within_the_budget_and_its_moves_count(
    invoke: Invoke, fake: Any, kit: Any, clock: Any
) -> None:
    started = clock.now
    fake.policy = lambda call: (
        kit.call_count(call.turn + 1) if call.turn < 2 else kit.Answer(503, b"overloaded")
    )
    outcome = invoke()
    assert (outcome.status, outcome.stop_reason) == ("completed", "policy_error")
    assert "503 overloaded" in outcome.error
    assert fake.trajectories["t-1"].rewards == [[pytest.approx(2 / 3)]]
    assert clock.now - started <= COUNTING.rollout_budget_s


def test_a_policy_that_never_answers_is_a_failed_rollout_with_its_reason(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.policy = lambda _: kit.Answer(500, b"no GPU")
    outcome = invoke()
    assert (outcome.status, outcome.stop_reason, outcome.reward) == ("failed", "policy_error", None)
    assert "500 no GPU" in outcome.error
    assert fake.trajectories["t-1"].status == "failed"
    assert fake.made(kit.REWARD) == []


def test_a_policy_that_breaks_before_the_first_move_is_not_scored(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.policy = kit.scripted(kit.completion("Hello!"), kit.Answer(500))
    outcome = invoke()
    assert (outcome.status, outcome.reward) == ("failed", None)
    assert fake.made(kit.REWARD) == []


def test_a_request_that_the_policy_refuses_ends_the_game_and_its_moves_count(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    refusal = kit.Answer(400, b'{"message": "context length exceeded"}')
    fake.policy = kit.scripted(kit.call_count(1), refusal)
    outcome = invoke()
    assert (outcome.status, outcome.stop_reason) == ("completed", "policy_error")
    assert "context length exceeded" in outcome.error


# Faults that pass.


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503, 504])
def test_a_fault_of_the_policy_that_passes_costs_nothing(
    invoke: Invoke, fake: Any, kit: Any, status: int
) -> None:
    fake.fault(kit.CHAT, kit.Answer(status), kit.Answer(status))
    outcome = invoke()
    assert (outcome.reward, len(outcome.trace["turns"])) == (1.0, 3)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"choices": []}', b'{"choices": [{"message": {}}]}', b"<html>busy</html>"],
)
def test_an_answer_that_is_none_is_asked_for_again(
    invoke: Invoke, fake: Any, kit: Any, body: bytes
) -> None:
    fake.fault(kit.CHAT, kit.Answer(body=body))
    outcome = invoke()
    assert (outcome.reward, len(outcome.trace["turns"])) == (1.0, 3)


@pytest.mark.parametrize("cut", [-1, 0, 40])
def test_an_answer_that_is_cut_is_asked_for_again(
    invoke: Invoke, fake: Any, kit: Any, cut: int
) -> None:
    body = kit.call_count(1).body
    fake.fault(kit.CHAT, kit.Answer(body=body, cut_after=cut))
    assert invoke().reward == 1.0


def test_a_retry_after_is_honoured_while_sampling(
    invoke: Invoke, fake: Any, kit: Any, clock: Any
) -> None:
    fake.fault(kit.CHAT, kit.Answer(429, headers={"Retry-After": "30"}))
    assert invoke().reward == 1.0
    assert clock.slept[0] >= 30


def test_reports_survive_lost_acknowledgements(invoke: Invoke, fake: Any, kit: Any) -> None:
    fake.fault(kit.COMPLETE, kit.Answer(500, applied=False), kit.DROP)
    fake.fault(kit.REWARD, kit.DROP, kit.Answer(503))
    outcome = invoke()
    assert (outcome.status, outcome.reward) == ("completed", 1.0)
    assert fake.trajectories["t-1"].status == "ready"
    assert fake.trajectories["t-1"].rewards == [[1.0]]


def test_a_completion_that_never_arrives_does_not_stop_the_reward(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.faults[kit.COMPLETE] = [kit.Answer(500)] * 1000
    outcome = invoke()
    assert outcome.status == "failed"
    assert "/complete-rollout" in outcome.error
    assert outcome.reward == 1.0
    assert fake.trajectories["t-1"].rewards == [[1.0]]


def test_an_unknown_trajectory_is_a_reasoned_failure(invoke: Invoke, fake: Any, kit: Any) -> None:
    fake.unknown.add("t-1")
    outcome = invoke()
    assert (outcome.status, outcome.reward) == ("failed", 1.0)
    assert "does not know this trajectory" in outcome.error
    assert fake.made(kit.REWARD) == []


def test_a_trajectory_processed_already_is_skipped(invoke: Invoke, fake: Any, kit: Any) -> None:
    fake.policy = lambda _: kit.Answer(400, b'{"message": "trajectory not in valid status"}')
    outcome = invoke()
    assert (outcome.status, outcome.reward) == ("skipped", None)
    assert fake.made(kit.COMPLETE) == fake.made(kit.REWARD) == []


def test_a_completion_reported_by_an_earlier_attempt_does_not_stop_the_reward(
    invoke: Invoke, fake: Any, kit: Any
) -> None:
    fake.trajectories["t-1"] = kit.Trajectory(status="ready")
    assert invoke().status == "completed"
    assert fake.trajectories["t-1"].rewards == [[1.0]]
