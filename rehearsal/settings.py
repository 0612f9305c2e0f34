"""Every setting of the rehearsal service, validated once at its start."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

REHEARSAL_ACCOUNT = "000000000000"
"""Stands where an AWS account id would; no real account has it."""


class Fault(StrEnum):
    """What the service can be told to get wrong; docs/reliability.md says where each applies."""

    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    THROTTLED = "throttled"
    THROTTLED_RETRY_AFTER = "throttled-retry-after"
    SERVER_ERROR = "server-error"
    UNAVAILABLE = "unavailable"
    SLOW_FIRST_BYTE = "slow-first-byte"
    STREAM_CUT = "stream-cut"
    EMPTY_CHOICES = "empty-choices"
    MALFORMED_TOOL_CALL = "malformed-tool-call"
    LENGTH_WITHOUT_CALL = "length-without-call"
    DUPLICATED_CHUNKS = "duplicated-chunks"
    LOST_ACKNOWLEDGEMENT = "lost-acknowledgement"
    ALREADY_PROCESSED = "already-processed"
    CONNECTION_REFUSED = "connection-refused"
    CREDENTIALS_MISSING = "credentials-missing"
    CREDENTIALS_REVOKED = "credentials-revoked"
    CREDENTIALS_ROTATING = "credentials-rotating"


class FaultSettings(BaseModel):
    """Which faults are injected, how often, and what each amounts to. None by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rates: dict[Fault, Annotated[float, Field(ge=0, le=1)]] = {}
    """Share of the calls that meet a fault; of the time, for connection-refused."""
    seed: int = 1
    slow_s: Annotated[float, Field(ge=0, le=600)] = 0.5
    """Wait before the first byte of a slow answer."""
    retry_after_s: Annotated[int, Field(ge=0, le=600)] = 1
    """What Retry-After asks for."""
    refused_s: Annotated[float, Field(gt=0, le=600)] = 2.0
    """How long the port refuses connections at a time."""
    revoked_after_s: Annotated[float, Field(ge=0, le=3600)] = 1.0
    """How long keys work that are then revoked, whatever their Expiration says."""

    @property
    def active(self) -> bool:
        """True when anything can go wrong."""
        return any(rate > 0 for rate in self.rates.values())


class ServiceSettings(BaseModel):
    """How a service is started: `python -m rehearsal` takes each as an option."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: Path
    """Folder that holds the records, the objects and the MLflow store."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port on the loopback interface; 0 takes a free one."""
    agent_urls: tuple[str, ...] = ("http://127.0.0.1:8080",)
    """The agent's servers; several share the rollouts."""
    seed: int = 1
    policy: str = "behaviour"
    """behaviour (trainable), upstream, or one of the task's players."""
    task: str = "wordle"
    upstream_url: str | None = None
    upstream_model: str = "default"
    region: str = "us-east-1"
    account: Annotated[str, Field(pattern=r"^\d{12}$")] = REHEARSAL_ACCOUNT
    concurrency: Annotated[int, Field(ge=1, le=512)] = 32
    """Rollouts under way at once, however many the job allows."""
    max_evaluations: Annotated[int, Field(ge=1)] = 1
    """Evaluation jobs at once; the account default of the service."""
    timeout_scale: Annotated[float, Field(gt=0)] = 1.0
    """Factor on the jobs' rollout_timeout, whose least value on the wire is 300 s."""
    s3_endpoint: str | None = None
    """An S3-compatible server to use instead of the service's own objects."""
    role_trusts: tuple[str, ...] = ("job.sagemaker.amazonaws.com", "sagemaker.amazonaws.com")
    """Services that every role here trusts. The SDK's trainer insists on the second."""
    verify_signatures: bool = True
    """Verify bearer tokens with the secret of the environment's own key."""
    agent_keys_s: Annotated[float, Field(ge=60, le=43_200)] | None = None
    """Lifetime of the keys that agents fetch from `/_credentials`; None offers none there."""
    faults: FaultSettings = FaultSettings()
