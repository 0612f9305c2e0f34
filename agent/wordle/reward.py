"""The reward of a game: `outcome + weight * clip(shaping, -1, 1)`, and every constant in it.

Pure: a game's moves in, the reward's parts out. The outcome decides; shaping only ranks games
with the same outcome. It is a mean over turns, so a longer game collects no more of it, and the
attempts that an abandoned game leaves unplayed count as the worst turn there is, so giving up
never pays more than playing on. docs/reward.md explains the choices.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agent.wordle.candidates import best_expected_hits, candidate_count, expected_hits
from agent.wordle.game import (
    ATTEMPTS,
    SOLVED,
    WORD_LENGTH,
    Guess,
    Knowledge,
    in_dictionary,
    learn,
)


@dataclass(frozen=True, slots=True)
class RewardTable:
    """Every constant of the reward. Shaping constants are in units of one turn's score."""

    solved_first: float = 1.55
    """A solve in turn 1. High enough that a solve in turn 6 still clears 1.0 after shaping: the
    service's success_threshold is 1."""
    solved_step: float = 0.10
    """Less per further turn. More than twice `weight_solved`, so that no shaping lets a slower
    solve overtake a faster one."""
    lost: float = -0.5
    """A played game without a solve. Far below any solve, so that no loss is worth copying."""
    no_guess: float = -1.5
    """No valid guess at all: below every loss, so that playing always beats not playing."""
    weight_solved: float = 0.04
    """Shaping's share of a solve: enough to break ties in a group of equal solves."""
    weight_unsolved: float = 0.15
    """Shaping's share of a loss: larger, since all losses tie otherwise and a tie teaches
    nothing. No share without a guess: there is nothing to rank."""

    broken_green: float = -0.25
    """Per known green not kept. The surest clue, so the dearest to break."""
    lost_yellow: float = -0.20
    """Per known copy of a letter left out or put back where it cannot be."""
    reused_grey: float = -0.15
    """Per copy of a letter beyond what the word can hold. Wasteful rather than absurd."""
    repeat: float = -0.60
    """A word played before: an attempt that can teach nothing."""
    non_word: float = -0.50
    """A string outside the dictionary: it can teach, but it cannot be right."""
    malformed: float = -1.00
    """A call that could not be played. A turn of its own, at the floor."""
    text_move: float = -0.50
    """A move written as text. Below every careless guess in price, since a policy that drifts
    into text stops acting altogether."""

    opener: float = 0.30
    """For the first guess, times how many letters it is expected to hit (best word: 1)."""
    new_letter: float = 0.04
    """Per letter not played before: five of them earn 0.20."""
    shrink: float = 0.50
    """Times the share of the remaining uncertainty (log2 of the candidates) that is removed."""


DEFAULT = RewardTable()


@dataclass(frozen=True, slots=True)
class Turn:
    """One move of the policy that the environment answered before the game was over."""

    guess: Guess | None
    """None when the call was malformed and nothing was played."""
    as_text: bool = False
    """True when the move was written as text."""


@dataclass(frozen=True, slots=True)
class Violations:
    """How often, or in how many letters, one turn went against what it should know."""

    broken_green: int = 0
    lost_yellow: int = 0
    reused_grey: int = 0
    repeat: int = 0
    non_word: int = 0
    malformed: int = 0
    text_move: int = 0


@dataclass(frozen=True, slots=True)
class TurnScore:
    """Shaping of one turn, before the mean over turns."""

    violations: Violations
    opener: float
    new_letters: float
    shrink: float
    score: float
    """Credits less penalties, clipped to [-1, 1]."""


@dataclass(frozen=True, slots=True)
class RewardParts:
    """A reward and what it is made of."""

    outcome: float
    shaping: float
    """In [-1, 1]."""
    weight: float
    turns: tuple[TurnScore, ...]
    per_turn: tuple[float, ...]
    """The reward as one number a turn; at least one. Sums to `total`."""

    @property
    def total(self) -> float:
        """The episode's reward."""
        return math.fsum(self.per_turn)


def clip(value: float) -> float:
    """`value`, moved into [-1, 1]."""
    return max(-1.0, min(1.0, value))


def clue_violations(known: Knowledge, word: str) -> Violations:
    """Known clues that `word` breaks. All three counts are 0 exactly if `known.allows(word)`."""
    counts = Counter(word)
    lost = reused = 0
    for letter in counts.keys() | known.minimum.keys():
        ruled_out = known.ruled_out.get(letter, frozenset())
        at = [position for position, played in enumerate(word) if played == letter]
        misplaced = sum(position in ruled_out for position in at)
        useful = sum(
            position not in ruled_out and known.greens.get(position) != letter for position in at
        )
        excess = max(0, counts[letter] - known.maximum.get(letter, WORD_LENGTH))
        reused += excess
        lost += max(known.unplaced(letter) - useful, misplaced - excess, 0)
    broken = sum(word[position] != letter for position, letter in known.greens.items())
    return Violations(broken_green=broken, lost_yellow=lost, reused_grey=reused)


def score_turn(known: Knowledge, turn: Turn, after: Knowledge, table: RewardTable) -> TurnScore:
    """Shaping of one turn: `known` before it, `after` behind it."""
    if turn.guess is None:
        violations = Violations(malformed=1, text_move=int(turn.as_text))
        return TurnScore(violations, 0.0, 0.0, 0.0, clip(_penalty(violations, table)))
    word = turn.guess.word
    clues = clue_violations(known, word)
    violations = Violations(
        clues.broken_green,
        clues.lost_yellow,
        clues.reused_grey,
        repeat=int(word in known.tried),
        non_word=int(not in_dictionary(word)),
        text_move=int(turn.as_text),
    )
    opener = 0.0 if known.tried else table.opener * expected_hits(word) / best_expected_hits()
    fresh = set(word) - set("".join(known.tried))
    new_letters = table.new_letter * len(fresh)
    shrink = table.shrink * _uncertainty_removed(known, after)
    score = clip(opener + new_letters + shrink + _penalty(violations, table))
    return TurnScore(violations, opener, new_letters, shrink, score)


def _penalty(violations: Violations, table: RewardTable) -> float:
    return math.fsum(
        getattr(violations, name) * getattr(table, name) for name in Violations.__slots__
    )


def _uncertainty_removed(known: Knowledge, after: Knowledge) -> float:
    """Share of log2(candidates) that a guess removed: 1 when it leaves one word, 0 when there
    was nothing left to remove."""
    before = candidate_count(known)
    if before <= 1:
        return 0.0
    # A row's answer is in the list, so a candidate is always left; max() is for other callers.
    return 1.0 - math.log2(max(1, candidate_count(after))) / math.log2(before)


def score_turns(turns: Sequence[Turn], table: RewardTable = DEFAULT) -> tuple[TurnScore, ...]:
    """Shaping of every turn of a game, in order."""
    known, scores = Knowledge(), []
    for turn in turns:
        after = learn(known, turn.guess) if turn.guess else known
        scores.append(score_turn(known, turn, after, table))
        known = after
    return tuple(scores)


def default_reward(turns: Sequence[Turn], table: RewardTable = DEFAULT) -> RewardParts:
    """The reward that the task trains with; see the module's head.

    `turns` may be of a game that was broken off: with a guess in it, it counts as lost.
    """
    scores = score_turns(turns, table)
    guesses = [turn.guess for turn in turns if turn.guess]
    if not guesses:
        return _parts(table.no_guess, 0.0, scores, unplayed=0)
    if guesses[-1].marks == SOLVED:
        outcome = table.solved_first - table.solved_step * (len(guesses) - 1)
        return _parts(outcome, table.weight_solved, scores, unplayed=0)
    return _parts(table.lost, table.weight_unsolved, scores, unplayed=ATTEMPTS - len(guesses))


def _parts(
    outcome: float, weight: float, scores: tuple[TurnScore, ...], unplayed: int
) -> RewardParts:
    """Shaping is the mean over turns and unplayed attempts, the latter at -1. The last turn
    carries the outcome and the unplayed attempts."""
    count = len(scores) + unplayed
    shares = [weight * score.score / count for score in scores] or [0.0]
    shares[-1] += outcome - weight * unplayed / max(1, count)
    shaping = math.fsum([*(score.score for score in scores), -unplayed]) / max(1, count)
    return RewardParts(outcome, clip(shaping), weight, scores, tuple(shares))
