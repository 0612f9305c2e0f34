"""Which reward the task computes, and in which form: the task's only settings.

The runtime's environment chooses; an argument to `WordleTask` overrules it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.wordle.reward import RewardParts, Turn, default_reward
from agent.wordle.reward_summed import summed_reward

REWARDS: dict[str, Callable[[Sequence[Turn]], RewardParts]] = {
    "default": default_reward,
    "summed": summed_reward,
}
"""Name -> reward. `default` is for training; `summed` shows what an audit must find."""

REWARD = "WORDLE_REWARD"
"""Environment variable: a name in REWARDS."""
PER_TURN = "WORDLE_REWARD_PER_TURN"
"""Environment variable: 1 reports one reward a turn (for advantage methods that want it)."""
SWITCH = {"": False, "0": False, "false": False, "1": True, "true": True}


@dataclass(frozen=True, slots=True)
class RewardSettings:
    """The reward's name and form.

    Raises:
        ValueError: no such reward.
    """

    reward: str = "default"
    per_turn: bool = False
    """False: one float for the episode. True: a list, one float a turn, with the same sum."""

    def __post_init__(self) -> None:
        if self.reward not in REWARDS:
            known = ", ".join(sorted(REWARDS))
            raise ValueError(f"{REWARD}: no reward named {self.reward!r}; known: {known}")


def from_environment(environment: Mapping[str, str]) -> RewardSettings:
    """Read the settings; what is unset is default.

    Raises:
        ValueError: names the variable, its value and what it may be.
    """
    switch = environment.get(PER_TURN, "").strip().lower()
    if switch not in SWITCH:
        raise ValueError(f"{PER_TURN}: {switch!r} is neither 0 nor 1")
    return RewardSettings(environment.get(REWARD) or "default", SWITCH[switch])
