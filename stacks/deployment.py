"""Wires the stacks of one deployment; what `app.py` and the tests call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from aws_cdk import App, Environment, Stack, Tags, Validations
from cdk_nag import AwsSolutionsChecks

from mtrl.errors import InputError
from stacks.agent import AgentStack
from stacks.foundation import FoundationStack
from stacks.oversight import OversightStack
from stacks.settings import RUN_KNOBS, Settings, load_settings
from stacks.training import TrainingStack

ENV_KNOB = "env"
DEFAULT_ENV = "dev"
_OF_CDK = ("aws:", "@aws-cdk", "cdk-", "cli-", "tree")
"""Beginnings of the context keys that are CDK's own."""


def settings_from_context(context: Mapping[str, Any]) -> Settings:
    """The settings that `-c` options and the environment's account choose.

    Raises:
        InputError: an option that does not exist, or a setting that is not allowed.
    """
    ours = {key: value for key, value in context.items() if not key.startswith(_OF_CDK)}
    env = ours.pop(ENV_KNOB, DEFAULT_ENV)
    unknown = sorted(ours.keys() - RUN_KNOBS.keys())
    if unknown:
        known = ", ".join(sorted([ENV_KNOB, *RUN_KNOBS]))
        raise InputError(
            "unknown-knob", f"-c {unknown[0]}: there is no such option.", f"Known: {known}."
        )
    return load_settings(env, {"account": os.environ.get("CDK_DEFAULT_ACCOUNT"), **ours})


def build(app: App, settings: Settings, root: Path) -> list[Stack]:
    """Add the stacks to the app, and the checks that run while it is synthesised.

    Returns:
        The stacks in the order in which they are deployed.
    """
    Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
    Tags.of(app).add("mtrl:deployment", settings.prefix)
    common: dict[str, Any] = {
        "settings": settings,
        "root": root,
        "env": Environment(account=settings.account, region=settings.region),
        "termination_protection": settings.keep_data,
    }
    foundation = FoundationStack(app, f"{settings.prefix}-foundation", **common)
    agent = AgentStack(app, f"{settings.prefix}-agent", **common)
    parts = {"foundation": foundation.published, "agent": agent.published}
    oversight = OversightStack(app, f"{settings.prefix}-oversight", **parts, **common)
    training = TrainingStack(
        app,
        f"{settings.prefix}-training",
        dashboard=oversight.dashboard_name,
        **parts,
        **common,
    )
    order: list[Stack] = [foundation, agent, oversight, training]
    for earlier, later in pairwise(order):
        later.add_stack_dependency(earlier)
    return order
