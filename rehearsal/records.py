"""What the service remembers across a restart: JSON records in one SQLite file.

A record has a kind ("job", "package", ...), a key and a body. Writes within `transaction` land
together or not at all, so a step's checkpoint, packages and progress are recorded as one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    kind TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID
"""


class Records:
    """The store. Used from the service's event loop alone, so it needs no lock."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(_SCHEMA)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the writes inside atomic; a nested one joins the outer one."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        """The record's body, or None."""
        row = self._db.execute(
            "SELECT body FROM record WHERE kind = ? AND key = ?", (kind, key)
        ).fetchone()
        return json.loads(row[0]) if row else None

    def put(self, kind: str, key: str, body: dict[str, Any]) -> None:
        """Write or replace a record."""
        self._db.execute(
            "INSERT INTO record VALUES (?, ?, ?) "
            "ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body",
            (kind, key, json.dumps(body)),
        )

    def delete(self, kind: str, key: str) -> None:
        """Remove a record if it is there."""
        self._db.execute("DELETE FROM record WHERE kind = ? AND key = ?", (kind, key))

    def list(self, kind: str) -> list[dict[str, Any]]:
        """All bodies of a kind, in key order."""
        rows = self._db.execute("SELECT body FROM record WHERE kind = ? ORDER BY key", (kind,))
        return [json.loads(row[0]) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._db.close()
