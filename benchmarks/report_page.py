"""How long a report of 1,024 games takes, and how large it is.

Games are played by the real episode, once without reasoning and once with as much as the public
reference's games had (1,500 sampled tokens a game; words drawn at random, which compress worse than
prose). The command runs as a process of its own, imports included.

    python -m benchmarks.report_page [--games 1024] [--max-seconds 5] [--max-mb 5]

Exits 1 when the page takes longer or is larger.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from agent.chat import Sample
from agent.task import load_task
from agent.trace import Move, Trace, TurnLog
from mtrl.dataset.build import folder_of
from mtrl.dataset.files import read_records

TASK = "wordle"
WORDS_A_TURN = 375
"""About 500 tokens; a game has about three turns."""


def games(count: int, wordy: bool) -> list[str]:
    """Lines of an evaluation: the held-out rows, again and again."""
    draw = random.Random(1)
    prompts = [
        record.prompt
        for record in read_records(folder_of(TASK) / "validation.jsonl")
        if record.prompt
    ]
    words = [json.loads(prompt)["answer"] for prompt in prompts]
    return [
        _line(prompts[n % len(prompts)], n, draw, words, WORDS_A_TURN if wordy else 0)
        for n in range(count)
    ]


def _line(prompt: str, number: int, draw: random.Random, words: list[str], length: int) -> str:
    episode, log, row = load_task(TASK).start(prompt), TurnLog(), json.loads(prompt)
    for guess in (*draw.sample(words, 2), row["answer"]):
        reasoning = " ".join(draw.choices(words, k=length))
        log.sampled(Sample("", reasoning, (), "tool_calls", 500, 500, 0.5))
        log.moved(Move("guess_word", {"guess": guess}, episode.tools[0](guess=guess)))
        if episode.done:
            break
    trace = Trace(
        task=TASK,
        row_id=row["id"],
        job_arn="job",
        trajectory_id=f"rollout-{number}-{draw.getrandbits(160):040x}",
        settings={"temperature": 1.0, "reasoning_effort": "medium"},
        turns=tuple(log.turns),
        stop_reason="done",
        reward=episode.reward(),
        summary=episode.summary(),
        seconds=1.5,
    )
    place = {"phase": "eval", "step": 0, "row": number, "rollout": 0, "reward": trace.reward}
    return json.dumps({**place, "trace": asdict(trace)})


def measure(lines: list[str], folder: Path) -> tuple[float, float]:
    """Seconds that `mtrl report` takes and megabytes that it writes."""
    source, out = folder / "eval.jsonl", folder / "report.html"
    source.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-c", "from mtrl.cli import main; main()", "report"]
    started = time.perf_counter()
    subprocess.run([*command, str(source), "-o", str(out), "--no-mlflow"], check=True)
    return time.perf_counter() - started, out.stat().st_size / 1e6


def main() -> int:
    """Measure plain and wordy games; 1 when a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=1024)
    parser.add_argument("--max-seconds", type=float, default=5.0)
    parser.add_argument("--max-mb", type=float, default=5.0)
    options = parser.parse_args()
    passed = True
    for name, wordy in (("without reasoning", False), ("with reasoning", True)):
        with tempfile.TemporaryDirectory() as folder:
            seconds, size = measure(games(options.games, wordy), Path(folder))
        print(f"{options.games:,} games {name}: {seconds:.1f} s, {size:.1f} MB")
        passed &= seconds <= options.max_seconds and size <= options.max_mb
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
