"""What the rollouts themselves show: how moves were written, and what broke.

Read from the trace files that a service leaves below a job's output, else from the agent's own
log. Only what is new since the last look is read, and of much only a part.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from agent.task import StopReason
from mtrl.aws import CLOUD_ERRORS, Cloud, in_words, is_missing
from mtrl.jobs.reading import Job
from mtrl.report.agent_log import log_lines
from mtrl.report.games import Game, read_line

FILES_A_LOOK = 4
LINES = 256
"""Of one file, or of the log in one look: enough to tell a share within a few per cent."""
LOOK_BACK = timedelta(minutes=10)
"""Of the log, when a watch joins a job that has long been running."""
RETRY_AFTER_S = 300.0
"""After a log that could not be read."""
ERRORS_KEPT = 5
_TRAINING = re.compile(r"/train-(\d+)\.jsonl$")


@dataclass(frozen=True, slots=True)
class Sample:
    """Some rollouts that were played at about the same time."""

    step: int | None
    """None when the source does not say."""
    games: int
    moves: int
    text_moves: int
    """Written as text instead of a tool call, and recovered."""
    failed: int
    """Rollouts that broke."""
    bad_rows: int = 0
    """Of them, those whose row the agent could not read."""
    cut: int = 0
    """Rollouts in which an answer was cut at its token limit."""
    errors: tuple[str, ...] = ()
    """What some of them said."""
    mean_reward: float | None = None

    @property
    def text_share(self) -> float:
        """Share of moves that were written as text."""
        return self.text_moves / self.moves if self.moves else 0.0


def sample_of(games: Iterable[Game], step: int | None) -> Sample:
    """Count games."""
    games = list(games)
    moves = [
        move for game in games if game.trace for turn in game.trace.turns for move in turn.moves
    ]
    errors = [game.failure for game in games if game.failure]
    rewards = [game.reward for game in games if game.reward is not None]
    return Sample(
        step=step,
        games=len(games),
        moves=len(moves),
        text_moves=sum(move.recovered for move in moves),
        failed=len(errors),
        bad_rows=sum(game.stop_reason == StopReason.BAD_ROW for game in games),
        cut=sum(map(_cut, games)),
        errors=tuple(dict.fromkeys(errors))[:ERRORS_KEPT],
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
    )


def _cut(game: Game) -> bool:
    turns = game.trace.turns if game.trace else ()
    return any(turn.finish_reason == "length" for turn in turns)


@dataclass
class EvidenceReader:
    """Collects samples of one job's rollouts, oldest first."""

    clock: Callable[[], float] = time.monotonic
    samples: list[Sample] = field(default_factory=list)
    note: str = ""
    """Why there is none, if there is none."""
    _seen: set[str] = field(default_factory=set)
    _log_since: datetime | None = None
    _no_log_before: float = float("-inf")

    def read(self, cloud: Cloud, job: Job) -> None:
        """Read what is new."""
        try:
            if self._read_files(cloud, job) or self._seen:
                self.note = ""
                return
            if self.clock() >= self._no_log_before:
                self._read_log(cloud, job)
                self.note = ""
        except CLOUD_ERRORS as error:
            if not is_missing(error):
                self.note = f"no rollouts to look at: {in_words(error).message}"
            self._no_log_before = self.clock() + RETRY_AFTER_S

    def _read_files(self, cloud: Cloud, job: Job) -> bool:
        bucket, _, prefix = job.output_uri.removeprefix("s3://").partition("/")
        s3 = cloud.client("s3")
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{prefix}/traces/train-"
        )
        keys = sorted(item["Key"] for page in pages for item in page.get("Contents", ()))
        fresh = [key for key in keys if key not in self._seen]
        for key in _ends(fresh, FILES_A_LOOK):
            step = _TRAINING.search(key)
            body = s3.get_object(Bucket=bucket, Key=key)["Body"]
            games = _games(line.decode() for line in islice(body.iter_lines(), LINES))
            self.samples.append(sample_of(games, int(step[1]) if step else None))
        self._seen.update(fresh)
        return bool(fresh)

    def _read_log(self, cloud: Cloud, job: Job) -> None:
        """First the job's beginning, then what is recent."""
        first = self._log_since is None
        now = datetime.now(UTC)
        since = self._log_since or job.created
        lines = log_lines(cloud.client("logs"), replace(job, created=since))
        games = list(_games(islice(lines, LINES)))
        if games:
            self.samples.append(sample_of(games, None))
        self._log_since = max(now - LOOK_BACK, job.created) if first else now


def _ends(keys: list[str], count: int) -> list[str]:
    """The first and the last ones."""
    if len(keys) <= count:
        return keys
    return [keys[0], *keys[-(count - 1) :]]


def _games(lines: Iterable[str]) -> Iterator[Game]:
    for line in lines:
        try:
            yield read_line(line)[0]
        except ValueError:  # a line that the log has cut
            continue


def samples_as_data(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [
        {"step": s.step, "games": s.games, "text_share": round(s.text_share, 4), "failed": s.failed}
        for s in samples
    ]
