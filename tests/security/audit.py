"""Looks up every locked dependency in the advisory database. `make audit`.

pip-audit says "no known vulnerabilities" and exits 0 also when it could look nothing up; this says
what was looked up and what was not, and never calls the second the first.

    python -m tests.security.audit [--strict]

Exits 1 for a vulnerability, and with --strict also when anything was not audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOCKS = (
    "agent/requirements.txt",
    "rehearsal/local_cloud/requirements.txt",
    "tests/conformance/requirements.txt",
)
TIMEOUT_S = 300


@dataclass(slots=True)
class Audit:
    """What is known of a set of dependencies."""

    clean: list[str] = field(default_factory=list)
    vulnerable: list[str] = field(default_factory=list)
    """name version: id, id"""
    unknown: list[str] = field(default_factory=list)
    """Not audited: the advisory service did not answer for them."""
    failure: str = ""
    """Why pip-audit itself gave up."""

    def exit_code(self, strict: bool) -> int:
        """0 when there is nothing to act on."""
        missed = bool(self.unknown or self.failure or not self.clean)
        return int(bool(self.vulnerable) or (strict and missed))

    def lines(self, name: str) -> list[str]:
        """The result in words."""
        lines = [f"VULNERABLE {name}: {found}" for found in self.vulnerable]
        if self.failure:
            lines.append(f"NOT AUDITED {name}: {self.failure}")
        if self.unknown:
            lines.append(
                f"NOT AUDITED {name}: {len(self.unknown)} of "
                f"{len(self.unknown) + len(self.clean) + len(self.vulnerable)} packages; the "
                "advisory service gave no answer for them. Run this where it can be reached."
            )
        if self.clean:
            lines.append(f"audited {name}: {len(self.clean)} packages without a known advisory")
        return lines


def read_report(report: dict[str, Any]) -> Audit:
    """Sort pip-audit's JSON report."""
    audit = Audit()
    for package in report["dependencies"]:
        if "skip_reason" in package:
            audit.unknown.append(package["name"])
        elif package["vulns"]:
            ids = ", ".join(vulnerability["id"] for vulnerability in package["vulns"])
            audit.vulnerable.append(f"{package['name']} {package['version']}: {ids}")
        else:
            audit.clean.append(package["name"])
    return audit


def audit_lock(lock: Path) -> Audit:
    """Run pip-audit on a requirements file with hashes."""
    options = ["--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off"]
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Audit(failure=f"no answer within {TIMEOUT_S} s")
    try:
        return read_report(json.loads(done.stdout))
    except (ValueError, KeyError):
        said = done.stderr.strip().splitlines() or ["pip-audit said nothing"]
        return Audit(failure=said[-1][:300])


def main() -> int:
    """Audit the project's own lock and those of the tools that it installs."""
    strict = "--strict" in sys.argv[1:]
    codes = []
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "requirements.txt"
        export = ["uv", "export", "--quiet", "--frozen", "--no-emit-project", "--no-header"]
        subprocess.run(
            [Path(sys.executable).parent / export[0], *export[1:], "-o", own], check=True
        )
        for name, lock in [("uv.lock", own), *((name, ROOT / name) for name in LOCKS)]:
            audit = audit_lock(lock)
            print("\n".join(audit.lines(name)), flush=True)
            codes.append(audit.exit_code(strict))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
