"""Take the five-letter words out of Debian's `scowl` package.

    python datasets/wordle/extract_scowl.py /usr/share/dict/scowl

Reads SCOWL's class files (latin-1, one word a line, named `class.level`) and writes
`scowl-five.txt` here and the agent's `words.txt`, with SCOWL's copyright file beside each. The
words are those of Debian's `wamerican` (level 50 and below), to the word. Runs once per SCOWL
release; everything after it reads `scowl-five.txt`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
AGENT = HERE.parents[1] / "agent" / "wordle"
COPYRIGHT = Path("/usr/share/doc/scowl/copyright")
"""Where Debian puts the licence of the package's data."""
COPYRIGHT_NAME = "SCOWL-COPYRIGHT"

LEVELS = (10, 20, 35, 40, 50)
"""SCOWL's size classes up to `wamerican`'s: smaller is commoner."""

CLASSES = {
    "main": ("english-words", "american-words"),
    "variant": ("variant_1-words", "variant_2-words"),
    "jargon": ("special-hacker",),
    "numeral": ("special-roman-numerals",),
    "abbreviation": ("english-abbreviations", "american-abbreviations"),
}
"""Tag -> the class files that carry it. Only `main` words have a level of their own: the level of
a variant is that of the spelling it stands for."""

NAMES = ("english-upper", "american-upper", "english-proper-names", "american-proper-names")
"""Class files whose words are written with a capital."""

FIVE = re.compile("[a-z]{5}")

HEADER = """\
# {what}
# Derived from SCOWL 2020.12.07 (Debian package scowl): a selection, not the original lists.
# Copyright 2000-2011 by Kevin Atkinson and others; the whole notice: {notice}.
"""


def read_class(directory: Path, name: str, level: int) -> list[str]:
    """The words of one class file; empty when SCOWL has no such class at that level."""
    path = directory / f"{name}.{level}"
    return path.read_text(encoding="latin-1").split() if path.exists() else []


def class_words(directory: Path, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Every (word, level) of the named classes, commonest level first."""
    for level in LEVELS:
        for name in names:
            for word in read_class(directory, name, level):
                yield word, level


def is_inflection(word: str, known: set[str]) -> bool:
    """True for a plural, a verb in -s or a regular past form of a word in `known`."""
    stems: list[str] = []
    if word.endswith("s") and not word.endswith("ss"):
        stems = [word[:-1]]
        if word.endswith("es"):
            stems.append(word[:-2])
        if word.endswith("ies"):
            stems.append(word[:-3] + "y")
    elif word.endswith("ed"):
        stems = [word[:-1], word[:-2]]
        if word.endswith("ied"):
            stems.append(word[:-3] + "y")
    return any(stem in known for stem in stems)


def tagged_words(directory: Path) -> dict[str, tuple[int, list[str]]]:
    """Five-letter word -> (level, tags): its classes, then `name` and `inflected` where true."""
    main = dict(reversed([*class_words(directory, CLASSES["main"])]))
    names = {word.lower() for word, _ in class_words(directory, NAMES)}
    found: dict[str, list[str]] = {}
    for tag, classes in CLASSES.items():
        for word, _ in class_words(directory, classes):
            if FIVE.fullmatch(word) and tag not in found.setdefault(word, []):
                found[word].append(tag)
    known = set(main)
    for word, tags in found.items():
        tags.extend(["name"] * (word in names))
        tags.extend(["inflected"] * is_inflection(word, known))
    return {word: (main.get(word, LEVELS[-1]), found[word]) for word in sorted(found)}


def main(directory: Path) -> None:
    """Write both lists and both copies of the copyright file."""
    words = tagged_words(directory)
    if not words:
        sys.exit(f"no SCOWL class files in {directory}; install Debian's package scowl")
    header = HEADER.format(what="Five-letter words: word, level, tags", notice=COPYRIGHT_NAME)
    lines = [f"{word} {level} {','.join(tags)}\n" for word, (level, tags) in words.items()]
    (HERE / "scowl-five.txt").write_text(header + "".join(lines), encoding="ascii")
    header = HEADER.format(what="Words a player may guess: word, level", notice=COPYRIGHT_NAME)
    lines = [f"{word} {level}\n" for word, (level, _) in words.items()]
    (AGENT / "words.txt").write_text(header + "".join(lines), encoding="ascii")
    for folder in (HERE, AGENT):
        (folder / COPYRIGHT_NAME).write_bytes(COPYRIGHT.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: extract_scowl.py DIRECTORY   (Debian: /usr/share/dict/scowl)")
    main(Path(sys.argv[1]))
