"""What a policy learned is judged by the game and not by the reward alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from mtrl.audit.learned import Behaviour, Learned, Measured, parse_learned
from mtrl.audit.optimisation import judge_learned, optimise
from mtrl.cli import main
from mtrl.errors import MtrlError

BEFORE = Measured(0, 100, 0.10, 5.0, -0.4)
AFTER = Measured(20, 100, 0.97, 3.8, 1.2)
GOOD = Measured(None, 100, 1.0, 3.4, 1.3)
LEARNED = Learned(
    "wordle", "default", 20, 5120, (BEFORE, AFTER), GOOD, (Behaviour("b", "does b", 0.0, 1.0),)
)


def codes(learned: Learned) -> list[str]:
    return [finding.code for finding in judge_learned(learned)]


def test_a_policy_that_gets_better_and_stays_below_a_good_player_is_fine() -> None:
    assert codes(LEARNED) == []


def test_earning_more_than_a_faster_player_is_dawdling() -> None:
    slow = replace(AFTER, turns_to_win=4.8, solve_rate=0.85, reward=2.1)
    assert codes(replace(LEARNED, curve=(BEFORE, slow))) == ["dawdling"]


def test_earning_more_while_solving_less_is_found_too() -> None:
    less = replace(AFTER, turns_to_win=3.4, solve_rate=0.85, reward=2.1)
    assert codes(replace(LEARNED, curve=(BEFORE, less))) == ["pays-for-less"]


def test_earning_more_by_playing_better_than_the_yardstick_is_fine() -> None:
    assert codes(replace(LEARNED, yardstick=Measured(None, 100, 0.9, 4.0, 1.0))) == []


def test_a_task_without_a_yardstick_is_judged_by_its_start() -> None:
    worse = replace(AFTER, solve_rate=0.05)
    learned = replace(LEARNED, yardstick=None, curve=(BEFORE, worse))
    assert codes(learned) == ["success-falls"]


def test_a_reward_that_does_not_rise_taught_nothing() -> None:
    assert codes(replace(LEARNED, curve=(BEFORE, BEFORE))) == ["nothing-learned"]


def test_a_report_comes_back_from_its_json() -> None:
    assert parse_learned(LEARNED.to_json()) == LEARNED


@pytest.mark.parametrize("text", ["{}", "[]", "no", '{"version": 99}', '{"version": 1}'])
def test_another_report_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_learned(text)


def test_a_training_that_breaks_says_why() -> None:
    with pytest.raises(MtrlError) as failure:
        optimise("wordle", ["no-such-reward"], 1, 1)
    assert "no-such-reward" in failure.value.remedy


@pytest.mark.slow
def test_the_summed_reward_teaches_dawdling_and_ours_does_not() -> None:
    result = CliRunner().invoke(
        main, ["audit", "wordle", "--reward", "summed", "--optimise", "--json"]
    )
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert "dawdling" in {finding["code"] for finding in report["findings"]}
    summed, ours = report["learned"]
    assert (summed["reward"], ours["reward"]) == ("summed", "default")
    weights = [{b["name"]: b["after"] for b in one["behaviours"]} for one in (summed, ours)]
    for behaviour in ("fits_all_clues", "prefers_common_words"):
        assert weights[0][behaviour] < weights[1][behaviour]
    last = [one["curve"][-1] for one in (summed, ours)]
    assert last[0]["turns_to_win"] > last[1]["turns_to_win"] + 0.3
    assert last[1]["solve_rate"] >= 0.95
    assert judge_learned(parse_learned(json.dumps({"version": 1, **ours}))) == []
