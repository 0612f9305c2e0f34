"""Wordle as a rehearsal's policy sees it: candidate guesses and the habits that tell them apart.

The embedded behaviour policy is a softmax over the candidates of `WordleBehaviours`, log-linear
in the habits named here. It reads the conversation as any model would: the marks in the messages
that it was sent, never the game itself. Needs NumPy, so only a training service imports this
module; it stays out of the deployed agent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.wordle.game import WORD_LENGTH, word_levels

Marks = tuple[tuple[str, str], ...]
"""What the policy knows: (guess, marks) in the order of play, lower case and GYX."""

ALPHABET = 26
INVENTED_WORDS = 500
"""How many strings outside the dictionary the policy can come up with: about a tenth of what it
chooses from, so that an untrained policy makes up a word now and then, as small models do."""
_FIRST_LINE = re.compile(r"\A([A-Z]{5}): ([GYX]{5})$", re.MULTILINE)

BEHAVIOURS: dict[str, tuple[str, float]] = {
    "breaks_greens": ("moves a letter that is known to be in its place", -0.65),
    "drops_yellows": ("leaves out a letter that is known to be in the word", -0.65),
    "reuses_spots": ("puts a letter where it is known not to be", -0.65),
    "reuses_greys": ("uses a letter that is known not to be in the word", -0.65),
    "repeats_guesses": ("plays a word again", 5.5),
    "fits_all_clues": ("plays a word that could still be the answer", 0.4),
    "tries_new_letters": ("tries letters that it has not tried yet", 2.0),
    "prefers_frequent_letters": ("prefers words of frequent letters", 0.0),
    "prefers_common_words": ("prefers common words", 0.75),
    "invents_words": ("makes up words that are not in the dictionary", 0.0),
}
"""Habits in the choice of a word: name -> (what it does, weight before training). The starting
weights make a player like an untrained small model: it half minds the clues, chases new letters,
and at temperature 0 repeats itself for ever. It solves about 7% of held-out words."""

FORMATS: dict[str, tuple[str, float]] = {
    "writes_text": ("writes its guess as text instead of calling the tool", -2.0),
    "malforms_calls": ("calls the tool with a word of the wrong length", -3.0),
}
"""Habits in how the move is sent; a proper tool call is the alternative, at weight 0."""


class WordleBehaviours:
    """The candidates and their habits; implements the rehearsal's BehaviourSpace.

    Dimensions: A candidate words (dictionary, then invented), H word habits.
    """

    word_habits = BEHAVIOURS
    format_habits = FORMATS

    @property
    def candidates(self) -> tuple[str, ...]:
        """The A words that can be played: the dictionary, then the invented ones."""
        return _candidates()

    def read(self, messages: Iterable[Mapping[str, Any]]) -> Marks:
        """What the conversation tells about the answer."""
        found = []
        for message in messages:
            if message.get("role") in ("tool", "user"):
                match = _FIRST_LINE.search(_text(message.get("content")))
                if match:
                    found.append((match[1].lower(), match[2]))
        return tuple(found)

    def features_HA(self, known: Marks) -> NDArray[np.float32]:
        """How much each candidate shows each habit after the marks in `known`: (H, A)."""
        broken = np.zeros(len(self.candidates), np.float32)
        misplaced = np.zeros_like(broken)
        minimum, maximum, greens, ruled_out = _constraints(known)
        for place, letter in greens.items():
            broken += self._letters_AL[:, place] != letter
        for place, letter in ruled_out:
            misplaced += self._letters_AL[:, place] == letter
        missing = self._excess(minimum, below=True)
        over = self._excess(maximum, below=False)
        untried_X = np.ones(ALPHABET, np.float32)
        untried_X[[ord(letter) - 97 for guess, _ in known for letter in guess]] = 0
        repeats = np.zeros_like(broken)
        for guess, _ in known:
            repeats[self._index[guess]] = 1.0
        fits = ((broken + misplaced + missing + over) == 0).astype(np.float32)
        return np.stack(
            [
                broken,
                missing,
                misplaced,
                over,
                repeats,
                fits * (len(known) > 0),
                (untried_X @ self._has_letter_XA / WORD_LENGTH).astype(np.float32),
                self._frequency_A,
                self._commonness_A,
                self._invented_A,
            ]
        )

    def move(self, candidate: int, form: str) -> dict[str, Any]:
        """The assistant message that plays a candidate.

        Args:
            form: "tool" or the name of a format habit.

        Returns:
            `{"text": ...}` or `{"tool": ..., "arguments": <JSON text>}`.
        """
        word = self.candidates[candidate]
        if form == "writes_text":
            return {"text": f'guess_word("{word}")'}
        guess = f"{word}s" if form == "malforms_calls" else word
        return {"tool": "guess_word", "arguments": json.dumps({"guess": guess})}

    def _excess(self, limits: Mapping[int, int], *, below: bool) -> NDArray[np.float32]:
        total = np.zeros(len(self.candidates), np.float32)
        for letter, limit in limits.items():
            count_A = self._count_XA[letter]
            total += np.maximum(limit - count_A if below else count_A - limit, 0)
        return total

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.candidates)}

    @cached_property
    def _letters_AL(self) -> NDArray[np.int8]:
        text = "".join(self.candidates).encode()
        return (np.frombuffer(text, np.uint8) - 97).reshape(-1, WORD_LENGTH).astype(np.int8)

    @cached_property
    def _count_XA(self) -> NDArray[np.float32]:
        return np.stack(
            [(self._letters_AL == letter).sum(axis=1) for letter in range(ALPHABET)]
        ).astype(np.float32)

    @cached_property
    def _has_letter_XA(self) -> NDArray[np.float32]:
        return (self._count_XA > 0).astype(np.float32)

    @cached_property
    def _frequency_A(self) -> NDArray[np.float32]:
        """Mean share of dictionary words that hold the candidate's distinct letters, 0 to 1."""
        in_dictionary = self._invented_A == 0
        share_X = self._has_letter_XA[:, in_dictionary].mean(axis=1)
        return (share_X @ self._has_letter_XA / WORD_LENGTH).astype(np.float32)

    @cached_property
    def _commonness_A(self) -> NDArray[np.float32]:
        """1 for SCOWL's commonest class (10) down to 0 for the rarest (50) and for no word."""
        levels = word_levels()
        rarest = max(levels.values())
        span = rarest - min(levels.values())
        return np.array(
            [(rarest - levels.get(word, rarest)) / span for word in self.candidates], np.float32
        )

    @cached_property
    def _invented_A(self) -> NDArray[np.float32]:
        known = word_levels()
        return np.array([word not in known for word in self.candidates], np.float32)


BEHAVIOUR_SPACE = WordleBehaviours()


@cache
def _candidates() -> tuple[str, ...]:
    words = sorted(word_levels())
    return (*words, *_invented(words, INVENTED_WORDS))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text", "") for part in parts if isinstance(part, Mapping))


def _constraints(
    known: Marks,
) -> tuple[dict[int, int], dict[int, int], dict[int, int], set[tuple[int, int]]]:
    """Minimum and maximum letter counts, greens by place, and (place, letter) ruled out."""
    minimum: dict[int, int] = {}
    maximum: dict[int, int] = {}
    greens: dict[int, int] = {}
    ruled_out: set[tuple[int, int]] = set()
    for guess, marks in known:
        present: dict[int, int] = {}
        for place, (char, mark) in enumerate(zip(guess, marks, strict=True)):
            letter = ord(char) - 97
            present[letter] = present.get(letter, 0) + (mark != "X")
            if mark == "G":
                greens[place] = letter
            elif mark == "Y":
                ruled_out.add((place, letter))
        for place, (char, mark) in enumerate(zip(guess, marks, strict=True)):
            letter = ord(char) - 97
            if mark == "X":
                maximum[letter] = present[letter]
                if present[letter]:
                    ruled_out.add((place, letter))
        for letter, count in present.items():
            minimum[letter] = max(minimum.get(letter, 0), count)
    return {x: n for x, n in minimum.items() if n}, maximum, greens, ruled_out


def _invented(words: list[str], count: int) -> list[str]:
    """Strings that look like words and are none: front of one word, back of another."""
    known = set(words)
    made: dict[str, None] = {}
    stride = 1009  # prime and larger than the list's runs of like beginnings
    for i in range(len(words)):
        other = words[(i * stride + 17) % len(words)]
        word = words[i][:3] + other[3:]
        if word not in known:
            made.setdefault(word)
    chosen = list(made)
    return chosen[:: max(1, len(chosen) // count)][:count]
