"""What is known of real jobs, as dated data: the bounds that a rehearsal cannot measure.

Source of the run: AWS's public Wordle sample and its author's report (late 2026): gpt-oss-20b in
us-east-1, 100 steps of 128 rows x 8 rollouts, validation on 128 rows, 12 h 40 min.
"""

from __future__ import annotations

from mtrl.cost.ranges import Range
from mtrl.pricing import TokenCounts

AS_OF = "late 2026"
ROLLOUTS = 105_486
TOKENS = TokenCounts(prefill=491_616_806, sample=159_737_098, train=643_308_554)
DURATION_S = 12 * 3600 + 40 * 60
CONCURRENCY = 96
"""rollout_max_concurrency: the service's default and largest value."""
PLANNED_ROLLOUTS = 100 * 128 * 8 + 11 * 128
"""Training rollouts, and validations at step 0 and every 10 steps."""

EXTRA_ROLLOUTS = Range(1.0, 1.0, ROLLOUTS / PLANNED_ROLLOUTS)
"""Played for every planned one: retries and whatever else the run paid for, 1.6% at most."""

SAMPLE_TOKENS = TOKENS.sample / ROLLOUTS
"""Tokens that the policy wrote in one rollout, reasoning included: 1,514."""
TURNS = Range.between(4.0, 6.0)
"""Turns of one rollout. Not reported; six are the most, and at the reported solve rates fewer than
four on average are out of reach."""
CALL_TOKENS = 17
"""Tokens of one tool call without reasoning (measured with the o200k vocabulary)."""

REASONING_TOKENS = Range.between(
    SAMPLE_TOKENS / TURNS.high - CALL_TOKENS, SAMPLE_TOKENS / TURNS.low - CALL_TOKENS
)
"""Reasoning tokens a turn: 235 to 362."""
LOW_EFFORT_SHARE = Range.between(1 - 0.83, 1 - 0.63)
"""Sample tokens of a game at low reasoning effort relative to medium: 63 to 83% fewer."""

SECONDS_PER_ROLLOUT = DURATION_S * CONCURRENCY / ROLLOUTS
"""At most: if all places were always taken (41 s)."""
SECONDS_PER_SAMPLE_TOKEN = Range.between(
    SECONDS_PER_ROLLOUT / SAMPLE_TOKENS / 2, SECONDS_PER_ROLLOUT / SAMPLE_TOKENS
)
"""Of a rollout's life on AgentCore; half as much if half of the places were empty."""

MEMORY_GB = Range(0.128, 0.16, 0.25)
"""Held by one session. Low: the least that is billed; expected: the agent's 89 MB beside the
system's own; high: with the SageMaker SDK's handler (224 MB). Measured on one machine."""
START_CPU_S = Range(1.7, 3.0, 7.0)
"""vCPU-seconds to start a session: the agent's imports (measured), up to what others saw billed
for a session's start."""
CPU_S_PER_TURN = 0.02
"""vCPU-seconds of the agent's own work in one turn (measured: benchmarks/agent_cost.py)."""
