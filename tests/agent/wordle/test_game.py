"""The rules: marks, the state of a game, and what the marks prove."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wordle.game import (
    ATTEMPTS,
    Game,
    Guess,
    feedback,
    in_dictionary,
    knowledge,
    word_levels,
    words,
)

PUBLISHED = """
allow lolly YYGXX · bully lolly XXGGG · robin alert XXXYX · robin sonic XGYGX · those geese XXXGG ·
dread added YYXYG · haste harsh GGXYX · wedge dodge XXGGG · pique price GXYXG · stage spasm GXGXX ·
steep eerie YYXXX · award adore GYXGX · paste haste XGGGG
"""
"""Answer, guess, marks: games whose marks were argued about in public."""

few_letters = st.text(alphabet="abc", min_size=5, max_size=5)
"""Words of few letters, so that copies of a letter are the rule."""
listed = st.sampled_from(words())


@pytest.mark.parametrize("case", [case.split() for case in PUBLISHED.split("·")])
def test_marks_follow_the_published_duplicate_letter_cases(case):
    answer, guess, marks = case
    assert feedback(answer, guess) == marks


def test_marks_do_not_depend_on_case():
    assert feedback("PASTE", "haste") == feedback("paste", "HASTE") == "XGGGG"


def test_words_of_different_length_are_refused_without_naming_the_answer():
    with pytest.raises(ValueError, match="guess has 4 letters") as caught:
        feedback("paste", "past")
    assert "paste" not in str(caught.value)


@given(few_letters, few_letters)
def test_marks_of_a_letter_never_exceed_its_copies_in_the_answer(answer, guess):
    marks = feedback(answer, guess)
    for letter in "abc":
        hits = sum(mark != "X" for x, mark in zip(guess, marks, strict=True) if x == letter)
        assert hits == min(answer.count(letter), guess.count(letter))


@given(few_letters, few_letters)
def test_green_is_exactly_the_right_place(answer, guess):
    greens = [mark == "G" for mark in feedback(answer, guess)]
    assert greens == [a == g for a, g in zip(answer, guess, strict=True)]


@given(few_letters, few_letters)
def test_yellows_go_to_the_first_copies_from_the_left(answer, guess):
    marks = feedback(answer, guess)
    for letter in "abc":
        loose = "".join(
            mark for x, mark in zip(guess, marks, strict=True) if x == letter and mark != "G"
        )
        assert "XY" not in loose


@given(few_letters, st.lists(few_letters, max_size=6), few_letters)
def test_knowledge_allows_a_word_exactly_when_it_would_have_earned_every_mark(
    answer, guesses, other
):
    played = [Guess(word, feedback(answer, word)) for word in guesses]
    would_match = all(feedback(other, guess.word) == guess.marks for guess in played)
    assert knowledge(played).allows(other) == would_match


def test_a_letter_that_is_green_and_grey_is_known_to_occur_once():
    known = knowledge([Guess("geese", feedback("those", "geese"))])
    assert known.greens == {3: "s", 4: "e"}
    assert known.minimum["e"] == known.maximum["e"] == 1
    assert known.absent == ("g",)


def test_a_second_copy_stays_known_after_one_copy_is_green():
    known = knowledge([Guess("level", feedback("eerie", "level"))])
    assert known.minimum["e"] == 2
    assert known.greens == {1: "e"}
    assert known.unplaced("e") == 1


@given(listed, st.lists(listed, min_size=6, max_size=6))
def test_a_game_ends_when_solved_or_after_six_attempts(answer, guesses):
    game = Game(answer)
    for guess in guesses:
        if game.over:
            break
        game = game.play(guess)
    assert game.over
    assert game.solved == (answer in guesses)
    assert len(game.guesses) <= ATTEMPTS
    with pytest.raises(ValueError, match="over"):
        game.play(answer)


def test_the_repr_of_a_game_does_not_show_the_answer():
    assert "crane" not in repr(Game("crane").play("stare"))


def test_the_list_has_the_words_of_scowl_50_with_their_levels():
    assert len(words()) == 4667
    assert list(words()) == sorted(words())
    assert set(word_levels().values()) == {10, 20, 35, 40, 50}
    assert word_levels()["about"] == 10
    assert in_dictionary("crane") and not in_dictionary("zzzzz")


def test_the_game_and_the_task_are_imported_without_strands_or_the_word_list():
    code = (
        "import sys, agent.wordle.game as game, agent.wordle.task;"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('strands', 'numpy')];"
        "assert game.word_levels.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_random_games_keep_the_answer_among_what_is_allowed():
    rng = random.Random(7)
    for _ in range(200):
        answer = rng.choice(words())
        guesses = [Guess(word, feedback(answer, word)) for word in rng.sample(words(), 6)]
        assert knowledge(guesses).allows(answer)
