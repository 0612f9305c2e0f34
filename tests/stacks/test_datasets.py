"""Dataset files: checked before they are deployed, and named after their content."""

from __future__ import annotations

import json

import pytest

from mtrl.errors import InputError
from stacks.datasets import datasets_hash, read_datasets


def write(path, prompts):
    path.write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts))


def test_the_key_changes_with_the_content_alone(tmp_path):
    write(tmp_path / "a.jsonl", map(str, range(40)))
    first = read_datasets(tmp_path, {"train": "a.jsonl"}, 32)
    again = read_datasets(tmp_path, {"train": "a.jsonl"}, 32)
    write(tmp_path / "a.jsonl", map(str, range(41)))
    changed = read_datasets(tmp_path, {"train": "a.jsonl"}, 32)
    assert first == again
    assert first[0].key != changed[0].key
    assert datasets_hash(first) != datasets_hash(changed)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"prompt": "a"}', '{"prompt": "a"}'], "line 2 repeats the prompt of line 1"),
        (['{"prompt": "a"}', "nonsense"], 'line 2 is not a JSON object with a "prompt"'),
        (['{"question": "a"}'], "line 1 is not"),
        (['{"prompt": "a"}'], "1 rows, fewer than one batch"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, lines, said):
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError) as raised:
        read_datasets(tmp_path, {"train": "a.jsonl"}, 32)
    assert said in raised.value.message
    assert "a.jsonl" in raised.value.message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"data\.validation: there is no file b\.jsonl"):
        read_datasets(tmp_path, {"validation": "b.jsonl"}, 32)
