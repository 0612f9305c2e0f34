"""Writes the Wordle rows: 640 training and 128 validation games, the same bytes every time.

In: `scowl-five.txt` beside this file. Out: `train.jsonl` and `validation.jsonl`, one
`{"prompt": "<JSON: prompt, answer, id>"}` a line. `mtrl dataset build wordle` runs it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from agent.wordle.prompts import USER_PROMPT

HERE = Path(__file__).resolve().parent
SPLITS = {"train": 640, "validation": 128}
"""Rows per split: ten and two batches of 64, five and one of 128."""

COMMONEST = (10, 20)
"""SCOWL levels that answers come from. Enough words are left here, so the rarer level 35 is not
needed."""
UNWANTED_TAGS = frozenset({"name", "inflected"})
"""Names that also have a lower-case spelling, and plurals, verbs in -s and regular past forms."""

FILLERS = frozenset({"pends"})
"""Inflections that carry no tag, because their stem is not in SCOWL up to level 50."""
OFFENSIVE = frozenset({"abuse", "bigot", "freak", "idiot", "moron", "slave"})
"""Words that demean people or name their abuse. SCOWL's own list of offensive
words is not in Debian's package; this one is ours, reviewed by hand, and meant to stay short."""
# fmt: off
GIVEN_AWAY = frozenset(
    {
        "again", "begin", "every", "exact", "first", "green", "guess", "known",
        "least", "limit", "never", "other", "place", "right", "third", "three",
        "times", "train", "tried", "twice", "until", "words", "write", "wrong",
    }
)
# fmt: on
"""Words that stand, or might easily come to stand, in the prompts, in the environment's answers or
in a row's id: an answer among them would be given away. A test holds the texts to it."""

SEED = "wordle-rows-1"
"""Changing it deals the words anew."""


def answer_pool() -> list[str]:
    """Words fit to be an answer, sorted."""
    pool = []
    for line in (HERE / "scowl-five.txt").read_text(encoding="ascii").splitlines():
        if line.startswith("#"):
            continue
        word, level, tags = line.split()
        labels = set(tags.split(","))
        if "main" in labels and int(level) in COMMONEST and not labels & UNWANTED_TAGS:
            pool.append(word)
    return sorted(set(pool) - FILLERS - OFFENSIVE - GIVEN_AWAY)


def deal(pool: list[str]) -> dict[str, list[str]]:
    """Split -> its answers, disjoint, in an order that depends on each word alone."""
    needed = sum(SPLITS.values())
    if len(pool) < needed:
        raise ValueError(f"only {len(pool)} words are fit to be answers, {needed} are needed")
    shuffled = sorted(pool, key=lambda word: hashlib.sha256(f"{SEED}:{word}".encode()).digest())
    dealt, start = {}, 0
    for split, count in SPLITS.items():
        dealt[split] = shuffled[start : start + count]
        start += count
    return dealt


def row(split: str, number: int, answer: str) -> str:
    """One line of a dataset file; `number` counts from 1."""
    inner = {"prompt": USER_PROMPT, "answer": answer, "id": f"{split}-{number:04d}"}
    return json.dumps({"prompt": json.dumps(inner)}) + "\n"


def build(out: Path) -> list[Path]:
    """Write both files into `out` (made if missing) and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for split, answers in deal(answer_pool()).items():
        lines = [row(split, number, answer) for number, answer in enumerate(answers, start=1)]
        path = out / f"{split}.jsonl"
        path.write_bytes("".join(lines).encode("ascii"))
        written.append(path)
    return written
