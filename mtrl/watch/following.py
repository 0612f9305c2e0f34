"""The loop of a watch: look, read, judge, show, wait; until the job has ended.

What it is shown on and how it waits are passed in, so that a test can follow a job as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from mtrl.aws import CLOUD_ERRORS, Cloud
from mtrl.job.identity import MAX_COST_TAG
from mtrl.jobs.money import budget_usd, spent_usd
from mtrl.jobs.reading import Job
from mtrl.jobs.stopping import ask_to_stop
from mtrl.pricing import PriceList
from mtrl.watch.curves import CurveReader, Curves
from mtrl.watch.diagnosis import Diagnosis, diagnose
from mtrl.watch.evidence import EvidenceReader
from mtrl.watch.looking import Look, Lookout
from mtrl.watch.screen import Picture
from mtrl.watch.verdict import Verdict, deleted, verdict, who_stopped


@dataclass
class Follower:
    """Follows one job."""

    lookout: Lookout
    job: Job
    prices: PriceList
    show: Callable[[Picture], None]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    max_cost: Decimal | None = None
    """Stops the job at this cost, whatever its own budget says."""
    curves: CurveReader = field(default_factory=CurveReader)
    evidence: EvidenceReader = field(default_factory=EvidenceReader)
    _curves: Curves = field(default_factory=dict)
    _first_step: tuple[float, int] | None = None
    _stopped_by_us: bool = False

    def follow(self) -> tuple[Verdict, Picture]:
        """Follow the job to its end."""
        while True:
            look = self.lookout.look()
            if look.job is None:
                return deleted(self.job), self._picture("")
            self.job = self._with_budget(look.job)
            picture = self._read(look)
            self.show(picture)
            if not self.job.running and not look.trouble:
                return self._ended(picture), picture
            self._watch_budget()
            self.sleep(look.wait_s)

    def once(self) -> Picture:
        """One look."""
        look = self.lookout.look()
        self.job = self._with_budget(look.job or self.job)
        return self._read(look)

    def _with_budget(self, job: Job) -> Job:
        if self.max_cost is None:
            return job
        return replace(job, tags={**job.tags, MAX_COST_TAG: f"{self.max_cost:f}"})

    def _read(self, look: Look) -> Picture:
        if not look.trouble:
            self.evidence.read(self.cloud, self.job)
            self._curves = self.curves.read(self.cloud, self.job)
        return self._picture(look.trouble)

    @property
    def cloud(self) -> Cloud:
        """The lookout's clients: it renews them."""
        return self.lookout.cloud

    def _picture(self, trouble: str) -> Picture:
        curves = self._curves
        samples = tuple(self.evidence.samples)
        return Picture(
            job=self.job,
            prices=self.prices,
            curves=curves,
            samples=samples,
            findings=tuple(diagnose(self.job, curves, samples)),
            trouble=trouble,
            notes=tuple(note for note in (self.curves.note, self.evidence.note) if note),
            seconds_a_step=self._seconds_a_step(),
        )

    def _seconds_a_step(self) -> float | None:
        now, step = self.clock(), self.job.view.step
        if self._first_step is None and step:
            self._first_step = (now, step)
        if self._first_step is None or step <= self._first_step[1]:
            return None
        return (now - self._first_step[0]) / (step - self._first_step[1])

    def _watch_budget(self) -> None:
        """Stop the job once it has spent its budget. A failure is tried again at the next look."""
        limit, spent = budget_usd(self.job), spent_usd(self.job, self.prices)
        over = limit is not None and spent is not None and spent >= limit
        if not over or self.job.view.status != "InProgress":
            return
        try:
            ask_to_stop(self.cloud.client("sagemaker"), self.job)
            self._stopped_by_us = True
        except CLOUD_ERRORS:
            return

    def _ended(self, picture: Picture) -> Verdict:
        findings: tuple[Diagnosis, ...] = tuple(picture.findings)
        stopped = self.job.view.status == "Stopped" and not self._stopped_by_us
        by_whom = who_stopped(self.cloud, self.job) if stopped else ""
        return verdict(self.job, findings, self.prices, by_us=self._stopped_by_us, by_whom=by_whom)
