"""The Wordle task: a row's text in, an episode that answers moves and knows its reward out.

The answer lives in the game's state alone. It is in no prompt, tool description, feedback,
error, repr or summary; an episode that is solved has of course been told it by the player.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from agent.wordle import narration
from agent.wordle.game import Game, Guess, Knowledge, in_dictionary, learn
from agent.wordle.prompts import (
    ARGUMENT_DESCRIPTION,
    SYSTEM_PROMPT,
    TOOL_DESCRIPTION,
    TOOL_NAME,
)
from agent.wordle.recovery import find_move
from agent.wordle.reward import RewardParts, Turn, Violations
from agent.wordle.row import Row, guess_fault, parse_row
from agent.wordle.settings import REWARDS, RewardSettings, from_environment


@dataclass(frozen=True, slots=True)
class _Played:
    """A turn, and whether its word was in the list and new."""

    turn: Turn
    in_dictionary: bool = True
    repeated: bool = False


class WordleEpisode:
    """One game. Serves one rollout and is thrown away; see `agent.task.Episode`."""

    def __init__(self, row: Row, settings: RewardSettings) -> None:
        self.row_id = row.row_id
        self.system_prompt = SYSTEM_PROMPT
        self.user_prompt = row.prompt
        self._settings = settings
        self._game = Game(row.answer)
        self._known = Knowledge()
        self._moves: list[_Played] = []
        self._parts: RewardParts | None = None
        """The reward of `_moves`, once it has been asked for."""
        self._lock = threading.Lock()
        """Guards the four above: tool calls of one message may run in threads."""

    @cached_property
    def tools(self) -> list[Any]:
        """The one Strands tool, `guess_word`, bound to this episode."""
        from strands import tool

        schema = {
            "type": "object",
            "properties": {"guess": {"type": "string", "description": ARGUMENT_DESCRIPTION}},
            "required": ["guess"],
        }

        # The parameter takes anything, so that a call with no string in it is answered and
        # counted here like every other malformed one.
        @tool(name=TOOL_NAME, description=TOOL_DESCRIPTION, inputSchema={"json": schema})
        def guess_word(guess: Any = None) -> str:
            return self.guess(guess)

        return [guess_word]

    @property
    def done(self) -> bool:
        """True once the game is solved or its attempts are used up."""
        return self._game.over

    def guess(self, word: Any) -> str:
        """Answer one tool call."""
        return self._move(word, as_text=False)

    def recover(self, text: str) -> str | None:
        """Apply the first move written in `text`; None when it holds none."""
        word = find_move(text)
        return None if word is None else self._move(word, as_text=True)

    def _move(self, raw: Any, as_text: bool) -> str:
        with self._lock:
            if self.done:
                return narration.GAME_OVER
            self._parts = None
            fault = guess_fault(raw)
            if fault:
                self._moves.append(_Played(Turn(None, as_text)))
                return narration.not_played(fault)
            return self._play(raw.strip().lower(), as_text)

    def _play(self, word: str, as_text: bool) -> str:
        listed, repeated = in_dictionary(word), word in self._known.tried
        self._game = self._game.play(word)
        last = self._game.guesses[-1]
        self._known = learn(self._known, last)
        self._moves.append(_Played(Turn(last, as_text), listed, repeated))
        return narration.played(self._game, self._known, listed)

    def reward_parts(self) -> RewardParts:
        """The reward so far and what it is made of."""
        with self._lock:
            if self._parts is None:
                turns = [move.turn for move in self._moves]
                self._parts = REWARDS[self._settings.reward](turns)
            return self._parts

    def reward(self) -> float | list[float]:
        """One float for the episode, or one a turn with the same sum when so configured.

        A turn here is a move that was answered: a played guess or a malformed call.
        """
        parts = self.reward_parts()
        return list(parts.per_turn) if self._settings.per_turn else parts.total

    @property
    def turns(self) -> int:
        """Guesses played."""
        return len(self._game.guesses)

    @property
    def outcome(self) -> str:
        """solved, lost, unfinished (has guesses, attempts left) or unplayed."""
        if self._game.solved:
            return "solved"
        if not self._game.guesses:
            return "unplayed"
        return "lost" if self.done else "unfinished"

    def summary(self) -> dict[str, Any]:
        """JSON-safe facts of the game so far; the answer only as a solved game's last guess."""
        parts = self.reward_parts()
        return {
            "outcome": self.outcome,
            "solved": self._game.solved,
            "turns": self.turns,
            "guesses": [
                _guess_facts(move, move.turn.guess) for move in self._moves if move.turn.guess
            ],
            "violations": _violation_counts(parts),
            "formats": self._formats(),
            "reward_parts": {
                "outcome": parts.outcome,
                "shaping": parts.shaping,
                "weight": parts.weight,
                "total": parts.total,
                "turns": [
                    asdict(score) | {"reward": share}
                    for score, share in zip(parts.turns, parts.per_turn, strict=False)
                ],
            },
        }

    def _formats(self) -> dict[str, int]:
        as_text = sum(move.turn.as_text for move in self._moves)
        return {
            "tool_calls": len(self._moves) - as_text,
            "text_moves": as_text,
            "malformed": sum(move.turn.guess is None for move in self._moves),
        }


def _guess_facts(move: _Played, guess: Guess) -> dict[str, Any]:
    return {
        "word": guess.word,
        "marks": guess.marks,
        "in_dictionary": move.in_dictionary,
        "repeated": move.repeated,
        "recovered": move.turn.as_text,
    }


def _violation_counts(parts: RewardParts) -> dict[str, int]:
    counts = Counter(dict.fromkeys(Violations.__slots__, 0))
    for score in parts.turns:
        counts.update(asdict(score.violations))
    return dict(counts)


class WordleTask:
    """The task's entry point; see `agent.task.Task`."""

    name = "wordle"

    def __init__(self, reward: str | None = None, per_turn: bool | None = None) -> None:
        """What is not given comes from the environment (`agent.wordle.settings`).

        Raises:
            ValueError: no such reward, or an environment variable that cannot be read.
        """
        base = from_environment(os.environ)
        self.settings = RewardSettings(
            base.reward if reward is None else reward,
            base.per_turn if per_turn is None else per_turn,
        )

    def start(self, prompt: str) -> WordleEpisode:
        """Begin the game of a row.

        Raises:
            TaskFormatError: names the row's field and its fault, never the answer.
        """
        return WordleEpisode(parse_row(prompt), self.settings)

    def identity(self, prompt: str) -> str:
        """What makes two rows the same game: the answer. For data checks, never for the policy.

        Raises:
            TaskFormatError: as `start`.
        """
        return parse_row(prompt).answer


TASK = WordleTask()
