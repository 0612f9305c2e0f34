"""The audit tells "nothing found" from "nothing looked up"."""

from __future__ import annotations

from typing import Any

import pytest

from tests.security.audit import Audit, read_report

CLEAN = {"name": "a", "version": "1", "vulns": []}
HOLED = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}, {"id": "PYSEC-2"}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "code", "strict_code", "words"),
    [
        ([CLEAN], 0, 0, ["audited lock: 1 packages"]),
        ([CLEAN, HOLED], 1, 1, ["VULNERABLE lock: b 2: PYSEC-1, PYSEC-2", "audited"]),
        ([SKIPPED], 0, 1, ["NOT AUDITED lock: 1 of 1 packages"]),
        ([CLEAN, SKIPPED], 0, 1, ["NOT AUDITED lock: 1 of 2 packages", "audited"]),
    ],
)
def test_each_package_is_counted_as_what_is_known_of_it(
    packages: list[Any], code: int, strict_code: int, words: list[str]
) -> None:
    audit = read_report({"dependencies": packages})
    assert (audit.exit_code(False), audit.exit_code(True)) == (code, strict_code)
    lines = audit.lines("lock")
    assert len(lines) == len(words)
    assert all(line.startswith(word) for line, word in zip(lines, words, strict=True))


def test_an_audit_that_could_not_run_never_says_that_it_found_nothing() -> None:
    audit = Audit(failure="name resolution failed")
    assert audit.lines("lock") == ["NOT AUDITED lock: name resolution failed"]
    assert audit.exit_code(strict=True) == 1
