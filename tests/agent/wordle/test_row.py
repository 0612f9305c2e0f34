"""Rows and guesses at the task's edge: what is taken, and what each refusal says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.task import TaskFormatError
from agent.wordle.row import guess_fault, parse_row

GOOD: dict[str, Any] = {"prompt": "Play one game.", "answer": "crane", "id": "train-0001"}


def row(**changes: Any) -> str:
    """A good row with some fields changed; None removes one."""
    return json.dumps({k: v for k, v in {**GOOD, **changes}.items() if v is not None})


def test_a_good_row_is_read():
    read = parse_row(row(answer=" CRANE ", settings={"reasoning_effort": "low"}))
    assert (read.prompt, read.answer, read.row_id) == ("Play one game.", "crane", "train-0001")
    assert "crane" not in repr(read)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("crane", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "must be a JSON object, not list"),
        ("null", "must be a JSON object, not NoneType"),
        (row(answer=None), "'answer' is missing"),
        (row(prompt=None), "'prompt' is missing"),
        (row(id=None), "'id' is missing"),
        (row(answer=7), "'answer' must be a string"),
        (row(id=7), "'id' must be a string"),
        (row(prompt="  "), "'prompt' must be a string that is not empty"),
        (row(answer="cranes"), "'answer' has 6 letters, not 5"),
        (row(answer="cr4ne"), "'answer' must have letters a to z only"),
        (row(answer="crâne"), "'answer' must have letters a to z only"),
        (row(answer="qqqqq"), "'answer' is not in the word list"),
        (row(prompt="\ud800"), "'prompt' has half a surrogate pair"),
        (row(hint="x"), "unknown field 'hint'"),
        (row(settings=[]), "'settings' must be an object"),
        (row(settings={"effort": "low"}), "unknown key 'effort'"),
        (row(settings={"reasoning_effort": "vast"}), "reasoning_effort='vast'"),
        (row(settings={"prompt_hint": 5}), "prompt_hint=5"),
    ],
)
def test_a_bad_row_is_refused_by_the_name_of_its_field(text, message):
    with pytest.raises(TaskFormatError, match=message):
        parse_row(text)


@pytest.mark.parametrize(
    "text",
    [
        row(answer="cranes"),
        row(answer="crane!"),
        row(prompt="Find CRANE."),
        row(settings={"prompt_hint": "not crane"}),
    ],
)
def test_a_refusal_never_names_the_answer(text):
    with pytest.raises(TaskFormatError) as caught:
        parse_row(text)
    assert "crane" not in str(caught.value).lower()


def test_a_prompt_may_hold_the_answer_inside_a_longer_word():
    assert parse_row(row(prompt="Stop the cranes.")).answer == "crane"


@given(st.text())
def test_no_text_is_more_than_refused(text):
    with pytest.raises(TaskFormatError):
        parse_row(text)


@pytest.mark.parametrize("guess", ["crane", "CRANE", " Crane\n", "zzzzz"])
def test_five_letters_can_be_played(guess):
    assert guess_fault(guess) is None


@pytest.mark.parametrize(
    ("guess", "fault"),
    [
        ("cran", "4 letters"),
        ("cranes", "6 letters"),
        ("", "empty"),
        (" \n", "empty"),
        ("cr ne", "other than the letters"),
        ("cr4ne", "other than the letters"),
        ("crane.", "other than the letters"),
        ("cr\u0430ne", "other than the letters"),
        ("cra\u0301ne", "other than the letters"),
        ("\uff43rane", "other than the letters"),
        ("cran\u200be", "other than the letters"),
        ("\U0001d41crane", "other than the letters"),
        (None, "must be a string"),
        (5, "must be a string"),
        (["crane"], "must be a string"),
        ({"guess": "crane"}, "must be a string"),
    ],
)
def test_anything_else_is_refused_with_its_fault(guess, fault):
    assert fault in (guess_fault(guess) or "")
