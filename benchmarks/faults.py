"""Plays whole jobs while everything fails that can, and counts what was lost. `make faults`.

First the jobs run without faults, then the same jobs with each class of fault at --rate: same seed,
same rows, so the same games. One agent process plays all rollouts, with keys that rotate. The
service allows a job 96 rollouts at once, so a higher concurrency is shared by two jobs.

    python -m benchmarks.faults [--rollouts 1024] [--concurrency 128] [--rate 0.1] [--seed 1]

Exits 1 when a count that must be 0 is not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from agent.task import load_task
from benchmarks.fault_counts import Counts, JobRecord, count
from mtrl.job.builder import TrainingParts, training_document
from mtrl.job.identity import SCHEMA_VERSION, TERMINAL_STATUSES, TRAINING_CATEGORY
from mtrl.job.progress import JobView, job_view
from mtrl.rehearse.environment import BUCKET, Environment, create_environment
from mtrl.rehearse.processes import LocalParts, local_parts
from rehearsal.agent_keys import PATH as KEYS
from rehearsal.faults import CHAT, COMPLETE, FAILING, FINAL, KEY_FAULTS, LEDGER_FILE, REWARD
from rehearsal.settings import Fault

REGION = "us-east-1"
TASK = "wordle"
GROUP = 8
BATCHES = (32, 64, 128)
"""What the service allows as global_batch_size."""
LEAST_CONCURRENCY, MOST_CONCURRENCY = 32, 96
"""Range of rollout_max_concurrency."""
KEYS_LIVE_S = 120
TEMPERATURES = (1.0, 0.9)
"""Of the two jobs: a parameter that went astray would show."""
ROWS = Path(__file__).parents[1] / "datasets" / "wordle" / "train.jsonl"
JOB_TIMEOUT_S = 1800
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs to run."""

    jobs: int
    batch: int
    group: int
    concurrency: int
    """Of each job."""
    rate: float
    seed: int
    stream: bool

    @property
    def rollouts(self) -> int:
        """Of all jobs."""
        return self.jobs * self.batch * self.group

    def rows(self, job: int) -> list[str]:
        """A job's lines of the data set; no two jobs share one."""
        return ROWS.read_text().splitlines()[job * self.batch : (job + 1) * self.batch]


def main() -> int:
    """Run, print, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rollouts", type=int, default=1024)
    parser.add_argument("--concurrency", type=int, default=128)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="FOLDER", help="leave state, ledger and logs there")
    parser.add_argument("--json", action="store_true", help="ask for one JSON body, not a stream")
    options = parser.parse_args()
    try:
        plan = make_plan(
            options.rollouts, options.concurrency, options.rate, options.seed, not options.json
        )
    except ValueError as error:
        parser.error(str(error))
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory())
        counts, seconds = run(plan, Path(folder))
    print(table(plan, counts, seconds))
    for name in ("lost", "wrong", "double", "crossed", "unfinished"):
        for rollout in getattr(counts, name)[:10]:
            print(f"{name}: {rollout}", file=sys.stderr)
    return int(counts.failed)


def make_plan(rollouts: int, concurrency: int, rate: float, seed: int, stream: bool) -> Plan:
    """Jobs that together play `rollouts` rollouts at `concurrency`.

    Raises:
        ValueError: the service would not accept such jobs; says what it accepts.
    """
    jobs = 1 if concurrency <= MOST_CONCURRENCY else 2
    if not LEAST_CONCURRENCY * jobs <= concurrency <= 2 * MOST_CONCURRENCY or concurrency % jobs:
        raise ValueError(
            f"--concurrency {concurrency}: use an even number from {LEAST_CONCURRENCY} "
            f"to {2 * MOST_CONCURRENCY}"
        )
    share, rest = divmod(rollouts, jobs)
    batch = max((b for b in BATCHES if share % b == 0 and share // b >= 2), default=0)
    if jobs == 2 and batch == 128:
        batch = 64
    group = share // batch if batch else 0
    if rest or not 2 <= group <= 32:
        raise ValueError(f"--rollouts {rollouts}: use a multiple of {64 * jobs}")
    return Plan(jobs, batch, group, concurrency // jobs, rate, seed, stream)


def run(plan: Plan, folder: Path) -> tuple[Counts, float]:
    """Run the jobs without and with faults; returns the counts, and the seconds with faults."""
    with parts(plan, folder, ()) as calm:
        environment = create_environment(calm)
        for job in range(plan.jobs):
            body = "\n".join(plan.rows(job)).encode()
            calm.client("s3").put_object(Bucket=BUCKET, Key=f"rows-{job}.jsonl", Body=body)
        print(f"{plan.rollouts} rollouts without faults ...", file=sys.stderr)
        run_jobs(plan, calm, environment, "calm")
        before = [traces(calm, f"calm-{job}") for job in range(plan.jobs)]
    options = ("--fault", f"all={plan.rate}", "--fault-seed", str(plan.seed))
    with parts(plan, folder, options) as faulty:
        print(f"{plan.rollouts} rollouts with every fault at {plan.rate:.0%} ...", file=sys.stderr)
        started = time.monotonic()
        views = run_jobs(plan, faulty, environment, "faulty")
        seconds = time.monotonic() - started
        after = [traces(faulty, f"faulty-{job}") for job in range(plan.jobs)]
    ledger = (folder / "service" / LEDGER_FILE).read_text().splitlines()
    records = [
        JobRecord(
            arn=view.arn,
            status=view.status,
            temperature=TEMPERATURES[job],
            prompts=[json.loads(line)["prompt"] for line in plan.rows(job)],
            expected=plan.batch * plan.group,
            lines=after[job],
            calm_lines=before[job],
        )
        for job, view in enumerate(views)
    ]
    return count(map(json.loads, ledger), records, load_task(TASK)), seconds


@contextlib.contextmanager
def parts(plan: Plan, folder: Path, options: Sequence[str]) -> Iterator[LocalParts]:
    """The service on this folder's state, and one agent."""
    own = ["--seed", str(plan.seed), "--concurrency", str(plan.jobs * plan.concurrency)]
    own += ["--agent-keys-s", str(KEYS_LIVE_S), *options]
    agent = {"POLICY_STREAM": str(int(plan.stream))}
    with local_parts(folder, REGION, own, 1, TASK, agent, rotating_keys=True) as started:
        yield started


def run_jobs(plan: Plan, local: LocalParts, environment: Environment, name: str) -> list[JobView]:
    """Submit the jobs, and wait until each has ended."""
    sagemaker = local.client("sagemaker")
    for job in range(plan.jobs):
        submit(sagemaker, f"{name}-{job}", document(plan, environment, job))
    deadline = time.monotonic() + JOB_TIMEOUT_S
    views: list[JobView] = []
    while time.monotonic() < deadline:
        views = [
            job_view(persistently(lambda j=job: describe(sagemaker, f"{name}-{j}")))
            for job in range(plan.jobs)
        ]
        if all(view.status in TERMINAL_STATUSES for view in views):
            break
        local.check_alive()
        time.sleep(0.5)
    for view in views:
        print(f"{view.name}: {view.status} {view.failure_reason}", file=sys.stderr)
    return views


def document(plan: Plan, environment: Environment, job: int) -> dict[str, Any]:
    """The document of one job: one step."""
    values = {
        "global_batch_size": str(plan.batch),
        "group_size": str(plan.group),
        "max_steps": "1",
        "val_every": "0",
        "temperature": str(TEMPERATURES[job]),
        "rollout_max_concurrency": str(plan.concurrency),
    }
    return training_document(
        TrainingParts(
            base_model_arn=environment.model_arn(),
            runtime_arn=environment.runtime_arn,
            qualifier="faults",
            train_uri=environment.uri(f"rows-{job}.jsonl"),
            validation_uri=None,
            output_uri=environment.uri("output"),
            output_group_arn=environment.output_group_arn,
            checkpoint_group_arn=environment.checkpoint_group_arn,
            mlflow_arn=environment.mlflow_arn,
            mlflow_experiment="faults",
            mlflow_run=f"faults-{job}",
            hyperparameters=values,
        ),
        accept_eula=True,
    )


def submit(sagemaker: Any, name: str, body: Mapping[str, Any]) -> None:
    """CreateJob; when an earlier try got through after all, that is the job."""
    request = {
        "JobName": name,
        "JobCategory": TRAINING_CATEGORY,
        "RoleArn": "arn:aws:iam::000000000000:role/faults",
        "JobConfigSchemaVersion": SCHEMA_VERSION,
        "JobConfigDocument": json.dumps(body),
    }
    try:
        persistently(lambda: sagemaker.create_job(**request))
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceInUse":
            raise


def describe(sagemaker: Any, name: str) -> dict[str, Any]:
    """DescribeJob."""
    return sagemaker.describe_job(JobName=name, JobCategory=TRAINING_CATEGORY)


def traces(local: LocalParts, job: str) -> list[dict[str, Any]]:
    """The trace lines of a job's one step; none when it recorded none."""
    key = f"output/{job}/traces/train-00001.jsonl"

    def read() -> bytes:
        return local.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()

    try:
        return [json.loads(line) for line in persistently(read).splitlines()]
    except ClientError:
        return []


def persistently(call: Callable[[], T]) -> T:
    """Call until the connection holds: an outage ends after seconds."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except BotoCoreError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def table(plan: Plan, counts: Counts, seconds: float) -> str:
    """The result in Markdown."""
    rate = counts.rollouts / seconds
    lines = [
        "| count | rollouts |",
        "| --- | ---: |",
        f"| played, at concurrency {plan.jobs * plan.concurrency} | {counts.rollouts} |",
        f"| lost | {len(counts.lost)} |",
        f"| wrong rewards | {len(counts.wrong)} |",
        f"| double-counted | {len(counts.double)} |",
        f"| crossed trajectories | {len(counts.crossed)} |",
        f"| jobs not Completed | {len(counts.unfinished)} of {plan.jobs} |",
        f"| started again by the service | {counts.retried} |",
        f"| replayed from what the policy said | {counts.replayed} |",
        f"| compared with the run without faults | {counts.compared} |",
        "",
        f"{seconds:.0f} s, {rate:.1f} rollouts/s; the port refused connections "
        f"{counts.faults['port', Fault.CONNECTION_REFUSED]} times.",
        "",
        "| fault | samples | completions | rewards | hand-outs of keys |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [fault_line(counts, fault) for fault in Fault if fault is not Fault.CONNECTION_REFUSED]
    total = " | ".join(str(counts.calls[path]) for path in (CHAT, COMPLETE, REWARD, KEYS))
    return "\n".join([*lines, f"| calls in all | {total} |"])


def fault_line(counts: Counts, fault: Fault) -> str:
    """How often a fault was met, by kind of call; a dash where it cannot be."""
    cells = []
    for path in (CHAT, COMPLETE, REWARD, KEYS):
        possible = KEY_FAULTS if path == KEYS else (*FAILING[path], *FINAL[path])
        slow = fault is Fault.SLOW_FIRST_BYTE and path != KEYS
        met = counts.faults[path, fault]
        cells.append(f"{met}" if fault in possible or slow else "-")
    return f"| {fault} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
