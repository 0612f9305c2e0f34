"""Rows carry the settings they are to be played with, and are read by the task before a job is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.rollout import read_row
from agent.settings import Settings
from agent.task import load_task
from mtrl.errors import InputError
from mtrl.evaluate.plan import Conditions
from mtrl.evaluate.rows import RowSet, check, read_rows, written

ROW = {"prompt": "Play.", "answer": "crane", "id": "r-1"}
ROWS = RowSet("rows.jsonl", (json.dumps(ROW), json.dumps({**ROW, "answer": "moist", "id": "r-2"})))
LOW = Conditions(effort="low", hint="Take your time.")


def prompts(body: bytes) -> list[str]:
    return [json.loads(line)["prompt"] for line in body.splitlines()]


def test_without_settings_a_row_stays_as_it_is() -> None:
    assert tuple(prompts(written(ROWS, Conditions(temperature=1.0)))) == ROWS.prompts


def test_the_agent_reads_the_settings_that_were_written() -> None:
    row = read_row(prompts(written(ROWS, LOW))[0], Settings(reasoning_effort="high"))
    assert (row.row_id, row.reasoning_effort, row.prompt_hint) == ("r-1", "low", "Take your time.")


def test_a_rows_other_settings_stay() -> None:
    own = RowSet("x", (json.dumps({**ROW, "settings": {"prompt_hint": "Own."}}),))
    row = json.loads(prompts(written(own, Conditions(effort="low")))[0])
    assert row["settings"] == {"prompt_hint": "Own.", "reasoning_effort": "low"}


@pytest.mark.parametrize("prompt", ["What is 2 + 2?", '["a", "list"]', "7"])
def test_a_row_that_is_no_object_cannot_carry_settings_and_says_so(prompt: str) -> None:
    rows = RowSet("free.csv", (json.dumps(ROW), prompt))
    assert prompts(written(rows, Conditions()))[1] == prompt
    with pytest.raises(InputError, match=r"free.csv, row 2: .* no JSON object"):
        written(rows, LOW)


def test_a_hint_that_names_an_answer_is_refused_without_naming_it() -> None:
    with pytest.raises(InputError, match="row 2") as refusal:
        check(ROWS, Conditions(hint="Try moist."), load_task("wordle"))
    assert "moist" not in str(refusal.value)


def test_the_tasks_own_hint_suits_every_committed_row() -> None:
    from agent.wordle.players import HINT

    folder = Path(__file__).parents[3] / "datasets" / "wordle"
    for name in ("train", "validation"):
        rows = read_rows([folder / f"{name}.jsonl"], name)
        check(rows, Conditions(hint=HINT), load_task("wordle"))


def test_the_hash_is_of_the_prompts_and_not_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(written(ROWS, Conditions()))
    (tmp_path / "b.json").write_text(json.dumps([{"prompt": p} for p in ROWS.prompts]))
    read = [read_rows([tmp_path / name], name) for name in ("a.jsonl", "b.json")]
    assert read[0].sha256 == read[1].sha256 == ROWS.sha256
    assert read_rows([tmp_path / "a.jsonl"], "a", limit=1).sha256 != ROWS.sha256


def test_an_unreadable_row_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"prompt": "a"}\n{"prompt": 3}\n')
    with pytest.raises(InputError, match="line 2"):
        read_rows([tmp_path / "bad.jsonl"], "bad.jsonl")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(InputError, match="has no rows"):
        read_rows([tmp_path / "none.jsonl"], "none.jsonl")
