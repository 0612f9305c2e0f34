"""`python -m rehearsal.optimise`: train the behaviour policy on a reward in this process, and say
what it learned.

The learner, the policy and the order of draws are those of a training job. In: a task and one of
its rewards. Out: one JSON object on standard output (`mtrl.audit.learned.Learned`); before it, a
line a measurement on standard error.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from mtrl.audit.learned import Behaviour, Learned, Measured
from mtrl.errors import MtrlError
from mtrl.job.hyperparameters import TRAINING
from rehearsal.advantage import turn_advantages
from rehearsal.arena import Arena, Choose, load_arena, sampled, scripted
from rehearsal.draws import DrawKey, shuffled
from rehearsal.learner import AdamConfig, LearnerState, ScoredTurn, policy_gradient, update
from rehearsal.policies.behaviour import BehaviourPolicy, behaviour_names, initial_weights

_DEFAULTS = {name: spec.default for name, spec in TRAINING.items()}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how wide to train. The rest is a training job's defaults."""

    steps: int = 20
    problems: int = 32
    """Rows a step."""
    group: int = _DEFAULTS["group_size"]
    measure_every: int = 5
    """Steps."""
    seed: int = 1


DEFAULT_PLAN = Plan()


def optimise(
    arena: Arena,
    plan: Plan = DEFAULT_PLAN,
    on_measured: Callable[[Measured], None] = lambda measured: None,
) -> Learned:
    """Train, and measure on the way. The same plan always gives the same result."""
    start_K = initial_weights(arena.space)
    state = LearnerState.fresh(start_K)
    adam = AdamConfig.from_hyperparameters(_DEFAULTS)
    curve = []
    for step in range(plan.steps + 1):
        policy = BehaviourPolicy(arena.space, state.weights_K)
        if step % plan.measure_every == 0 or step == plan.steps:
            curve.append(_measure(arena, sampled(policy), plan.seed, step))
            on_measured(curve[-1])
        if step < plan.steps:
            state = update(state, _gradient(arena, policy, plan, step), adam)
    return Learned(
        task=arena.hooks.task(arena.reward).name,
        reward=arena.reward,
        steps=plan.steps,
        games=plan.steps * plan.problems * plan.group,
        curve=tuple(curve),
        yardstick=_yardstick(arena, plan.seed),
        behaviours=_behaviours(arena, start_K, state.weights_K),
    )


def _gradient(arena: Arena, policy: BehaviourPolicy, plan: Plan, step: int) -> NDArray[np.float64]:
    """One step's games, and the direction of ascent that they give."""
    choose, count = sampled(policy), len(arena.train)
    groups = []
    for place in range(step * plan.problems, (step + 1) * plan.problems):
        row = shuffled(count, plan.seed, "order", place // count)[place % count]
        keys = [DrawKey(plan.seed, "train", step, row, g) for g in range(plan.group)]
        groups.append([arena.play(choose, arena.train[row], key) for key in keys])
    rewards = [[[game.reward] for game in group] for group in groups]
    advantages = turn_advantages(
        _DEFAULTS["advantage_method"], rewards, np.ones((plan.problems, plan.group))
    )
    turns = [
        ScoredTurn(score, advantage[0])
        for group, of_group in zip(groups, advantages, strict=True)
        for game, advantage in zip(group, of_group, strict=True)
        for score in game.scores
    ]
    return policy_gradient(turns, len(policy.weights_K))


def _measure(arena: Arena, choose: Choose, seed: int, step: int | None) -> Measured:
    games = [
        arena.play(choose, row, DrawKey(seed, "eval", step or 0, i, 0))
        for i, row in enumerate(arena.held_out)
    ]
    turns = [game.turns for game in games if game.success]
    return Measured(
        step=step,
        games=len(games),
        solve_rate=len(turns) / len(games),
        turns_to_win=sum(turns) / len(turns) if turns else None,
        reward=math.fsum(game.reward for game in games) / len(games),
    )


def _yardstick(arena: Arena, seed: int) -> Measured | None:
    if arena.hooks.yardstick is None:
        return None
    player = arena.players[arena.hooks.yardstick]
    return _measure(arena, scripted(player, arena.space), seed, None)


def _behaviours(
    arena: Arena, before_K: NDArray[np.float64], after_K: NDArray[np.float64]
) -> tuple[Behaviour, ...]:
    meanings = {**arena.space.word_habits, **arena.space.format_habits}
    weights = zip(behaviour_names(arena.space), before_K, after_K, strict=True)
    return tuple(
        Behaviour(name, meanings[name][0], float(before), float(after))
        for name, before, after in weights
    )


@click.command(context_settings={"show_default": True})
@click.option("--task", required=True)
@click.option("--reward", required=True)
@click.option("--steps", default=DEFAULT_PLAN.steps, type=click.IntRange(1, 1000))
@click.option("--seed", default=DEFAULT_PLAN.seed)
@click.option("--train", "train_file", type=click.Path(path_type=Path), default=None)
@click.option("--held-out", "held_out_file", type=click.Path(path_type=Path), default=None)
def main(
    task: str,
    reward: str,
    steps: int,
    seed: int,
    train_file: Path | None,
    held_out_file: Path | None,
) -> None:
    """Train the behaviour policy on a task's reward; print what it learned as JSON."""
    try:
        arena = load_arena(task, reward, train_file, held_out_file)
    except MtrlError as error:
        raise click.UsageError(str(error)) from None

    def tell(measured: Measured) -> None:
        print(json.dumps(asdict(measured)), file=sys.stderr, flush=True)

    print(optimise(arena, Plan(steps=steps, seed=seed), tell).to_json())


if __name__ == "__main__":
    main()
