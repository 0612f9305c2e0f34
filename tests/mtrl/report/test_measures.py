"""Figures of games: rates with intervals, turns, ties, cost, faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.trace import Trace
from mtrl.pricing import PriceList, TokenPrices
from mtrl.report import sections
from mtrl.report.answers import NOTHING, Answers, join
from mtrl.report.clusters import clusters, faults_of
from mtrl.report.folder import read_folder
from mtrl.report.games import Game, GameSet, Kind, Sampling, read_line
from mtrl.report.measures import cost, measure, rate, turn_counts
from mtrl.report.run import Run
from mtrl.statistics import wilson_interval

PRICES = TokenPrices(Decimal(1), Decimal(10), Decimal(100), "test")


def game(row: str, reward: float | None, turns: int = 3, **fields: Any) -> Game:
    values = {"outcome": "x", "stop_reason": "done", "prefill_tokens": 1_000, "sample_tokens": 100,
              "seconds": 2.0, "sampling": Sampling(), "faults": {}}  # fmt: skip
    return Game(row, reward, turns, **(values | fields))


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=60))
def test_with_one_game_a_row_the_interval_is_wilsons(rewards: list[float]) -> None:
    found = rate([game(f"row {i}", reward) for i, reward in enumerate(rewards)], 1.0)
    solved = sum(reward >= 1.0 for reward in rewards)
    assert (found.solved, found.games) == (solved, len(rewards))
    assert (found.low, found.high) == wilson_interval(solved, len(rewards))


def test_games_of_one_row_are_worth_fewer_than_games_of_many() -> None:
    alike = rate([game(f"row {i // 8}", float(i // 8 % 2)) for i in range(64)], 1.0)
    apart = rate([game(f"row {i}", float(i % 2)) for i in range(64)], 1.0)
    assert alike.share == apart.share
    assert alike.high - alike.low > apart.high - apart.low


def test_a_game_without_reward_counts_as_not_solved_and_is_not_averaged() -> None:
    found = measure([game("a", 1.0), game("b", None)], 1.0)
    assert (found.rate.solved, found.rate.games, found.failures) == (1, 2, 1)
    assert found.mean_reward == 1.0


def test_ties_are_counted_over_rows_with_several_rewards() -> None:
    tied = [game("a", 0.5), game("a", 0.5), game("b", 0.1), game("b", 0.2), game("c", 1.0)]
    assert measure(tied, 1.0).tied == 0.5
    assert measure([game("a", 0.5), game("b", 0.5)], 1.0).tied is None


def test_pass_at_k_needs_several_games_a_row() -> None:
    assert measure([game("a", 1.0), game("b", 0.0)], 1.0).pass_at == ()
    found = measure([game("a", 1.0), game("a", 0.0), game("b", 0.0), game("b", 0.0)], 1.0)
    assert found.pass_at == ((1, 0.25), (2, 0.5))


def test_turns_are_counted_without_gaps_and_add_up_to_the_games() -> None:
    counts, lost = turn_counts([game("a", 1.0, 2), game("b", 1.0, 5), game("c", 0.0, 6)], 1.0)
    assert counts == {1: 0, 2: 1, 3: 0, 4: 0, 5: 1, 6: 0}
    assert lost == 1


def test_cost_is_per_game_and_per_solved_game() -> None:
    measured = measure([game("a", 1.0), game("b", 0.0)], 1.0)
    found = cost(measured, PRICES)
    assert found.total == Decimal("0.004")
    assert (found.per_game, found.per_solved) == (Decimal("0.002"), Decimal("0.004"))
    assert cost(measure([game("a", 0.0)], 1.0), PRICES).per_solved is None


def test_the_faults_of_a_real_game_are_its_summarys(
    play: Callable[..., Trace], rows: Callable[[str], list[dict[str, Any]]]
) -> None:
    row = {"prompt": "Play.", "answer": "crane", "id": "x"}
    trace = play(row, ["crate", "fuzzy", "fuzzy", "zzzzz", "toolong", "(moody)"], stop="quit")
    found = faults_of(read_line(trace.to_json())[0])
    assert found["repeat"] == found["non_word"] == found["malformed"] == found["text_move"] == 1
    assert found["broken_green"] > 0
    assert found["quit"] == 1


def test_a_fault_that_did_not_happen_is_shown_where_the_task_counts_it(
    play: Callable[..., Trace], rows: Callable[[str], list[dict[str, Any]]]
) -> None:
    row = rows("validation")[0]
    clean = read_line(play(row, [row["answer"]]).to_json())[0]
    shown = [cluster.key for cluster in clusters([clean])]
    assert shown == ["broken_green", "lost_yellow", "reused_grey", "repeat", "non_word",
                     "text_move", "malformed", "max_tokens", "quit"]  # fmt: skip


def test_an_unknown_tasks_faults_keep_their_own_names() -> None:
    found = clusters([game("a", 0.0, faults={"fell_off_cliff": 2})])
    assert [(c.key, c.title) for c in found][-1] == ("fell_off_cliff", "Fell off cliff")
    assert "broken_green" not in [c.key for c in found]


def run_of(*sets: GameSet) -> Run:
    return Run("t", "s", "wordle", sets, 1.0, "gpt-oss-20b", "us-east-1")


def evaluation(policy: str, rewards: list[float], temperature: float = 1.0) -> GameSet:
    games = tuple(game(f"row {i}", reward) for i, reward in enumerate(rewards))
    return GameSet(Kind.EVALUATION, policy, None, Sampling(temperature=temperature), games)


def test_a_difference_needs_the_same_sampling() -> None:
    base, trained = evaluation("base", [0, 0, 1, 0]), evaluation("trained", [1, 1, 1, 0])
    found = sections.difference(run_of(base, trained))
    assert found is not None
    assert found.points == 0.5
    assert found.test is not None
    assert (found.test.only_first, found.test.only_second) == (0, 2)
    cold = evaluation("trained", [1, 1, 1, 0], temperature=0.0)
    assert sections.difference(run_of(base, cold)) is None


def test_the_matrix_keeps_policies_and_settings_apart_and_the_longer_side_down() -> None:
    cold = "temperature 0, effort not set"
    run = run_of(evaluation("base", [0]), evaluation("trained", [1]), evaluation("base", [1], 0.0))
    found = sections.matrix(sections.measured(run, run.compared, PRICES))
    assert found.policies_down
    assert found.columns == ("temperature 1, effort not set", cold)
    assert shares(found) == {"base": [0.0, 1.0], "trained": [1.0, None]}
    one = run_of(evaluation("base", [0]), evaluation("base", [1], 0.0))
    turned = sections.matrix(sections.measured(one, one.compared, PRICES))
    assert not turned.policies_down
    assert turned.columns == ("base",)
    assert shares(turned)[cold] == [1.0]


def shares(found: sections.Matrix) -> dict[str, list[float | None]]:
    return {
        name: [cell.measure.rate.share if cell else None for cell in cells]
        for name, cells in found.rows
    }


def test_a_training_job_is_judged_by_its_first_and_last_validation(rehearsal: Path) -> None:
    run = read_folder(rehearsal / "traces" / "val-00000.jsonl")
    assert [games.name for games in run.compared] == ["Validation, step 0"]
    whole = read_folder(rehearsal)
    assert [games.name for games in whole.compared] == ["base", "trained"]


def test_seen_and_unseen_rows_are_told_apart_by_the_data(rehearsal: Path) -> None:
    run = read_folder(rehearsal)
    found = {item.games.name: item for item in sections.familiarity(run, join(run))}
    base, last = found["base"], found["Training, step 2"]
    assert base.seen is None
    assert base.unseen is not None and base.unseen.games == 6
    assert last.unseen is None
    assert last.seen is not None and last.seen.solved == 9


def test_without_the_training_data_nothing_is_called_unseen(rehearsal: Path) -> None:
    assert sections.familiarity(read_folder(rehearsal), NOTHING) == []


def test_answers_are_those_of_the_rows_that_were_played(rehearsal: Path) -> None:
    run = read_folder(rehearsal)
    found = join(run)
    solved = [g for s in run.sets for g in s.games if g.solved(run.threshold) and g.trace]
    assert solved
    for played in solved:
        assert played.trace is not None
        last = played.trace.summary["guesses"][-1]["word"]
        assert found.by_row[played.row_id] == last


def test_answers_of_another_dataset_are_not_shown(rehearsal: Path, tmp_path: Path) -> None:
    run = read_folder(rehearsal)
    changed = join(replace(run, data_hashes=frozenset({"0" * 64})))
    assert changed.by_row == {}
    assert "changed since the run" in changed.note
    other = tmp_path / "validation.jsonl"
    first = next(iter(run.of(Kind.EVALUATION)[1].games)).row_id
    prompt = f'{{"prompt": "Play.", "answer": "vivid", "id": "{first}"}}'
    other.write_text(json.dumps({"prompt": prompt}) + "\n")
    contradicted = join(run, [other])
    assert contradicted.by_row == {}
    assert "not those that were played" in contradicted.note


def test_a_held_out_row_with_a_training_answer_is_counted(tmp_path: Path) -> None:
    def write(name: str, row_id: str) -> Path:
        prompt = json.dumps({"prompt": "Play.", "answer": "crane", "id": row_id})
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps({"prompt": prompt}) + "\n")
        return path

    found: Answers = join(run_of(), [write("train", "t1"), write("validation", "v1")])
    assert found.shared == 1


@pytest.mark.parametrize("model", ["gpt-oss-20b", "no-such-model"])
def test_a_run_without_a_known_price_still_has_its_tokens(model: str) -> None:
    run = replace(run_of(evaluation("base", [1])), model=model)
    prices, why = sections.known_prices(run, PriceList())
    assert (prices is None) == bool(why)
    item = sections.measured(run, run.compared, prices)[0]
    assert item.measure.tokens.prefill == 1_000
    assert (item.cost is None) == (prices is None)
