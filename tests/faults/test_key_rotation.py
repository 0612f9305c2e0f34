"""Two hours of rollouts on a simulated clock: no rotation of the keys is ever felt by one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.key_rotation import play

HOURS, KEYS_LIVE_S = 2, 900


@pytest.mark.slow
def test_two_hours_across_rotations_without_one_refused_request(tmp_path: Path) -> None:
    result = asyncio.run(play(HOURS, 2, KEYS_LIVE_S, tmp_path))
    assert (result.reached, result.refused) == ([], 0)
    assert result.pairs >= HOURS * 3600 / KEYS_LIVE_S
    assert result.rollouts > 200


def test_tokens_that_outlive_their_keys_are_refused_and_replaced(tmp_path: Path) -> None:
    """The service does check, and the agent does recover."""
    result = asyncio.run(play(0.25, 2, 100, tmp_path, hide_expiry=True))
    assert result.refused > 0
    assert result.reached == []
