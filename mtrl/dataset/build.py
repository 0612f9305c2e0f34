"""Runs a dataset's own builder: `datasets/<task>/build.py` with `build(out) -> paths`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from mtrl.errors import InputError

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
"""The repository's datasets; one folder a task."""


def folder_of(task: str) -> Path:
    """Where a task's dataset lies."""
    return DATASETS / task


def build(task: str, out: Path | None = None) -> list[Path]:
    """Build a task's dataset files into `out` (default: beside the builder).

    Raises:
        InputError: the task has no builder, or `out` cannot be written.
    """
    script = folder_of(task) / "build.py"
    if not script.is_file():
        raise InputError(
            "no-builder",
            f"task {task!r} has no dataset builder ({script}).",
            "A builder is a module with a function build(out: Path) -> list[Path].",
        )
    spec = importlib.util.spec_from_file_location(f"datasets_{task}_build", script)
    if spec is None or spec.loader is None:
        raise InputError("no-builder", f"{script} cannot be loaded as a module.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        return module.build(out or script.parent)
    except OSError as error:
        raise InputError(
            "cannot-write", f"--out {out or script.parent}: {error.strerror or error}."
        ) from error
