"""Randomness keyed by what it is for, not by when it is drawn.

A draw depends on the seed and on its place in the job alone, so the same seed gives the same
curve whatever the concurrency, the order of arrival or the number of retries.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

_MANTISSA_BITS = 53


@dataclass(frozen=True, slots=True)
class DrawKey:
    """The place of one rollout in a job."""

    seed: int
    phase: str
    """"train", "val" or "eval"."""
    step: int
    group: int
    """Index of the task row within its data set."""
    rollout: int
    """Index within the group."""

    def uniform(self, turn: int, purpose: str = "action") -> float:
        """A number in [0, 1), the same for the same key, turn and purpose."""
        return uniform(self.seed, self.phase, self.step, self.group, self.rollout, turn, purpose)


def uniform(*key: int | str) -> float:
    """A number in [0, 1) that depends on `key` alone."""
    text = "\x1f".join(str(part) for part in key)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> (64 - _MANTISSA_BITS)) / (1 << _MANTISSA_BITS)


def shuffled(count: int, *key: int | str) -> list[int]:
    """The numbers 0 to count - 1 in an order that depends on `key` alone."""
    return sorted(range(count), key=lambda i: uniform(*key, i))
