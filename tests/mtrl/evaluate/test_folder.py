"""What is done stays done, whatever breaks between two runs of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mtrl.errors import InputError
from mtrl.evaluate.folder import DONE, RUNNING, Entry, Folder


def test_a_completed_cell_is_found_again_with_its_games(hand: Any, tmp_path: Path) -> None:
    games = hand.body([hand.line("a", True)])
    with Folder(tmp_path).opened() as folder:
        folder.put(Entry(hand.cell, RUNNING, "job-1"))
        folder.keep_traces(Entry(hand.cell, DONE, "job-1"), games)
        folder.put(Entry(hand.trained, RUNNING, "job-2"))
    with Folder(tmp_path).opened() as again:
        done = again.done(hand.cell)
        assert done is not None
        assert (done.job, again.traces(done)) == ("job-1", games)
        assert again.done(hand.trained) is None


def test_a_torn_write_leaves_the_ledger_before_it(hand: Any, tmp_path: Path) -> None:
    with Folder(tmp_path).opened() as folder:
        folder.put(Entry(hand.cell, DONE, "job-1"))
    (tmp_path / ".ledger.json.part").write_text('{"version": 1, "cel')
    with Folder(tmp_path).opened() as again:
        assert again.done(hand.cell) is not None


def test_two_commands_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with (
        Folder(tmp_path).opened(),
        pytest.raises(InputError, match="in use by another"),
        Folder(tmp_path).opened(),
    ):
        pass
    with Folder(tmp_path).opened():
        pass


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2, "cells": []}', '{"version": 1}'])
def test_a_ledger_that_cannot_be_read_is_not_overwritten(text: str, tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text(text)
    with pytest.raises(InputError, match="cannot be read"), Folder(tmp_path).opened():
        pass
    assert (tmp_path / "ledger.json").read_text() == text


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--out"), Folder(tmp_path / "file").opened():
        pass


def test_all_cells_of_a_policy_are_one_file_for_the_report(hand: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    from mtrl.evaluate.plan import Conditions

    cold = replace(hand.cell, conditions=Conditions(0.0))
    with Folder(tmp_path).opened() as folder:
        for cell, row in ((hand.cell, "a"), (cold, "b")):
            folder.keep_traces(Entry(cell, DONE, "job"), hand.body([hand.line(row, True)]))
        folder.write_results({"version": 1}, list(folder.entries.values()))
    lines = (tmp_path / "traces" / "base.jsonl").read_text().splitlines()
    assert [json.loads(line)["trace"]["row_id"] for line in lines] == ["a", "b"]
    assert json.loads((tmp_path / "evaluation.json").read_text()) == {"version": 1}
