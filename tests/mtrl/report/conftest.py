"""Games played by the real episode, and the folders that runs leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent.chat import Sample
from agent.task import load_task
from agent.trace import Move, Trace, TurnLog
from mtrl.dataset.build import folder_of
from mtrl.dataset.files import read_records
from mtrl.report.games import total

TASK = load_task("wordle")
WEAK = ("mamma", "mamma", "queue", "fuzzy", "civic", "vivid")
"""Guesses of a player who does not listen."""


def rows(name: str) -> list[dict[str, Any]]:
    """The committed rows of a split."""
    records = read_records(folder_of("wordle") / f"{name}.jsonl")
    return [json.loads(record.prompt or "") for record in records]


def play(
    row: dict[str, Any],
    guesses: Sequence[str],
    *,
    trajectory: str = "rollout-1",
    stop: str = "done",
    text: str = "",
    reasoning: str = "",
    **settings: Any,
) -> Trace:
    """Play a row with the real episode; a guess in brackets is written as text."""
    episode = TASK.start(json.dumps(row))
    log = TurnLog()
    for guess in guesses:
        if episode.done:
            break
        written = guess.startswith("(")
        said = f'guess_word("{guess.strip("()")}")' if written else text
        log.sampled(Sample(said, reasoning, (), "stop" if written else "tool_calls", 400, 20, 0.25))
        if written:
            answer = episode.recover(said) or ""
            log.moved(Move("guess_word", {"text": said}, answer, recovered=True))
        else:
            answer = episode.tools[0](guess=guess)
            log.moved(Move("guess_word", {"guess": guess}, answer))
    sampled = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 4096, "reasoning_effort": None}
    return Trace(
        task="wordle",
        row_id=row["id"],
        job_arn="arn:aws:sagemaker:us-east-1:<account>:job/AgentRFT/job1",
        trajectory_id=trajectory,
        settings={**sampled, "prompt_hint": None, **settings},
        turns=tuple(log.turns),
        stop_reason=stop,
        reward=episode.reward(),
        summary=episode.summary(),
        seconds=1.5,
    )


def line(trace: Trace, phase: str = "eval", step: int = 0, **fields: Any) -> str:
    """A job's line of a trace."""
    return json.dumps(
        {
            "phase": phase,
            "step": step,
            "row": 0,
            "rollout": 0,
            "attempts": 1,
            "failure": None,
            "reward": total(trace.reward),
            "prefill_tokens": sum(turn.prefill_tokens for turn in trace.turns),
            "sample_tokens": sum(turn.sample_tokens for turn in trace.turns),
            "seconds": trace.seconds,
            "trace": asdict(trace),
            **fields,
        },
        ensure_ascii=False,
    )


def write_rehearsal(folder: Path) -> Path:
    """A small rehearsal as `mtrl rehearse` leaves it: 6 held-out rows, two steps of training."""
    held_out, training = rows("validation")[:6], rows("train")[:3]
    traces = folder / "traces"
    traces.mkdir(parents=True)

    def write(name: str, lines: list[str]) -> None:
        (traces / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def evaluation(good: int, label: str) -> list[str]:
        return [
            line(
                play(row, ["crane", row["answer"]] if i < good else WEAK, trajectory=f"{label}-{i}")
            )
            for i, row in enumerate(held_out)
        ]

    def step(number: int, good: int) -> list[str]:
        return [
            line(
                play(row, [row["answer"]] if i < good else ["(crane)", *WEAK],
                     trajectory=f"train-{number}-{row['id']}-{i}"),
                "train",
                number,
            )
            for row in training
            for i in range(4)
        ]  # fmt: skip

    def validation(number: int, good: int) -> list[str]:
        return [
            line(
                play(row, ["crane", row["answer"]] if i < good else WEAK,
                     trajectory=f"val-{number}-{i}", temperature=0.0),
                "val",
                number,
            )
            for i, row in enumerate(held_out)
        ]  # fmt: skip

    write("base", evaluation(1, "base"))
    write("trained", evaluation(5, "trained"))
    write("train-00001", step(1, 1))
    write("train-00002", step(2, 3))
    write("val-00000", validation(0, 0))
    write("val-00002", validation(2, 4))
    (folder / "learned.json").write_text(json.dumps(LEARNED))
    (folder / "summary.json").write_text(json.dumps(summary(folder.name)))
    return folder


LEARNED = [
    {"behaviour": "repeats_guesses", "meaning": "plays a word again", "before": 5.5, "after": 1.0},
    {"behaviour": "fits", "meaning": "plays a word that fits", "before": 0.4, "after": 2.0},
]


def summary(run_id: str) -> dict[str, Any]:
    """A rehearsal's summary of the data set that is here."""
    data = folder_of("wordle")
    hashes = {
        name: hashlib.sha256((data / f"{name}.jsonl").read_bytes()).hexdigest()
        for name in ("train", "validation")
    }
    return {
        "version": 1,
        "run_id": run_id,
        "status": "completed",
        "task": "wordle",
        "policy": "behaviour",
        "seed": 1,
        "steps": 2,
        "rollouts": 48,
        "tokens": {"prefill": 100_000, "sample": 5_000, "train": 80_000},
        "hyperparameters": {"group_size": 4, "max_steps": 2},
        "jobs": {"base": "b", "train": "t", "trained": "d"},
        "hashes": {**hashes, "document": "abc"},
    }


@pytest.fixture(name="play")
def _play() -> Callable[..., Trace]:
    return play


@pytest.fixture(name="line")
def _line() -> Callable[..., str]:
    return line


@pytest.fixture(name="rows")
def _rows() -> Callable[[str], list[dict[str, Any]]]:
    return rows


@pytest.fixture(scope="session")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rehearsal's folder; tests only read it."""
    return write_rehearsal(tmp_path_factory.mktemp("runs") / "20261201-090000-seed1")
