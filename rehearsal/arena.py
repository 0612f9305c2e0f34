"""Plays a task's games in this process: no HTTP, no tokens, no files.

What a training job does through the agent, at the speed that judging a reward within a minute
needs. Moves go through the episode's own seam: its tools, or its recovery of text.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.audit import AuditHooks
from agent.settings import Settings
from agent.task import TASKS, Episode
from mtrl.audit.hooks import load_hooks
from mtrl.dataset.build import folder_of
from mtrl.dataset.files import check_readable, read_records
from mtrl.errors import InputError
from mtrl.job.hyperparameters import TRAINING
from rehearsal.draws import DrawKey
from rehearsal.policies.behaviour import BehaviourPolicy, BehaviourSpace
from rehearsal.policies.scripted import Player

MAX_ANSWERS = Settings().max_policy_calls
TEMPERATURE: float = TRAINING["temperature"].default
Heard = tuple[dict[str, str], ...]
"""The conversation, as far as `BehaviourSpace.read` needs it."""
Choose = Callable[[Heard, DrawKey], tuple[dict[str, Any], Any]]
"""(conversation, draws) -> a move (see `BehaviourSpace.move`) and the gradient of its
log-probability, None when it has none."""


@dataclass(frozen=True, slots=True)
class Game:
    """A game that was played to its end, or to the cap on answers."""

    episode: Episode
    reward: float
    success: bool
    scores: tuple[Any, ...]
    """One gradient an answer."""

    @property
    def turns(self) -> int:
        """The task's own count."""
        return int(self.episode.summary()["turns"])


@dataclass(frozen=True, slots=True)
class Arena:
    """A task under one reward, and the rows to play."""

    hooks: AuditHooks
    reward: str
    space: BehaviourSpace
    players: Mapping[str, Player]
    train: Sequence[str]
    held_out: Sequence[str]

    def play(self, choose: Choose, row: str, key: DrawKey) -> Game:
        """One game."""
        episode = self.hooks.task(self.reward).start(row)
        heard: Heard = ()
        scores = []
        while not episode.done and len(scores) < MAX_ANSWERS:
            move, score = choose(heard, key)
            scores.append(score)
            answer = {"role": "tool", "content": _answer(episode, move)}
            heard = (*heard, {"role": "assistant", "content": ""}, answer)
        reward = episode.reward()
        success = {outcome.name: outcome.success for outcome in self.hooks.outcomes}
        return Game(
            episode=episode,
            reward=math.fsum(reward) if isinstance(reward, list) else float(reward),
            success=success[self.hooks.outcome(episode)],
            scores=tuple(scores),
        )


def sampled(policy: BehaviourPolicy) -> Choose:
    """Moves of the behaviour policy."""

    def choose(heard: Heard, key: DrawKey) -> tuple[dict[str, Any], Any]:
        turn = len(heard) // 2
        state = policy.space.read(heard)
        chosen = policy.choose(state, lambda purpose: key.uniform(turn, purpose), TEMPERATURE)
        return policy.space.move(chosen.move, chosen.form), chosen.score_K

    return choose


def scripted(player: Player, space: BehaviourSpace) -> Choose:
    """Moves of one of the task's players."""

    def choose(heard: Heard, key: DrawKey) -> tuple[dict[str, Any], Any]:
        turn = len(heard) // 2
        return player(space.read(heard), turn, key.uniform(turn, "move")), None

    return choose


def load_arena(
    task: str, reward: str, train: Path | None = None, held_out: Path | None = None
) -> Arena:
    """A registered task with its rows; its own data set where no file is given.

    Raises:
        InputError: no such task, reward or file, or a file without rows.
    """
    hooks = load_hooks(task)
    if reward not in hooks.rewards:
        raise InputError(
            "unknown-reward", f"no reward named {reward!r}.", f"Known: {', '.join(hooks.rewards)}."
        )
    package = TASKS[task]
    return Arena(
        hooks=hooks,
        reward=reward,
        space=importlib.import_module(f"{package}.behaviours").BEHAVIOUR_SPACE,
        players=importlib.import_module(f"{package}.players").PLAYERS,
        train=_rows(train or folder_of(task) / "train.jsonl"),
        held_out=_rows(held_out or folder_of(task) / "validation.jsonl"),
    )


def _rows(path: Path) -> list[str]:
    check_readable(path)
    rows = [record.prompt for record in read_records(path) if record.prompt is not None]
    if not rows:
        raise InputError("no-rows", f"{path} has no rows.")
    return rows


def _answer(episode: Episode, move: Mapping[str, Any]) -> str:
    """What the environment says to a move."""
    if "tool" not in move:
        return episode.recover(move["text"]) or ""
    tool = next(tool for tool in episode.tools if tool.tool_name == move["tool"])
    return str(tool(**json.loads(move["arguments"])))
