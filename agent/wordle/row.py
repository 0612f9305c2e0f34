"""A row of the dataset, and what a guess must look like: the checks at the task's edge.

Messages name the field and the rule, never the answer.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from agent.settings import SettingsError, check_effort, check_hint
from agent.task import TaskFormatError
from agent.wordle.game import WORD_LENGTH, in_dictionary

LETTERS = re.compile(r"[A-Za-z]+")
HALF_PAIR = re.compile("[\ud800-\udfff]")
"""JSON can spell it, but no request to the policy can carry it."""
MAX_SHOWN = 40
"""Characters of an unknown name that its error shows."""
REQUIRED = ("prompt", "answer", "id")
SETTINGS = ("reasoning_effort", "prompt_hint")
"""Keys of the optional field `settings`, which the rollout reads, not the task."""


@dataclass(frozen=True, slots=True)
class Row:
    """One game to play. Its repr does not show the answer."""

    prompt: str
    """What the policy reads."""
    answer: str = field(repr=False)
    """Lower case, in the word list."""
    row_id: str


def parse_row(text: str) -> Row:
    """Read a row: JSON with `prompt`, `answer`, `id` and optionally `settings`.

    Raises:
        TaskFormatError: names the field and its fault.
    """
    fields = _object(text)
    unknown = sorted(fields.keys() - {*REQUIRED, "settings"})
    if unknown:
        raise TaskFormatError(
            f"unknown field {unknown[0][:MAX_SHOWN]!r}; a row has {', '.join(REQUIRED)} "
            "and may have settings"
        )
    for name in REQUIRED:
        if name not in fields:
            raise TaskFormatError(f"field {name!r} is missing")
        if not isinstance(fields[name], str) or not fields[name].strip():
            raise TaskFormatError(f"field {name!r} must be a string that is not empty")
        if not fields[name].isascii() and HALF_PAIR.search(fields[name]):
            raise TaskFormatError(f"field {name!r} has half a surrogate pair; use whole characters")
    answer = _answer(fields["answer"])
    settings = fields.get("settings", {})
    _check_settings(settings)
    hint = settings.get("prompt_hint")
    for name, text in (("prompt", fields["prompt"]), ("settings.prompt_hint", hint)):
        if isinstance(text, str) and _names(text, answer):
            raise TaskFormatError(f"field {name!r} contains the answer; the policy would read it")
    _check_setting_values(settings)
    return Row(fields["prompt"], answer, fields["id"])


def _names(text: str, answer: str) -> bool:
    """True when `answer` stands in `text` as a word of its own, in any case."""
    # The plain search first: a pattern made for each answer costs more than the rest of a row.
    return answer in text.lower() and bool(
        re.search(rf"(?<![A-Za-z]){answer}(?![A-Za-z])", text, re.IGNORECASE)
    )


def _object(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise TaskFormatError("the row is not JSON; it must be a JSON object in a string") from None
    if not isinstance(fields, dict):
        raise TaskFormatError(f"the row must be a JSON object, not {type(fields).__name__}")
    return fields


def _check_settings(settings: Any) -> None:
    if not isinstance(settings, dict):
        raise TaskFormatError("field 'settings' must be an object")
    unknown = sorted(settings.keys() - set(SETTINGS))
    if unknown:
        raise TaskFormatError(
            f"field 'settings' has an unknown key {unknown[0][:MAX_SHOWN]!r}; "
            f"known: {', '.join(SETTINGS)}"
        )


def _check_setting_values(settings: dict[str, Any]) -> None:
    """By the rollout's own rules, so that a check of the data finds what the rollout would."""
    try:
        check_effort("reasoning_effort", settings.get("reasoning_effort"))
        check_hint("prompt_hint", settings.get("prompt_hint"))
    except SettingsError as error:
        raise TaskFormatError(f"field 'settings': {error}") from None


def _answer(raw: str) -> str:
    answer = raw.strip().lower()
    if not LETTERS.fullmatch(raw.strip()):
        raise TaskFormatError("field 'answer' must have letters a to z only")
    if len(answer) != WORD_LENGTH:
        raise TaskFormatError(f"field 'answer' has {len(answer)} letters, not {WORD_LENGTH}")
    if not in_dictionary(answer):
        raise TaskFormatError("field 'answer' is not in the word list (agent/wordle/words.txt)")
    return answer


def guess_fault(raw: Any) -> str | None:
    """Why `raw` cannot be played, or None. Case and surrounding whitespace do not matter.

    Only ASCII letters count: a look-alike or an accent is named as such instead of being folded
    into a letter that the policy may not have meant.
    """
    if not isinstance(raw, str):
        return "guess must be a string"
    word = raw.strip()
    if not word:
        return "guess is empty"
    if not LETTERS.fullmatch(word):
        return "guess has characters other than the letters a to z"
    if len(word) != WORD_LENGTH:
        return f"guess has {len(word)} letters"
    return None
