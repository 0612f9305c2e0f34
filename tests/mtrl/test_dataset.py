"""`mtrl dataset`: what the check refuses, where it says it is, and what the builder writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agent.task import TaskFormatError
from agent.wordle.game import words
from mtrl.cli import main
from mtrl.dataset import files
from mtrl.dataset.check import check, split_of
from mtrl.dataset.files import read_records

ANSWERS = [word for word in words() if word not in ("games", "plays")]


def prompt(answer: str, row_id: str, **extra: Any) -> str:
    return json.dumps({"prompt": "Play.", "answer": answer, "id": row_id, **extra})


def good_lines(count: int, start: int = 0, prefix: str = "a") -> list[str]:
    """Lines of different games."""
    return [
        json.dumps({"prompt": prompt(ANSWERS[index], f"{prefix}-{index}")})
        for index in range(start, start + count)
    ]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def findings(*arguments: str | Path) -> list[tuple[str, int | None, str]]:
    report = json.loads(run("dataset", "check", "--json", *arguments).stdout)
    return [
        (Path(f["path"]).name, f["line"], f["code"])
        for f in report["findings"]
        if f["severity"] == "error"
    ]


def test_the_committed_rows_pass():
    result = run("dataset", "check", "wordle")
    assert result.exit_code == 0
    assert "640 rows fit to be played (train)" in result.output
    assert "128 rows fit to be played (validation)" in result.output
    assert "errors: 0" in result.output


def test_every_faulty_row_is_listed_with_its_line(tmp_path):
    bad = [
        "",
        "{oops",
        "[1]",
        json.dumps({"x": 1}),
        json.dumps({"prompt": 3}),
        json.dumps({"prompt": None}),
        json.dumps({"prompt": " "}),
        json.dumps({"prompt": "\ud800"}),
        json.dumps({"prompt": "no JSON"}),
        json.dumps({"prompt": prompt("cranes", "b-1")}),
        json.dumps({"prompt": prompt("qqqqq", "b-2")}),
        json.dumps({"prompt": prompt("crane", "b-3", hint="x")}),
        json.dumps({"prompt": prompt("crane", "b-4", settings={"reasoning_effort": "vast"})}),
    ]
    path = write(tmp_path / "train.jsonl", good_lines(128) + bad)
    result = run("dataset", "check", path)
    assert result.exit_code == 1
    unreadable, refused = range(129, 137), range(137, 142)
    assert findings(path) == [
        *(("train.jsonl", line, "unreadable-row") for line in unreadable),
        *(("train.jsonl", line, "refused-row") for line in refused),
    ]
    assert f"{path}:138: error: field 'answer' has 6 letters, not 5" in result.output
    assert f"{path}:139: error: field 'answer' is not in the word list" in result.output


def test_bytes_that_are_not_utf_8_are_found_on_their_line(tmp_path):
    path = write(tmp_path / "train.jsonl", good_lines(128))
    path.write_bytes(path.read_bytes() + b'{"prompt": "\xff"}\n')
    assert findings(path) == [("train.jsonl", 129, "unreadable-row")]


def test_the_same_game_twice_is_a_duplicate_also_under_another_id_or_text(tmp_path):
    lines = good_lines(128)
    lines += [json.dumps({"prompt": prompt(ANSWERS[4].upper(), "other", settings={})})]
    path = write(tmp_path / "train.jsonl", lines)
    assert findings(path) == [("train.jsonl", 129, "duplicate")]
    assert "repeats line 5: the same game" in run("dataset", "check", path).output


def test_the_same_id_twice_is_found(tmp_path):
    lines = [*good_lines(128), json.dumps({"prompt": prompt(ANSWERS[300], "a-4")})]
    path = write(tmp_path / "train.jsonl", lines)
    assert findings(path) == [("train.jsonl", 129, "duplicate-id")]


def test_overlap_of_the_splits_is_found_in_both_directions(tmp_path):
    train = write(tmp_path / "train.jsonl", good_lines(130))
    held_out = write(
        tmp_path / "validation.jsonl", good_lines(3, 200, "v") + good_lines(2, 10, "v")
    )
    assert findings(train, held_out) == [
        ("validation.jsonl", 4, "overlap"),
        ("validation.jsonl", 5, "overlap"),
    ]
    assert f"is also in {train}:11" in run("dataset", "check", tmp_path).output
    assert [code for _, _, code in findings(held_out, train)] == ["overlap", "overlap"]


@pytest.mark.parametrize(
    ("count", "size", "codes", "warnings"),
    [
        (31, "32", ["batch-not-filled"], []),
        (32, "32", [], ["few-batches"]),
        (330, "32", [], ["last-batch-not-filled"]),
        (320, "32", [], []),
        (100, "64", [], ["last-batch-not-filled", "few-batches"]),
        (100, "128", ["batch-not-filled"], []),
    ],
)
def test_a_training_file_must_fill_a_batch(tmp_path, count, size, codes, warnings):
    path = write(tmp_path / "rows.jsonl", good_lines(count))
    result = run("dataset", "check", path, "--batch-size", size, "--json")
    report = json.loads(result.stdout)
    found = [(finding["severity"], finding["code"]) for finding in report["findings"]]
    assert found == [("error", code) for code in codes] + [("warning", code) for code in warnings]
    assert result.exit_code == int(bool(codes))
    assert report["ok"] == (not codes)


def test_a_file_that_would_fill_a_smaller_batch_is_told_which(tmp_path):
    path = write(tmp_path / "train.jsonl", good_lines(70))
    assert "global_batch_size 64 would be filled" in run("dataset", "check", path).output


def test_a_held_out_file_needs_rows_but_no_batch(tmp_path):
    assert findings(write(tmp_path / "validation.jsonl", good_lines(2))) == []
    assert findings(write(tmp_path / "val.jsonl", ["{}"])) == [
        ("val.jsonl", 1, "unreadable-row"),
        ("val.jsonl", None, "no-rows"),
    ]


@pytest.mark.parametrize(
    ("name", "split"),
    [("train.jsonl", "train"), ("rows.csv", "train"), ("validation.json", "validation"),
     ("val_2.jsonl", "validation"), ("evaluation.jsonl", "validation"),
     ("test.csv", "validation")],
)  # fmt: skip
def test_the_split_follows_from_the_files_name(name, split):
    assert split_of(Path(name)) == split


def test_a_file_over_the_services_limit_is_refused_unread(tmp_path):
    path = tmp_path / "train.jsonl"
    with path.open("wb") as file:
        file.truncate(files.MAX_FILE_BYTES + 1)
    assert findings(path) == [("train.jsonl", None, "file-too-large")]


def test_a_prompt_over_the_payload_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_PROMPT_BYTES", 1000)
    lines = [*good_lines(128), json.dumps({"prompt": "x" * 1001})]
    assert findings(write(tmp_path / "train.jsonl", lines)) == [
        ("train.jsonl", 129, "unreadable-row")
    ]


def test_a_json_array_is_read_with_the_line_of_each_element(tmp_path):
    path = tmp_path / "train.json"
    rows = [json.loads(line) for line in good_lines(32)]
    text = "[\n" + ",\n\n".join(json.dumps(row, indent=1) for row in [*rows, {"prompt": 7}, 5])
    path.write_text(text + "\n]\n")
    records = list(read_records(path))
    assert [record.line for record in records[:3]] == [2, 6, 10]
    assert [record.fault for record in records[-2:]] == [
        "column 'prompt' must be a string, not int",
        "a row must be a JSON object, not int",
    ]
    assert findings(path, "--batch-size", "32") == [
        ("train.json", 2 + 4 * 32, "unreadable-row"),
        ("train.json", 6 + 4 * 32, "unreadable-row"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ('{"prompt": "x"}', 1, "must be a JSON array"),
        ('[{"prompt": "x"},\n {"prompt": ]', 2, "not JSON"),
        ("[" * 100_000, 1, "not JSON"),
        ("", 1, "not JSON"),
    ],
)
def test_a_json_file_that_is_no_array_is_refused_whole(tmp_path, text, line, fault):
    path = tmp_path / "train.json"
    path.write_text(text)
    (record,) = read_records(path)
    assert record.line == line and fault in record.fault


def test_csv_is_read_with_a_header_quoted_lines_and_other_columns(tmp_path):
    path = tmp_path / "train.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "prompt"])
        writer.writerow(["two\nlines", prompt("crane", "c-1")])
        writer.writerow(["short"])
        writer.writerow(["", prompt("stomp", "c-2")])
    assert [(record.line, record.fault) for record in read_records(path)] == [
        (2, ""),
        (4, "1 columns, but the header has 2"),
        (5, ""),
    ]
    path.write_text('prompt\n"never closed')
    assert [record.fault[:7] for record in read_records(path)] == ["not CSV"]


def test_without_a_prompt_column_the_first_one_is_read(tmp_path):
    path = write(
        tmp_path / "train.jsonl",
        [json.dumps({"question": prompt("crane", "q"), "x": 1}), json.dumps({"x": 1})],
    )
    first, second = read_records(path)
    assert first.prompt == prompt("crane", "q")
    assert second.fault == "column 'question' is missing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "none.jsonl"), "none.jsonl is not a file"),
        (("check", "--task", "chess"), "no task named 'chess'"),
        (("build", "chess"), "no task named 'chess'"),
    ],
)
def test_what_cannot_be_used_is_named_with_a_remedy_and_exit_code_2(arguments, message):
    result = run("dataset", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("name", "message"),
    [("rows.parquet", "Parquet, but it is not checked here"), ("rows.txt", "does not read '.txt'")],
)
def test_formats_that_are_not_read_are_refused(tmp_path, name, message):
    result = run("dataset", "check", write(tmp_path / name, ["x"]))
    assert result.exit_code == 2 and message in result.stderr


def test_a_folder_without_files_is_refused(tmp_path):
    result = run("dataset", "check", tmp_path)
    assert result.exit_code == 2 and "has no dataset files" in result.stderr


def test_build_writes_the_committed_bytes_and_says_their_hashes(tmp_path):
    result = run("dataset", "build", "wordle", "--out", tmp_path / "rows")
    assert result.exit_code == 0
    assert result.output.count("sha256") == 2
    assert findings(tmp_path / "rows") == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("dataset", "build", "--out", tmp_path / "file")
    assert result.exit_code == 2 and "--out" in result.stderr


class Riddle:
    """A task that knows nothing of Wordle and has no identity of its own."""

    name = "riddle"

    def start(self, prompt: str) -> Any:
        if "?" not in prompt:
            raise TaskFormatError("field 'question' has no question mark")
        return object()


def test_any_task_can_be_checked_through_its_start(tmp_path):
    lines = [json.dumps({"prompt": text}) for text in ("a?", "b", "a?")]
    report = check([write(tmp_path / "val.jsonl", lines)], Riddle(), 32)
    assert [(finding.line, finding.code) for finding in report.findings] == [
        (2, "refused-row"),
        (3, "duplicate"),
    ]
