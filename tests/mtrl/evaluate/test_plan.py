"""Cells are what their settings say: never played twice, never taken for each other."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtrl.errors import InputError
from mtrl.evaluate.plan import (
    Cell,
    Conditions,
    Kind,
    Policy,
    all_conditions,
    cell_from_data,
    matrix,
    split_label,
    unique,
    upstream_policy,
)

BASE = Policy("base", Kind.BASE)
SOLVER = Policy("solver", Kind.PLAYER, "solver")
CONDITIONS = st.builds(
    Conditions,
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    effort=st.sampled_from([None, "low", "high"]),
    hint=st.sampled_from([None, "Think.", "Do not."]),
    repeats=st.integers(1, 32),
)
CELLS = st.builds(
    Cell,
    policy=st.sampled_from([BASE, SOLVER, Policy("trained", Kind.PACKAGE, "arn:x")]),
    conditions=CONDITIONS,
    rows_sha=st.sampled_from(["a" * 64, "b" * 64]),
    values=st.sampled_from([(), (("sampling_max_tokens", 512),)]),
)


@given(CELLS, CELLS)
def test_cells_share_an_id_only_when_they_are_the_same(one: Cell, other: Cell) -> None:
    assert (one.id == other.id) == (one == other)


@given(CELLS)
def test_a_cell_comes_back_from_its_json(cell: Cell) -> None:
    assert cell_from_data(json.loads(json.dumps(asdict(cell)))) == cell


def test_a_cells_id_says_what_it_is() -> None:
    cell = Cell(BASE, Conditions(0.7, "low", "Think.", 4), "a" * 64)
    assert cell.id.startswith("base-t07-low-hint-x4-")
    assert cell.title == "base (T 0.7, low effort, hint)"


def test_the_matrix_has_every_policy_under_every_condition() -> None:
    conditions = all_conditions([0.0, 1.0], ["low", "medium"], [None], 2)
    cells = matrix([BASE, replace(BASE, label="other")], conditions, "a" * 64)
    assert len({cell.id for cell in cells}) == 2 * 2 * 2


def test_a_scripted_player_is_played_once_since_nothing_applies_to_it() -> None:
    conditions = all_conditions([0.0, 1.0], [None, "low"], [None], 3)
    [cell] = matrix([SOLVER], conditions, "a" * 64)
    assert cell.conditions == Conditions(repeats=3)
    assert cell.title == "solver"


def test_only_settings_that_are_wanted_go_into_a_row() -> None:
    assert Conditions(effort="low").row_settings == {"reasoning_effort": "low"}
    assert Conditions().row_settings == {}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("base", (None, "base")),
        ("mine=arn:aws:x", ("mine", "arn:aws:x")),
        ("http://host/v1?a=b", (None, "http://host/v1?a=b")),
        ("vllm=http://host/v1?a=b", ("vllm", "http://host/v1?a=b")),
    ],
)
def test_a_label_stands_before_the_first_equals_sign(
    text: str, parts: tuple[str | None, str]
) -> None:
    assert split_label(text) == parts


@pytest.mark.parametrize("label", ["", "Upper", "a--b", "a/b", "x" * 25])
def test_a_label_that_cannot_be_part_of_a_name_is_refused(label: str) -> None:
    with pytest.raises(InputError, match="label"):
        split_label(f"{label}=base")


def test_an_upstream_server_may_name_its_model() -> None:
    policy = upstream_policy("vllm", "http://127.0.0.1:8000/v1#gpt-oss-20b")
    assert (policy.target, policy.model) == ("http://127.0.0.1:8000/v1", "gpt-oss-20b")
    assert policy.local
    with pytest.raises(InputError, match="not an http"):
        upstream_policy(None, "ftp://host")


def test_one_label_for_two_policies_is_refused() -> None:
    with pytest.raises(InputError, match="two policies"):
        unique([BASE, replace(SOLVER, label="base")])
    assert unique([BASE, BASE]) == [BASE]
