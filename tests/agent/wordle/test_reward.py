"""The reward's promises, over whole games of every kind."""

from __future__ import annotations

import math
from dataclasses import asdict, fields

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.wordle.game import ATTEMPTS, SOLVED, Guess, feedback, knowledge, words
from agent.wordle.reward import (
    DEFAULT,
    RewardTable,
    Turn,
    clue_violations,
    default_reward,
    score_turns,
)

listed = st.sampled_from(words())
unlisted = st.text(alphabet="aeioqxz", min_size=5, max_size=5)
MALFORMED = None


@st.composite
def games(draw, solved: bool | None = None, played: bool = True) -> list[Turn]:
    """The turns of a game: solved, lost or broken off at any point, with malformed calls, repeats,
    words outside the list and moves as text anywhere in it."""
    answer = draw(listed)
    solve = draw(st.booleans()) if solved is None else solved
    last = ATTEMPTS - 1 if solve else ATTEMPTS
    moves = draw(st.lists(listed | unlisted | st.just(MALFORMED), max_size=12))
    if played and not solve:
        moves.append(draw(listed | unlisted))
    moves = [move for move in moves if move != answer]
    assume(solve or not played or any(moves))
    turns, attempts = [], 0
    for move in moves:
        if move is not MALFORMED and attempts == last:
            continue
        attempts += move is not MALFORMED
        turns.append(turn(answer, move, draw(st.booleans())))
    if solve:
        turns.append(turn(answer, answer, draw(st.booleans())))
    return turns


def turn(answer: str, word: str | None, as_text: bool = False) -> Turn:
    guess = None if word is None else Guess(word, feedback(answer, word))
    return Turn(guess, as_text)


def play(answer: str, *moves: str | None) -> list[Turn]:
    return [turn(answer, move) for move in moves]


def attempts_of(turns: list[Turn]) -> int:
    return sum(move.guess is not None for move in turns)


@given(games(solved=True), games(solved=True))
def test_a_faster_solve_beats_a_slower_one(one, other):
    assume(attempts_of(one) < attempts_of(other))
    assert default_reward(one).total > default_reward(other).total


@given(games(solved=True), games(solved=False))
def test_any_solve_beats_any_loss(solve, loss):
    assert default_reward(solve).total > default_reward(loss).total


@given(games(solved=True))
def test_every_solve_clears_the_success_threshold(solve):
    assert default_reward(solve).total >= 1.01


@given(games(solved=False), st.lists(st.booleans(), max_size=8))
def test_any_loss_beats_a_game_that_was_never_played(loss, malformed_as_text):
    unplayed = [Turn(None, as_text) for as_text in malformed_as_text]
    assert default_reward(unplayed).total == -1.5
    assert default_reward(loss).total > -1.5


@given(games())
def test_the_reward_is_the_outcome_plus_weighted_clipped_shaping(turns):
    parts = default_reward(turns)
    assert -1 <= parts.shaping <= 1
    assert parts.total == pytest.approx(parts.outcome + parts.weight * parts.shaping)
    if turns[-1].guess and turns[-1].guess.marks == SOLVED:
        assert parts.weight == 0.04
        assert parts.outcome == pytest.approx(1.55 - 0.1 * (attempts_of(turns) - 1))
    else:
        assert (parts.weight, parts.outcome) == (0.15, -0.5)


@given(games())
def test_one_reward_a_turn_sums_to_the_reward_of_the_episode(turns):
    parts = default_reward(turns)
    assert len(parts.per_turn) == len(turns)
    assert math.fsum(parts.per_turn) == parts.total


def test_a_game_without_a_turn_has_one_reward():
    assert default_reward([]).per_turn == (-1.5,)


@given(games(solved=False), listed | unlisted)
def test_giving_up_never_pays_more_than_playing_on(turns, word):
    """Not even when the next guess is a bad one."""
    assume(attempts_of(turns) < ATTEMPTS)
    answer = next((a for a in words() if a != word and all(_fits(a, move) for move in turns)), None)
    assume(answer is not None)
    assert answer is not None
    longer = [*turns, turn(answer, word)]
    assert default_reward(longer).total >= default_reward(turns).total - 1e-12


def _fits(answer: str, move: Turn) -> bool:
    return move.guess is None or feedback(answer, move.guess.word) == move.guess.marks


@given(games(solved=False), st.integers(0, 12))
def test_a_malformed_call_never_pays(turns, at):
    worse = [*turns[:at], Turn(None), *turns[at:]]
    assert default_reward(worse).total <= default_reward(turns).total + 1e-12


@given(games(), st.integers(0, 12))
def test_writing_a_move_as_text_never_pays(turns, at):
    assume(at < len(turns) and not turns[at].as_text)
    worse = [*turns[:at], Turn(turns[at].guess, True), *turns[at + 1 :]]
    assert default_reward(worse).total <= default_reward(turns).total


@given(listed, st.lists(listed | unlisted, max_size=5), listed | unlisted)
def test_a_guess_breaks_no_clue_exactly_when_it_could_be_the_answer(answer, guesses, word):
    known = knowledge(Guess(played, feedback(answer, played)) for played in guesses)
    broken = clue_violations(known, word)
    assert (broken.broken_green + broken.lost_yellow + broken.reused_grey == 0) == known.allows(
        word
    )


def test_each_broken_clue_is_counted_once_under_its_name():
    known = knowledge([Guess("stare", "XYGXX")])
    seen = asdict(clue_violations(known, "roses"))
    # green a not kept; t left out; r, e and two s used again
    assert (seen["broken_green"], seen["lost_yellow"], seen["reused_grey"]) == (1, 1, 4)


def test_a_yellow_put_back_in_its_place_is_lost():
    known = knowledge([Guess("stare", "XYXXX")])
    assert clue_violations(known, "until").lost_yellow == 0
    assert clue_violations(known, "uttin").lost_yellow == 1


def test_the_second_copy_of_a_letter_is_asked_for_when_one_is_green():
    known = knowledge([Guess("level", feedback("eerie", "level"))])
    assert clue_violations(known, "ferny").lost_yellow == 1
    assert clue_violations(known, "eerie").lost_yellow == 0


def test_repeats_and_words_outside_the_list_are_counted():
    scores = score_turns(play("crane", "stomp", "stomp", "zzzzz"))
    assert [score.violations.repeat for score in scores] == [0, 1, 0]
    assert [score.violations.non_word for score in scores] == [0, 0, 1]


def test_a_better_opener_scores_higher():
    def opener(word: str) -> float:
        return score_turns(play("mimic", word))[0].opener

    assert opener("stare") > opener("fuzzy") > 0
    assert score_turns(play("mimic", "fuzzy", "stare"))[1].opener == 0


def test_shrinking_the_candidates_to_one_earns_the_whole_credit():
    scores = score_turns(play("crane", "stomp", "crane"))
    assert 0 < scores[0].shrink < DEFAULT.shrink
    assert scores[1].shrink == pytest.approx(DEFAULT.shrink)


def test_no_good_turn_needs_the_clip():
    """Credits alone stay within a turn's range, so that each of them always counts."""
    assert DEFAULT.opener + 5 * DEFAULT.new_letter + DEFAULT.shrink <= 1


@settings(max_examples=20)
@given(games(solved=False), st.integers(2, 3))
def test_a_longer_game_of_the_same_kind_collects_no_more_shaping(turns, times):
    """A call that scores -1 as often again moves the mean, but never past the floor."""
    parts = default_reward([*turns, *[Turn(None)] * (times * 10)])
    assert -1 <= parts.shaping <= default_reward(turns).shaping


def test_every_constant_has_its_sign():
    penalties = {"broken_green", "lost_yellow", "reused_grey", "repeat", "non_word"}
    penalties |= {"malformed", "text_move"}
    for constant in fields(RewardTable):
        value = getattr(DEFAULT, constant.name)
        assert (value < 0) == (constant.name in penalties | {"lost", "no_guess"}), constant.name


def test_the_weights_cannot_turn_the_order_of_outcomes_round():
    assert DEFAULT.solved_step > 2 * DEFAULT.weight_solved
    slowest = DEFAULT.solved_first - DEFAULT.solved_step * (ATTEMPTS - 1)
    assert slowest - DEFAULT.weight_solved > DEFAULT.lost + DEFAULT.weight_unsolved
    assert DEFAULT.lost - DEFAULT.weight_unsolved > DEFAULT.no_guess
