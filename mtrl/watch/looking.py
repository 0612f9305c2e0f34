"""Looks at a job again and again, through throttling, restarts and expired credentials.

A look never fails for what may pass: it says what is in the way, and how long to wait. Only when
that has lasted longer than the operator's patience does it give up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from mtrl.aws import (
    CLOUD_ERRORS,
    Cloud,
    CloudError,
    in_words,
    is_passing,
    is_throttled,
    is_unusable_login,
)
from mtrl.jobs.reading import Job, describe

LONGEST_WAIT_S = 60.0
"""Between two looks while something is in the way."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw."""

    job: Job | None
    """As it was last seen; None once it has been deleted."""
    trouble: str
    """What is in the way right now; empty when nothing is."""
    wait_s: float
    """Until the next look."""


class Lookout:
    """Looks at one job.

    Args:
        every_s: seconds between two looks when all is well.
        patience_s: how long trouble may last.
        reconnect: makes new clients, with whatever credentials there are by then.
    """

    def __init__(
        self,
        job: Job,
        cloud: Cloud,
        every_s: float,
        patience_s: float,
        *,
        reconnect: Callable[[str], Cloud] = Cloud,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cloud = cloud
        self._job = job
        self._every_s = every_s
        self._patience_s = patience_s
        self._reconnect = reconnect
        self._clock = clock
        self._trouble_since: float | None = None
        self._failures = 0

    def look(self) -> Look:
        """Look once.

        Raises:
            CloudError: trouble has lasted longer than the patience, or will not pass.
        """
        try:
            found = describe(self.cloud.client("sagemaker"), self._job.name, self._job.category)
        except CLOUD_ERRORS as error:
            return self._troubled(error)
        self._trouble_since, self._failures = None, 0
        if found is None:
            return Look(None, "", 0.0)
        self._job = found
        return Look(found, "", self._every_s)

    def _troubled(self, error: Exception) -> Look:
        if not (is_passing(error) or is_unusable_login(error)):
            raise in_words(error) from error
        now = self._clock()
        if self._trouble_since is None:
            self._trouble_since = now
        lasted = now - self._trouble_since
        said = in_words(error)
        if lasted > self._patience_s:
            raise CloudError(
                said.code,
                f"{said.message} It has been so for {lasted / 60:.0f} min; the watch ends here, "
                "the job is not touched.",
                f"Watch it again:  mtrl watch {self._job.name}",
            ) from error
        if is_unusable_login(error):
            self.cloud = self._reconnect(self.cloud.region)
        self._failures += 1
        wait = min(self._every_s * 2 ** min(self._failures, 8), LONGEST_WAIT_S)
        return Look(self._job, _said(error, said), max(wait, self._every_s))


def _said(error: Exception, said: CloudError) -> str:
    """A line about what is in the way."""
    if is_throttled(error):
        return "throttled by the service"
    if is_unusable_login(error):
        return "the AWS credentials are not usable: log in again, the watch goes on by itself"
    return f"not reachable ({said.code}); the job does not depend on this watch"
