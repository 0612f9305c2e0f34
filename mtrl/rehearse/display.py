"""What a person sees of a rehearsal: one live line on a terminal, a line a step in a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mtrl.job.progress import JobView
from mtrl.pricing import TokenPrices, token_cost_usd
from mtrl.rehearse.results import Figures, Lesson

BAR_WIDTH = 16
PHASES = {"Starting": "preparing", "Downloading": "preparing: rows, MLflow"}
"""Plainer words for a job's first secondary statuses."""
LIVE_UPDATES_PER_S = 4


@dataclass(frozen=True, slots=True)
class StepFigures:
    """A recorded step's training rollouts."""

    step: int
    figures: Figures


class RunDisplay:
    """Shows the phases and steps of one run."""

    def __init__(self, console: Console, prices: TokenPrices) -> None:
        self._console = console
        self._prices = prices
        self._began: tuple[float, int] | None = None
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """A plain line."""
        self._console.print(text, highlight=False)

    def __enter__(self) -> RunDisplay:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, refresh_per_second=LIVE_UPDATES_PER_S, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def update(self, job: JobView, last: StepFigures | None) -> None:
        """Refresh the live line; nothing in a log."""
        if self._live:
            self._live.update(self._line(job, last))

    def step(self, job: JobView, last: StepFigures) -> None:
        """A step was recorded: a line of its own in a log, the live line on a terminal."""
        if self._live:
            self._live.update(self._line(job, last))
        else:
            self._console.print(self._line(job, last), soft_wrap=True)

    def _line(self, job: JobView, last: StepFigures | None) -> Text:
        if not job.total_steps:
            return Text(f"{PHASES.get(job.secondary, job.secondary.lower())} ...")
        done = round(BAR_WIDTH * job.step / job.total_steps)
        parts = [
            f"step {job.step}/{job.total_steps}",
            "█" * done + "░" * (BAR_WIDTH - done) if self._live else "",
        ]
        if last:
            f = last.figures
            turns = f"{f.mean_turns_solved:.2f}" if f.mean_turns_solved else "-"
            parts += [f"reward {f.mean_reward:+.2f}", f"solved {f.solve_rate:.0%}"]
            parts += [f"turns {turns}"]
        total = job.tokens.prefill + job.tokens.sample + job.tokens.train
        cost = token_cost_usd(job.tokens, self._prices)
        parts += [f"{total / 1e6:.1f} M tokens (${cost:.2f} on AWS)", self._left(job)]
        line = Text("  ".join(part for part in parts if part))
        if self._live:
            line.truncate(self._console.width, overflow="ellipsis")
        return line

    def _left(self, job: JobView) -> str:
        """Time left, from the steps seen since this display began."""
        now = time.monotonic()
        if self._began is None:
            self._began = (now, job.step)
        began, first = self._began
        steps = job.step - first
        if not steps or job.step >= job.total_steps:
            return ""
        seconds = (now - began) / steps * (job.total_steps - job.step)
        return f"{int(seconds // 60)}:{int(seconds % 60):02d} left"


def comparison(named: Sequence[tuple[str, Figures]]) -> Table:
    """A table of evaluated policies, at most 76 columns wide."""
    table = Table(title="held-out rows at temperature 1.0", title_justify="left", box=None)
    table.add_column("policy")
    for heading in ("solved", "95% interval", "mean reward", "turns to solve"):
        table.add_column(heading, justify="right")
    for name, f in named:
        low, high = f.interval
        table.add_row(
            name,
            f"{f.solve_rate:.1%}",
            f"{low:.1%} to {high:.1%}",
            f"{f.mean_reward:+.3f}",
            f"{f.mean_turns_solved:.2f}" if f.mean_turns_solved else "-",
        )
    return table


def lessons(learned: Sequence[Lesson]) -> Table:
    """What a training did to each behaviour, strongest change first."""
    table = Table(title="what the reward taught the policy", title_justify="left", box=None)
    table.add_column("it ...")
    for heading in ("now", "before", "after"):
        table.add_column(heading, justify="right" if heading != "now" else "left", no_wrap=True)
    for lesson in learned:
        table.add_row(
            lesson.meaning, lesson.change, f"{lesson.before:+.2f}", f"{lesson.after:+.2f}"
        )
    return table
