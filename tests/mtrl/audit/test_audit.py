"""The audit finds each kind of fault in a reward or an environment, on a task beside Wordle."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from agent.task import TASKS
from mtrl.audit.exploits import try_exploits
from mtrl.audit.groups import judge_groups, spreads
from mtrl.audit.ordering import Finding, judge
from mtrl.audit.search import find_bands
from mtrl.cli import main

Reward = Any


def faults(hooks: Any, threshold: float = 1.0) -> dict[str, Finding]:
    """Every kind of fault by its code; the first of a kind."""
    task, draw = hooks.task("default"), Random(1)
    found = [
        *judge(find_bands(hooks, task, draw), hooks, threshold),
        *judge_groups(spreads(hooks, task, draw)),
        *try_exploits(hooks, task, draw).findings,
    ]
    return {finding.code: finding for finding in reversed(found)}


def test_a_fair_reward_has_no_fault(dial: Any) -> None:
    assert faults(dial) == {}


def test_a_sum_over_tries_beats_the_faster_win(dial: Any) -> None:
    dial.reward = lambda tries, secret: (secret in tries) + 0.5 * len(tries)
    found = faults(dial)
    assert "try 3" in found["slower-beats-faster"].message
    assert "try 1" in found["slower-beats-faster"].message


def test_partial_credit_above_a_win_is_named_as_such(dial: Any) -> None:
    dial.reward = lambda tries, secret: 1.0 if secret in tries else 1.5 * bool(tries)
    found = faults(dial)
    assert "'lost' can earn +1.500" in found["loss-beats-win"].message
    assert "loss-reaches-threshold" in found


def test_a_shaping_that_outweighs_the_outcome_overlaps(dial: Any) -> None:
    def reward(tries: Sequence[int], secret: int) -> float:
        return 1.5 - 0.1 * len(tries) - 0.04 * sum(tries) if secret in tries else -len(tries) / 9

    dial.reward = reward
    assert "bands-overlap" in faults(dial)


def test_a_win_below_the_success_threshold_is_found(dial: Any) -> None:
    assert "'try 3'" in faults(dial, threshold=1.75)["win-misses-threshold"].message


def test_losses_that_all_tie_are_found(dial: Any) -> None:
    dial.reward = lambda tries, secret: 2.0 - len(tries) / 10 if secret in tries else -bool(tries)
    assert "every game is lost" in faults(dial)["no-gradient"].message


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_no_number_is_found(dial: Any, bad: float) -> None:
    dial.reward = lambda tries, secret: bad if 3 in tries else float(len(tries))
    assert "reward-not-finite" in faults(dial)


def test_a_list_of_rewards_counts_by_its_sum(dial: Any) -> None:
    whole = dial.reward
    dial.reward = lambda tries, secret: [whole(tries, secret) / 2] * 2
    assert faults(dial) == {}


def test_an_outcome_that_no_game_comes_to_is_not_passed_over(dial: Any) -> None:
    dial.outcome = lambda episode: "lost"
    assert "outcome-not-reached" in {
        f.code for f in judge(find_bands(dial, dial.task("default"), Random(1)), dial, 1.0)
    }


def test_an_answer_in_the_feedback_is_found_and_wins_are_too(dial: Any) -> None:
    dial.leak = lambda secret: f" (secret {secret})"
    assert {"answer-leaks", "exploit-wins"} <= faults(dial).keys()


def test_a_leak_in_any_encoding_is_found_by_the_twins(dial: Any) -> None:
    dial.leak = lambda secret: "." * secret
    found = faults(dial)
    assert found.keys() == {"answer-leaks"}
    assert "depends on the answer" in found["answer-leaks"].message


def test_an_adversary_that_earns_as_much_as_an_honest_loser_is_named(dial: Any) -> None:
    dial.reward = lambda tries, secret: 2.0 - len(tries) / 10 if secret in tries else -sum(tries)
    assert "is stubborn" in faults(dial)["exploit-pays"].message


def test_giving_up_that_pays_is_found(dial: Any) -> None:
    dial.reward = lambda tries, secret: 2.0 - len(tries) / 10 if secret in tries else -len(tries)
    assert "giving up after 1 moves" in faults(dial)["quitting-pays"].message


def test_the_same_seed_gives_the_same_audit(dial: Any) -> None:
    bands = [find_bands(dial, dial.task("default"), Random(4)) for _ in range(2)]
    assert bands[0] == bands[1]


def test_the_command_passes_a_fair_task_and_fails_a_faulty_one(registered: Any) -> None:
    fair = CliRunner().invoke(main, ["audit", "dial"])
    assert fair.exit_code == 0, fair.output
    registered.leak = lambda secret: f" secret {secret}"
    leaky = CliRunner().invoke(main, ["audit", "dial", "--json"])
    assert leaky.exit_code == 1
    report = json.loads(leaky.output)
    assert not report["ok"]
    assert "answer-leaks" in {finding["code"] for finding in report["findings"]}


def test_wordles_reward_passes() -> None:
    result = CliRunner().invoke(main, ["audit", "wordle"])
    assert result.exit_code == 0, result.output
    assert "no fault found" in result.output


def test_the_summed_reward_fails_and_the_inversion_is_named() -> None:
    result = CliRunner().invoke(main, ["audit", "wordle", "--reward", "summed", "--json"])
    assert result.exit_code == 1
    findings = {finding["code"]: finding for finding in json.loads(result.output)["findings"]}
    assert "'solved in turn 6'" in findings["slower-beats-faster"]["message"]
    assert "a loss beats a win" in findings["loss-beats-win"]["message"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["audit", "chess"], "no task named 'chess'"),
        (["audit", "wordle", "--reward", "best"], "--reward best"),
        (["audit", "wordle", "--steps", "0", "--optimise"], "--steps"),
    ],
)
def test_bad_input_is_named(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert named in result.output


def test_a_task_without_hooks_is_told_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "bare", "mtrl.job")
    result = CliRunner().invoke(main, ["audit", "bare"])
    assert result.exit_code == 2
    assert "no module mtrl.job.audit" in result.output
    assert "docs/audit.md" in result.output


def test_other_commands_do_not_wait_for_the_agents_framework() -> None:
    # Strands takes most of a second to import; only the audit's attacks need it.
    code = "import sys, mtrl.cli; sys.exit('strands' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
