"""A run read from this machine: the folder of a rehearsal or an evaluation, or any traces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mtrl.errors import InputError
from mtrl.job import hyperparameters
from mtrl.pricing import TokenCounts
from mtrl.report.games import Sampling
from mtrl.report.reading import TraceFile, kept_stems, read_files
from mtrl.report.run import MlflowTarget, Run

LEDGER = "ledger.json"
"""In an evaluation's folder; `mtrl evaluate` writes it."""
FREE_KINDS = frozenset({"player", "upstream"})
"""Kinds of policy whose tokens the run's model prices say nothing about."""
SUMMARY, LEARNED, TRACES = "summary.json", "learned.json", "traces"
"""Names within a rehearsal's folder; `mtrl rehearse` writes them."""
MLFLOW_DB = "service/mlflow.db"
DEFAULT_MODEL, DEFAULT_REGION = "gpt-oss-20b", "us-east-1"
"""Whose prices a run is shown at when it does not name a model."""
DEFAULT_TASK = "wordle"


def read_folder(path: Path) -> Run:
    """Read a run from a folder, or from one file of trace lines.

    Raises:
        InputError: nothing readable is there; says what was looked for.
    """
    if path.is_file():
        return _plain(path, [path])
    summary, ledger = read_json(path / SUMMARY), read_json(path / LEDGER)
    files = _trace_files(path)
    if not files:
        raise InputError(
            "no-traces",
            f"{path} has no trace files ({TRACES}/*.jsonl or *.jsonl).",
            "Give the folder of a rehearsal or an evaluation, a .jsonl file, or a job's name.",
        )
    if summary is not None:
        return _rehearsal(path, summary, files)
    return _plain(path, files) if ledger is None else _evaluation(path, ledger, files)


def read_json(path: Path) -> Any:
    """A JSON file's content; None when there is no such file.

    Raises:
        InputError: the file cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError("bad-file", f"{path}: {error}.", "Write the run's folder anew.") from error


def _trace_files(folder: Path) -> list[Path]:
    traces = folder / TRACES
    return sorted((traces if traces.is_dir() else folder).glob("*.jsonl"))


def _open(files: list[Path]) -> Iterator[TraceFile]:
    for path in files:
        try:
            yield TraceFile(str(path), path.stem, path.read_bytes())
        except OSError as error:
            raise InputError("bad-file", f"{path}: {error.strerror}.") from error


def default_threshold() -> float:
    """The service's own success threshold."""
    return float(hyperparameters.TRAINING["success_threshold"].default)


def _plain(path: Path, files: list[Path]) -> Run:
    reading = read_files(_open(files), keep=kept_stems(file.stem for file in files))
    return Run(
        title=path.resolve().name,
        source="Traces",
        task=task_of(reading.sets) or DEFAULT_TASK,
        sets=reading.sets,
        threshold=default_threshold(),
        model=DEFAULT_MODEL,
        region=DEFAULT_REGION,
        facts=(("Read from", str(path.name)),),
        notes=reading.notes,
    )


def _evaluation(path: Path, ledger: Mapping[str, Any], files: list[Path]) -> Run:
    cells = [cell for cell in ledger.get("cells") or () if isinstance(cell.get("cell"), dict)]
    policies = [cell["cell"].get("policy") or {} for cell in cells]
    values = (dict(cell["cell"].get("values") or ()) for cell in cells)
    thresholds = [v["success_threshold"] for v in values if "success_threshold" in v]
    run = _plain(path, files)
    return replace(
        run,
        source="Evaluation",
        threshold=float(thresholds[0]) if thresholds else run.threshold,
        unpriced=frozenset(p["label"] for p in policies if p.get("kind") in FREE_KINDS),
        facts=tuple(_cell_facts(cells)),
        notes=(*run.notes, *_cell_notes(cells)),
    )


def _cell_facts(cells: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    policies = (cell["cell"].get("policy") or {} for cell in cells)
    targets = {p.get("label"): p["target"] for p in policies if p.get("target")}
    for label, target in targets.items():
        yield f"Policy: {label}", str(target)
    for cell in cells:
        yield f"Job: {_cell_title(cell)}", str(cell.get("job") or "none")
    hashes = sorted({str(cell["agent_hash"]) for cell in cells if cell.get("agent_hash")})
    if hashes:
        yield "Hashes: agent", ", ".join(hashes)


def _cell_notes(cells: list[Mapping[str, Any]]) -> Iterator[str]:
    for cell in cells:
        if cell.get("status") != "completed":
            reason = f": {cell['reason']}" if cell.get("reason") else ""
            yield f"{_cell_title(cell)} is {cell.get('status')}{reason}."
        elif not cell.get("traced"):
            yield f"{_cell_title(cell)} left no traces; its games are not on this page."


def _cell_title(cell: Mapping[str, Any]) -> str:
    """The policy and what it was to be played under."""
    conditions = cell["cell"].get("conditions") or {}
    label = (cell["cell"].get("policy") or {}).get("label", "a policy")
    planned = Sampling(
        conditions.get("temperature"), conditions.get("effort"), hint=conditions.get("hint")
    )
    return f"{label} at {planned.label}"


def task_of(sets: tuple[Any, ...]) -> str | None:
    """The task that the kept traces name."""
    names = (game.trace.task for games in sets for game in games.games if game.trace)
    return next(names, None)


def _rehearsal(folder: Path, summary: Mapping[str, Any], files: list[Path]) -> Run:
    reading = read_files(_open(files), keep=kept_stems(file.stem for file in files))
    values = summary.get("hyperparameters") or {}
    tokens = summary.get("tokens") or {}
    hashes = summary.get("hashes") or {}
    return Run(
        title=str(summary.get("run_id") or folder.resolve().name),
        source=f"Rehearsal, {summary.get('status', 'state unknown')}",
        task=str(summary.get("task") or task_of(reading.sets) or DEFAULT_TASK),
        sets=reading.sets,
        threshold=float(values.get("success_threshold", default_threshold())),
        model=DEFAULT_MODEL,
        region=DEFAULT_REGION,
        billed=False,
        tokens=TokenCounts(**{kind: int(tokens.get(kind, 0)) for kind in TokenCounts.__slots__}),
        facts=tuple(_facts(summary)),
        learned=read_json(folder / LEARNED) or (),
        data_hashes=frozenset(hashes[name] for name in ("train", "validation") if name in hashes),
        mlflow=_mlflow(folder, summary),
        notes=reading.notes,
    )


def _facts(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("policy", "seed", "steps", "rollouts", "rollouts_per_second", "wall_seconds"):
        if name in summary:
            yield name.replace("_", " ").capitalize(), str(summary[name])
    for group in ("hyperparameters", "jobs", "hashes"):
        for name, value in (summary.get(group) or {}).items():
            yield f"{group.capitalize()}: {name}", str(value)


def _mlflow(folder: Path, summary: Mapping[str, Any]) -> MlflowTarget | None:
    """The rehearsal's own store, and in it the training's run (else the evaluation's)."""
    store = folder / MLFLOW_DB
    jobs = summary.get("jobs") or {}
    label = next((label for label in ("train", "trained", "base") if label in jobs), None)
    if label is None or not store.is_file():
        return None
    return MlflowTarget(
        tracking_uri=f"sqlite:///{store.resolve()}", run_name=f"{summary.get('run_id')}-{label}"
    )
