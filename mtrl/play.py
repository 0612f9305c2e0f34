"""`mtrl play`: a person is the policy for one episode, against the same environment.

Reads moves from standard input, one a line, so that a game can be scripted; shows the
environment's own answers, with Wordle's marks as coloured tiles, and at the end the reward's
parts. The answer is read for display once the game is over, never before.
"""

from __future__ import annotations

import io
import random
import re
import sys
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.task import TASKS, Episode, Task, TaskFormatError, load_task
from mtrl.dataset.build import folder_of
from mtrl.dataset.files import find_files, read_records
from mtrl.errors import InputError
from mtrl.verb import Verb

TILES = {"G": "bold white on green", "Y": "bold black on yellow", "X": "bold white on grey37"}
MARKED = re.compile(r"([A-Z]+): ([GYX]+)")
"""The first line of an answer to a played guess."""


@click.command(cls=Verb)
@click.argument("task", default="wordle")
@click.option("--row", "row_id", help="Play the row with this id (train-0001, ...).")
@click.option("--seed", type=int, help="Choose the row by this number instead of by chance.")
def play(task: str, row_id: str | None, seed: int | None) -> None:
    """Play one game of TASK yourself and see what it would be rewarded.

    One move a line; Ctrl-D (the end of the input) gives up. It is the policy's game: the same
    checks, answers and reward.
    """
    if task not in TASKS:
        raise InputError(
            "unknown-task", f"no task named {task!r}.", f"Known tasks: {', '.join(sorted(TASKS))}."
        )
    if row_id is not None and seed is not None:
        raise InputError("two-choices", "--row and --seed both choose the row.", "Give one.")
    game = load_task(task)
    prompt, episode = _choose(game, folder_of(task), row_id, seed)
    console = Console(highlight=False)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # what is not UTF-8 is a bad guess, not a crash
    play_episode(episode, console, sys.stdin)
    show_reward(console, episode)
    identity = getattr(game, "identity", None)
    if identity is not None:
        console.print(Text(f"It was {identity(prompt).upper()}."))


def play_episode(episode: Episode, console: Console, moves: TextIO) -> None:
    """Send each line of `moves` to the episode's tool until either is at its end."""
    console.print(Text(episode.user_prompt))
    tool = episode.tools[0]
    argument = next(iter(tool.tool_spec["inputSchema"]["json"]["properties"]))
    while not episode.done:
        if moves.isatty():
            console.print(Text(f"{argument}> "), end="")
        line = moves.readline()
        if not line:
            console.print()
            return
        if line.strip():
            show_answer(console, tool(**{argument: line.strip()}))


def show_answer(console: Console, answer: str) -> None:
    """Print an answer of the environment; the marks of its first line become tiles."""
    first, _, rest = answer.partition("\n")
    shown = Text(first)
    match = MARKED.fullmatch(first)
    if match:
        shown = Text()
        for letter, mark in zip(*match.groups(), strict=True):
            shown.append(f" {letter} ", style=TILES[mark])
        shown.append(f"  {first}")
    console.print(shown)
    if rest:
        console.print(Text(rest))


def show_reward(console: Console, episode: Episode) -> None:
    """Print the outcome, and the parts of the reward turn by turn as the summary has them."""
    summary = episode.summary()
    parts = dict(summary["reward_parts"])
    turns = parts.pop("turns")
    console.print(Text(f"\nOutcome: {summary['outcome']}", style="bold"))
    if turns:
        table = Table("turn", *(name.replace("_", " ") for name in turns[0]))
        for number, turn in enumerate(turns, start=1):
            table.add_row(str(number), *map(_cell, turn.values()))
        console.print(table)
    total = parts.pop("total")
    named = ", ".join(f"{name} {value:+.3f}" for name, value in parts.items())
    console.print(Text(f"Reward {total:+.4f} ({named})"))


def _cell(value: Any) -> str:
    """A number with its sign, or the counts of a group that are not zero."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items() if count) or "-"
    return f"{value:+.3f}"


def _choose(game: Task, folder: Path, row_id: str | None, seed: int | None) -> tuple[str, Episode]:
    """The row to play and its episode: the row called `row_id`, or one drawn by `seed`."""
    prompts = [
        record.prompt
        for path in find_files(folder)
        for record in read_records(path)
        if record.prompt is not None
    ]
    if not prompts:
        raise InputError("no-rows", f"{folder} has no rows.", "Run `mtrl dataset build`.")
    if row_id is None:
        prompts = [random.Random(seed).choice(prompts)]
    for prompt in prompts:
        try:
            episode = game.start(prompt)
        except TaskFormatError as error:
            raise InputError(
                "bad-row", f"{folder}: {error}.", "Run `mtrl dataset check` for its line."
            ) from error
        if row_id is None or getattr(episode, "row_id", None) == row_id:
            return prompt, episode
    raise InputError("no-such-row", f"--row {row_id!r}: no such row in {folder}.")
