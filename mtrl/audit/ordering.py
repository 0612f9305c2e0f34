"""Judges the bands of a reward: is the better outcome always the better paid one?

Pure: bands in, findings out. Each finding names the outcomes, the amounts and two games that show
the fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from agent.audit import AuditHooks, Play
from mtrl.audit.search import Band, Scored

Describe = Callable[[Play], str]
TIE = 1e-6
"""Rewards of a group that lie closer than this have no advantage: the learner's own bound."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a reward or its environment."""

    code: str
    """Stable, for scripts (kebab-case)."""
    message: str
    evidence: tuple[str, ...] = ()
    """Games that show it."""


def judge(bands: Sequence[Band | None], hooks: AuditHooks, threshold: float) -> list[Finding]:
    """Everything that is wrong with the order of the bands.

    Args:
        bands: one an outcome, in the order of the hooks.
        threshold: the job's success_threshold.
    """
    found = [band for band in bands if band is not None]
    missing = [
        Finding("outcome-not-reached", f"no game came to the outcome {outcome.name!r}.")
        for outcome, band in zip(hooks.outcomes, bands, strict=True)
        if band is None
    ]
    broken = list(filter(None, (_not_finite(band, hooks.describe) for band in found)))
    if broken:
        return missing + broken
    return [
        *missing,
        *_inversions(found, hooks.describe),
        *_threshold(found, hooks.describe, threshold),
    ]


def _not_finite(band: Band, describe: Describe) -> Finding | None:
    game = next((g for g in (band.low, band.high) if not math.isfinite(g.reward)), None)
    if game is None:
        return None
    return Finding(
        "reward-not-finite",
        f"{band.outcome.name!r} can earn {game.reward}, which no learner can use.",
        (describe(game.play),),
    )


def _inversions(bands: Sequence[Band], describe: Describe) -> list[Finding]:
    """One finding a kind of fault: its worst pair, and how many there are."""
    kinds: dict[str, list[tuple[Band, Band]]] = {}
    for better, worse in combinations(bands, 2):
        if better.outcome.rank < worse.outcome.rank and better.low.reward <= worse.high.reward:
            kinds.setdefault(_kind(better, worse), []).append((better, worse))
    return [_inversion(kind, pairs, describe) for kind, pairs in kinds.items()]


def _kind(better: Band, worse: Band) -> str:
    if worse.high.reward <= better.high.reward:
        return "bands-overlap"
    if better.outcome.success and not worse.outcome.success:
        return "loss-beats-win"
    return "slower-beats-faster" if worse.outcome.success else "worse-beats-better"


_MEANING = {
    "bands-overlap": "the outcome does not decide: a well played worse one can earn more than a "
    "badly played better one",
    "loss-beats-win": "a loss beats a win: losing well is worth more than winning",
    "slower-beats-faster": "a slower win beats a faster one: it pays to put the win off",
    "worse-beats-better": "a worse outcome beats a better one",
}


def _inversion(kind: str, pairs: Sequence[tuple[Band, Band]], describe: Describe) -> Finding:
    """For an overlap the better outcome's least is what is beaten, else its most."""

    def beaten(better: Band) -> Scored:
        return better.low if kind == "bands-overlap" else better.high

    better, worse = max(pairs, key=lambda pair: pair[1].high.reward - beaten(pair[0]).reward)
    bound = "can earn no more than" if kind != "bands-overlap" else "can earn as little as"
    more = f" ({len(pairs)} pairs of outcomes are so)" if len(pairs) > 1 else ""
    return Finding(
        kind,
        f"{_MEANING[kind]}. {worse.outcome.name!r} can earn {worse.high.reward:+.3f}, "
        f"{better.outcome.name!r} {bound} {beaten(better).reward:+.3f}{more}.",
        (_game(worse.high, describe), _game(beaten(better), describe)),
    )


def _threshold(bands: Sequence[Band], describe: Describe, threshold: float) -> list[Finding]:
    """Success is what the service counts by the threshold; wins and losses must agree with it."""
    found = []
    wins = [band for band in bands if band.outcome.success]
    losses = [band for band in bands if not band.outcome.success]
    lowest = min(wins, key=lambda band: band.low.reward, default=None)
    highest = max(losses, key=lambda band: band.high.reward, default=None)
    if lowest and lowest.low.reward < threshold:
        found.append(
            Finding(
                "win-misses-threshold",
                f"{lowest.outcome.name!r} can earn {lowest.low.reward:+.3f}, below "
                f"success_threshold {threshold:g}: it would be counted as a failure.",
                (_game(lowest.low, describe),),
            )
        )
    if highest and highest.high.reward >= threshold:
        found.append(
            Finding(
                "loss-reaches-threshold",
                f"{highest.outcome.name!r} can earn {highest.high.reward:+.3f}, which reaches "
                f"success_threshold {threshold:g}: it would be counted as solved.",
                (_game(highest.high, describe),),
            )
        )
    return found


def _game(game: Scored, describe: Describe) -> str:
    return f"{game.reward:+.3f}  {describe(game.play)}"
