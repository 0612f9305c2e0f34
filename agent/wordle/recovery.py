"""Finds a move that the policy wrote as plain text instead of calling the tool.

Only notations of a call count: tags, JSON, an assignment, a call expression, a leaked Harmony
message. Prose never does, however many five-letter words it has. Text in, the guess out; the
rules of the game are not applied here. Linear in the length of the text: every pattern begins
with a literal or one of two characters, and every repetition in it is bounded.
"""

from __future__ import annotations

import re

VALUE = "(?:[^\\W_]|[\u0300-\u036f]){1,32}"
"""A guess as written: letters, digits and accents, so that a bad guess gets an answer.
Placeholders such as `<word>`, `...` or `your_word` do not match."""
PLACEHOLDERS = frozenset({"guess", "word", "str", "string", "none", "null"})
"""What stands for a guess when the policy explains the tool rather than uses it."""

S = r"\s{0,64}"
Q = "\\\\{0,3}[\"'\u201c\u201d\u2018\u2019]"
"""A quotation mark, escaped as often as JSON within JSON makes it."""
QUOTED = f"{Q}{S}({VALUE}){S}{Q}"
END = rf"{S}(?:<|\Z)"
TOOL = r"(?:functions\s?\.\s?)?guess_word"

FORMS = (
    # <__parameter=guess>STARE</__parameter>, also when cut off before the closing tag
    rf"<{S}_{{0,2}}parameter{S}={S}(?:{Q})?guess(?:{Q})?{S}>{S}({VALUE}){END}",
    # <guess>STARE</guess>, <guess_word>STARE</guess_word>
    rf"<{S}guess(?:_word)?{S}>{S}({VALUE}){S}<{S}/",
    # {"guess": "STARE"}, also with escaped quotes; {guess: "STARE"}
    rf"{Q}guess{Q}{S}:{S}{QUOTED}",
    rf"[{{,]{S}guess{S}:{S}{QUOTED}",
    # guess=STARE, guess="STARE"
    rf"(?<![\w=])guess {{0,2}}= {{0,2}}(?:{QUOTED}|({VALUE})(?![\w(.]))",
    # guess_word("STARE"), guess_word(STARE)
    rf"(?<!\w){TOOL}{S}\({S}(?:{QUOTED}|({VALUE})){S}\)",
    # to=functions.guess_word <|constrain|>json<|message|>STARE
    rf"to={TOOL}[^<]{{0,64}}(?:<\|constrain\|>[^<]{{0,64}})?<\|message\|>{S}({VALUE}){END}",
)
MOVE = re.compile("|".join(f"(?:{form})" for form in FORMS), re.IGNORECASE)


def find_move(text: str) -> str | None:
    """The first guess written as a move in `text`, as it was written, or None."""
    for match in MOVE.finditer(text):
        value = next(value for value in match.groups() if value is not None)
        if value.lower() not in PLACEHOLDERS:
            return value
    return None
