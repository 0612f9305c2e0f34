"""Turns the command's options into policies, conditions and hyperparameters."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from agent.settings import SettingsError, check_hint
from agent.task import TASKS
from mtrl.aws import Cloud
from mtrl.deployment import Deployment
from mtrl.errors import InputError
from mtrl.evaluate.plan import (
    Conditions,
    Kind,
    Policy,
    all_conditions,
    split_label,
    unique,
    upstream_policy,
)
from mtrl.job.hyperparameters import EVALUATION, HyperparameterError
from mtrl.job.identity import TRAINING_CATEGORY
from mtrl.jobs.reading import describe, find_job, summaries

TRAINED = "trained"
JOB = "job:"
NO_EFFORT = "default"
"""In place of an effort: the model's own."""
OWN_OPTIONS = {
    "temperature": "--temperature",
    "eval_group_size": "--repeats",
    "pass_k_values": "--repeats",
    "success_threshold": "--success-threshold",
}
"""Hyperparameters that have an option of their own."""


def players_of(task: str) -> ModuleType | None:
    """The task's module of scripted players, or None when it has none."""
    module = f"{TASKS[task]}.players"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None


def needs_deployment(texts: Sequence[str], task: str) -> bool:
    """True unless every policy is played on this machine."""
    local = getattr(players_of(task), "PLAYERS", {})
    values = [split_label(text)[1] for text in texts]
    return not all(value in local or "://" in value for value in values)


def chosen_policies(
    texts: Sequence[str], task: str, cloud: Cloud | None, d: Deployment | None
) -> list[Policy]:
    """The policies that `--policy` names.

    Raises:
        InputError: one that does not exist, or one label for two.
    """
    return unique([_policy(text, task, cloud, d) for text in texts])


def _policy(text: str, task: str, cloud: Cloud | None, d: Deployment | None) -> Policy:
    label, value = split_label(text)
    players: Mapping[str, Any] = getattr(players_of(task), "PLAYERS", {})
    if "://" in value:
        return upstream_policy(label, value)
    if value in players:
        return Policy(label or value, Kind.PLAYER, value)
    if value == Kind.BASE:
        return Policy(label or Kind.BASE, Kind.BASE)
    if ":model-package/" in value:
        return Policy(label or TRAINED, Kind.PACKAGE, value)
    if value == TRAINED or value.startswith(JOB):
        assert cloud is not None
        assert d is not None
        name = value.removeprefix(JOB) if value != TRAINED else None
        return Policy(label or TRAINED, Kind.PACKAGE, _package(text, name, cloud, d))
    raise InputError(
        "unknown-policy",
        f"--policy {text}: there is no such policy.",
        f"Use base, trained, job:NAME, the ARN of a model package, the URL of an "
        f"OpenAI-compatible server, or a player: {', '.join(players) or 'none'}.",
    )


def _package(text: str, name: str | None, cloud: Cloud, d: Deployment) -> str:
    arn = find_job(cloud, name, TRAINING_CATEGORY).package if name else newest_package(cloud, d)
    if arn is None:
        raise InputError(
            "no-package",
            f"--policy {text}: there is no trained model.",
            "Train one (mtrl train), or name a model package by its ARN.",
        )
    return arn


def newest_package(cloud: Cloud, d: Deployment) -> str | None:
    """The trained model of the deployment's newest training job that left one."""
    sagemaker = cloud.client("sagemaker")
    found = summaries(sagemaker, [TRAINING_CATEGORY], NameContains=d.deployment)
    jobs = (describe(sagemaker, item["JobName"], TRAINING_CATEGORY) for item in found)
    return next((job.package for job in jobs if job and not job.running and job.package), None)


def chosen_conditions(
    temperatures: Sequence[float],
    efforts: Sequence[str],
    hints: Sequence[str],
    repeats: int,
) -> list[Conditions]:
    """Every combination; with hints given, also none.

    Raises:
        InputError: a hint that the agent would refuse.
    """
    for hint in hints:
        try:
            check_hint("--hint", hint)
        except SettingsError as error:
            raise InputError("bad-hint", f"{error}.") from None
    wanted = [None if effort == NO_EFFORT else effort for effort in efforts]
    return all_conditions(temperatures, wanted or [None], [None, *hints], repeats)


def chosen_values(settings: Sequence[str], threshold: float) -> tuple[tuple[str, Any], ...]:
    """The job's further hyperparameters, typed.

    Raises:
        InputError: not NAME=VALUE, a name with an option of its own, or a value out of range.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, raw = setting.partition("=")
        if not equals:
            raise InputError("bad-setting", f"--set {setting}: expected NAME=VALUE.")
        if name in OWN_OPTIONS:
            raise InputError("bad-setting", f"--set {name}: use {OWN_OPTIONS[name]}.")
        if name not in EVALUATION:
            known = ", ".join(sorted(EVALUATION.keys() - OWN_OPTIONS.keys()))
            raise InputError("bad-setting", f"--set {name}: no such name.", f"Known: {known}.")
        try:
            values[name] = EVALUATION[name].parse(name, raw)
        except HyperparameterError as error:
            raise InputError("bad-setting", f"--set: {error}.") from None
    if threshold != EVALUATION["success_threshold"].default:
        values["success_threshold"] = threshold
    return tuple(sorted(values.items()))
