"""Everything that the environment may set on the agent, read and checked once at start.

In: environment variables. Out: one frozen `Settings`, or a `SettingsError` that names the variable
and its rule. Nothing else in this package reads the environment, botocore's credentials apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

REASONING_EFFORTS = ("low", "medium", "high")
"""What gpt-oss and the service's other reasoning models accept as `reasoning_effort`."""
MAX_HINT_CHARS = 500
SERVICE_TIMEOUT_S = 600.0
"""`rollout_timeout` of the service when a job sets none."""
REPORT_RESERVE_S = 60.0
"""Seconds after the play budget in which completion and reward are still reported."""
MAX_SHOWN_CHARS = 100
"""How much of a bad value its error shows."""
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})


class SettingsError(ValueError):
    """A setting that cannot be used; the message names it, its value and the rule."""

    def __init__(self, name: str, value: object, rule: str) -> None:
        shown = repr(value)
        if len(shown) > MAX_SHOWN_CHARS:
            shown = f"{shown[:MAX_SHOWN_CHARS]}..."
        super().__init__(f"{name}={shown}: {rule}")
        self.name = name
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Settings:
    """How this process plays rollouts."""

    task: str = "wordle"
    """AGENT_TASK: a name in `agent.task.TASKS`."""
    reasoning_effort: str | None = None
    """REASONING_EFFORT: sent as a request field; a row's own setting wins."""
    prompt_hint: str | None = None
    """REASONING_PROMPT_HINT: a line added to the system prompt; a row's own setting wins."""
    rollout_budget_s: float = 420.0
    """ROLLOUT_BUDGET_S: wall-clock seconds of play; reports have `REPORT_RESERVE_S` more."""
    max_policy_calls: int = 12
    """MAX_POLICY_CALLS: samples after which a runaway rollout ends."""
    policy_stream: bool = False
    """POLICY_STREAM: ask the policy for server-sent events instead of one JSON body."""
    runtime_endpoint: str | None = None
    """RFT_RUNTIME_ENDPOINT: Job Runtime base URL for payloads that name none."""
    region: str | None = None
    """AWS_REGION: for payloads that name no Region."""
    ca_bundle: str | None = None
    """AWS_CA_BUNDLE: a file of certificates to trust instead of the AWS SDK's own."""
    trace_log: bool = False
    """TRACE_LOG: write each rollout's trace to standard output, one JSON line."""
    port: int = 8080
    """PORT: AgentCore expects 8080."""


def read_settings(env: Mapping[str, str]) -> Settings:
    """Read and check every setting.

    Raises:
        SettingsError: the first variable that breaks its rule.
    """
    default = Settings()
    return Settings(
        task=env.get("AGENT_TASK") or default.task,
        reasoning_effort=check_effort("REASONING_EFFORT", env.get("REASONING_EFFORT")),
        prompt_hint=check_hint("REASONING_PROMPT_HINT", env.get("REASONING_PROMPT_HINT")),
        rollout_budget_s=_number(
            env,
            "ROLLOUT_BUDGET_S",
            default.rollout_budget_s,
            1,
            SERVICE_TIMEOUT_S - REPORT_RESERVE_S,
        ),
        max_policy_calls=int(
            _number(env, "MAX_POLICY_CALLS", default.max_policy_calls, 1, 200, whole=True)
        ),
        policy_stream=_flag(env, "POLICY_STREAM"),
        runtime_endpoint=_endpoint(env.get("RFT_RUNTIME_ENDPOINT")),
        region=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None,
        ca_bundle=_file(env, "AWS_CA_BUNDLE"),
        trace_log=_flag(env, "TRACE_LOG"),
        port=int(_number(env, "PORT", default.port, 0, 65535, whole=True)),
    )


def check_effort(name: str, value: object) -> str | None:
    """A reasoning effort, or None for an empty value.

    Raises:
        SettingsError: not one of `REASONING_EFFORTS`; calls the setting `name`.
    """
    if value is None or value == "":
        return None
    if value not in REASONING_EFFORTS:
        raise SettingsError(
            name, value, f"use one of {', '.join(REASONING_EFFORTS)}, or leave it empty"
        )
    return str(value)


def check_hint(name: str, value: object) -> str | None:
    """A line for the system prompt, or None for an empty value.

    Raises:
        SettingsError: not one line of text of at most `MAX_HINT_CHARS` characters.
    """
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_HINT_CHARS or not value.isprintable():
        shown = value[:40] if isinstance(value, str) else value
        raise SettingsError(
            name, shown, f"use one printable line of at most {MAX_HINT_CHARS} characters"
        )
    return value.strip() or None


def _number(
    env: Mapping[str, str],
    name: str,
    default: float,
    low: float,
    high: float,
    *,
    whole: bool = False,
) -> float:
    raw = env.get(name, "").strip()
    if not raw:
        return default
    rule = f"use a {'whole ' if whole else ''}number from {low:g} to {high:g}"
    try:
        value = float(raw)
    except ValueError:
        raise SettingsError(name, raw, rule) from None
    if not math.isfinite(value) or not low <= value <= high or (whole and value != int(value)):
        raise SettingsError(name, raw, rule)
    return value


def _flag(env: Mapping[str, str], name: str) -> bool:
    raw = env.get(name, "").strip().lower()
    if raw in TRUE_WORDS:
        return True
    if raw in FALSE_WORDS:
        return False
    raise SettingsError(name, raw, "use 1 or 0")


def _file(env: Mapping[str, str], name: str) -> str | None:
    path = env.get(name) or None
    try:
        usable = path is None or Path(path).is_file()
    except (OSError, ValueError):  # no name that a file could have
        usable = False
    if not usable:
        raise SettingsError(name, path, "use the path of a readable file")
    return path


def _endpoint(raw: str | None) -> str | None:
    if not raw:
        return None
    if not is_http_url(raw):
        raise SettingsError("RFT_RUNTIME_ENDPOINT", raw, "use an absolute http(s) URL")
    return raw


def is_http_url(text: str) -> bool:
    """True for an absolute http or https URL with a host and nothing that could break a header."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return (
        parts.scheme in {"http", "https"}
        and bool(parts.hostname)
        and text.isascii()
        and text.isprintable()
        and " " not in text
    )
