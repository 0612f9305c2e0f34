"""What an evaluation plays: policies, conditions, and the cells of their matrix.

Pure. A cell's id derives from all that decides its games, so that the same cell is never played
twice and another one never taken for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import product
from typing import Any

from agent.settings import is_http_url
from mtrl.errors import InputError
from mtrl.job.identity import document_hash
from mtrl.job.models import base_model_arn

LABEL = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LABEL_MAX = 24
ID_HASH = 8
"""Hexadecimal digits of the hash in a cell's id."""
PLAYER_HUB = "rehearsal-"
"""Hub names with this prefix choose a policy of the rehearsal service by its name."""


class Kind(StrEnum):
    """Where a policy comes from."""

    BASE = "base"
    """The base model, untrained."""
    PACKAGE = "package"
    """A trained model: a model package."""
    PLAYER = "player"
    """One of the task's scripted players, on this machine."""
    UPSTREAM = "upstream"
    """Any OpenAI-compatible server, through the rehearsal service on this machine."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who plays."""

    label: str
    """The operator's name for it."""
    kind: Kind
    target: str = ""
    """Package ARN, player's name, or URL; empty for the base model."""
    model: str = ""
    """The upstream server's name for its model."""

    @property
    def local(self) -> bool:
        """True for what is played by a rehearsal service on this machine."""
        return self.kind in (Kind.PLAYER, Kind.UPSTREAM)

    @property
    def sampled(self) -> bool:
        """False for a scripted player, to which no sampling condition applies."""
        return self.kind is not Kind.PLAYER

    def model_arn(self, base: str, region: str) -> str:
        """The base model that its job names."""
        if self.kind is Kind.PLAYER:
            return base_model_arn(f"{PLAYER_HUB}{self.target}", region)
        if self.kind is Kind.UPSTREAM:
            return base_model_arn(f"{PLAYER_HUB}{Kind.UPSTREAM}", region)
        return base


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a policy is sampled under."""

    temperature: float = 0.0
    effort: str | None = None
    """reasoning_effort, written into each row; None leaves the model's own."""
    hint: str | None = None
    """A line added to the system prompt, written into each row."""
    repeats: int = 1
    """Games a row."""

    @property
    def row_settings(self) -> dict[str, str]:
        """What a row carries: the agent obeys it and records it."""
        settings = {"reasoning_effort": self.effort, "prompt_hint": self.hint}
        return {name: value for name, value in settings.items() if value}


@dataclass(frozen=True, slots=True)
class Cell:
    """One policy under one set of conditions: one evaluation job."""

    policy: Policy
    conditions: Conditions
    rows_sha: str
    """SHA-256 of the prompts it plays, whatever settings are written into them."""
    values: tuple[tuple[str, Any], ...] = ()
    """The job's other hyperparameters that the operator chose: (name, typed value)."""

    @property
    def id(self) -> str:
        """Readable, and unique among all cells."""
        c = self.conditions
        parts = [self.policy.label]
        if self.policy.sampled:
            parts.append(f"t{c.temperature:g}".replace(".", ""))
            parts += [c.effort] if c.effort else []
            parts += ["hint"] if c.hint else []
        parts += [f"x{c.repeats}"] if c.repeats > 1 else []
        return "-".join([*parts, document_hash(asdict(self))[:ID_HASH]])

    @property
    def title(self) -> str:
        """For a person: the policy and what is special about its conditions."""
        c = self.conditions
        if not self.policy.sampled:
            return self.policy.label
        parts = [f"T {c.temperature:g}", f"{c.effort} effort" if c.effort else ""]
        parts.append("hint" if c.hint else "")
        return f"{self.policy.label} ({', '.join(filter(None, parts))})"


def cell_from_data(raw: dict[str, Any]) -> Cell:
    """Read `dataclasses.asdict` of a cell back from JSON.

    Raises:
        ValueError: it is none.
    """
    try:
        policy = Policy(**{**raw["policy"], "kind": Kind(raw["policy"]["kind"])})
        values = tuple((name, value) for name, value in raw["values"])
        return Cell(policy, Conditions(**raw["conditions"]), raw["rows_sha"], values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a cell: {error}") from None


def matrix(
    policies: Sequence[Policy],
    conditions: Sequence[Conditions],
    rows_sha: str,
    values: tuple[tuple[str, Any], ...] = (),
) -> list[Cell]:
    """Every policy under all conditions; a scripted player only once, for nothing applies to it."""
    cells = []
    for policy, condition in product(policies, conditions):
        applied = condition if policy.sampled else Conditions(repeats=condition.repeats)
        cells.append(Cell(policy, applied, rows_sha, values))
    return list(dict.fromkeys(cells))


def all_conditions(
    temperatures: Sequence[float],
    efforts: Sequence[str | None],
    hints: Sequence[str | None],
    repeats: int,
) -> list[Conditions]:
    """Every combination."""
    combined = product(temperatures, efforts, hints)
    return [Conditions(t, effort, hint, repeats) for t, effort, hint in combined]


def split_label(text: str) -> tuple[str | None, str]:
    """`LABEL=VALUE` in its parts; the label is None when there is none.

    Raises:
        InputError: a label that cannot be used.
    """
    label, equals, value = text.partition("=")
    if not equals or "://" in label:
        return None, text
    if not LABEL.fullmatch(label) or len(label) > LABEL_MAX:
        raise InputError(
            "bad-label",
            f"--policy {text}: the label {label!r} cannot be used.",
            f"Use at most {LABEL_MAX} lower-case letters, digits and single hyphens.",
        )
    return label, value


def upstream_policy(label: str | None, value: str) -> Policy:
    """The policy of `http(s)://host/v1[#model]`.

    Raises:
        InputError: not a URL.
    """
    url, _, model = value.partition("#")
    if not is_http_url(url):
        raise InputError(
            "bad-policy", f"--policy {value}: not an http(s) URL.", "E.g. http://127.0.0.1:8000/v1."
        )
    return Policy(label or "upstream", Kind.UPSTREAM, url, model or "default")


def unique(policies: Sequence[Policy]) -> list[Policy]:
    """The policies without repetitions.

    Raises:
        InputError: one label for two policies.
    """
    found: dict[str, Policy] = {}
    for policy in policies:
        if found.setdefault(policy.label, policy) != policy:
            raise InputError(
                "label-twice",
                f"--policy: the label {policy.label!r} stands for two policies.",
                "Name one of them yourself: --policy LABEL=...",
            )
    return list(found.values())
