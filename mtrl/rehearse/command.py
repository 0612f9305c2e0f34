"""The command `mtrl rehearse`: its options, and the order in which a run happens."""

from __future__ import annotations

import importlib
import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import agent
from agent.task import TASKS, load_task
from mtrl.dataset.check import ERROR, check
from mtrl.errors import InputError, MtrlError
from mtrl.job import hyperparameters
from mtrl.pricing import TokenCounts, prices_for, token_cost_usd
from mtrl.rehearse.display import RunDisplay, comparison
from mtrl.rehearse.display import lessons as lessons_table
from mtrl.rehearse.environment import MODEL, create_environment, upload
from mtrl.rehearse.processes import LocalParts, local_parts
from mtrl.rehearse.results import (
    SLIGHT,
    Figures,
    agent_hash,
    file_hash,
    lessons,
    write_summary,
)
from mtrl.rehearse.run import Rehearsal, document_hashes, stopped_cleanly
from mtrl.verb import Verb

TRAINABLE, UPSTREAM = "behaviour", "upstream"
REGION = "us-east-1"
DATASETS = Path("datasets")
LEARNED_FILE = "learned.json"
"""In the run's folder: each behaviour's weight before and after training."""
NOTHING_LEARNED = f"no behaviour's weight changed by {SLIGHT} or more"
INTERRUPTED = 130
"""Exit code of a run that Ctrl-C ended, as shells have it."""


@click.command("rehearse", cls=Verb)
@click.option("--steps", default=15, show_default=True, help="Training steps.")
@click.option(
    "--policy",
    default=TRAINABLE,
    show_default=True,
    help=("behaviour is trained; upstream and a task's scripted players are measured only."),
)
@click.option("--seed", default=1, show_default=True, help="Same seed, same curve.")
@click.option("--task", default="wordle", show_default=True)
@click.option("--train", "train_file", type=click.Path(path_type=Path), help="Training rows.")
@click.option(
    "--validation", "validation_file", type=click.Path(path_type=Path), help="Held-out rows."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A hyperparameter of the training job, e.g. learning_rate=2e-5; repeatable.",
)
@click.option(
    "--concurrency",
    default=32,
    show_default=True,
    type=click.IntRange(1, 512),
    help="Rollouts under way at once.",
)
@click.option(
    "--agents", default=1, show_default=True, type=click.IntRange(1, 16), help="Agent processes."
)
@click.option("--upstream-url", help="OpenAI-compatible server of --policy upstream.")
@click.option("--upstream-model", default="default", show_default=True)
@click.option(
    "--out",
    default="runs",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for the run's own folder.",
)
def rehearse(out: Path, **options: Any) -> None:
    """Rehearse the whole training job on this machine, without AWS.

    Starts the training service and the agent, evaluates the base policy, trains it, evaluates the
    trained one, and leaves RUNS/<id>/ with summary.json, traces and learned weights.

    \b
    Examples:
      mtrl rehearse
      mtrl rehearse --steps 5 --set group_size=4
      mtrl rehearse --policy solver
      mtrl rehearse --policy upstream --upstream-url http://127.0.0.1:8000/v1
    """
    plan = _Plan(options)
    folder = _run_folder(out, plan.seed)
    console = Console(highlight=False)
    started = time.monotonic()
    with local_parts(folder, REGION, plan.service_options(), plan.agents, plan.task) as parts:
        run = plan.rehearsal(parts, folder, console)
        try:
            with stopped_cleanly(run), run.display:
                found = _measure(run, plan)
        except KeyboardInterrupt:
            _write(run, plan, {"status": "stopped"}, started)
            console.print(f"stopped; what was recorded lies in\n{folder}", soft_wrap=True)
            sys.exit(INTERRUPTED)
        except MtrlError:
            _write(run, plan, {"status": "failed"}, started)
            raise
    _write(run, plan, found | {"status": "completed"}, started)
    _show(console, run, found, folder)


class _Plan:
    """The command's options, checked."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.seed: int = options["seed"]
        self.task: str = options["task"]
        self.policy: str = options["policy"]
        self.agents: int = options["agents"]
        self._concurrency: int = options["concurrency"]
        self._upstream = (options["upstream_url"], options["upstream_model"])
        if self.task not in TASKS:
            raise InputError(
                "no-task", f"--task {self.task}: no such task.", f"Known: {', '.join(TASKS)}."
            )
        self.train_file: Path = options["train_file"] or DATASETS / self.task / "train.jsonl"
        self.validation_file: Path = (
            options["validation_file"] or DATASETS / self.task / "validation.jsonl"
        )
        self.values = _hyperparameters(options["steps"], options["settings"])
        self._check_policy()
        self._check_rows()

    def _check_policy(self) -> None:
        players = importlib.import_module(f"{TASKS[self.task]}.players").PLAYERS
        known = [TRAINABLE, UPSTREAM, *players]
        if self.policy not in known:
            raise InputError(
                "no-policy",
                f"--policy {self.policy}: no such policy.",
                f"Known: {', '.join(known)}.",
            )
        if self.policy == UPSTREAM and not self._upstream[0]:
            raise InputError(
                "no-upstream",
                "--policy upstream: no server given.",
                "Add --upstream-url http://host:port/v1.",
            )

    def _check_rows(self) -> None:
        """Refuse rows that would fail the job after it has begun."""
        files = [self.validation_file]
        if self.trains:
            files.insert(0, self.train_file)
        report = check(
            files,
            load_task(self.task),
            self.values["global_batch_size"],
            held_out=lambda path: path == self.validation_file,
        )
        faults = [str(finding) for finding in report.findings if finding.severity == ERROR]
        if faults:
            more = f"\n... and {len(faults) - 3} more" if len(faults) > 3 else ""
            raise InputError(
                "rows-refused",
                "\n".join(faults[:3]) + more,
                "`mtrl dataset check` lists every fault with its line.",
            )

    @property
    def trains(self) -> bool:
        return self.policy == TRAINABLE

    def service_options(self) -> list[str]:
        url, model = self._upstream
        upstream = ["--upstream-url", url, "--upstream-model", model] if url else []
        return [
            "--seed",
            str(self.seed),
            "--policy",
            self.policy,
            "--concurrency",
            str(self._concurrency),
            *upstream,
        ]

    def rehearsal(self, parts: LocalParts, folder: Path, console: Console) -> Rehearsal:
        environment = create_environment(parts)
        s3 = parts.client("s3")
        return Rehearsal(
            parts=parts,
            environment=environment,
            folder=folder,
            run_id=folder.name,
            display=RunDisplay(console, prices_for(MODEL, REGION)),
            train_uri=upload(s3, "datasets/train.jsonl", self.train_file),
            validation_uri=upload(s3, "datasets/validation.jsonl", self.validation_file),
            hub_name=None,
            values=self.values,
        )


DEFAULTS = {"global_batch_size": "32", "group_size": "8", "val_every": "5", "max_epochs": "30"}
"""Where a rehearsal departs from the service's defaults: small batches, so that a person sees
the policy learn within minutes."""


def _hyperparameters(steps: int, settings: tuple[str, ...]) -> dict[str, Any]:
    raw = DEFAULTS | {"max_steps": str(steps)}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InputError("bad-setting", f"--set {setting}: expected NAME=VALUE.")
        raw[name] = value
    try:
        typed = hyperparameters.parse(hyperparameters.TRAINING, raw)
    except hyperparameters.HyperparameterError as error:
        option = "--steps" if error.name == "max_steps" else "--set"
        raise InputError("bad-hyperparameter", f"{option}: {error}") from None
    return {name: typed[name] for name in raw}


def _run_folder(out: Path, seed: int) -> Path:
    base = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-seed{seed}"
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        folder = out / f"{base}{suffix}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError("out-unwritable", f"--out {out}: {error.strerror}.") from None
        return folder.resolve()
    raise InputError("out-full", f"--out {out}: too many runs began in this second.")


def _measure(run: Rehearsal, plan: _Plan) -> dict[str, Any]:
    run.display.say(f"evaluating the {'base' if plan.trains else plan.policy} policy")
    found: dict[str, Any] = {"base": run.evaluate("base")}
    if not plan.trains:
        return found
    run.display.say(f"training for {plan.values['max_steps']} steps")
    trained = run.train()
    package = trained.output["OutputModelPackageArn"]
    learned = run.learned(package)
    (run.folder / LEARNED_FILE).write_text(json.dumps(learned, indent=2) + "\n")
    run.display.say("evaluating the trained policy")
    return found | {"trained": run.evaluate("trained", package), "model_package": package}


def _write(run: Rehearsal, plan: _Plan, found: dict[str, Any], started: float) -> None:
    wall = time.monotonic() - started
    total = sum((view.tokens for view in run.finished.values()), start=TokenCounts())
    training = run.finished.get("train")
    rate = run.rollouts / run.rollout_seconds if run.rollout_seconds else 0.0
    hashes = document_hashes(run) | {
        "agent": agent_hash(Path(agent.__file__).parent),
        "train": file_hash(plan.train_file),
        "validation": file_hash(plan.validation_file),
    }
    write_summary(
        run.folder,
        found
        | {
            "run_id": run.run_id,
            "task": plan.task,
            "policy": plan.policy,
            "seed": plan.seed,
            "steps": training.step if training else 0,
            "rollouts": run.rollouts,
            "rollouts_per_second": round(rate, 2),
            "wall_seconds": round(wall, 1),
            "tokens": asdict(total),
            "aws_token_cost_usd": round(float(token_cost_usd(total, prices_for(MODEL, REGION))), 2),
            "hyperparameters": plan.values,
            "jobs": {label: view.name for label, view in run.finished.items()},
            "hashes": hashes,
        },
    )


def _show(console: Console, run: Rehearsal, found: dict[str, Any], folder: Path) -> None:
    rows = [(n, found[n]) for n in ("base", "trained") if isinstance(found.get(n), Figures)]
    console.print()
    console.print(comparison(rows))
    learned = folder / LEARNED_FILE
    if learned.exists():
        console.print()
        changes = lessons(json.loads(learned.read_text()))
        console.print(lessons_table(changes) if changes else NOTHING_LEARNED)
    console.print(
        f"\nMLflow: mlflow ui --backend-store-uri sqlite:///{folder}/service/mlflow.db",
        soft_wrap=True,
    )
    console.print(f"{folder}", soft_wrap=True)
