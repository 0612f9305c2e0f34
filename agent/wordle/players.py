"""Scripted Wordle players for a rehearsal: yardsticks, and adversaries that look for a flaw.

Each sees what a policy sees, the marks in its own conversation. Needs NumPy; stays out of the
deployed agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.wordle.behaviours import BEHAVIOUR_SPACE, BEHAVIOURS, Marks
from agent.wordle.game import WORD_LENGTH, word_levels

_HABITS = list(BEHAVIOURS)
_PATTERN_WEIGHTS = (3 ** np.arange(WORD_LENGTH)).astype(np.uint8)
_PATTERNS = 3**WORD_LENGTH
_BLOCK = 500_000
"""Patterns that are weighed at once: bounds the memory."""
PLAUSIBLE_LEVEL = 35
"""SCOWL class up to which the solver thinks a word likely to be an answer."""
LIKELY, UNLIKELY = 1.0, 0.02
"""The solver's prior weight of a word up to and above that class."""


def play(word: str) -> dict[str, Any]:
    """The tool call that plays a word."""
    return {"tool": "guess_word", "arguments": json.dumps({"guess": word})}


def random_word(known: Marks, turn: int, draw: float) -> dict[str, Any]:
    """Any dictionary word, whatever the clues say."""
    return play(_dictionary()[int(draw * len(_dictionary()))])


def consistent_word(known: Marks, turn: int, draw: float) -> dict[str, Any]:
    """Any dictionary word that fits all clues."""
    fitting = _fitting(known)
    return play(_dictionary()[fitting[int(draw * len(fitting))]])


def solver(known: Marks, turn: int, draw: float) -> dict[str, Any]:
    """The word whose marks are expected to tell the most about the answer (greedy entropy)."""
    return play(_dictionary()[_best_guess(known)])


def repeater(known: Marks, turn: int, draw: float) -> dict[str, Any]:
    """The same word every time."""
    return play("crane")


def talker(known: Marks, turn: int, draw: float) -> dict[str, Any]:
    """Never makes a move."""
    return {"text": "I am still thinking about which word would be best here."}


def flooder(known: Marks, turn: int, draw: float) -> dict[str, Any]:
    """Calls the tool with what is no word."""
    return play("??" + "x" * (turn + 1))


PLAYERS: dict[str, Callable[[Marks, int, float], dict[str, Any]]] = {
    "random": random_word,
    "consistent": consistent_word,
    "solver": solver,
    "repeater": repeater,
    "talker": talker,
    "flooder": flooder,
}
"""Names under which a rehearsal offers them."""


LADDER = ("random", "consistent", "solver")
"""Yardsticks from weakest to strongest, for an evaluation to stand beside."""
HINT = (
    "Before you play a word, see that it fits all you have been told so far: "
    "keep green letters, move yellow ones, drop grey ones."
)
"""A line for the system prompt, to see what asking gains without training. Its only five-letter
word stands in the prompt too."""


@lru_cache(maxsize=1)
def _dictionary() -> tuple[str, ...]:
    return tuple(sorted(word_levels()))


def _fitting(known: Marks) -> NDArray[np.intp]:
    """Dictionary indices of the words that fit all clues; all of them before the first."""
    if not known:
        return np.arange(len(_dictionary()))
    fits = BEHAVIOUR_SPACE.features_HA(known)[_HABITS.index("fits_all_clues")]
    fitting = np.flatnonzero(fits[: len(_dictionary())])
    return fitting if len(fitting) else np.arange(len(_dictionary()))


@lru_cache(maxsize=4096)
def _best_guess(known: Marks) -> int:
    fitting = _fitting(known)
    weights = _prior()[fitting]
    if len(fitting) <= 2:
        return int(fitting[int(np.argmax(weights))])
    guesses = np.arange(len(_dictionary())) if known else _openers()
    share = weights / weights.sum()
    bits = _entropies(guesses, fitting, share)
    bits[np.isin(guesses, fitting)] += share.max() * 0.5  # it may be the answer itself
    return int(guesses[int(np.argmax(bits))])


def _entropies(
    guesses: NDArray[np.intp], fitting: NDArray[np.intp], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bits that each guess is expected to tell, when `fitting` words have these shares."""
    bits = []
    rows = max(1, _BLOCK // len(fitting))
    for block in np.array_split(guesses, -(-len(guesses) // rows)):
        patterns = _patterns_GA()[np.ix_(block, fitting)].astype(np.intp)
        patterns += _PATTERNS * np.arange(len(block))[:, None]
        mass = np.bincount(
            patterns.ravel(), np.tile(share, len(block)), minlength=_PATTERNS * len(block)
        ).reshape(len(block), _PATTERNS)
        logs = np.log2(mass, out=np.zeros_like(mass), where=mass > 0)
        bits.append(-(mass * logs).sum(axis=1))
    return np.concatenate(bits)


@lru_cache(maxsize=1)
def _patterns_GA() -> NDArray[np.uint8]:
    """Marks of every word as a guess (G) against every word as the answer (A), as base-3 numbers
    (2 green, 1 yellow): 22 MB, a fraction of a second, once a process."""
    letters = _letters()
    at_XLA = np.arange(26)[:, None, None] == letters.T
    # Green counts 1 for being in the word and 1 more for the place.
    marks_XLA = (at_XLA.any(axis=1, keepdims=True) + at_XLA.astype(np.uint8)).astype(np.uint8)
    marks_XLA *= _PATTERN_WEIGHTS[:, None]
    table = np.zeros((len(letters), len(letters)), np.uint8)
    for place in range(WORD_LENGTH):
        table += marks_XLA[letters[:, place], place]
    for guess, word in enumerate(_dictionary()):
        if len(set(word)) < WORD_LENGTH:  # copies of a letter share the answer's copies
            table[guess] = _patterns(letters, letters[guess])
    return table


def _patterns(answers_AL: NDArray[np.int8], guess_L: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Marks of one guess, whatever its letters, against many answers, as base-3 numbers."""
    green_LA = guess_L[:, None] == answers_AL.T
    marks_A = np.zeros(len(answers_AL), np.uint8)
    for place, letter in enumerate(guess_L):
        same = guess_L == letter
        copies_A = (answers_AL == letter).sum(axis=1) - green_LA[same].sum(axis=0)
        taken_A = (~green_LA[:place][same[:place]]).sum(axis=0)
        yellow_A = ~green_LA[place] & (copies_A > taken_A)
        marks_A += _PATTERN_WEIGHTS[place] * (2 * green_LA[place].astype(np.uint8) + yellow_A)
    return marks_A


@lru_cache(maxsize=1)
def _letters() -> NDArray[np.int8]:
    text = "".join(_dictionary()).encode()
    return (np.frombuffer(text, np.uint8) - 97).reshape(-1, WORD_LENGTH).astype(np.int8)


@lru_cache(maxsize=1)
def _prior() -> NDArray[np.float64]:
    levels = word_levels()
    likely = [levels[word] <= PLAUSIBLE_LEVEL for word in _dictionary()]
    return np.where(likely, LIKELY, UNLIKELY)


def _openers() -> NDArray[np.intp]:
    """The dictionary's 50 words of the most frequent letters: enough to open with."""
    frequency = BEHAVIOUR_SPACE.features_HA(())[_HABITS.index("prefers_frequent_letters")]
    return np.argsort(-frequency[: len(_dictionary())], kind="stable")[:50]
