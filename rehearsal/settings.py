"""Every setting of the rehearsal service, validated once at its start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

REHEARSAL_ACCOUNT = "000000000000"
"""Stands where an AWS account id would; no real account has it."""


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
    verify_signatures: bool = True
    """Verify bearer tokens with the secret of the environment's own key."""
