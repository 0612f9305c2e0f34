"""What `mtrl audit` needs to know of Wordle: outcomes, whole games, adversaries, a fair loser.

It makes rows of its own and so knows every answer; the deployed agent never imports it. The
methods are those of `agent.audit.AuditHooks`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, islice
from random import Random
from string import ascii_lowercase
from typing import Any, ClassVar

from agent.audit import Outcome, Play
from agent.settings import Settings
from agent.task import TaskFormatError
from agent.wordle.adversaries import ADVERSARIES, FALLBACK_WORDS
from agent.wordle.candidates import candidates
from agent.wordle.game import (
    ATTEMPTS,
    SOLVED,
    WORD_LENGTH,
    Guess,
    Knowledge,
    feedback,
    learn,
    word_levels,
    words,
)
from agent.wordle.prompts import TOOL_NAME, USER_PROMPT
from agent.wordle.row import guess_fault, parse_row
from agent.wordle.settings import REWARDS
from agent.wordle.task import WordleEpisode, WordleTask

SOLVED_IN = tuple(f"solved in turn {turn}" for turn in range(1, ATTEMPTS + 1))
LOST, UNFINISHED, UNPLAYED = "lost", "broken off", "never played"
MAX_MOVES = Settings().max_policy_calls
"""As many answers as a rollout lets the policy give."""
MALFORMED = ("", "cat", "letters", "12345")
COMMON_LEVEL = 20
"""SCOWL class up to which words are used here: they are shown to the operator, and the rarer
classes hold words that nobody wants to read."""
EXPLOIT_ROWS = 6
_BITS = bytes.maketrans(b"01", b"\x00\x01")


@dataclass(frozen=True, slots=True)
class WordleMove:
    """A guess as the policy sends it, good or not."""

    word: str
    as_text: bool = False

    @property
    def playable(self) -> bool:
        """False for what the environment refuses."""
        return guess_fault(self.word) is None


class WordleAudit:
    """The hooks."""

    rewards = tuple(REWARDS)
    outcomes = (
        *(Outcome(name, True, rank) for rank, name in enumerate(SOLVED_IN)),
        Outcome(LOST, False, ATTEMPTS),
        # No rank of its own: whether giving up pays is asked game by game.
        Outcome(UNFINISHED, False, ATTEMPTS),
        Outcome(UNPLAYED, False, ATTEMPTS + 1),
    )
    groups: ClassVar = {
        "every game is solved": SOLVED_IN,
        "every game is lost": (LOST,),
        "every game is broken off": (UNFINISHED,),
    }
    adversaries = ADVERSARIES
    yardstick = "solver"

    def task(self, reward: str) -> WordleTask:
        """The task under a reward, one float an episode."""
        return WordleTask(reward=reward, per_turn=False)

    def rows(self) -> Sequence[str]:
        """Rows with answers from all over the list."""
        return _rows()

    def seed(self, outcome: Outcome, row: str, draw: Random) -> Play:
        """A game that ends in `outcome`: consistent, random or careless."""
        answer = _answer(row)
        style = draw.choice((_consistent, _any_word, _careless))
        moves: list[WordleMove] = []
        known = Knowledge()
        for _ in range(_misses(outcome.name, draw)):
            move = style(known, answer, draw)
            known = learn(known, Guess(move.word, feedback(answer, move.word)))
            moves.append(move)
        if outcome.success:
            moves.append(WordleMove(answer))
        if outcome.name == UNPLAYED or style is _careless:
            for _ in range(draw.randrange(MAX_MOVES - len(moves) + 1)):
                moves.insert(draw.randrange(len(moves) + 1), _malformed(draw))
            moves = _ending_with(moves, answer if outcome.success else None)
        return Play(row, tuple(moves))

    def vary(self, play: Play, draw: Random) -> Play:
        """Another word, form, order, malformed call or answer."""
        answer = _answer(play.row)
        wins = bool(play.moves) and play.moves[-1].word == answer
        moves = list(play.moves[:-1] if wins else play.moves)
        change = draw.choice((_change_word, _change_word, _change_form, _swap, _malform))
        if draw.random() < 0.15:
            row = draw.choice(_rows())
            answer = _answer(row)
        else:
            row = play.row
            change(moves, answer, draw)
        last = play.moves[-1:] if wins else ()
        return Play(
            row,
            (
                *(move for move in moves if move.word != answer),
                *(WordleMove(answer, move.as_text) for move in last),
            ),
        )

    def send(self, episode: Any, move: WordleMove) -> str | None:
        """Play a move; what its tool and its recovery call, without their wrapping."""
        if move.as_text:
            return episode.recover(f'{TOOL_NAME}("{move.word}")')
        return episode.guess(move.word)

    def outcome(self, episode: Any) -> str:
        """The episode's outcome by name."""
        assert isinstance(episode, WordleEpisode)
        if episode.outcome == "solved":
            return SOLVED_IN[episode.turns - 1]
        return {"lost": LOST, "unfinished": UNFINISHED, "unplayed": UNPLAYED}[episode.outcome]

    def describe(self, play: Play) -> str:
        """The answer and the moves."""
        moves = [_shown(move) for move in play.moves] or ["no move"]
        return f"answer {_answer(play.row).upper()}: {', '.join(moves)}"

    def secrets(self, row: str) -> Sequence[str]:
        """The answer, in any case of letters."""
        return (_answer(row),)

    def exploit_rows(self) -> Sequence[str]:
        """Rows with a fair loser: on others there are too few words like the answer to lose
        without breaking a clue. Their answers are words that no adversary plays."""
        fair = (
            row
            for row in _rows()[::EXPLOIT_ROWS]
            if _answer(row) not in FALLBACK_WORDS and _is_fair(self.honest_loss(row))
        )
        return tuple(islice(fair, EXPLOIT_ROWS))

    def honest_loss(self, row: str) -> Play:
        """Words that fit all clues, never the answer; when no other fits, a word not yet played."""
        answer, draw = _answer(row), Random(row)
        known, moves = Knowledge(), []
        for _ in range(ATTEMPTS):
            move = _consistent(known, answer, draw)
            known = learn(known, Guess(move.word, feedback(answer, move.word)))
            moves.append(move)
        return Play(row, tuple(moves))

    def twins(self, draw: Random) -> Sequence[tuple[Play, Play]]:
        """Games of two or three words whose marks two answers share."""
        found = []
        while len(found) < EXPLOIT_ROWS:
            moves = tuple(WordleMove(draw.choice(_pool())) for _ in range(draw.choice((2, 3))))
            by_marks = defaultdict(list)
            for row in draw.sample(_rows(), 400):
                answer = _answer(row)
                by_marks[tuple(feedback(answer, move.word) for move in moves)].append(row)
            rows = next((r for m, r in by_marks.items() if len(r) > 1 and SOLVED not in m), None)
            if rows:
                found.append((Play(rows[0], moves), Play(rows[1], moves)))
        return found


AUDIT = WordleAudit()


@lru_cache(maxsize=1)
def _pool() -> tuple[str, ...]:
    """The common words."""
    return tuple(word for word, level in word_levels().items() if level <= COMMON_LEVEL)


@lru_cache(maxsize=1)
def _rows() -> tuple[str, ...]:
    rows = (
        json.dumps({"prompt": USER_PROMPT, "answer": word, "id": f"audit-{word}"})
        for word in _pool()
    )
    return tuple(row for row in rows if _is_row(row))


def _answer(row: str) -> str:
    return json.loads(row)["answer"]


def _is_row(row: str) -> bool:
    """False for the few words that stand in the prompt."""
    try:
        parse_row(row)
    except TaskFormatError:
        return False
    return True


def _is_fair(loss: Play) -> bool:
    """True when every guess fitted all clues before it."""
    answer = _answer(loss.row)
    return all(
        _known(loss.moves[:i], answer).allows(move.word) for i, move in enumerate(loss.moves)
    )


def _misses(outcome: str, draw: Random) -> int:
    """How many wrong guesses a game of that outcome has."""
    if outcome in SOLVED_IN:
        return SOLVED_IN.index(outcome)
    return {LOST: ATTEMPTS, UNPLAYED: 0}.get(outcome, draw.randrange(1, ATTEMPTS))


def _any_word(known: Knowledge, answer: str, draw: Random) -> WordleMove:
    word = draw.choice(_pool())
    return WordleMove(word) if word != answer else _any_word(known, answer, draw)


def _consistent(known: Knowledge, answer: str, draw: Random) -> WordleMove:
    """A word that fits all clues and is not the answer; any new one when there is none."""
    bits = format(candidates(known), f"0{len(words())}b").encode().translate(_BITS)
    others = [
        w for w in compress(words(), bits) if w != answer and word_levels()[w] <= COMMON_LEVEL
    ]
    fresh = others or [word for word in _pool() if word != answer and word not in known.tried]
    return WordleMove(draw.choice(fresh))


def _careless(known: Knowledge, answer: str, draw: Random) -> WordleMove:
    """A word played before, a string that is no word, or any word; often as text."""
    old = known.tried[draw.randrange(len(known.tried))] if known.tried else ""
    word = draw.choice((old, _non_word(draw), _any_word(known, answer, draw).word))
    return WordleMove(word or _non_word(draw), as_text=draw.random() < 0.5)


def _non_word(draw: Random) -> str:
    return "".join(draw.choices("jqvxz" + ascii_lowercase, k=WORD_LENGTH - 1)) + "q"


def _malformed(draw: Random) -> WordleMove:
    return WordleMove(draw.choice(MALFORMED), as_text=False)


def _ending_with(moves: list[WordleMove], answer: str | None) -> list[WordleMove]:
    """The moves, with the winning one last."""
    if answer is None:
        return moves
    return [move for move in moves if move.word != answer] + [WordleMove(answer)]


def _change_word(moves: list[WordleMove], answer: str, draw: Random) -> None:
    """Another word in one place: any, like the answer, like the one there, old, or no word."""
    at = [i for i, move in enumerate(moves) if move.playable]
    if not at:
        return
    i = draw.choice(at)
    word = draw.choice(
        (
            draw.choice(_pool()),
            _near(answer, draw),
            _near(moves[i].word, draw),
            draw.choice(moves).word,
            _consistent(_known(moves[:i], answer), answer, draw).word,
            _non_word(draw),
        )
    )
    if word != answer and guess_fault(word) is None:
        moves[i] = WordleMove(word, moves[i].as_text)


def _change_form(moves: list[WordleMove], answer: str, draw: Random) -> None:
    """A call becomes text, or the other way round."""
    if moves:
        i = draw.randrange(len(moves))
        moves[i] = WordleMove(moves[i].word, not moves[i].as_text)


def _swap(moves: list[WordleMove], answer: str, draw: Random) -> None:
    """Two moves change places."""
    if len(moves) > 1:
        i, j = draw.sample(range(len(moves)), 2)
        moves[i], moves[j] = moves[j], moves[i]


def _malform(moves: list[WordleMove], answer: str, draw: Random) -> None:
    """One malformed call more, or one less."""
    at = [i for i, move in enumerate(moves) if not move.playable]
    if at and draw.random() < 0.5:
        del moves[draw.choice(at)]
    elif len(moves) < MAX_MOVES - 1:
        moves.insert(draw.randrange(len(moves) + 1), _malformed(draw))


def _known(moves: Sequence[WordleMove], answer: str) -> Knowledge:
    known = Knowledge()
    for move in moves:
        if move.playable:
            known = learn(known, Guess(move.word, feedback(answer, move.word)))
    return known


def _near(word: str, draw: Random) -> str:
    """A word of the list that differs in one letter, when there is one."""
    if len(word) != WORD_LENGTH:
        return word
    at = draw.randrange(WORD_LENGTH)
    return draw.choice(_families().get(_without(word, at), (word,)))


def _without(word: str, at: int) -> str:
    return f"{word[:at]}_{word[at + 1 :]}"


@lru_cache(maxsize=1)
def _families() -> dict[str, tuple[str, ...]]:
    """Pattern with one letter open -> the words that fit it."""
    found: dict[str, list[str]] = defaultdict(list)
    for word in _pool():
        for at in range(WORD_LENGTH):
            found[_without(word, at)].append(word)
    return {pattern: tuple(fitting) for pattern, fitting in found.items()}


def _shown(move: WordleMove) -> str:
    text = move.word.upper() if move.playable else f"{move.word!r} (malformed)"
    return f"{text} (as text)" if move.as_text else text
