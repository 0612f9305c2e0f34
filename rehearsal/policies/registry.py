"""Which policy answers for a base model, and the behaviour space of a task.

Ordinary base models are played by the policy that the service was started with. Hub names that
begin with `rehearsal-` choose one by name, so that one service can compare several.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from agent.task import TASKS
from mtrl.job.models import hub_name_of
from rehearsal.policies import Policy
from rehearsal.policies.behaviour import BehaviourSpace
from rehearsal.policies.scripted import ScriptedPolicy
from rehearsal.policies.upstream import UpstreamPolicy

TRAINABLE = "behaviour"
MODEL_PREFIX = "rehearsal-"


class UnknownPolicy(ValueError):
    """No policy has that name; the message lists the known ones."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """How the service answers for base models."""

    default: str = TRAINABLE
    """behaviour, upstream, or the name of one of the task's players."""
    task: str = "wordle"
    upstream_url: str | None = None
    upstream_model: str = "default"


class PolicyRegistry:
    """Makes policies by base model ARN."""

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        package = TASKS.get(settings.task)
        if package is None:
            raise UnknownPolicy(f"no task {settings.task!r}; known: {', '.join(TASKS)}")
        self.space: BehaviourSpace = importlib.import_module(
            f"{package}.behaviours"
        ).BEHAVIOUR_SPACE
        self._players = importlib.import_module(f"{package}.players").PLAYERS
        self.name_for(settings.default)

    def name_for(self, model: str) -> str:
        """The policy's name for a base model ARN, hub name or policy name.

        Raises:
            UnknownPolicy: a `rehearsal-` model or a policy that does not exist.
        """
        hub_name = hub_name_of(model)
        is_model = model.startswith("arn:") or hub_name.startswith(MODEL_PREFIX)
        name = hub_name.removeprefix(MODEL_PREFIX) if is_model else model
        if is_model and not hub_name.startswith(MODEL_PREFIX):
            return self._settings.default
        known = [TRAINABLE, "upstream", *self._players]
        if name not in known:
            raise UnknownPolicy(f"no policy {name!r}; known: {', '.join(known)}")
        if name == "upstream" and not self._settings.upstream_url:
            raise UnknownPolicy("policy 'upstream' needs the URL of an OpenAI-compatible server")
        return name

    def fixed(self, name: str) -> Policy:
        """A policy that is measured but not trained."""
        if name == "upstream":
            assert self._settings.upstream_url
            return UpstreamPolicy(self._settings.upstream_url, self._settings.upstream_model)
        return ScriptedPolicy(self._players[name], self.space)
