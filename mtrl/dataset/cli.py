"""`mtrl dataset`: build a task's rows, or check rows before a job reads them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import click

from agent.task import TASKS, load_task
from mtrl.dataset.build import build as build_dataset
from mtrl.dataset.build import folder_of
from mtrl.dataset.check import BATCH_SIZES, DEFAULT_BATCH_SIZE, ERROR, Report, check
from mtrl.dataset.files import find_files
from mtrl.errors import InputError
from mtrl.verb import VerbGroup

DEFAULT_TASK = "wordle"


@click.group(cls=VerbGroup)
def dataset() -> None:
    """Build and check a task's rows."""


@dataset.command("build")
@click.argument("task", default=DEFAULT_TASK)
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write into.")
def build_command(task: str, out: Path | None) -> None:
    """Write TASK's files, byte for byte the same every time (default: where they are kept)."""
    _known(task)
    for path in build_dataset(task, out):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        click.echo(f"{path}  sha256 {digest}")


@dataset.command("check")
@click.argument("sources", nargs=-1, metavar="[TASK | FILES...]")
@click.option("--task", default=DEFAULT_TASK, show_default=True, help="Whose rows FILES hold.")
@click.option(
    "--batch-size",
    type=click.Choice([str(size) for size in BATCH_SIZES]),
    default=str(DEFAULT_BATCH_SIZE),
    show_default=True,
    help="The job's global_batch_size.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.pass_context
def check_command(
    ctx: click.Context, sources: tuple[str, ...], task: str, batch_size: str, as_json: bool
) -> None:
    """Check files that a job will use together; list every fault with its line.

    Names a TASK (its own files), or FILES and folders. A file whose name begins with val, eval or
    test is held out; any other is for training. Exits with 1 when there is an error; warnings
    alone pass.
    """
    if len(sources) == 1 and sources[0] in TASKS and not Path(sources[0]).exists():
        task, sources = sources[0], ()
    _known(task)
    report = check(_paths(sources, task), load_task(task), int(batch_size))
    _print_json(report) if as_json else _print_text(report)
    if not report.ok:
        ctx.exit(1)


def _known(task: str) -> None:
    if task not in TASKS:
        raise InputError(
            "unknown-task",
            f"no task named {task!r}.",
            f"Known tasks: {', '.join(sorted(TASKS))}; give files by their paths.",
        )


def _paths(sources: tuple[str, ...], task: str) -> list[Path]:
    if not sources:
        return find_files(folder_of(task))
    paths: list[Path] = []
    for source in map(Path, sources):
        paths.extend(find_files(source) if source.is_dir() else [source])
    return list(dict.fromkeys(paths))


def _print_json(report: Report) -> None:
    click.echo(json.dumps({"ok": report.ok, **asdict(report)}, indent=2))


def _print_text(report: Report) -> None:
    for finding in report.findings:
        click.secho(str(finding), fg="red" if finding.severity == ERROR else "yellow")
    for file in report.files:
        click.echo(f"{file.path}: {file.rows} rows fit to be played ({file.split})")
    errors = sum(finding.severity == ERROR for finding in report.findings)
    click.echo(f"errors: {errors}, warnings: {len(report.findings) - errors}")
