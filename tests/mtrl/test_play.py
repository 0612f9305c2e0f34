"""`mtrl play`: a scripted person at the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mtrl.cli import main
from mtrl.dataset.build import folder_of


def rows() -> dict[str, str]:
    """Row id -> answer, of the training file."""
    lines = (folder_of("wordle") / "train.jsonl").read_text().splitlines()
    inner = [json.loads(json.loads(line)["prompt"]) for line in lines]
    return {row["id"]: row["answer"] for row in inner}


ROW, ANSWER = next(iter(rows().items()))
NOT_IT = next(word for word in ("stomp", "nacre") if word != ANSWER)


def play(*arguments: str, typed: str | bytes) -> Result:
    return CliRunner().invoke(main, ["play", *arguments], input=typed)


def test_a_solved_game_shows_marks_and_the_rewards_parts():
    result = play("--row", ROW, typed=f"{NOT_IT}\nabc\n\n{ANSWER.upper()}\nignored\n")
    assert result.exit_code == 0
    assert f"{NOT_IT.upper()}: " in result.output
    assert "Not played: guess has 3 letters" in result.output
    assert "Solved in 2 of 6 attempts" in result.output
    assert "Outcome: solved" in result.output
    assert "malformed 1" in result.output
    assert "outcome +1.450" in result.output


def test_the_answer_is_shown_after_a_loss_and_not_before():
    result = play("--row", ROW, typed=f"{NOT_IT}\n" * 6)
    before, after = result.output.split("Outcome: lost")
    assert ANSWER.upper() not in before.upper().replace(NOT_IT.upper(), "")
    assert f"It was {ANSWER.upper()}." in after


def test_the_end_of_the_input_ends_the_game_cleanly():
    for typed, outcome in (("", "unplayed"), (NOT_IT, "unfinished"), (f"{NOT_IT}\n", "unfinished")):
        result = play("--row", ROW, typed=typed)
        assert result.exit_code == 0
        assert f"Outcome: {outcome}" in result.output


def test_input_that_is_not_utf_8_is_a_bad_guess():
    result = play("--row", ROW, typed=b"\xff\xfe\n")
    assert result.exit_code == 0
    assert "Not played: guess has characters other than" in result.output


def test_a_seed_chooses_the_same_row_every_time():
    first, again, other = (play("--seed", seed, typed="").output for seed in ("1", "1", "2"))
    assert first == again != other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--row", "nope"), "--row 'nope': no such row"),
        (("--row", ROW, "--seed", "1"), "--row and --seed both choose the row"),
        (("chess",), "no task named 'chess'"),
    ],
)
def test_what_cannot_be_played_is_named(arguments, message):
    result = play(*arguments, typed="")
    assert result.exit_code == 2 and message in result.stderr


def test_rows_that_cannot_be_read_point_to_the_check(monkeypatch, tmp_path: Path):
    (tmp_path / "train.jsonl").write_text('{"prompt": "{}"}\n')
    monkeypatch.setattr("mtrl.play.folder_of", lambda task: tmp_path)
    result = play(typed="")
    assert result.exit_code == 2 and "mtrl dataset check" in result.stderr
