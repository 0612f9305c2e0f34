"""Counting candidates by sets agrees with counting them one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wordle.candidates import best_expected_hits, candidate_count, expected_hits
from agent.wordle.game import Guess, Knowledge, feedback, knowledge, words

listed = st.sampled_from(words())
any_word = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=5, max_size=5)
doubled = st.text(alphabet="aelst", min_size=5, max_size=5)


@settings(max_examples=60)
@given(listed, st.lists(listed | any_word | doubled, max_size=6))
def test_the_count_is_that_of_the_words_that_knowledge_allows(answer, guesses):
    known = knowledge(Guess(word, feedback(answer, word)) for word in guesses)
    assert candidate_count(known) == sum(map(known.allows, words()))


def test_nothing_known_allows_every_word():
    assert candidate_count(Knowledge()) == len(words())


def test_letters_twice_count_once_as_expected_hits():
    assert expected_hits("eerie") == expected_hits("reiii")


def test_no_word_is_a_better_opener_than_the_best():
    assert max(map(expected_hits, words())) == best_expected_hits()
    assert expected_hits("fuzzy") < expected_hits("stare")
