"""Two cells on the same rows: is the difference more than chance?

A difference is only given when the cells differ in one thing. What a cell was really sampled
under is read from its games, so a setting that the model's endpoint refused counts as refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtrl.errors import InputError
from mtrl.evaluate.figures import Result
from mtrl.statistics import mcnemar, paired_bootstrap, paired_interval, sign_flip_p

FACTORS = ("policy", "temperature", "effort", "hint")
"""What may be compared, one at a time; all else has to be the same."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The second cell less the first."""

    first: str
    second: str
    """Ids of cells."""
    factor: str
    """The one thing in which they differ."""
    rows: int
    """Rows that both played."""
    solve_rate: float
    low: float
    high: float
    """95% interval of the difference in solve rate: bootstrap over rows (`paired_interval`)."""
    p: float
    """McNemar's exact test; with several games a row, the exact sign-flip test over rows."""
    mid_p: float | None
    """McNemar's mid-p; None with several games a row."""
    only_first: int
    only_second: int
    """Rows that only one of the two solved, or solved more often."""
    reward: float
    reward_low: float
    reward_high: float
    sample_ratio: float | None
    """Sampled tokens a game, second over first; None when there are none."""


def differing(first: Result, second: Result) -> list[str]:
    """What the two cells differ in, by name."""
    one, other = _facts(first), _facts(second)
    both = one.keys() & other.keys()
    return [name for name in one if name in both and one[name] != other[name]]


def comparable(first: Result, second: Result) -> bool:
    """True when the cells differ in one factor and nothing else, and have games to pair."""
    found = differing(first, second)
    whole = all(r.figures.traced and len(r.sampling) <= 1 for r in (first, second))
    return whole and len(found) == 1 and found[0] in FACTORS


def compare(first: Result, second: Result, seed: int = 0) -> Difference:
    """The difference of two cells.

    Raises:
        InputError: they cannot be compared; says why.
    """
    _refuse(first, second)
    one, other = _by_row(first), _by_row(second)
    rows = sorted(one.keys() & other.keys())
    if not rows:
        raise InputError("no-common-rows", f"{_pair(first, second)} have no row in common.")
    pairs = [(one[row], other[row]) for row in rows]
    shares = [b.share - a.share for a, b in pairs]
    rewards = [b.reward - a.reward for a, b in pairs]
    low, high = paired_interval(shares, seed=seed)
    reward_low, reward_high = paired_bootstrap(rewards, seed=seed)
    p, mid_p = _test(pairs)
    return Difference(
        first=first.figures.id,
        second=second.figures.id,
        factor=differing(first, second)[0],
        rows=len(rows),
        solve_rate=sum(shares) / len(rows),
        low=low,
        high=high,
        p=p,
        mid_p=mid_p,
        only_first=sum(share < 0 for share in shares),
        only_second=sum(share > 0 for share in shares),
        reward=sum(rewards) / len(rows),
        reward_low=reward_low,
        reward_high=reward_high,
        sample_ratio=_ratio(first, second),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    solved: int
    games: int
    reward: float

    @property
    def share(self) -> float:
        return self.solved / self.games


def _by_row(result: Result) -> dict[str, _Row]:
    """A rollout without a reward counts as a game that was not solved and earned nothing."""
    found: dict[str, _Row] = {}
    for game in result.games:
        seen = found.get(game.row_id, _Row(0, 0, 0.0))
        games = seen.games + 1
        reward = seen.reward + ((game.reward or 0.0) - seen.reward) / games
        found[game.row_id] = _Row(seen.solved + game.solved(result.threshold), games, reward)
    return found


def _test(pairs: Sequence[tuple[_Row, _Row]]) -> tuple[float, float | None]:
    if all(a.games == b.games == 1 for a, b in pairs):
        found = mcnemar([bool(a.solved) for a, _ in pairs], [bool(b.solved) for _, b in pairs])
        return found.exact_p, found.mid_p
    # Differences of shares as whole numbers, whatever the numbers of games.
    return sign_flip_p([b.solved * a.games - a.solved * b.games for a, b in pairs]), None


def _refuse(first: Result, second: Result) -> None:
    for result in (first, second):
        if not result.figures.traced:
            raise InputError(
                "no-games",
                f"{result.figures.id} has no games to pair: its traces were not found.",
                "Set TRACE_LOG=1 on the agent, so that its log holds them.",
            )
        if len(result.sampling) > 1:
            raise InputError(
                "mixed-cell",
                f"{result.figures.id}: its games were not all sampled under the same settings.",
                "See its notes; the model's endpoint may have refused one.",
            )
    found = differing(first, second)
    if not found:
        raise InputError("nothing-differs", f"{_pair(first, second)} differ in nothing.")
    if len(found) > 1 or found[0] not in FACTORS:
        raise InputError(
            "not-comparable",
            f"{_pair(first, second)} differ in {', '.join(found)}: a difference of the two would "
            "say nothing about either.",
            f"Compare cells that differ in one of {', '.join(FACTORS)} alone.",
        )


def _facts(result: Result) -> dict[str, Any]:
    """Everything that decides a cell's games. A scripted player has no sampling."""
    entry, cell = result.entry, result.entry.cell
    facts: dict[str, Any] = {
        "policy": (cell.policy.kind, cell.policy.target, cell.policy.model),
        "rows": cell.rows_sha,
        "success_threshold": result.threshold,
        # The two are hashed differently, so that only like is compared with like.
        "agent here" if cell.policy.local else "agent": entry.agent_hash,
    }
    if not cell.policy.sampled or not result.sampling:
        return facts
    sampling = min(result.sampling, key=repr)
    return facts | {
        "temperature": sampling.temperature,
        "effort": sampling.effort,
        "hint": sampling.hint,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }


def _ratio(first: Result, second: Result) -> float | None:
    before = first.figures.sample_per_game
    sampled = first.entry.cell.policy.sampled and second.entry.cell.policy.sampled
    return second.figures.sample_per_game / before if sampled and before else None


def _pair(first: Result, second: Result) -> str:
    return f"{first.figures.id} and {second.figures.id}"
