"""How many words of the list could still be the answer, fast enough to ask after every guess.

A set of words is a Python integer with one bit a word. For every constraint that marks can state
(letter at a position, at least n copies of a letter) there is one such set, made on first use;
a game's candidates are the intersection of a few of them.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from agent.wordle.game import Knowledge, words


@lru_cache(maxsize=1)
def _sets() -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """(letter, position) -> words with it there; (letter, n) -> words with at least n copies."""
    count = len(words())
    at_bits: dict[tuple[str, int], bytearray] = {}
    least_bits: dict[tuple[str, int], bytearray] = {}
    blank = bytearray(count // 8 + 1)
    for index, word in enumerate(words()):
        byte, bit = index >> 3, 1 << (index & 7)
        for key in enumerate(word):
            at_bits.setdefault((key[1], key[0]), blank[:])[byte] |= bit
        for letter, copies in Counter(word).items():
            for n in range(1, copies + 1):
                least_bits.setdefault((letter, n), blank[:])[byte] |= bit
    return (
        {key: int.from_bytes(bits, "little") for key, bits in at_bits.items()},
        {key: int.from_bytes(bits, "little") for key, bits in least_bits.items()},
    )


def candidates(known: Knowledge) -> int:
    """The set of words that `known` allows, as bits over `words()`."""
    at, least = _sets()
    left = (1 << len(words())) - 1
    for position, letter in known.greens.items():
        left &= at.get((letter, position), 0)
    for letter, copies in known.minimum.items():
        left &= least.get((letter, copies), 0)
    for letter, copies in known.maximum.items():
        left &= ~least.get((letter, copies + 1), 0)
    for letter, positions in known.ruled_out.items():
        for position in positions:
            left &= ~at.get((letter, position), 0)
    return left


def candidate_count(known: Knowledge) -> int:
    """How many words `known` allows."""
    return candidates(known).bit_count()


def expected_hits(word: str) -> float:
    """Mean number of the word's distinct letters that a word of the list contains."""
    _, least = _sets()
    hits = sum(least.get((letter, 1), 0).bit_count() for letter in set(word))
    return hits / len(words())


@lru_cache(maxsize=1)
def best_expected_hits() -> float:
    """The largest `expected_hits` of any word: the scale for judging an opener."""
    return max(map(expected_hits, words()))
