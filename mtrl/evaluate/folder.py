"""The folder of an evaluation: its ledger, and the traces of every cell that is done.

    ledger.json              what became of each cell; written anew and moved into place
    cells/<cell>.jsonl       the trace lines of one cell
    traces/<policy>.jsonl    all cells of one policy, as `mtrl report` reads them
    evaluation.json          the figures

One command at a time writes here.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mtrl.errors import InputError
from mtrl.evaluate.plan import Cell, cell_from_data

LEDGER_VERSION = 1
DONE, FAILED, RUNNING = "completed", "failed", "running"


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of a cell."""

    cell: Cell
    status: str
    job: str = ""
    """Name of its job."""
    agent_hash: str = ""
    """Of the agent that played it."""
    reason: str = ""
    """Why it failed."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The job's own EvaluationMetrics."""
    tokens: dict[str, int] = field(default_factory=dict)
    """The job's billable tokens: {prefill, sample}."""
    traced: bool = False
    """True when the games' traces lie in the folder."""


class Folder:
    """Reads and writes an evaluation's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}

    @contextmanager
    def opened(self) -> Iterator[Folder]:
        """Hold the folder for this process and read its ledger.

        Raises:
            InputError: it cannot be used, or another command holds it.
        """
        try:
            (self.path / "cells").mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        except OSError as error:
            raise InputError("out-unwritable", f"--out {self.path}: {error.strerror}.") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    "folder-in-use",
                    f"{self.path} is in use by another `mtrl evaluate`.",
                    "Wait for it, or choose another --name or --out.",
                ) from None
            self.entries = self._read()
            yield self

    def put(self, entry: Entry) -> None:
        """Record what became of a cell."""
        self.entries[entry.cell.id] = entry
        cells = [asdict(entry) for entry in self.entries.values()]
        self._write("ledger.json", {"version": LEDGER_VERSION, "cells": cells})

    def done(self, cell: Cell) -> Entry | None:
        """The entry of a cell whose games are all played."""
        entry = self.entries.get(cell.id)
        return entry if entry and entry.status == DONE else None

    def keep_traces(self, entry: Entry, body: bytes) -> None:
        """Store a completed cell's trace lines, then its entry."""
        if body:
            self._write_bytes(f"cells/{entry.cell.id}.jsonl", body)
        self.put(replace(entry, traced=bool(body)))

    def traces(self, entry: Entry) -> bytes:
        """A cell's trace lines; empty when there are none."""
        path = self.path / "cells" / f"{entry.cell.id}.jsonl"
        return path.read_bytes() if entry.traced and path.exists() else b""

    def write_results(self, results: Any, entries: list[Entry]) -> None:
        """Write evaluation.json, and the traces by policy for `mtrl report`."""
        (self.path / "traces").mkdir(exist_ok=True)
        bodies: dict[str, bytes] = {}
        for entry in entries:
            label = entry.cell.policy.label
            bodies[label] = bodies.get(label, b"") + self.traces(entry)
        for label, body in bodies.items():
            self._write_bytes(f"traces/{label}.jsonl", body)
        self._write("evaluation.json", results)

    def _read(self) -> dict[str, Entry]:
        path = self.path / "ledger.json"
        if not path.exists():
            return {}
        try:
            raw = json.loads(path.read_text())
            if raw["version"] != LEDGER_VERSION:
                raise ValueError(f"version {raw['version']} is not known")
            entries = [
                Entry(**{**item, "cell": cell_from_data(item["cell"])}) for item in raw["cells"]
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                "bad-ledger",
                f"{path} cannot be read: {error}.",
                "Move the folder away; jobs that have run are found again by their names.",
            ) from None
        return {entry.cell.id: entry for entry in entries}

    def _write(self, name: str, data: Any) -> None:
        self._write_bytes(name, (json.dumps(data, indent=2) + "\n").encode())

    def _write_bytes(self, name: str, body: bytes) -> None:
        path = self.path / name
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(body)
        os.replace(part, path)
