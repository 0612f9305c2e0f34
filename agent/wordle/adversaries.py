"""Policies that look for a flaw in Wordle's environment instead of playing it.

Each is sent what any policy is sent and answers as any policy may. The rows that they are tried
on have none of `FALLBACK_WORDS` as the answer, so none of them wins by luck.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from agent.audit import Adversary, Answer, Sent
from agent.wordle.game import WORD_LENGTH, in_dictionary
from agent.wordle.prompts import TOOL_NAME

FALLBACK_WORDS = ("crane", "moist", "bulky", "dodge", "whelp", "vixen")
"""What an adversary plays when it has nothing better: in the list, and all different letters but
one."""
_RUN = re.compile(r"[A-Za-z0-9+/]{5,64}={0,2}")
_SPELT = re.compile(r"(?<![A-Za-z])[A-Za-z](?:[ .,_-]{1,2}[A-Za-z]){4}(?![A-Za-z])")
_LETTERS = re.compile(rf"[a-z]{{{WORD_LENGTH}}}")


def _guess(word: object) -> Answer:
    return Answer(calls=((TOOL_NAME, {"guess": word}),))


def _turn(sent: Sent) -> int:
    return sum(message["role"] == "assistant" for message in sent.messages)


def repeater() -> Adversary:
    """Plays one word for ever."""
    return lambda sent: _guess(FALLBACK_WORDS[0])


def talker() -> Adversary:
    """Never calls the tool and never names a move."""
    return lambda sent: Answer("I am still thinking about which word would be best here.")


def writer() -> Adversary:
    """Writes every move as text."""
    return lambda sent: Answer(f'{TOOL_NAME}("{FALLBACK_WORDS[_turn(sent) % 6]}")')


def quitter() -> Adversary:
    """One good opening, then nothing but talk."""
    return lambda sent: (
        _guess(FALLBACK_WORDS[0]) if not _turn(sent) else Answer("I give up; good game.")
    )


def flooder() -> Adversary:
    """Floods invalid calls: wrong types, lengths and arguments, several in one answer."""
    bad: tuple[object, ...] = (
        {"guess": ""},
        {"guess": "x" * 10_000},
        {"guess": None},
        {"guess": 12345},
        {"guess": ["crane"]},
        {"guess": {"word": "crane"}},
        {"word": "crane"},
        {},
        "crane",
        [],
        {"guess": "cran\u00e9"},
        {"guess": "\u0441rane"},
    )
    return lambda sent: Answer(
        calls=tuple((TOOL_NAME, bad[(_turn(sent) * 3 + i) % len(bad)]) for i in range(3))
    )


def prober() -> Adversary:
    """Asks for what it should not get: other tools, hidden arguments, the episode's insides."""
    calls: tuple[tuple[str, object], ...] = (
        ("get_answer", {}),
        ("state", {}),
        (TOOL_NAME, {"guess": "crane", "reveal": True, "debug": 1}),
        (TOOL_NAME, {"guess": "{answer}"}),
        (TOOL_NAME, {"guess": "__class__", "self": None}),
        (TOOL_NAME, {"answer": "?"}),
        ("guess_word.__self__", {"name": "_game"}),
    )
    return lambda sent: Answer(calls=(calls[_turn(sent) % len(calls)],))


def reader() -> Adversary:
    """Reads every message for a word that it has not played itself, in clear or encoded, and
    plays it."""
    played: list[str] = []
    known: set[str] = set()

    def answer(sent: Sent) -> Answer:
        seen = _words_in(_texts(sent))
        if not known:  # what every game says before the first move is no news
            known.update(_words_in([sent.system_prompt, json.dumps(list(sent.tools))]))
        fresh = [word for word in seen if word not in known and word not in played]
        spare = (word for word in FALLBACK_WORDS if word not in played)
        word = fresh[0] if fresh else next(spare, FALLBACK_WORDS[-1])
        played.append(word)
        return _guess(word)

    return answer


ADVERSARIES: Mapping[str, Callable[[], Adversary]] = {
    "repeats one word": repeater,
    "never makes a move": talker,
    "writes text only": writer,
    "opens and gives up": quitter,
    "floods invalid calls": flooder,
    "asks for the hidden state": prober,
    "reads every message for the answer": reader,
}
"""What each does -> makes one for a single episode."""


def _texts(sent: Sent) -> Iterator[str]:
    """All the text of the messages that were not the adversary's own."""
    for message in sent.messages:
        if message["role"] != "assistant":
            yield json.dumps(message["content"])


def _words_in(texts: Iterable[str]) -> list[str]:
    """Words of the list that a text holds: in clear, reversed, spelt out or encoded."""
    found: dict[str, None] = {}
    for text in texts:
        runs = _RUN.findall(text) + [re.sub("[^A-Za-z]", "", s) for s in _SPELT.findall(text)]
        for run in runs:
            for reading in _readings(run):
                if _LETTERS.fullmatch(reading) and in_dictionary(reading):
                    found.setdefault(reading)
    return list(found)


def _readings(run: str) -> Iterator[str]:
    """What a run of characters may mean."""
    clear = run.rstrip("=").lower()
    yield clear
    yield clear[::-1]
    yield codecs.decode(clear, "rot13")
    for decode in (base64.b64decode, bytes.fromhex):
        try:
            yield decode(run).decode("ascii").strip().lower()
        except (ValueError, binascii.Error, UnicodeDecodeError):
            continue
