"""The yardsticks play as well as they are said to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wordle.game import feedback, words
from agent.wordle.players import LADDER, PLAYERS, _patterns_GA
from agent.wordle.row import parse_row

DATASETS = Path(__file__).parents[3] / "datasets" / "wordle"
INDEX = {word: i for i, word in enumerate(words())}
REPEATING = [word for word in words() if len(set(word)) < 5]
ANY_WORD = st.one_of(st.sampled_from(words()), st.sampled_from(REPEATING))


def answers() -> list[str]:
    lines = [
        line
        for name in ("train", "validation")
        for line in (DATASETS / f"{name}.jsonl").read_text().splitlines()
    ]
    return [parse_row(json.loads(line)["prompt"]).answer for line in lines]


def turns(player: str, answer: str, draw: float = 0.5) -> int | None:
    """Turns that a player needs; None for a loss."""
    known: tuple[tuple[str, str], ...] = ()
    for turn in range(6):
        move = PLAYERS[player](known, turn, draw)
        guess = json.loads(move["arguments"])["guess"]
        if guess == answer:
            return turn + 1
        known += ((guess, feedback(answer, guess)),)
    return None


def test_the_solver_loses_hardly_a_word_and_needs_few_turns() -> None:
    found = [turns("solver", answer) for answer in answers()]
    won = [count for count in found if count]
    assert len(found) == 768
    assert len(won) / len(found) >= 0.99
    assert sum(won) / len(won) <= 3.7


@given(answer=ANY_WORD, guess=ANY_WORD)
def test_the_table_of_marks_is_the_games_own(answer: str, guess: str) -> None:
    marks = feedback(answer, guess)
    number = sum(3**place * "XYG".index(mark) for place, mark in enumerate(marks))
    assert _patterns_GA()[INDEX[guess], INDEX[answer]] == number


@given(answer=ANY_WORD, draw=st.floats(0, 0.999))
def test_the_consistent_player_never_contradicts_a_mark(answer: str, draw: float) -> None:
    known: tuple[tuple[str, str], ...] = ()
    for turn in range(6):
        guess = json.loads(PLAYERS["consistent"](known, turn, draw)["arguments"])["guess"]
        assert all(feedback(guess, earlier) == marks for earlier, marks in known)
        known += ((guess, feedback(answer, guess)),)


@pytest.mark.parametrize("player", LADDER)
def test_every_rung_of_the_ladder_is_a_player(player: str) -> None:
    assert player in PLAYERS
