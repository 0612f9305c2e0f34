"""A cell's figures from its games, or from its job's metrics when no game was kept."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mtrl.evaluate.figures import result
from mtrl.evaluate.plan import Conditions, Kind, Policy
from mtrl.statistics import clustered_interval, wilson_interval


def test_rate_interval_turns_tokens_and_cost(hand: Any) -> None:
    lines = [
        hand.line("a", True, 2),
        hand.line("b", True, 4),
        hand.line("c", False, 6),
        hand.line("d", False, 6),
    ]
    figures = hand.result(hand.cell, lines).figures
    assert figures.solve_rate == 0.5
    assert (figures.low, figures.high) == wilson_interval(2, 4)
    assert figures.turns_to_solve == 3.0
    assert figures.solved_in == {"1": 0, "2": 1, "3": 0, "4": 1, "5": 0, "6": 0, "unsolved": 2}
    assert (figures.prefill_per_game, figures.sample_per_game) == (1_000, 100)
    # 1,000 tokens read at $1 and 100 sampled at $2 a million.
    assert figures.usd_per_game == pytest.approx(0.0012)
    assert figures.usd_per_solved == pytest.approx(0.0024)


def test_repeated_rows_are_counted_as_such(hand: Any) -> None:
    lines = [
        hand.line("a", True),
        hand.line("a", True),
        hand.line("b", True),
        hand.line("b", False),
    ]
    figures = hand.result(hand.cell, lines).figures
    assert (figures.low, figures.high) == clustered_interval([2, 1], [2, 2])
    assert figures.pass_at == {"1": 0.75, "2": 1.0}


def test_a_player_costs_nothing_and_an_upstream_servers_price_is_not_known(hand: Any) -> None:
    upstream = replace(hand.cell, policy=Policy("vllm", Kind.UPSTREAM, "http://h/v1"))
    assert hand.result(hand.solver, [hand.line("a", True)]).figures.usd_per_game == 0.0
    assert hand.result(upstream, [hand.line("a", True)]).figures.usd_per_game is None


def test_nothing_solved_has_no_cost_per_solved_game(hand: Any) -> None:
    assert hand.result(hand.cell, [hand.line("a", False)]).figures.usd_per_solved is None


def test_games_that_ran_without_their_setting_are_told(hand: Any) -> None:
    low = replace(hand.cell, conditions=Conditions(1.0, effort="low"))
    lines = [
        hand.line("a", True, reasoning_effort="low"),
        hand.line("b", True, reasoning_effort=None),
    ]
    assert hand.result(low, lines).figures.notes == ("1 of 2 games ran without effort low",)


def test_an_effort_of_the_agents_own_is_no_fault(hand: Any) -> None:
    assert (
        hand.result(hand.cell, [hand.line("a", True, reasoning_effort="medium")]).figures.notes
        == ()
    )


def test_a_reward_that_disagrees_with_the_task_is_told(hand: Any) -> None:
    lost = json.loads(hand.line("a", False))
    lost["reward"] = 1.2
    [note] = hand.result(hand.cell, [json.dumps(lost)]).figures.notes
    assert "1 games are solved by the task's count and not by reward" in note


def test_without_traces_the_jobs_own_metrics_are_used(hand: Any) -> None:
    metrics = {
        "eval/reward/num_prompts": 50.0,
        "eval/reward/rollouts_per_prompt": 4.0,
        "eval/reward/mean": 0.9,
        "eval/reward/pass_at_1": 0.8,
        "eval/reward/pass_at_4": 0.95,
        "eval/reward/failed_rollouts": 2.0,
    }
    tokens = {"prefill": 200_000, "sample": 20_000}
    entry = hand.entry(hand.cell, metrics=metrics, tokens=tokens, traced=False)
    figures = result(entry, b"", 1.0, hand.prices).figures
    assert not figures.traced
    assert (figures.games, figures.solve_rate, figures.failures) == (200, 0.8, 2)
    assert (figures.low, figures.high) == wilson_interval(40, 50)
    assert figures.pass_at == {"1": 0.8, "4": 0.95}
    assert figures.usd_per_game == pytest.approx(0.0012)
    assert "no traces" in figures.notes[0]


def test_a_job_without_metrics_is_not_taken_for_a_failure_of_the_policy(hand: Any) -> None:
    figures = result(hand.entry(hand.cell, traced=False), b"", 1.0, None).figures
    assert (figures.games, figures.low, figures.high) == (0, 0.0, 1.0)


def test_a_line_that_is_no_trace_is_refused(hand: Any) -> None:
    with pytest.raises(ValueError):
        result(hand.entry(hand.cell), b'{"phase": "eval"}\n', 1.0, None)
