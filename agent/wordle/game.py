"""The rules of Wordle: marks, the state of a game, and what a player can know from it.

Pure and standard library only. Words travel in lower case here; `feedback` takes any case. The
list of valid words is read on first use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

WORD_LENGTH = 5
ATTEMPTS = 6
GREEN, YELLOW, GREY = "G", "Y", "X"
SOLVED = GREEN * WORD_LENGTH

WORDS_FILE = Path(__file__).with_name("words.txt")
"""One `word level` a line; written by datasets/wordle/extract_scowl.py."""


def feedback(answer: str, guess: str) -> str:
    """Marks of `guess`: G right place, Y elsewhere in the word, X no (further) copy in it.

    Greens are dealt first; the answer's remaining copies of a letter then go to the guess's
    copies from left to right. Any case is accepted.

    Raises:
        ValueError: the words differ in length.
    """
    answer, guess = answer.lower(), guess.lower()
    if len(answer) != len(guess):
        raise ValueError(f"guess has {len(guess)} letters, the answer {len(answer)}")
    left = Counter(a for a, g in zip(answer, guess, strict=True) if a != g)
    marks = []
    for a, g in zip(answer, guess, strict=True):
        if a == g:
            marks.append(GREEN)
        elif left[g] > 0:
            left[g] -= 1
            marks.append(YELLOW)
        else:
            marks.append(GREY)
    return "".join(marks)


@dataclass(frozen=True, slots=True)
class Guess:
    """A played word and its marks."""

    word: str
    marks: str


@dataclass(frozen=True, slots=True)
class Game:
    """One game; `play` returns the next state. Its repr does not show the answer."""

    answer: str = field(repr=False)
    guesses: tuple[Guess, ...] = ()

    @property
    def solved(self) -> bool:
        """True when the last guess was the answer."""
        return bool(self.guesses) and self.guesses[-1].marks == SOLVED

    @property
    def attempts_left(self) -> int:
        """Guesses that may still be played; 0 once the game is over."""
        return 0 if self.solved else ATTEMPTS - len(self.guesses)

    @property
    def over(self) -> bool:
        """True when the game is solved or its attempts are used up."""
        return self.attempts_left == 0

    def play(self, word: str) -> Game:
        """The state after playing `word`.

        Raises:
            ValueError: the game is over, or the word has the wrong length.
        """
        if self.over:
            raise ValueError("the game is over")
        return Game(self.answer, (*self.guesses, Guess(word, feedback(self.answer, word))))


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Everything that a list of marked guesses proves about the answer, and nothing more."""

    greens: dict[int, str] = field(default_factory=dict)
    """Position (0-based) -> letter."""
    minimum: dict[str, int] = field(default_factory=dict)
    """Letter -> copies that the answer has at least (>= 1)."""
    maximum: dict[str, int] = field(default_factory=dict)
    """Letter -> copies that the answer has at most; 0: not in the word."""
    ruled_out: dict[str, frozenset[int]] = field(default_factory=dict)
    """Letter that is in the word -> positions where it is known not to be."""
    tried: tuple[str, ...] = ()
    """Words played, in order."""

    @property
    def absent(self) -> tuple[str, ...]:
        """Letters that are not in the word at all, sorted."""
        return tuple(sorted(letter for letter, most in self.maximum.items() if most == 0))

    def unplaced(self, letter: str) -> int:
        """Copies of `letter` known to be in the word whose position is not yet known."""
        placed = sum(green == letter for green in self.greens.values())
        return self.minimum.get(letter, 0) - placed

    def allows(self, word: str) -> bool:
        """True when `word` could be the answer: it would have earned every mark seen so far."""
        counts = Counter(word)
        return (
            all(word[at] == letter for at, letter in self.greens.items())
            and all(counts[letter] >= least for letter, least in self.minimum.items())
            and all(counts[letter] <= most for letter, most in self.maximum.items())
            and not any(at in self.ruled_out.get(letter, ()) for at, letter in enumerate(word))
        )


def learn(known: Knowledge, guess: Guess) -> Knowledge:
    """`known` and what one more marked guess adds to it."""
    greens, minimum = dict(known.greens), dict(known.minimum)
    maximum, ruled_out = dict(known.maximum), dict(known.ruled_out)
    hits = Counter(x for x, mark in zip(guess.word, guess.marks, strict=True) if mark != GREY)
    for letter, hit in hits.items():
        minimum[letter] = max(minimum.get(letter, 0), hit)
    for at, (letter, mark) in enumerate(zip(guess.word, guess.marks, strict=True)):
        if mark == GREEN:
            greens[at] = letter
            continue
        if hits[letter]:
            ruled_out[letter] = ruled_out.get(letter, frozenset()) | {at}
        if mark == GREY:
            maximum[letter] = hits[letter]
    return Knowledge(greens, minimum, maximum, ruled_out, (*known.tried, guess.word))


def knowledge(guesses: Iterable[Guess]) -> Knowledge:
    """What `guesses` prove together."""
    known = Knowledge()
    for guess in guesses:
        known = learn(known, guess)
    return known


@lru_cache(maxsize=1)
def word_levels() -> dict[str, int]:
    """Valid word -> SCOWL size class (10, 20, 35, 40, 50): smaller is commoner. In word order."""
    lines = WORDS_FILE.read_text(encoding="ascii").splitlines()
    pairs = (line.split() for line in lines if not line.startswith("#"))
    return {word: int(level) for word, level in pairs}


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Every valid word, sorted."""
    return tuple(word_levels())


def in_dictionary(word: str) -> bool:
    """True when `word` (lower case) is in the list of valid words."""
    return word in word_levels()
