"""The rollout payload that the service posts to `/invocations`, as a typed value.

In: whatever JSON arrived. Out: a frozen `RolloutPayload`, or a `PayloadError` that names the field.
Both spellings of every key are read (`jobArn` and `job_arn`), and the SDK's `instance` beside the
service's `prompt`; keys nobody here knows are ignored, since the service may add some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agent.settings import is_http_url

MAX_ID_CHARS = 512
MAX_TOKENS_LIMIT = 1_000_000
"""Only a guard against nonsense; the service's own range is narrower."""
_REGION = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Which rollout of which job this is, and where its runtime listens."""

    job_arn: str
    trajectory_id: str
    endpoint: str | None = None
    """Job Runtime base URL, when the payload names one."""
    region: str | None = None
    """From the metadata, else from the job's ARN."""


@dataclass(frozen=True, slots=True)
class InferenceParams:
    """Sampling parameters of one rollout; None leaves the server's default."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None

    def as_request(self) -> dict[str, Any]:
        """The fields that are set, under the names of a chat completion request."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class RolloutPayload:
    """One rollout to play."""

    trajectory: Trajectory
    inference: InferenceParams
    prompt: str
    """The dataset row's text, verbatim."""


class PayloadError(ValueError):
    """A payload that cannot be played; the message names the field and the rule.

    Attributes:
        trajectory: whom to report the failure for, when that much could be read.
    """

    def __init__(self, field: str, rule: str, trajectory: Trajectory | None = None) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.trajectory = trajectory


def parse_payload(raw: object) -> RolloutPayload:
    """Read a payload.

    Raises:
        PayloadError: the first field that is missing or breaks its rule.
    """
    if not isinstance(raw, Mapping):
        raise PayloadError("payload", "must be a JSON object")
    trajectory = _trajectory(raw.get("metadata"))
    try:
        inference = _inference(_first(raw, "inferenceParams", "inference_params"))
        return RolloutPayload(trajectory, inference, _prompt(raw))
    except PayloadError as error:
        error.trajectory = trajectory
        raise


def _trajectory(metadata: object) -> Trajectory:
    if not isinstance(metadata, Mapping):
        raise PayloadError("metadata", "must be an object with jobArn and rolloutId")
    job_arn = _header_value(metadata, "jobArn", "job_arn")
    if not job_arn.startswith("arn:"):
        raise PayloadError("metadata.jobArn", "must be an ARN")
    trajectory_id = _header_value(
        metadata, "trajectoryId", "trajectory_id", "rolloutId", "rollout_id"
    )
    endpoint = metadata.get("endpoint") or None
    if endpoint is not None and not (isinstance(endpoint, str) and is_http_url(endpoint)):
        raise PayloadError("metadata.endpoint", "must be an absolute http(s) URL")
    region = metadata.get("region") or _arn_region(job_arn)
    if region is not None and not (isinstance(region, str) and _REGION.fullmatch(region)):
        raise PayloadError("metadata.region", "must be the name of a Region, such as us-east-1")
    return Trajectory(job_arn, trajectory_id, endpoint, region)


def _header_value(metadata: Mapping[str, Any], *names: str) -> str:
    """A value that travels as an HTTP header: visible ASCII only."""
    value = _first(metadata, *names)
    if value is None or value == "":
        raise PayloadError(
            f"metadata.{names[0]}", f"is missing (also read as {', '.join(names[1:])})"
        )
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= MAX_ID_CHARS
        or not re.fullmatch(r"[!-~]+", value)
    ):
        raise PayloadError(
            f"metadata.{names[0]}", f"must be 1 to {MAX_ID_CHARS} visible ASCII characters"
        )
    return value


def _arn_region(job_arn: str) -> str | None:
    parts = job_arn.split(":")
    return parts[3] if len(parts) > 3 and parts[3] else None


def _inference(raw: object) -> InferenceParams:
    if raw is None:
        return InferenceParams()
    if not isinstance(raw, Mapping):
        raise PayloadError("inferenceParams", "must be an object")
    return InferenceParams(
        temperature=_number(raw, ("temperature",), 0, 2),
        top_p=_number(raw, ("topP", "top_p"), 0, 1),
        max_tokens=_whole(raw, ("maxTokens", "max_tokens")),
    )


def _number(
    raw: Mapping[str, Any], names: tuple[str, ...], low: float, high: float
) -> float | None:
    value = _first(raw, *names)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise PayloadError(
            f"inferenceParams.{names[0]}", f"must be a number from {low:g} to {high:g}"
        )
    return value


def _whole(raw: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    value = _first(raw, *names)
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 1 <= value <= MAX_TOKENS_LIMIT or value != int(value):
        rule = f"must be a whole number from 1 to {MAX_TOKENS_LIMIT}"
        raise PayloadError(f"inferenceParams.{names[0]}", rule)
    return int(value)


def _prompt(raw: Mapping[str, Any]) -> str:
    value = _first(raw, "prompt", "instance")
    if isinstance(value, Mapping) and "prompt" in value:
        value = value["prompt"]
    if isinstance(value, Mapping):
        value = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or not value.strip():
        raise PayloadError(
            "prompt", "must be the dataset row's text (also read from instance.prompt)"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PayloadError("prompt", "holds half of a surrogate pair; send valid Unicode") from None
    return value


def _first(raw: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        value = raw.get(name)
        if value is not None:
            return value
    return None
