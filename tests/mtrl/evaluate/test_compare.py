"""A difference is told when it means something, and refused when it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mtrl.errors import InputError
from mtrl.evaluate.compare import comparable, compare, differing
from mtrl.evaluate.figures import result
from mtrl.evaluate.plan import Conditions
from mtrl.statistics import mcnemar, sign_flip_p

FIRST = [True] * 10 + [False] * 20
SECOND = [True] * 8 + [False] * 2 + [True] * 12 + [False] * 8


def test_the_same_rows_are_paired(hand: Any) -> None:
    found = compare(hand.games(hand.cell, FIRST), hand.games(hand.trained, SECOND))
    test = mcnemar(FIRST, SECOND)
    assert (found.factor, found.rows) == ("policy", 30)
    assert (found.only_first, found.only_second) == (2, 12)
    assert (found.p, found.mid_p) == (test.exact_p, test.mid_p)
    assert found.solve_rate == pytest.approx(10 / 30)
    assert 0 < found.low < found.solve_rate < found.high
    assert found.reward_low < found.reward < found.reward_high


def test_order_and_missing_rows_do_not_matter(hand: Any) -> None:
    first = hand.games(hand.cell, FIRST)
    second = hand.result(
        hand.trained, [hand.line(f"r{i}", won) for i, won in reversed(list(enumerate(SECOND)))][5:]
    )
    assert compare(first, second).rows == 25


def test_several_games_a_row_are_tested_by_rows(hand: Any) -> None:
    wins = [(2, 3), (0, 2), (1, 1), (3, 3), (0, 3)]
    first, second = (
        hand.result(
            cell,
            [hand.line(f"r{i}", g < pair[side]) for i, pair in enumerate(wins) for g in range(3)],
        )
        for side, cell in enumerate((hand.cell, hand.trained))
    )
    found = compare(first, second)
    assert found.p == sign_flip_p([1, 2, 0, 0, 3])
    assert found.mid_p is None
    assert (found.only_first, found.only_second) == (0, 3)


def test_a_rollout_without_a_reward_counts_as_not_solved(hand: Any) -> None:
    import json

    broken = json.loads(hand.line("r0", True)) | {"reward": None, "trace": None, "row": 0}
    first = hand.result(hand.cell, [hand.line("row 1", True)])
    second = hand.result(hand.trained, [json.dumps(broken), hand.line("r1", True)])
    assert compare(first, second).only_first == 1


def test_two_policies_at_two_temperatures_are_refused(hand: Any) -> None:
    cold = replace(hand.trained, conditions=Conditions(0.0))
    first, second = hand.games(hand.cell, FIRST), hand.games(cold, SECOND)
    assert not comparable(first, second)
    with pytest.raises(InputError, match="differ in policy, temperature"):
        compare(first, second)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"rows_sha": "b" * 64}, "rows"),
        ({"conditions": Conditions(1.0, hint="Think.")}, "hint"),
    ],
)
def test_what_differs_beside_the_policy_is_named(
    hand: Any, changed: dict[str, Any], named: str
) -> None:
    other = replace(hand.trained, **changed)
    settings = {"temperature": 1.0, "prompt_hint": other.conditions.hint}
    second = hand.games(other, SECOND, **settings)
    assert differing(hand.games(hand.cell, FIRST), second) == ["policy", named]


def test_cells_of_two_agents_are_not_compared(hand: Any) -> None:
    first = hand.games(hand.cell, FIRST)
    second = hand.games(hand.trained, SECOND)
    newer = replace(second, entry=replace(second.entry, agent_hash="other"))
    with pytest.raises(InputError, match="policy, agent"):
        compare(first, newer)


def test_what_was_refused_by_the_model_counts_as_refused(hand: Any) -> None:
    low = replace(hand.cell, conditions=Conditions(1.0, effort="low"))
    first = hand.games(hand.cell, FIRST)
    refused = hand.games(low, SECOND, temperature=1.0, reasoning_effort=None)
    with pytest.raises(InputError, match="differ in nothing"):
        compare(first, refused)


def test_a_cell_whose_games_were_sampled_differently_is_not_compared(hand: Any) -> None:
    mixed = hand.result(
        hand.trained, [hand.line("r0", True), hand.line("r1", True, reasoning_effort="low")]
    )
    first = hand.games(hand.cell, FIRST)
    assert not comparable(first, mixed)
    with pytest.raises(InputError, match="not all sampled under the same"):
        compare(first, mixed)


def test_a_player_is_compared_under_any_sampling(hand: Any) -> None:
    found = compare(hand.games(hand.solver, SECOND), hand.games(hand.cell, FIRST))
    assert found.factor == "policy"
    assert found.sample_ratio is None


def test_a_cell_without_games_is_not_compared(hand: Any) -> None:
    bare = result(hand.entry(hand.trained, traced=False), b"", 1.0, None)
    with pytest.raises(InputError, match="no games to pair"):
        compare(hand.games(hand.cell, FIRST), bare)


def test_cells_without_a_common_row_are_not_compared(hand: Any) -> None:
    second = hand.result(hand.trained, [hand.line("elsewhere", True)])
    with pytest.raises(InputError, match="no row in common"):
        compare(hand.games(hand.cell, FIRST), second)
