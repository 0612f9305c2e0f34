"""Hyperparameters as an operator types them: NAME=VALUE, checked against their ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from mtrl.errors import InputError
from mtrl.job.hyperparameters import TRAINING, HyperparameterError, parse

F = TypeVar("F", bound=Callable[..., Any])


def set_option(command: F) -> F:
    """Adds `--set NAME=VALUE`, handed over as `chosen`."""
    return click.option(
        "--set",
        "chosen",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=_complete,
        help="A hyperparameter of the training job, e.g. max_steps=100; repeatable.",
    )(command)


def chosen_wire(chosen: tuple[str, ...], base: Mapping[str, str]) -> dict[str, str]:
    """Hyperparameters on the wire: `base` with the chosen ones laid over it.

    Raises:
        InputError: not NAME=VALUE, an unknown name, or a value out of range; by name.
    """
    wire = dict(base)
    for text in chosen:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError("bad-setting", f"--set {text}: expected NAME=VALUE.")
        wire[name] = value
    typed(wire)
    return wire


def typed(wire: Mapping[str, str]) -> dict[str, Any]:
    """Typed values with the service's defaults filled in.

    Raises:
        InputError: an unknown name or a value out of range; by name.
    """
    try:
        return parse(TRAINING, wire)
    except HyperparameterError as error:
        raise InputError("bad-hyperparameter", f"--set: {error}") from None


def _complete(_ctx: click.Context, _param: click.Parameter, typed_text: str) -> list[str]:
    return [f"{name}=" for name in TRAINING if name.startswith(typed_text)]
