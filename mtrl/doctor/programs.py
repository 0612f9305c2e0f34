"""Asks programs of this machine for their versions."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

TIMEOUT_S = 30
_NUMBERS = re.compile(r"\d+(?:\.\d+)+|\d+")


class Programs:
    """What is installed here. Tests put another in its place."""

    def python(self) -> str:
        """Version of the interpreter that runs this."""
        return platform.python_version()

    def package(self, name: str) -> str | None:
        """Version of an installed Python package."""
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    def command(self, name: str, *beside: Path) -> str | None:
        """What `NAME --version` says first, or None when there is no such program.

        Args:
            beside: folders that are searched before PATH.
        """
        found = next((str(b / name) for b in beside if (b / name).is_file()), shutil.which(name))
        if found is None:
            return None
        try:
            done = subprocess.run(
                [found, "--version"],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        lines = (done.stdout or done.stderr).splitlines()
        return lines[0].strip() if lines and done.returncode == 0 else None

    def own_folder(self) -> Path:
        """Where this environment's programs lie."""
        return Path(sys.executable).parent


def numbers(text: str) -> tuple[int, ...]:
    """The first version number in a text, as numbers; empty when there is none."""
    found = _NUMBERS.search(text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
