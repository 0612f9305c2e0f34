"""What went wrong, counted: a game belongs to a cluster when it shows the fault at least once.

Faults are the summary's `violations` and the ways in which a rollout ends early. The task's own
names are taken as they are; those known here have a title and a meaning, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.task import StopReason
from mtrl.report.games import Game

KNOWN: dict[str, tuple[str, str]] = {
    "broken_green": ("Broken green", "a letter known to be in its place was moved"),
    "lost_yellow": ("Lost yellow", "a letter known to be in the word was left out or put back"),
    "reused_grey": ("Reused grey", "a letter was played more often than the word can hold it"),
    "repeat": ("Repeat", "a word was played again"),
    "non_word": ("Non-word", "a guess outside the dictionary"),
    "text_move": ("Format: text", "a move written as text instead of a tool call"),
    "malformed": ("Format: call", "a call that could not be played"),
    StopReason.MAX_TOKENS: ("Out of tokens", "answers were cut at the token limit"),
    StopReason.QUIT: ("Quit early", "the policy stopped making moves"),
    StopReason.CALL_CAP: ("Turn cap", "the cap on the policy's turns was reached"),
    StopReason.TIME_BUDGET: ("Out of time", "the rollout's time budget was used up"),
    StopReason.POLICY_ERROR: ("Policy failed", "the policy endpoint kept failing"),
    StopReason.CANCELLED: ("Cancelled", "the runtime shut down or the caller gave up"),
    StopReason.BAD_ROW: ("Bad row", "the row could not be read"),
    StopReason.TASK_ERROR: ("Task failed", "the task's own code failed"),
    "no_trace": ("No trace", "the agent left no record of the rollout"),
}
FORMAT_FAULTS = frozenset({"text_move", "malformed"})
"""Faults in how a move was sent."""
ALWAYS = (*list(KNOWN)[:7], StopReason.MAX_TOKENS, StopReason.QUIT)
"""Shown with a 0 where the task counts such faults at all: what did not happen is news too."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One kind of fault."""

    key: str
    title: str
    meaning: str


def faults_of(game: Game) -> dict[str, int]:
    """The clusters that a game belongs to, and how often it shows each fault."""
    found = dict(game.faults)
    if game.stop_reason != StopReason.DONE:
        found[game.stop_reason] = 1
    return found


def clusters(games: Sequence[Game]) -> list[Cluster]:
    """The kinds of fault to show for these games, the known ones first."""
    counted = {name for game in games if game.trace for name in _violations(game)}
    present = {key for game in games for key in faults_of(game)}
    shown = present | {key for key in ALWAYS if key in counted or key in tuple(StopReason)}
    order = [*(key for key in KNOWN if key in shown), *sorted(shown - KNOWN.keys())]
    return [Cluster(str(key), *KNOWN.get(key, (_title(key), ""))) for key in order]


def _violations(game: Game) -> Sequence[str]:
    violations = game.trace.summary.get("violations") if game.trace else None
    return tuple(violations) if isinstance(violations, dict) else ()


def _title(key: str) -> str:
    return key.replace("_", " ").capitalize()
