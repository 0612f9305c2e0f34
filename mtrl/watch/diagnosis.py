"""Tells apart the ways in which a job goes wrong, and says what to do about each.

Pure: a job, its curves and samples of its rollouts in, findings out. What a service says as the
reason of a failure is often the last link of a chain, so what the rollouts said comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mtrl.job.choices import typed
from mtrl.job.identity import TRAINING_CATEGORY
from mtrl.jobs.reading import Job
from mtrl.statistics import wilson_interval
from mtrl.watch.curves import Curves
from mtrl.watch.evidence import Sample

DRIFT = 0.10
"""Rise of the share of moves written as text from which it is called a drift."""
WINDOW = 3
"""Samples at either end that are compared."""
FAILED_SHARE = 0.01
"""More broken rollouts than this are the environment's fault. Source: developer guide."""
TIED_SHARE = 0.5
"""Share of groups that tie from which little is learned."""
CUT_SHARE = 0.05
"""Share of rollouts with a cut answer that is worth a word: the service cuts them silently."""
MOST = 0.5
"""Share of what broke that has one cause, from which it is the cause."""

_AUTH = re.compile(
    r"\b(?:401|403)\b|access ?denied|expired ?token|token (?:has|is) expired|not authori[sz]ed"
    r"|invalid ?signature|security token|unrecognizedclient|forbidden|unauthori[sz]ed",
    re.IGNORECASE,
)
_UNREAD = re.compile(
    r"received: (?!.*(?:connection|no answer|gave up|timed? ?out|/v1/|HTTP)).*\S", re.IGNORECASE
)
"""The agent's own reason for not sampling, when it is none of the network's: the row's fault."""


class Cause(StrEnum):
    """What is wrong; stable, for scripts."""

    NEVER_REACHED_POLICY = "never-reached-policy"
    NO_REWARD = "no-reward-in-time"
    AUTHENTICATION = "authentication"
    FORMAT_DRIFT = "format-drift"
    BAD_ROWS = "bad-rows"
    DATA = "data"
    ROLLOUTS_BREAK = "rollouts-break"
    GROUPS_TIE = "groups-tie"
    ANSWERS_CUT = "answers-cut"
    RUNTIME_LIMIT = "runtime-limit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that is wrong."""

    cause: Cause
    title: str
    evidence: str
    advice: tuple[str, ...]
    """What to do, in order; commands as they are typed."""


AGENT_LOG = "mtrl logs --agent {job}"
_ADVICE: dict[Cause, tuple[str, tuple[str, ...]]] = {
    Cause.NEVER_REACHED_POLICY: (
        "the rollouts never reached the policy",
        (
            "mtrl doctor --check runtime-answers   # does the agent start and answer?",
            AGENT_LOG,
            "mtrl train --resume {job}             # once the agent answers",
        ),
    ),
    Cause.NO_REWARD: (
        "no reward was received in time",
        (
            "mtrl doctor --check rollout-budget    # the agent's budget against rollout_timeout",
            AGENT_LOG,
            "mtrl train --resume {job}",
        ),
    ),
    Cause.AUTHENTICATION: (
        "the agent's token or role was refused",
        (
            "mtrl doctor --check runtime-role-permissions --check job-role-trust",
            AGENT_LOG,
            "mtrl train --resume {job}             # once the roles are right",
        ),
    ),
    Cause.FORMAT_DRIFT: (
        "the policy unlearns to call its tools: more and more moves are written as text",
        (
            "mtrl stop {job}                       # a policy rarely finds back by itself",
            "mtrl train --set learning_rate=LOWER  # a high learning rate does this",
            "mtrl audit                            # does the reward punish a move as text?",
        ),
    ),
    Cause.BAD_ROWS: (
        "the agent cannot read rows of the data set",
        ("mtrl dataset check", "make deploy                           # with rows that pass"),
    ),
    Cause.DATA: (
        "the service cannot use the data",
        ("mtrl doctor --check dataset", "mtrl dataset check"),
    ),
    Cause.ROLLOUTS_BREAK: (
        "rollouts break: the environment is at fault, not the policy",
        (AGENT_LOG,),
    ),
    Cause.GROUPS_TIE: (
        "most groups tie: they teach nothing",
        (
            "mtrl stop {job}                       # if most are solved: it has learned it all",
            "mtrl audit                            # if not: which rewards can only tie?",
            "mtrl train --set group_size=16        # more games of a row differ more often",
        ),
    ),
    Cause.ANSWERS_CUT: (
        "answers reach the token limit and are cut",
        ("mtrl train --set sampling_max_tokens=8192  # or a lower reasoning effort",),
    ),
    Cause.RUNTIME_LIMIT: ("the job ran into its time limit", ("mtrl train --resume {job}",)),
    Cause.UNKNOWN: (
        "it failed for a reason that is not known here",
        ("mtrl logs {job}", AGENT_LOG, "mtrl train --resume {job}"),
    ),
}


def diagnose(job: Job, curves: Curves, samples: Sequence[Sample]) -> list[Diagnosis]:
    """Everything that is wrong, the cause of a failure first."""
    found = [_failure(job, samples)] if job.view.status == "Failed" else []
    found += [
        finding
        for finding in (
            _format_drift(job, samples),
            _broken_rollouts(job, samples),
            _ties(job, curves),
            _cut_answers(job, samples),
        )
        if finding and finding.cause not in {other.cause for other in found}
    ]
    return found


def _named(job: Job, cause: Cause, evidence: str) -> Diagnosis:
    title, advice = _ADVICE[cause]
    return Diagnosis(cause, title, evidence, tuple(a.format(job=job.name) for a in advice))


def _failure(job: Job, samples: Sequence[Sample]) -> Diagnosis:
    reason = job.view.failure_reason or "the service gave no reason"
    cause = _cause_of(reason, samples)
    if cause is Cause.AUTHENTICATION and not _AUTH.search(reason):
        said = next(error for error in _errors(samples) if _AUTH.search(error))
        return _named(job, cause, f"{reason}; rollouts said: {said}")
    if job.view.secondary == "MaxRuntimeExceeded":
        cause = Cause.RUNTIME_LIMIT
    return _named(job, cause, reason)


def _cause_of(reason: str, samples: Sequence[Sample]) -> Cause:
    """The cause that a reason names; the rollouts' own words weigh more than the service's."""
    words = reason.lower()
    if _AUTH.search(reason) or _mostly_auth(samples):
        return Cause.AUTHENTICATION
    if "no object under" in words or "channel" in words or "dataset" in words:
        return Cause.DATA
    if "no sampling requests" in words:
        read = not _UNREAD.search(reason) and not _mostly_unread(samples)
        return Cause.NEVER_REACHED_POLICY if read else Cause.BAD_ROWS
    if "no reward was received" in words:
        return Cause.NO_REWARD
    if "agent not reached" in words or "agent answered http" in words:
        return Cause.NEVER_REACHED_POLICY
    if "maxruntime" in words:
        return Cause.RUNTIME_LIMIT
    return Cause.UNKNOWN


def _mostly_unread(samples: Sequence[Sample]) -> bool:
    recent = samples[-WINDOW:]
    games, unread = sum(s.games for s in recent), sum(s.bad_rows for s in recent)
    return bool(games) and unread / games >= MOST


def _errors(samples: Sequence[Sample]) -> Iterator[str]:
    for sample in samples[-WINDOW:]:
        yield from sample.errors


def _mostly_auth(samples: Sequence[Sample]) -> bool:
    errors = list(_errors(samples))
    refused = sum(bool(_AUTH.search(error)) for error in errors)
    return bool(errors) and refused / len(errors) >= MOST


def _format_drift(job: Job, samples: Sequence[Sample]) -> Diagnosis | None:
    """Has the share of moves written as text risen, beyond chance and by enough to matter?"""
    if job.category != TRAINING_CATEGORY or len(samples) < 2:
        return None
    split = min(WINDOW, len(samples) // 2)
    before, now = _counts(samples[:split]), _counts(samples[-split:])
    if not before[1] or not now[1]:
        return None
    shares = before[0] / before[1], now[0] / now[1]
    clear = wilson_interval(*before)[1] < wilson_interval(*now)[0]
    if shares[1] - shares[0] < DRIFT or not clear:
        return None
    evidence = f"moves written as text: {shares[0]:.0%} at first, {shares[1]:.0%} now"
    return _named(job, Cause.FORMAT_DRIFT, evidence)


def _counts(samples: Sequence[Sample]) -> tuple[int, int]:
    return sum(s.text_moves for s in samples), sum(s.moves for s in samples)


def _broken_rollouts(job: Job, samples: Sequence[Sample]) -> Diagnosis | None:
    recent = samples[-WINDOW:]
    games, failed = sum(s.games for s in recent), sum(s.failed for s in recent)
    if not failed or failed / games <= FAILED_SHARE:
        return None
    error = next(_errors(recent), "no error was recorded")
    evidence = f"{failed} of the last {games} rollouts: {error}"
    cause = Cause.AUTHENTICATION if _mostly_auth(recent) else Cause.ROLLOUTS_BREAK
    return _named(job, cause, evidence)


def _ties(job: Job, curves: Curves) -> Diagnosis | None:
    tied, groups = curves.get("analysis/zero_adv_groups"), curves.get("training/num_groups")
    if tied is None or groups is None or not groups.last or len(tied.values) < WINDOW:
        return None
    share = sum(tied.values[-WINDOW:]) / WINDOW / groups.last
    if share < TIED_SHARE:
        return None
    return _named(job, Cause.GROUPS_TIE, f"{share:.0%} of the groups of the last {WINDOW} steps")


def _cut_answers(job: Job, samples: Sequence[Sample]) -> Diagnosis | None:
    recent = samples[-WINDOW:]
    games, cut = sum(s.games for s in recent), sum(s.cut for s in recent)
    if not cut or cut / games < CUT_SHARE:
        return None
    limit = typed(job.config.get("HyperParameters", {}))["sampling_max_tokens"]
    evidence = f"{cut} of the last {games} rollouts reached sampling_max_tokens {limit:,}"
    return _named(job, Cause.ANSWERS_CUT, evidence)
