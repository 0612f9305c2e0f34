"""The in-process training: the same rules as a job's, the same result every time."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mtrl.audit.learned import Learned, parse_learned
from mtrl.errors import InputError
from rehearsal.arena import Arena, load_arena, scripted
from rehearsal.draws import DrawKey
from rehearsal.optimise import Plan, main, optimise

PLAN = Plan(steps=2, problems=6, group=6, measure_every=1, seed=3)


@pytest.fixture(scope="module")
def arena() -> Arena:
    whole = load_arena("wordle", "default")
    return Arena(
        whole.hooks, whole.reward, whole.space, whole.players, whole.train[:8], whole.held_out[:16]
    )


@pytest.fixture(scope="module")
def learned(arena: Arena) -> Learned:
    return optimise(arena, PLAN)


def test_training_raises_the_reward(learned: Learned) -> None:
    assert learned.after.reward > learned.before.reward
    assert [point.step for point in learned.curve] == [0, 1, 2]


def test_every_weight_is_reported_with_its_meaning(arena: Arena, learned: Learned) -> None:
    names = [*arena.space.word_habits, *arena.space.format_habits]
    assert [behaviour.name for behaviour in learned.behaviours] == names
    assert all(
        behaviour.meaning and behaviour.before != behaviour.after
        for behaviour in learned.behaviours
    )


def test_the_yardstick_plays_the_same_rows(learned: Learned) -> None:
    assert learned.yardstick is not None
    assert (learned.yardstick.games, learned.yardstick.solve_rate) == (16, 1.0)


def test_the_same_plan_gives_the_same_result(arena: Arena, learned: Learned) -> None:
    assert optimise(arena, PLAN) == learned


def test_a_game_ends_at_the_cap_on_answers(arena: Arena) -> None:
    talker = scripted(arena.players["talker"], arena.space)
    game = arena.play(talker, arena.held_out[0], DrawKey(1, "eval", 0, 0, 0))
    assert (game.success, game.turns, len(game.scores)) == (False, 0, 12)


def test_the_program_prints_one_report_and_its_measurements_apart() -> None:
    result = CliRunner().invoke(main, ["--task", "wordle", "--reward", "summed", "--steps", "1"])
    assert result.exit_code == 0, result.output
    report = parse_learned(result.stdout)
    assert (report.reward, report.steps, report.games) == ("summed", 1, 256)
    assert [json.loads(line)["step"] for line in result.stderr.splitlines()] == [0, 1]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--task", "chess", "--reward", "default"], "no task named 'chess'"),
        (["--task", "wordle", "--reward", "best"], "no reward named 'best'"),
        (["--task", "wordle", "--reward", "default", "--train", "none.jsonl"], "none.jsonl"),
    ],
)
def test_bad_options_are_named(options: list[str], named: str) -> None:
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 2
    assert named in result.output


def test_a_file_without_rows_is_refused(tmp_path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="has no rows"):
        load_arena("wordle", "default", tmp_path / "empty.jsonl")
