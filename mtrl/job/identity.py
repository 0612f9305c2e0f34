"""Who a job is: its document's hash, the name derived from it, and what changed between two.

The same document and run id always give the same name, so a repeated CreateJob meets the job
that it already made instead of buying a second one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

JOB_NAME_MAX = 63
"""Characters; CreateJob's JobName in the botocore model."""
HASH_LENGTH = 12
"""Hexadecimal digits kept of a SHA-256: 48 bits, ample for one account's jobs."""

TRAINING_CATEGORY = "AgentRFT"
EVALUATION_CATEGORY = "AgentRFTEvaluation"
SCHEMA_VERSION = "1.0.0"
"""Job document schema that this package writes."""
MAX_COST_TAG = "mtrl:max-cost-usd"
"""Tag of a job that is to be stopped at this many US dollars of tokens."""
TERMINAL_STATUSES = frozenset({"Completed", "Failed", "Stopped"})


def canonical_json(document: Mapping[str, Any]) -> str:
    """The one spelling of a document that is hashed and compared."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def document_hash(document: Mapping[str, Any]) -> str:
    """First `HASH_LENGTH` hexadecimal digits of the canonical document's SHA-256."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()[:HASH_LENGTH]


def job_name(prefix: str, run_id: str, document: Mapping[str, Any]) -> str:
    """Name a job after its run id and its document.

    Args:
        prefix: what the job belongs to; characters that a job name cannot hold become "-".
        run_id: the operator's own name for the run.

    Returns:
        At most 63 characters that match `[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}`; when the parts are
        too long they are cut, never the hash.
    """
    digest = document_hash({"run_id": run_id, "document": document})
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", f"{prefix}-{run_id}").strip("-") or "job"
    return f"{readable[: JOB_NAME_MAX - HASH_LENGTH - 1].rstrip('-')}-{digest}"


def document_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two documents, a line per leaf: "path: old -> new"."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return [
        f"{path}: {_shown(before, path)} -> {_shown(after, path)}"
        for path in sorted(before.keys() | after.keys())
        if _shown(before, path) != _shown(after, path)
    ]


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        return [
            leaf
            for key in value
            for leaf in _leaves(value[key], f"{path}.{key}" if path else str(key))
        ]
    if isinstance(value, list) and value:
        return [leaf for i, item in enumerate(value) for leaf in _leaves(item, f"{path}[{i}]")]
    return [(path, value)]


def _shown(leaves: Mapping[str, Any], path: str) -> str:
    return json.dumps(leaves[path]) if path in leaves else "(absent)"
