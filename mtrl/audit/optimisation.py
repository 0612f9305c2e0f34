"""Has a small policy trained on a reward, and judges what it learned.

The training runs as a process of its own (`python -m rehearsal.optimise`), since this package
knows the rehearsal by its interfaces alone. A reward that is not the one the task trains with is
trained on beside that one, so that the two can be compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from mtrl.audit.learned import Learned, Measured, parse_learned
from mtrl.audit.ordering import Finding
from mtrl.errors import MtrlError


def optimise(task: str, rewards: Sequence[str], steps: int | None, seed: int) -> list[Learned]:
    """Train on each reward at once, a process each.

    Raises:
        MtrlError: a training did not end well; shows the end of what it said.
    """
    running = [_start(task, reward, steps, seed) for reward in rewards]
    try:
        return [_result(process) for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()


def judge_learned(learned: Learned) -> list[Finding]:
    """What is wrong with what was learned."""
    before, after, yardstick = learned.before, learned.after, learned.yardstick
    findings = []
    if after.reward <= before.reward:
        findings.append(
            Finding(
                "nothing-learned",
                f"{learned.steps} steps of training did not raise the reward "
                f"({before.reward:+.3f} to {after.reward:+.3f}).",
            )
        )
    elif after.solve_rate < before.solve_rate:
        findings.append(
            Finding(
                "success-falls",
                f"training raised the reward ({before.reward:+.3f} to {after.reward:+.3f}) and "
                f"lowered the solve rate ({before.solve_rate:.1%} to {after.solve_rate:.1%}).",
            )
        )
    if yardstick and after.reward > yardstick.reward and _dominates(yardstick, after):
        findings.append(_beaten_by_worse(after, yardstick))
    return findings


def _dominates(better: Measured, worse: Measured) -> bool:
    """At least as many solved, in no more turns, and one of the two strictly."""
    pair = [(m.solve_rate, -(m.turns_to_win or float("inf"))) for m in (better, worse)]
    return all(b >= w for b, w in zip(*pair, strict=True)) and pair[0] != pair[1]


def _beaten_by_worse(after: Measured, yardstick: Measured) -> Finding:
    slower = (after.turns_to_win or 0.0) > (yardstick.turns_to_win or 0.0)
    code, what = (
        ("dawdling", "puts the win off")
        if slower
        else ("pays-for-less", "solves less than it could")
    )
    return Finding(
        code,
        f"the reward taught a policy that {what}: it earns {after.reward:+.3f} with "
        f"{_play(after)}, a good player earns only {yardstick.reward:+.3f} with "
        f"{_play(yardstick)}.",
    )


def _play(measured: Measured) -> str:
    turns = f" in {measured.turns_to_win:.2f} turns a win" if measured.turns_to_win else ""
    return f"{measured.solve_rate:.1%} solved{turns}"


def _start(task: str, reward: str, steps: int | None, seed: int) -> subprocess.Popen[str]:
    options = ["--task", task, "--reward", reward, "--seed", str(seed)]
    options += [] if steps is None else ["--steps", str(steps)]
    return subprocess.Popen(
        [sys.executable, "-m", "rehearsal.optimise", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # the trainings share the cores
        text=True,
    )


def _result(process: subprocess.Popen[str]) -> Learned:
    output, told = process.communicate()
    if process.returncode == 0:
        try:
            return parse_learned(output)
        except ValueError as error:
            told = str(error)
    tail = "\n".join(told.strip().splitlines()[-5:])
    raise MtrlError("training-failed", "the training of --optimise did not end well.", tail)
