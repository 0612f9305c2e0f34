"""What a planned job will cost: tokens, AgentCore seconds and hours, each with a range.

Pure arithmetic from a plan, a measured rollout and dated data. Train tokens are those read and
written by the training rollouts: in the reference run they are 98.8% of all prefill and sample
tokens, and 98.7% of its rollouts were training rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from mtrl.cost import reference
from mtrl.cost.measured import Measured
from mtrl.cost.plan import JobPlan
from mtrl.cost.ranges import Range
from mtrl.pricing import (
    RuntimePrices,
    TokenCounts,
    TokenPrices,
    runtime_cost_usd,
    token_cost_usd,
)


@dataclass(frozen=True, slots=True)
class Sessions:
    """AgentCore sessions of a job, one a rollout."""

    count: Range
    seconds: Range
    """Session-seconds, idle time included."""
    vcpu_seconds: Range
    gb_seconds: Range


@dataclass(frozen=True, slots=True)
class Estimate:
    """A planned job's cost in US dollars."""

    plan: JobPlan
    rollouts: Range
    tokens: Mapping[str, Range]
    """prefill, sample, train."""
    token_usd: Range
    sessions: Sessions
    runtime_usd: Range
    total_usd: Range
    hours: Range
    """From the first rollout to the last, if they wait for the policy alone."""


def estimate(
    plan: JobPlan,
    rollout: Measured,
    reasoning: Range,
    idle_timeout_s: float,
    token_prices: TokenPrices,
    runtime_prices: RuntimePrices,
) -> Estimate:
    """Estimate a job.

    Args:
        reasoning: tokens a turn that the measured policy did not write and a real one will.
        idle_timeout_s: after its rollout a session is billed so long, unless it is stopped.
    """
    training = Range.exactly(plan.training_rollouts) * reference.EXTRA_ROLLOUTS
    rollouts = Range.exactly(plan.rollouts) * reference.EXTRA_ROLLOUTS
    sample = rollout.sample + rollout.turns * reasoning
    tokens = {
        "prefill": rollouts * rollout.prefill,
        "sample": rollouts * sample,
        "train": training * (rollout.prefill + sample),
    }
    life = sample * reference.SECONDS_PER_SAMPLE_TOKEN
    sessions = _sessions(rollouts, rollout.turns, life, idle_timeout_s)
    token_usd = _priced(tokens, token_prices)
    runtime_usd = _runtime(sessions, runtime_prices)
    return Estimate(
        plan=plan,
        rollouts=rollouts,
        tokens=tokens,
        token_usd=token_usd,
        sessions=sessions,
        runtime_usd=runtime_usd,
        total_usd=token_usd + runtime_usd,
        hours=rollouts * life * (1 / plan.concurrency / 3600),
    )


def _sessions(rollouts: Range, turns: Range, life: Range, idle_timeout_s: float) -> Sessions:
    # A session that the service stops after its rollout never idles: that is the low end.
    idle = Range(0.0, idle_timeout_s, idle_timeout_s)
    seconds = rollouts * (life + idle)
    work = reference.START_CPU_S + turns * reference.CPU_S_PER_TURN
    return Sessions(
        count=rollouts,
        seconds=seconds,
        vcpu_seconds=rollouts * work,
        gb_seconds=seconds * reference.MEMORY_GB,
    )


def _priced(tokens: Mapping[str, Range], prices: TokenPrices) -> Range:
    def at(place: int) -> float:
        counts = {kind: round(amount.values[place]) for kind, amount in tokens.items()}
        return float(token_cost_usd(TokenCounts(**counts), prices))

    return Range(at(0), at(1), at(2))


def _runtime(sessions: Sessions, prices: RuntimePrices) -> Range:
    def at(place: int) -> float:
        cpu, memory = sessions.vcpu_seconds.values[place], sessions.gb_seconds.values[place]
        return float(runtime_cost_usd(cpu, memory, prices))

    return Range(at(0), at(1), at(2))


def round_up_budget(amount: float) -> Decimal:
    """A budget that covers the amount: rounded up to the next 5, 50 or 500 US dollars."""
    step = Decimal(5) if amount < 100 else Decimal(50) if amount < 1000 else Decimal(500)
    return (Decimal(str(amount)) // step + 1) * step
