"""The counter-example does what it is kept for: it pays for a long game."""

from __future__ import annotations

import math
import random
from statistics import mean

import pytest

from agent.wordle.game import Game, Knowledge, learn, word_levels, words
from agent.wordle.reward import Turn, default_reward
from agent.wordle.reward_summed import summed_reward

COMMON = [word for word, level in word_levels().items() if level <= 20]


def play_carelessly(answer: str, care: float, rng: random.Random) -> tuple[bool, list[Turn]]:
    """A player that guesses a common word that fits the clues in a share `care` of its guesses,
    and any word in the rest."""
    game, known, turns, left = Game(answer), Knowledge(), [], COMMON
    while not game.over:
        left = [word for word in left if known.allows(word)]
        game = game.play(rng.choice(left if rng.random() < care else words()))
        known = learn(known, game.guesses[-1])
        turns.append(Turn(game.guesses[-1]))
    return game.solved, turns


@pytest.fixture(scope="module")
def careful() -> list[tuple[bool, list[Turn]]]:
    rng = random.Random(11)
    return [play_carelessly(answer, 1.0, rng) for answer in rng.sample(COMMON, 250)]


@pytest.fixture(scope="module")
def careless() -> list[tuple[bool, list[Turn]]]:
    rng = random.Random(12)
    return [play_carelessly(answer, 0.6, rng) for answer in rng.sample(COMMON, 250)]


def test_a_first_turn_solve_earns_less_than_a_slower_one(careful):
    at_once = summed_reward([Turn(Game("crane").play("crane").guesses[0])]).total
    third = [summed_reward(turns).total for solved, turns in careful if solved and len(turns) == 3]
    assert at_once == pytest.approx(0.99)
    assert mean(third) == pytest.approx(1.61, abs=0.15)


def test_a_careless_loss_is_paid(careless):
    losses = [summed_reward(turns).total for solved, turns in careless if not solved]
    assert mean(losses) == pytest.approx(0.49, abs=0.2)


def test_the_default_reward_ranks_the_same_games_the_other_way(careful):
    def by_turns(reward) -> list[float]:
        return [
            mean(reward(turns).total for solved, turns in careful if solved and len(turns) == n)
            for n in (3, 4, 5)
        ]

    assert by_turns(summed_reward) == sorted(by_turns(summed_reward))
    assert by_turns(default_reward) == sorted(by_turns(default_reward), reverse=True)


def test_its_turns_sum_to_its_total(careless):
    for _, turns in careless:
        parts = summed_reward(turns)
        assert math.fsum(parts.per_turn) == parts.total == parts.outcome
    assert summed_reward([]).per_turn == (-0.5,)
