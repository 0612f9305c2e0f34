"""The Job Runtime as this agent uses it: authenticated calls, completion and rewards.

In: a `Trajectory`, a body and a `Deadline`. Out: the reply's body, or a `RuntimeCallError` that
says why not. Every call of the process goes through one keep-alive client; faults that may pass
(dropped connections, throttling, server errors, refused tokens) are retried with full jitter until
the deadline, so a caller sees only what time could not heal.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Literal, TypeVar

from agent.connection import ConnectionFailedError, ConnectionPool, Reply
from agent.credentials import CredentialsError, TokenCache
from agent.payload import PayloadError, Trajectory
from agent.redact import redact
from agent.settings import Settings

DONE_MARKERS = ("not in valid status", "Cannot transition trajectory")
"""What the service answers about a trajectory that is already processed."""
REPORT_TIMEOUT_S = 20.0
"""One attempt at a report; the service answers in well under a second."""
BACKOFF_BASE_S = 0.25
BACKOFF_CAP_S = 8.0
AUTH_ATTEMPTS = 6
"""Refused tokens in a row before the refusal counts as final. The first retry follows at once."""
RETRIED_STATUS = frozenset({408, 409, 425, 429})
"""Besides every 5xx. 409 is a race on the trajectory unless it bears a done marker."""
RETRIED_ERRORS = ("ThrottlingException", "InternalServiceException", "ServiceQuotaExceeded")
"""Error types that AWS front ends also send with status 400."""
MAX_REASON_CHARS = 300
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on a clock, after which no attempt begins."""

    at: float
    clock: Callable[[], float] = time.monotonic

    @property
    def remaining(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.at - self.clock())

    def after(self, seconds: float) -> Deadline:
        """The deadline `seconds` later."""
        return replace(self, at=self.at + seconds)

    def within(self, seconds: float) -> Deadline:
        """This deadline, or `seconds` from now when that is earlier."""
        return replace(self, at=min(self.at, self.clock() + seconds))


class RuntimeCallError(Exception):
    """A call that did not succeed and will not; the message is free of secrets."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TrajectoryUnknownError(RuntimeCallError):
    """The service does not know this trajectory (404)."""


class TrajectoryProcessedError(RuntimeCallError):
    """The service has already processed this trajectory."""


class CallRefusedError(RuntimeCallError):
    """The service refuses this very request (4xx); repeating it would not help."""


class CallFailedError(RuntimeCallError):
    """The call kept failing until its deadline."""


class CallTimeoutError(RuntimeCallError):
    """The deadline passed while the call was simply still running."""


class _RetryableError(Exception):
    """One failed attempt.

    Attributes:
        after: seconds that the server asked to wait, when it did.
    """

    def __init__(self, reason: str, after: float | None = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.status = status


def resolve(trajectory: Trajectory, settings: Settings) -> Trajectory:
    """Fill in the endpoint and Region that the payload left open.

    Raises:
        PayloadError: neither payload nor environment names a Region.
    """
    region = trajectory.region or settings.region
    if not region:
        rule = "is missing, jobArn names none, and AWS_REGION is not set"
        raise PayloadError("metadata.region", rule, trajectory)
    endpoint = (
        trajectory.endpoint
        or settings.runtime_endpoint
        or f"https://job-runtime.sagemaker.{region}.api.aws"
    )
    return replace(trajectory, region=region, endpoint=endpoint.rstrip("/"))


class JobRuntime:
    """The process's one client of the Job Runtime. Use it from one event loop only."""

    def __init__(
        self,
        tokens: TokenCache | None = None,
        pool: ConnectionPool | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tokens = tokens or TokenCache()
        self.clock = clock
        self._sleep = sleep
        self._random = random.SystemRandom()
        self._pool = pool or ConnectionPool()

    async def complete(
        self, trajectory: Trajectory, status: Literal["ready", "failed"], deadline: Deadline
    ) -> bool:
        """Report the trajectory's end; False when it was already processed.

        Raises:
            RuntimeCallError: the report did not arrive.
        """
        return await self._report(trajectory, "/complete-rollout", {"Status": status}, deadline)

    async def update_reward(
        self, trajectory: Trajectory, reward: float | Sequence[float], deadline: Deadline
    ) -> bool:
        """Report the reward: one number, or one per turn; False when already processed.

        Raises:
            RuntimeCallError: the report did not arrive.
            ValueError: no reward, or one that is not a finite number.
        """
        rewards = [reward] if isinstance(reward, int | float) else list(reward)
        if not rewards or not all(math.isfinite(value) for value in rewards):
            raise ValueError(f"a reward must be one or more finite numbers, not {rewards}")
        return await self._report(trajectory, "/update-reward", {"Rewards": rewards}, deadline)

    async def _report(
        self, trajectory: Trajectory, path: str, fields: dict[str, object], deadline: Deadline
    ) -> bool:
        body = {"JobArn": trajectory.job_arn, "TrajectoryId": trajectory.trajectory_id, **fields}
        try:
            await self.post(
                trajectory,
                path,
                json.dumps(body).encode(),
                deadline=deadline,
                attempt_s=REPORT_TIMEOUT_S,
            )
        except TrajectoryProcessedError:
            return False
        return True

    async def post(
        self,
        trajectory: Trajectory,
        path: str,
        body: bytes,
        *,
        deadline: Deadline,
        attempt_s: float,
        headers: dict[str, str] | None = None,
        read: Callable[[bytes], T] = bytes,
    ) -> T:
        """POST until it succeeds, and return `read` of the reply's body.

        `read` runs inside the attempt: a ValueError from it (a reply cut short, or not what the
        protocol says) counts as a failed attempt. `attempt_s` bounds one attempt, in seconds.

        Raises:
            RuntimeCallError: refused, or still failing at the deadline.
        """
        refusals = failures = 0
        reason: str | None = None
        while (remaining := deadline.remaining) > 0:
            try:
                async with asyncio.timeout(min(attempt_s, remaining)):
                    return read(await self._attempt(trajectory, path, body, headers))
            except (
                TimeoutError,
                CredentialsError,
                ConnectionFailedError,
                ValueError,
                RecursionError,
            ) as error:
                fault = _RetryableError(_describe(error, attempt_s))
                timed_out = isinstance(error, TimeoutError)
            except _RetryableError as error:
                fault, timed_out = error, False
            refusals = refusals + 1 if fault.status in (401, 403) else 0
            if refusals >= AUTH_ATTEMPTS:
                raise CallRefusedError(f"{path}: {fault}", fault.status)
            if not (timed_out and deadline.remaining <= 0):
                reason = str(fault)
            wait = 0.0 if refusals == 1 else self._backoff(failures, fault.after)
            failures += 1
            if wait >= deadline.remaining:
                break
            await self._sleep(wait)
        if reason is None:
            raise CallTimeoutError(f"{path}: no answer before the deadline")
        raise CallFailedError(
            f"{path}: gave up at the deadline after {failures} attempts; {reason}"
        )

    async def _attempt(
        self, trajectory: Trajectory, path: str, body: bytes, headers: dict[str, str] | None
    ) -> bytes:
        region = trajectory.region or ""
        token = await self._tokens.token(region)
        reply = await self._pool.post(
            f"{trajectory.endpoint}{path}",
            {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token}",
                **(headers or {}),
            },
            body,
        )
        if reply.status in (401, 403):
            self._tokens.drop(region, token)
        if reply.status != 200:
            raise _classify(reply)
        return reply.body

    def _backoff(self, failures: int, asked: float | None) -> float:
        """Seconds to wait: full jitter, on top of what the server asked for.

        The randomness is the system's: a generator seeded at start would be the same in every
        runtime restored from one snapshot, and they would all come back at once.
        """
        jitter = self._random.uniform(
            0, min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** min(failures, 16))
        )
        return jitter if asked is None else asked + min(jitter, BACKOFF_BASE_S)

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()


def _classify(reply: Reply) -> Exception:
    """What a reply other than 200 means for the call."""
    status, message = reply.status, _message(reply.body)
    text = f"{status} {message}".strip()
    if any(marker in message for marker in DONE_MARKERS):
        return TrajectoryProcessedError(text, status)
    if status == 404:
        return TrajectoryUnknownError(f"the service does not know this trajectory: {text}", status)
    kind = reply.headers.get(b"x-amzn-errortype", b"").decode("latin-1")
    passing = any(name in kind or name in message for name in RETRIED_ERRORS)
    if status in (401, 403) or status in RETRIED_STATUS or status >= 500 or passing:
        asked = reply.headers.get(b"retry-after", b"").decode("latin-1")
        return _RetryableError(text, retry_after(asked), status)
    return CallRefusedError(text, status)


def _message(body: bytes) -> str:
    """The server's own words, shortened and without anything that looks like a token."""
    text = body[: 4 * MAX_REASON_CHARS].decode("utf-8", "replace")
    return redact(" ".join(text.split()))[:MAX_REASON_CHARS]


def _describe(error: Exception, attempt_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {attempt_s:g} s"
    if isinstance(error, ConnectionFailedError):
        return f"connection failed: {error}"
    return str(error)


def retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Seconds asked for by a Retry-After header, in either of its forms; None if unreadable."""
    if not value:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - now())
