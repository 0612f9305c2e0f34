"""How many words of the list could still be the answer, fast enough to ask after every guess.

A set of words is a Python integer with one bit a word. For every constraint that marks can state
(a letter at a position, at least n copies of a letter) there is one such set, made on first use;
a game's candidates are the intersection of a few of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_lowercase

from agent.wordle.game import WORD_LENGTH, Knowledge, words


@dataclass(frozen=True, slots=True)
class WordSets:
    """Sets of words, one bit a word in the order of `words()` (the first word is the top bit)."""

    everything: int
    at: dict[tuple[str, int], int]
    """(letter, position) -> words with the letter there."""
    least: dict[tuple[str, int], int]
    """(letter, n) -> words with at least n copies of the letter, n from 1 to one past 5."""


@lru_cache(maxsize=1)
def word_sets() -> WordSets:
    """The sets of the word list; takes some milliseconds, once a process."""
    everything = (1 << len(words())) - 1
    at, least = {}, {}
    columns = ["".join(column) for column in zip(*words(), strict=True)]
    for letter in ascii_lowercase:
        is_letter = {ord(other): "1" if other == letter else "0" for other in ascii_lowercase}
        copies = [everything] + [0] * (WORD_LENGTH + 1)
        for position, column in enumerate(columns):
            here = at[letter, position] = int(column.translate(is_letter), 2)
            for n in range(WORD_LENGTH, 0, -1):
                copies[n] |= copies[n - 1] & here
        least.update({(letter, n): copies[n] for n in range(1, WORD_LENGTH + 2)})
    return WordSets(everything, at, least)


def candidates(known: Knowledge) -> int:
    """The set of words that `known` allows."""
    sets = word_sets()
    left = sets.everything
    for position, letter in known.greens.items():
        left &= sets.at[letter, position]
    for letter, copies in known.minimum.items():
        left &= sets.least[letter, copies]
    for letter, copies in known.maximum.items():
        left &= ~sets.least[letter, copies + 1]
    for letter, positions in known.ruled_out.items():
        for position in positions:
            left &= ~sets.at[letter, position]
    return left


def candidate_count(known: Knowledge) -> int:
    """How many words `known` allows."""
    return candidates(known).bit_count()


@lru_cache(maxsize=1)
def letter_shares() -> dict[str, float]:
    """Letter -> share of the words that contain it."""
    least = word_sets().least
    return {letter: least[letter, 1].bit_count() / len(words()) for letter in ascii_lowercase}


def expected_hits(word: str) -> float:
    """Mean number of `word`'s distinct letters that a word of the list contains."""
    shares = letter_shares()
    # fsum: the order of a set differs from process to process, the result must not.
    return math.fsum(shares[letter] for letter in set(word))


@lru_cache(maxsize=1)
def best_expected_hits() -> float:
    """The largest `expected_hits` of any word: the scale for judging an opener."""
    return max(map(expected_hits, words()))
