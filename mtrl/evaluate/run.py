"""Plays the cells of an evaluation one after the other, and keeps what each came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from mtrl.evaluate.folder import DONE, FAILED, RUNNING, Entry, Folder
from mtrl.evaluate.jobs import (
    Waiting,
    fetch_traces,
    finished,
    obtain,
    put_rows,
    refuse_beside_training,
)
from mtrl.evaluate.plan import Cell, Policy
from mtrl.evaluate.rows import RowSet, written
from mtrl.evaluate.site import Site, document, started


@dataclass(frozen=True, slots=True)
class Round:
    """One evaluation: its name, its rows, where it is kept and how it waits."""

    name: str
    task: str
    rows: RowSet
    folder: Folder
    waiting: Waiting
    beside_training: bool = False


def play(round_: Round, cells: Sequence[Cell], site: Site | None) -> None:
    """Play what is not done yet: the deployment's cells, then those of this machine.

    Args:
        site: the deployment; None when no cell needs one.

    Raises:
        MtrlError, ClientError: nothing more can be played; what is done is kept.
    """
    todo = [cell for cell in cells if round_.folder.done(cell) is None]
    places: list[tuple[Callable[[], AbstractContextManager[Site]], list[Cell]]] = []
    deployed = [cell for cell in todo if not cell.policy.local]
    if deployed and site is not None:
        if not round_.beside_training:
            refuse_beside_training(site)
        places.append((lambda: nullcontext(site), deployed))
    for policy, own in _by_service(todo).items():
        places.append((lambda policy=policy: started(policy, round_.task), own))
    number = 0
    for open_site, of_site in places:
        with open_site() as here:
            for cell in of_site:
                number += 1
                _play_cell(_said(round_, f"[{number}/{len(todo)}] {cell.title}"), cell, here)


def _by_service(cells: Sequence[Cell]) -> dict[Policy, list[Cell]]:
    """Local cells by the service that plays them: one for all players, one an upstream server."""
    found: dict[Policy, list[Cell]] = {}
    players = next((c.policy for c in cells if c.policy.local and not c.policy.sampled), None)
    for cell in cells:
        if cell.policy.local:
            service = players if players and not cell.policy.sampled else cell.policy
            found.setdefault(service, []).append(cell)
    return found


def _said(round_: Round, prefix: str) -> Round:
    """The round, with each message under a cell's name."""
    say = round_.waiting.say
    return replace(round_, waiting=replace(round_.waiting, say=lambda t: say(f"{prefix}: {t}")))


def _play_cell(round_: Round, cell: Cell, site: Site) -> None:
    folder, waiting = round_.folder, round_.waiting
    rows_uri = put_rows(site, written(round_.rows, cell.conditions))
    made = document(site, cell, rows_uri, f"{site.name}-{round_.name}-{cell.id}")
    job, new = obtain(site, f"{round_.name}-{cell.id}", made, waiting)
    waiting.say(f"{'job' if new else 'found its job'} {job.name}")
    entry = Entry(cell, RUNNING, job.name, site.agent_hash)
    folder.put(entry)
    job = finished(site, job, waiting)
    if job.view.status != "Completed":
        reason = job.view.failure_reason or "no reason given"
        waiting.say(f"{job.view.status.lower()}: {reason}")
        folder.put(replace(entry, status=FAILED, reason=f"{job.view.status}: {reason}"))
        return
    tokens = job.view.tokens
    done = replace(
        entry,
        status=DONE,
        metrics=dict(job.view.output.get("EvaluationMetrics") or {}),
        tokens={"prefill": tokens.prefill, "sample": tokens.sample},
    )
    folder.keep_traces(done, fetch_traces(site, job))
