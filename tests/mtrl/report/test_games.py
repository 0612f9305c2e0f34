"""Trace lines become games, and games become sets that may be counted together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.trace import Trace
from mtrl.errors import InputError
from mtrl.report.games import Game, Kind, Sampling, group, read_line
from mtrl.report.reading import TraceFile, kept_stems, read_files, spread

Play = Callable[..., Trace]
Rows = Callable[[str], list[dict[str, Any]]]


def game(sampling: Sampling, row_id: str = "row", reward: float | None = 1.0) -> Game:
    return Game(row_id, reward, 3, "solved", "done", 10, 5, 1.0, sampling, {})


def test_a_jobs_line_gives_the_billed_tokens_and_where_the_game_was_played(
    play: Play, rows: Rows, line: Callable[..., str]
) -> None:
    row = rows("validation")[0]
    text = line(play(row, ["crane", row["answer"]]), "val", 5, prefill_tokens=999, attempts=2)
    found, kind, step = read_line(text)
    assert (kind, step) == (Kind.VALIDATION, 5)
    assert (found.prefill_tokens, found.attempts, found.turns) == (999, 2, 2)
    assert found.outcome == "solved"
    assert found.solved(1.0)


def test_a_bare_trace_gives_the_same_game_without_its_place(
    play: Play, rows: Rows, line: Callable[..., str]
) -> None:
    trace = play(rows("validation")[0], ["crane", "mamma"], stop="quit")
    bare, kind, step = read_line(trace.to_json())
    assert (kind, step) == (None, None)
    assert bare == read_line(line(trace))[0]


def test_a_reward_a_turn_is_summed(play: Play, rows: Rows) -> None:
    trace = replace(play(rows("validation")[0], ["crane"]), reward=[0.25, 0.5])
    assert read_line(trace.to_json())[0].reward == 0.75


def test_a_rollout_without_trace_is_a_game_that_says_why(line: Callable[..., str]) -> None:
    text = json.dumps({"phase": "eval", "step": 0, "row": 6, "trace": None, "reward": None,
                       "failure": "No sampling requests were received", "attempts": 4})  # fmt: skip
    found, _, _ = read_line(text)
    assert (found.row_id, found.outcome, found.failure) == (
        "row 7", "no trace", "No sampling requests were received",
    )  # fmt: skip
    assert not found.solved(0.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Expecting"),
        ("[1]", "not a JSON object"),
        ('{"a": 1}', "neither a trace nor"),
        ('{"trace": {"schema_version": 99}}', "schema_version 99"),
        ('{"trace": {"schema_version": 1}}', "not a trace"),
        ('{"trace": 7}', "not a trace"),
    ],
)
def test_a_line_that_is_no_trace_is_refused_with_its_fault(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_line(text)


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.6, 1.0]),
    effort=st.sampled_from([None, "low", "medium", "high"]),
    hint=st.sampled_from([None, "Think."]),
)


@given(st.lists(st.one_of(st.just(Sampling()), samplings), max_size=30))
def test_every_game_is_in_one_set_and_no_set_mixes_samplings(found: list[Sampling]) -> None:
    sets = group([game(sampling) for sampling in found], Kind.EVALUATION, "base")
    assert sum(len(games.games) for games in sets) == len(found)
    for games in sets:
        assert {g.sampling for g in games.games} <= {games.sampling, Sampling()}
    assert len({games.sampling for games in sets}) == len(sets)


def test_a_rollout_that_broke_before_sampling_stays_with_those_it_was_started_with() -> None:
    warm = Sampling(temperature=1.0, effort="low")
    sets = group([game(warm), game(Sampling(), reward=None)], Kind.EVALUATION, "base")
    assert [len(games.games) for games in sets] == [2]


def test_a_set_names_temperature_and_effort_even_when_they_are_not_set() -> None:
    assert Sampling(temperature=1.0).label == "temperature 1, effort not set"
    assert Sampling(0.0, "high", 0.9, 4096, "x").label == (
        "temperature 0, effort high, top-p 0.9, with a prompt hint"
    )


@given(st.integers(0, 300), st.integers(2, 12))
def test_kept_items_are_few_and_hold_both_ends(size: int, count: int) -> None:
    items = [f"train-{n:05d}" for n in range(size)]
    kept = spread(items, count)
    assert len(kept) == min(size, count)
    assert kept == sorted(set(kept))
    if items:
        assert (kept[0], kept[-1]) == (items[0], items[-1])


def test_only_training_steps_are_thinned_out() -> None:
    stems = [f"train-{n:05d}" for n in range(40)] + ["base", "val-00000", "val-00039"]
    kept = kept_stems(stems)
    assert {"base", "val-00000", "val-00039", "train-00000", "train-00039"} <= kept
    assert len(kept) == 11


def test_a_dropped_trace_is_still_counted(play: Play, rows: Rows, line: Callable[..., str]) -> None:
    text = line(play(rows("train")[0], ["crane"]), "train", 3).encode()
    reading = read_files([TraceFile("f", "train-00003", text)], keep=frozenset())
    assert [len(games.games) for games in reading.sets] == [1]
    assert reading.sets[0].games[0].trace is None
    assert reading.sets[0].name == "Training, step 3"


def test_a_bad_line_names_file_and_line(line: Callable[..., str], play: Play, rows: Rows) -> None:
    good = line(play(rows("train")[0], ["crane"]))
    with pytest.raises(InputError, match=r"eval\.jsonl, line 2: ") as caught:
        read_files([TraceFile("eval.jsonl", "eval", f"{good}\nnonsense\n".encode())])
    assert caught.value.remedy


def test_a_last_line_that_is_still_being_written_is_left_out_with_a_note(
    line: Callable[..., str], play: Play, rows: Rows
) -> None:
    good = line(play(rows("train")[0], ["crane"]))
    body = f"{good}\n{good[:100]}".encode()
    reading = read_files([TraceFile("eval.jsonl", "eval", body)])
    assert len(reading.sets[0].games) == 1
    assert "cut" in reading.notes[0]


def test_an_evaluation_is_called_after_its_file_unless_the_player_is_known(
    play: Play, rows: Rows
) -> None:
    body = json.dumps(asdict(play(rows("validation")[0], ["crane"]))).encode()
    file = TraceFile("x/trained.jsonl", "trained", body)
    assert read_files([file]).sets[0].name == "trained"
    assert read_files([file], policy="models/3").sets[0].name == "models/3"
