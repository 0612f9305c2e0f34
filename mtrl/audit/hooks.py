"""Finds the hooks that a task supplies for its audit."""

from __future__ import annotations

import importlib

from agent.audit import AuditHooks
from agent.task import TASKS
from mtrl.errors import InputError


def load_hooks(task: str) -> AuditHooks:
    """The audit hooks of a registered task.

    Raises:
        InputError: no such task, or one without an `audit` module; says what to add.
    """
    package = TASKS.get(task)
    if package is None:
        raise InputError(
            "unknown-task", f"no task named {task!r}.", f"Known tasks: {', '.join(sorted(TASKS))}."
        )
    module = f"{package}.audit"
    try:
        return importlib.import_module(module).AUDIT
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise InputError(
            "no-audit-hooks",
            f"task {task!r} cannot be audited: there is no module {module}.",
            "Add one that defines AUDIT; docs/audit.md says what it has to supply.",
        ) from None
