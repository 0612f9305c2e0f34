"""The environment's answers to a move, in words. A tool call and a recovered move get the same.

Nothing here knows the answer: it speaks from the marks and what they prove.
"""

from __future__ import annotations

from agent.wordle.game import ATTEMPTS, WORD_LENGTH, Game, Knowledge

GAME_OVER = "The game is over: no further guess is played."

COUNTS = {1: "once", 2: "twice"}


def not_played(reason: str) -> str:
    """The answer to a guess that cannot be played; it names the fault and the fix."""
    return f"Not played: {reason}; send exactly {WORD_LENGTH} letters from a to z."


def played(game: Game, known: Knowledge, in_dictionary: bool) -> str:
    """The answer to the guess that was just played.

    The first line is the word and its marks; then what happened, what is known, what is left.
    """
    last = game.guesses[-1]
    lines = [f"{last.word.upper()}: {last.marks}"]
    if game.solved:
        lines.append(f"Solved in {len(game.guesses)} of {ATTEMPTS} attempts. The game is over.")
        return "\n".join(lines)
    if not in_dictionary:
        lines.append(f"{last.word.upper()} is not in the word list; it cost an attempt.")
    if game.over:
        lines.append("Not solved: no attempts are left. The game is over.")
        return "\n".join(lines)
    return "\n".join([*lines, *known_lines(known), f"Attempts left: {game.attempts_left}"])


def known_lines(known: Knowledge) -> list[str]:
    """What is known, one line per kind of clue; kinds without a clue are left out."""
    pattern = " ".join(known.greens.get(at, "_").upper() for at in range(WORD_LENGTH))
    yellow = [_yellow(known, letter) for letter in sorted(known.minimum) if known.unplaced(letter)]
    limited = [_limited(known, letter) for letter in sorted(known.minimum)]
    lines = [
        f"Green (right place): {pattern}" if known.greens else "",
        f"Yellow (in the word, place unknown): {'; '.join(yellow)}" if yellow else "",
        f"No further copy: {'; '.join(filter(None, limited))}" if any(limited) else "",
        f"Grey (not in the word): {_letters(known.absent)}" if known.absent else "",
        f"Words tried: {', '.join(word.upper() for word in known.tried)}",
    ]
    return [line for line in lines if line]


def _yellow(known: Knowledge, letter: str) -> str:
    least = known.minimum[letter]
    text = f"{letter.upper()} at least {_times(least)}"
    if least > known.unplaced(letter):
        text += " in all"
    places = sorted(known.ruled_out.get(letter, ()))
    if places:
        text += f", not in place {' or '.join(str(at + 1) for at in places)}"
    return text


def _limited(known: Knowledge, letter: str) -> str:
    most = known.maximum.get(letter)
    return "" if most is None else f"{letter.upper()} exactly {_times(most)}"


def _times(count: int) -> str:
    return COUNTS.get(count, f"{count} times")


def _letters(letters: tuple[str, ...]) -> str:
    return ", ".join(letter.upper() for letter in letters)
