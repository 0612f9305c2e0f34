"""docs/reward.md tells the figures that the code computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.wordle.game import Guess, feedback
from agent.wordle.reward import Turn, default_reward
from agent.wordle.reward_summed import summed_reward

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reward.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| ([a-z, ]+) \| ([+-][\d.]+) \| ([+-][\d.]+) \| ([+-][\d.]+) \|$", re.MULTILINE
)
SPECIAL = {
    "the same, each written as text": ["stare", "grape", "crane"],
    "stare, then silence": ["stare"],
    "six malformed calls": [None] * 6,
}


def turns_of(guesses: str) -> list[Turn]:
    as_text = guesses.endswith("as text")
    words = SPECIAL.get(guesses, guesses.split(", "))
    return [Turn(Guess(word, feedback("crane", word)) if word else None, as_text) for word in words]


@pytest.mark.parametrize(("guesses", "shaping", "reward", "summed"), ROW.findall(PAGE))
def test_the_games_of_the_page_earn_what_it_says(guesses, shaping, reward, summed):
    turns = turns_of(guesses)
    assert f"{default_reward(turns).shaping:+.2f}" == shaping
    assert f"{default_reward(turns).total:+.3f}" == reward
    assert f"{summed_reward(turns).total:+.2f}" == summed


def test_the_page_has_the_games():
    assert len(ROW.findall(PAGE)) == 8
