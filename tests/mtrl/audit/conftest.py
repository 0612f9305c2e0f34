"""A second, tiny task, so that the audit is proved on more than Wordle.

A dial hides a digit; the policy has three tries and hears "higher" or "lower". Rewards and leaks
are chosen by each test.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import pytest
from strands import tool

from agent.audit import Adversary, Answer, Outcome, Play, Sent
from agent.task import TASKS

TRIES = 3
Reward = Callable[[Sequence[int], int], float | list[float]]


def fair_reward(tries: Sequence[int], secret: int) -> float:
    """Sooner is better; a loss that comes nearer is a little better; not playing is worst."""
    if secret in tries:
        return 2.0 - 0.1 * len(tries)
    if not tries:
        return -2.0
    near = sum(10 - abs(secret - value) for value in tries) / (TRIES * 10)
    return -1.0 + 0.5 * near


class DialEpisode:
    system_prompt = "Find the digit with the tool turn."
    user_prompt = "Begin."

    def __init__(self, secret: int, reward: Reward, leak: Callable[[int], str]) -> None:
        self._secret, self._reward, self._leak = secret, reward, leak
        self.tries: list[int] = []

    @cached_property
    def tools(self) -> list[Any]:
        @tool(name="turn", description="Turn the dial to a digit.")
        def turn(digit: Any = None) -> str:
            return self.turn(digit)

        return [turn]

    def turn(self, digit: Any) -> str:
        if self.done:
            return "It is over."
        if not isinstance(digit, int) or not 0 <= digit <= 9:
            return "Not a digit."
        self.tries.append(digit)
        if digit == self._secret:
            return "Open."
        return ("higher" if self._secret > digit else "lower") + self._leak(self._secret)

    @property
    def solved(self) -> bool:
        return self._secret in self.tries

    @property
    def done(self) -> bool:
        return self.solved or len(self.tries) == TRIES

    def recover(self, text: str) -> str | None:
        return None

    def reward(self) -> float | list[float]:
        return self._reward(self.tries, self._secret)

    def summary(self) -> dict[str, Any]:
        return {"turns": len(self.tries), "solved": self.solved}


@dataclass
class DialTask:
    reward: Reward
    leak: Callable[[int], str]
    name: str = "dial"

    def start(self, prompt: str) -> DialEpisode:
        return DialEpisode(json.loads(prompt)["secret"], self.reward, self.leak)


def _stubborn() -> Adversary:
    return lambda sent: Answer(calls=(("turn", {"digit": 0}),))


def _silent() -> Adversary:
    return lambda sent: Answer("no")


def _reader() -> Adversary:
    def answer(sent: Sent) -> Answer:
        told = [json.dumps(m["content"]) for m in sent.messages if m["role"] != "assistant"]
        clues = told[-1].partition("secret ")[2]
        return Answer(calls=(("turn", {"digit": int(clues[0]) if clues else 0}),))

    return answer


@dataclass
class DialAudit:
    """The dial's hooks; the reward and the leak are what a test wants to be found."""

    reward: Reward = fair_reward
    leak: Callable[[int], str] = lambda secret: ""
    rewards: Sequence[str] = ("default",)
    yardstick: str | None = None
    outcomes: Sequence[Outcome] = (
        Outcome("try 1", True, 0),
        Outcome("try 2", True, 1),
        Outcome("try 3", True, 2),
        Outcome("lost", False, 3),
        Outcome("never played", False, 4),
    )
    groups: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: {"every game is lost": ("lost",)}
    )
    adversaries: Mapping[str, Callable[[], Adversary]] = field(
        default_factory=lambda: {"is stubborn": _stubborn, "is silent": _silent, "reads": _reader}
    )

    def task(self, reward: str) -> Any:
        return DialTask(self.reward, self.leak)

    def rows(self) -> Sequence[str]:
        return tuple(json.dumps({"secret": digit}) for digit in range(10))

    def seed(self, outcome: Outcome, row: str, draw: Random) -> Play:
        secret = json.loads(row)["secret"]
        wrong = [digit for digit in range(10) if digit != secret]
        misses = {"lost": TRIES, "never played": 0}.get(outcome.name, outcome.rank)
        moves = draw.choices(wrong, k=misses)
        return Play(row, (*moves, secret) if outcome.success else tuple(moves))

    def vary(self, play: Play, draw: Random) -> Play:
        moves = list(play.moves)
        if moves:
            moves[draw.randrange(len(moves))] = draw.randrange(10)
        return Play(play.row, tuple(moves))

    def send(self, episode: Any, move: int) -> str:
        return episode.turn(move)

    def outcome(self, episode: Any) -> str:
        if episode.solved:
            return f"try {len(episode.tries)}"
        return "lost" if episode.tries else "never played"

    def describe(self, play: Play) -> str:
        return f"{play.row}: {play.moves}"

    def secrets(self, row: str) -> Sequence[str]:
        return (f"secret {json.loads(row)['secret']}",)

    def exploit_rows(self) -> Sequence[str]:
        return self.rows()[6:9]

    def honest_loss(self, row: str) -> Play:
        secret = json.loads(row)["secret"]
        return Play(row, (secret - 2, secret - 1, secret + 1))

    def twins(self, draw: Random) -> Sequence[tuple[Play, Play]]:
        return [(Play(self.rows()[7], (2, 5)), Play(self.rows()[8], (2, 5)))]


@pytest.fixture
def dial() -> DialAudit:
    """The dial with a fair reward and no leak."""
    return DialAudit()


@pytest.fixture
def registered(dial: DialAudit, monkeypatch: pytest.MonkeyPatch) -> DialAudit:
    """The dial as a registered task, for the command."""
    module = types.ModuleType("dial_of_the_tests.audit")
    module.__dict__["AUDIT"] = dial
    package = types.ModuleType("dial_of_the_tests")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "dial_of_the_tests", package)
    monkeypatch.setitem(sys.modules, "dial_of_the_tests.audit", module)
    monkeypatch.setitem(TASKS, "dial", "dial_of_the_tests")
    return dial
