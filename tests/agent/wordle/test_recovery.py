"""Moves written as text: which notations count, and that prose never does."""

from __future__ import annotations

from collections.abc import Iterator
from re import _constants as constants  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wordle.recovery import MOVE, find_move

MOVES = [
    "<__function=guess_word> <__parameter=guess>CRANE</__parameter> </__function>",
    "<__FUNCTION=guess_word>\n  <__Parameter=Guess>\n crane \n</__parameter>\n</__function>",
    "<function=guess_word><parameter=guess>crane</parameter></function>",
    "<__parameter=guess>crane",
    '{"guess": "CRANE"}',
    "{'guess' : 'crane'}",
    '{guess: "crane"}',
    '```json\n{\n  "guess": "crane"\n}\n```',
    '{"name": "guess_word", "arguments": {"guess": "crane"}}',
    '{"name": "guess_word", "arguments": "{\\"guess\\": \\"crane\\"}"}',
    "guess=CRANE",
    'guess = "crane"',
    'guess_word("crane")',
    "I will play guess_word('crane') now.",
    "guess_word(crane)",
    'guess_word(guess="crane")',
    "Guess_Word ( \u201cCrane\u201d )",
    'functions.guess_word({"guess": "crane"})',
    "<guess>crane</guess>",
    '<|channel|>commentary to=functions.guess_word <|constrain|>json<|message|>{"guess":"crane"}',
    "<|channel|>commentary to=functions.guess_word<|message|>crane<|call|>",
    'commentary to=functions.guess_word json {"guess": "crane"}',
]

CUT_OFF = "<__parameter=guess>crane"
"""Ends with the text: what follows it would have been the closing tag."""
WHOLE = [move for move in MOVES if move != CUT_OFF]

PROSE = [
    "",
    "I think crane",
    "My guess is crane.",
    'My guess is "crane".',
    "guess: crane",
    'guess: "crane"',
    "CRANE",
    "crane",
    "**CRANE**",
    "guess_word is a tool",
    "I should call guess_word with a five-letter word.",
    "guess_word(guess)",
    "guess_word(guess: str) -> str",
    'guess_word("")',
    'guess_word("...")',
    '{"guess": "<word>"}',
    '{"guess": "your_word"}',
    '{"guess": null}',
    "guess=your_word",
    "guess==crane",
    "if guess = pick(words):",
    "the second_guess=crane variable",
    "STARE: XYGXX",
    '{"answer": "crane"}',
]


@pytest.mark.parametrize("text", MOVES)
def test_a_notation_of_a_call_is_a_move(text):
    found = find_move(text)
    assert found is not None and found.lower() == "crane"


@pytest.mark.parametrize("text", PROSE)
def test_prose_and_placeholders_are_not_moves(text):
    assert find_move(text) is None


def test_the_first_of_several_moves_is_taken():
    assert find_move('I know guess_word: {"guess": "stare"} then guess_word("crane")') == "stare"


def test_a_move_that_cannot_be_played_is_still_found_so_that_it_is_answered():
    assert find_move('{"guess": "cranes"}') == "cranes"
    assert find_move('guess_word("cr4ne")') == "cr4ne"
    assert find_move('guess_word("cra\u0301ne")') == "cra\u0301ne"


@given(st.text(alphabet=st.characters(exclude_characters="=({<:"), max_size=200))
def test_text_without_the_signs_of_a_call_is_never_a_move(text):
    assert find_move(text) is None


@given(st.text(max_size=80), st.sampled_from(WHOLE), st.text(max_size=80))
def test_a_move_is_found_whatever_stands_around_it(before, move, after):
    assert find_move(f"{before} \n{move}\n {after}") is not None


BAIT = [
    "guess",
    "guess_word(",
    "guess=",
    '"guess":"',
    '{"guess":',
    "<__parameter=guess>",
    "<guess>",
    "< ",
    "{ ",
    "\\",
    '"',
    "to=functions.guess_word",
    "to=guess_word<|message|>",
    " ",
    "guess_word" + " " * 64,
]


@pytest.mark.parametrize("bait", BAIT)
def test_a_megabyte_of_the_beginnings_of_moves_holds_no_move(bait):
    assert find_move(bait * (1_000_000 // len(bait))) is None


def test_a_move_behind_a_megabyte_of_bait_is_found():
    assert find_move('guess_word( "guess": <guess> ' * 30_000 + 'guess_word("crane")') == "crane"


def test_every_repetition_in_the_pattern_is_bounded_so_that_the_search_is_linear():
    unbounded = [
        repeat for repeat in repeats(parser.parse(MOVE.pattern, MOVE.flags)) if repeat > 64
    ]
    assert unbounded == []


def repeats(tree) -> Iterator[int]:
    """The upper bound of every repetition in a parsed pattern, at any depth."""
    if not isinstance(tree, parser.SubPattern | list | tuple):
        return
    parts = list(tree)
    if parts and parts[0] in (constants.MAX_REPEAT, constants.MIN_REPEAT):
        yield int(parts[1][1])
    for part in parts:
        yield from repeats(part)
