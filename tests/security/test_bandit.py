"""bandit's findings are none, or known with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ["agent", "mtrl", "rehearsal", "stacks", "datasets", "app.py"]
ACCEPTED = tomllib.loads((Path(__file__).parent / "bandit_accepted.toml").read_text())


def scan(*targets: str | Path) -> list[dict[str, Any]]:
    """Run bandit; its findings."""
    command = [sys.executable, "-m", "bandit", "--quiet", "--recursive", "--format", "json"]
    done = subprocess.run([*command, *targets], cwd=ROOT, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert report["errors"] == []
    return report["results"]


@pytest.fixture(scope="module")
def findings() -> list[dict[str, Any]]:
    return scan(*ROOMS)


def test_every_finding_has_a_reason(findings: list[dict[str, Any]]) -> None:
    at = {(entry["test"], entry["path"]) for entry in ACCEPTED["at"]}
    unexplained = [
        f"{f['filename']}:{f['line_number']}: {f['test_id']} {f['issue_text']}"
        for f in findings
        if f["test_id"] not in ACCEPTED["everywhere"] and (f["test_id"], f["filename"]) not in at
    ]
    assert unexplained == []


def test_no_reason_outlives_its_finding(findings: list[dict[str, Any]]) -> None:
    found = {(finding["test_id"], finding["filename"]) for finding in findings}
    at = {(entry["test"], entry["path"]) for entry in ACCEPTED["at"]}
    assert at <= found
    assert set(ACCEPTED["everywhere"]) <= {finding["test_id"] for finding in findings}


def test_findings_of_more_than_low_severity_are_accepted_by_file_only(
    findings: list[dict[str, Any]],
) -> None:
    everywhere = {f["test_id"] for f in findings if f["issue_severity"] != "LOW"}
    assert everywhere.isdisjoint(ACCEPTED["everywhere"])


def test_a_new_hazard_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import subprocess\nsubprocess.call('ls ' + x, shell=True)\n")
    assert "B602" in {finding["test_id"] for finding in scan(tmp_path)}
