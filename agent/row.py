"""What the rollout itself reads from a dataset row: its id, and its own settings.

In: the row's text. Out: a frozen `Row`. Everything else in the text is the task's.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from agent.settings import Settings, SettingsError, check_effort, check_hint

EFFORT = "reasoning_effort"
HINT = "prompt_hint"


@dataclass(frozen=True, slots=True)
class Row:
    """A row's id, and the settings that its rollout runs under."""

    row_id: str
    reasoning_effort: str | None
    prompt_hint: str | None


def read_row(prompt: str, settings: Settings) -> Row:
    """Read a row; its own `settings` win over the environment's, an empty one switches off.

    A text that is not a JSON object has no settings, and a digest for an id.

    Raises:
        SettingsError: a setting of the row that breaks its rule.
    """
    fields = _object(prompt)
    own = fields.get("settings") or {}
    if not isinstance(own, dict):
        raise SettingsError("settings", own, "a row's settings must be an object")
    effort = check_effort(f"settings.{EFFORT}", own.get(EFFORT))
    hint = check_hint(f"settings.{HINT}", own.get(HINT))
    return Row(
        row_id=_row_id(fields, prompt),
        reasoning_effort=effort if EFFORT in own else settings.reasoning_effort,
        prompt_hint=hint if HINT in own else settings.prompt_hint,
    )


def _object(prompt: str) -> dict[str, Any]:
    try:
        fields = json.loads(prompt)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _row_id(fields: dict[str, Any], prompt: str) -> str:
    row_id = fields.get("id")
    if isinstance(row_id, str | int):
        return str(row_id)
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]
