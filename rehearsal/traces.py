"""A step's rollouts as JSON lines: the agent's own trace of each, with its place in the job."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rehearsal.rollouts import Rollout


def trace_lines(phase: str, step: int, groups: Sequence[Sequence[Rollout]]) -> bytes:
    """One line a rollout: {phase, step, row, rollout, attempts, failure, reward, tokens, trace}.

    Lines are ordered by group and rollout. `row` is the index of the task row in its data set.
    """
    lines = [
        json.dumps(
            {
                "phase": phase,
                "step": step,
                "row": rollout.key.group,
                "rollout": rollout.key.rollout,
                "attempts": rollout.attempts,
                "failure": rollout.failure,
                "reward": rollout.reward,
                "prefill_tokens": rollout.prefill_tokens,
                "sample_tokens": rollout.sample_tokens,
                "seconds": round(rollout.seconds, 4),
                "trace": rollout.trace,
            },
            ensure_ascii=False,
        )
        for group in groups
        for rollout in group
    ]
    return ("\n".join(lines) + "\n").encode()
