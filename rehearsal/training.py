"""An AgentRFT job: steps of grouped rollouts, a policy update after each, validation now and then.

One step: choose rows, play `global_batch_size` x `group_size` rollouts, turn rewards into
advantages, update the weights, validate when due, record. The order of rows and all draws depend
on the seed and the step alone, so a resumed job goes on as if it had never stopped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtrl.job.document import TrainingDocument
from rehearsal import checkpoint
from rehearsal.advantage import turn_advantages
from rehearsal.billing import Billing
from rehearsal.checkpoint import Fingerprint
from rehearsal.draws import DrawKey, shuffled
from rehearsal.engine import RunningJob
from rehearsal.learner import AdamConfig, LearnerState, ScoredTurn, policy_gradient, update
from rehearsal.metrics import Metrics, train_metrics, validation_metrics
from rehearsal.mlflow_log import MlflowRun
from rehearsal.packages import package_uri
from rehearsal.policies.behaviour import BehaviourPolicy, behaviour_names, initial_weights
from rehearsal.rollouts import JobFailed, Rollout, RolloutPlan, RolloutRunner
from rehearsal.rows import Rows, read_rows
from rehearsal.traces import trace_lines

RESUMABLE, ADAPTER = "ResumableCheckpoint", "ModelCheckpoint"
"""Kinds of model package, and the keys under which DescribeJob shows them."""
KIND, STEP, JOB = "Kind", "Step", "JobName"
"""Keys of a package's CustomerMetadataProperties."""

Groups = list[list[Rollout]]


@dataclass(slots=True)
class _Progress:
    """What changes from step to step."""

    state: LearnerState
    start_K: NDArray[np.float64]
    billing: Billing


class Training:
    """One run of a training job's body. Its document has been validated by CreateJob."""

    def __init__(self, job: RunningJob) -> None:
        assert isinstance(job.document, TrainingDocument)
        self._job = job
        self._document = job.document
        self._values = job.values
        self._parts = job.parts
        self._space = job.parts.policies.space
        self._names = behaviour_names(self._space)
        self._batch = self._values["global_batch_size"]
        self._group = self._values["group_size"]
        self._adam = AdamConfig.from_hyperparameters(self._values)

    async def run(self) -> None:
        """Train to the last step.

        Raises:
            JobFailed, RowsError, CheckpointError: become the job's FailureReason.
        """
        self._enter("Downloading")
        train = read_rows(self._parts.objects, self._channel("train"))
        validation = self._validation_rows()
        total = self._total_steps(train)
        fingerprint = job_fingerprint(self._job)
        progress = self._starting_point()
        run = await self._job.start_mlflow()
        self._publish(progress, total, train)
        self._enter("Training")
        runner = self._job.runner()
        if progress.state.step == 0 and validation:
            metrics = await self._validate(runner, progress, validation)
            await self._log(run, 0, metrics)
            self._publish(progress, total, train)
        for step in range(progress.state.step + 1, total + 1):
            began = time.monotonic()
            metrics = await self._step(runner, progress, train, step)
            if validation and self._validation_due(step, total):
                metrics |= await self._validate(runner, progress, validation)
            metrics |= {
                "training/epoch": 1 + (step - 1) // self._steps_per_epoch(train),
                "training/global_step": step,
                "timing_s/step": time.monotonic() - began,
            }
            await self._log(run, step, metrics)
            self._record(progress, fingerprint, total, train)
        self._enter("Uploading")
        if run:
            await self._parts.mlflow.end_run(run.run_id, "FINISHED")

    async def _step(
        self, runner: RolloutRunner, progress: _Progress, train: Rows, step: int
    ) -> Metrics:
        began = time.monotonic()
        policy = BehaviourPolicy(self._space, progress.state.weights_K)
        plans = [
            RolloutPlan(DrawKey(self._parts.settings.seed, "train", step, row, g), prompt)
            for row, prompt in self._rows_of(train, step)
            for g in range(self._group)
        ]
        groups = _grouped(await runner.run(plans, policy), self._group)
        played = time.monotonic()
        advantages = self._advantages(groups)
        turns = _scored_turns(groups, advantages)
        gradient = policy_gradient(turns, len(self._names))
        progress.state = update(progress.state, gradient, self._adam)
        progress.billing = progress.billing.with_training(groups)
        self._write_traces(f"train-{step:05d}", "train", step, groups)
        return train_metrics(groups, advantages) | {
            "timing_s/training": played - began,
            "timing_s/policy_update": time.monotonic() - played,
        }

    async def _validate(self, runner: RolloutRunner, progress: _Progress, rows: Rows) -> Metrics:
        """Play every validation row at temperature 0, once."""
        began = time.monotonic()
        step = progress.state.step
        policy = BehaviourPolicy(self._space, progress.state.weights_K)
        plans = [
            RolloutPlan(DrawKey(self._parts.settings.seed, "val", step, i, 0), prompt)
            for i, prompt in enumerate(rows.prompts)
        ]
        greedy = runner.at_temperature(0.0)
        groups = _grouped(await greedy.run(plans, policy), 1)
        progress.billing = progress.billing.with_sampling(groups)
        self._write_traces(f"val-{step:05d}", "val", step, groups)
        figures = validation_metrics(
            "val/", groups, self._values["pass_k_values"], self._values["success_threshold"]
        )
        return figures | {"timing_s/eval": time.monotonic() - began}

    def _advantages(self, groups: Groups) -> list[list[list[float]]]:
        if all(rollout.rewards is None for group in groups for rollout in group):
            raise JobFailed("every rollout of the step failed; the environment is at fault")
        tokens_PG = np.array(
            [[float(sum(s.sample_tokens for s in r.samples)) for r in g] for g in groups]
        )
        rewards = [[rollout.rewards for rollout in group] for group in groups]
        return turn_advantages(self._values["advantage_method"], rewards, tokens_PG)

    def _record(
        self, progress: _Progress, fingerprint: Fingerprint, total: int, train: Rows
    ) -> None:
        """Write the step's files, then its packages and the job's progress as one."""
        step = progress.state.step
        habits = [*self._space.word_habits.items(), *self._space.format_habits.items()]
        meanings = {name: meaning for name, (meaning, _) in habits}
        adapter = checkpoint.adapter_files(
            progress.state.weights_K,
            progress.start_K,
            self._names,
            meanings,
            self._document.base_model_arn,
        )
        resumable = adapter | checkpoint.optimizer_files(
            progress.state, fingerprint, self._parts.settings.seed
        )
        base = f"{self._job.output_uri}/checkpoints/step-{step:05d}"
        checkpoint.write_files(self._parts.objects, f"{base}/resumable", resumable)
        checkpoint.write_files(self._parts.objects, f"{base}/adapter", adapter)
        packages = self._document.model_package_config
        with self._parts.jobs.records.transaction():
            for kind, group_arn, folder in (
                (RESUMABLE, packages.intermediate_checkpoint_model_package_group_arn, "resumable"),
                (ADAPTER, packages.output_model_package_group_arn, "adapter"),
            ):
                arn = self._parts.packages.add(
                    group_arn,
                    f"{base}/{folder}/",
                    {KIND: kind, STEP: str(step), JOB: self._job.name},
                    f"{self._job.name}, step {step}",
                )
                self._parts.jobs.output(
                    self._job.name, **{kind: {"ModelPackageArn": arn, "Step": step}}
                )
            self._publish(progress, total, train)

    def _starting_point(self) -> _Progress:
        """The job's own last checkpoint, else the input package, else the base weights."""
        own = self._parts.jobs.get(self._job.name, "AgentRFT")["ServiceOutput"]
        billing = Billing.from_wire(own.get("BillableTokenUsage", {}))
        own_checkpoint = own.get(RESUMABLE, {}).get("ModelPackageArn")
        arn = own_checkpoint or self._document.model_package_config.input_model_package_arn
        if arn is None:
            base = initial_weights(self._space)
            return _Progress(LearnerState.fresh(base), base, billing)
        package = self._parts.packages.package(arn)
        uri = package_uri(package)
        if package["CustomerMetadataProperties"].get(KIND) == RESUMABLE:
            state, start = checkpoint.read_state(self._parts.objects, uri, self._names)
            return _Progress(state, start, billing)
        weights, _ = checkpoint.read_weights(self._parts.objects, uri, self._names)
        return _Progress(LearnerState.fresh(weights), weights, billing)

    def _rows_of(self, train: Rows, step: int) -> list[tuple[int, str]]:
        """The step's rows: each epoch shuffles all rows, and leaves out what fills no batch."""
        per_epoch = self._steps_per_epoch(train)
        epoch, place = divmod(step - 1, per_epoch)
        order = shuffled(len(train.prompts), self._parts.settings.seed, "rows", epoch)
        chosen = order[place * self._batch : (place + 1) * self._batch]
        return [(row, train.prompts[row]) for row in chosen]

    def _steps_per_epoch(self, train: Rows) -> int:
        return len(train.prompts) // self._batch

    def _total_steps(self, train: Rows) -> int:
        if len(train.prompts) < self._batch:
            raise JobFailed(
                f"the train channel has {len(train.prompts)} rows, fewer than one batch of "
                f"global_batch_size {self._batch}"
            )
        return min(
            self._values["max_steps"], self._values["max_epochs"] * self._steps_per_epoch(train)
        )

    def _validation_due(self, step: int, total: int) -> bool:
        every = self._values["val_every"]
        return step == total or (every > 0 and step % every == 0)

    def _validation_rows(self) -> Rows | None:
        channel = self._document.channel("validation")
        return read_rows(self._parts.objects, channel) if channel else None

    def _channel(self, name: str) -> Any:
        channel = self._document.channel(name)
        assert channel is not None
        return channel

    def _publish(self, progress: _Progress, total: int, train: Rows) -> None:
        """Bring ServiceOutput up to date."""
        step, per_epoch = progress.state.step, self._steps_per_epoch(train)
        if total == self._values["max_steps"]:
            info = {"MaxSteps": total, "CurrentStep": step}
        else:
            info = {
                "MaxEpoch": self._values["max_epochs"],
                "StepsPerEpoch": per_epoch,
                "CurrentEpoch": 1 + max(step - 1, 0) // per_epoch,
                "CurrentStep": 1 + (step - 1) % per_epoch if step else 0,
            }
        self._parts.jobs.output(
            self._job.name, ProgressInfo=info, BillableTokenUsage=progress.billing.to_wire()
        )

    def _write_traces(self, name: str, phase: str, step: int, groups: Groups) -> None:
        self._parts.objects.write(
            f"{self._job.output_uri}/traces/{name}.jsonl", trace_lines(phase, step, groups)
        )

    async def _log(self, run: MlflowRun | None, step: int, metrics: Metrics) -> None:
        if run:
            await self._parts.mlflow.log(run.run_id, step, metrics)

    def _enter(self, secondary: str) -> None:
        self._parts.jobs.enter(self._job.name, secondary)


async def train(job: RunningJob) -> None:
    """Run a training job's body."""
    await Training(job).run()


def job_fingerprint(job: RunningJob) -> Fingerprint:
    """What a resume of this job has to keep."""
    channels = ((c.channel_name, c) for c in job.document.input_data_config)
    datasets = {name: read_rows(job.parts.objects, c).sha256 for name, c in channels}
    return Fingerprint(job.document.base_model_arn, job.values, datasets)


def _grouped(rollouts: list[Rollout], size: int) -> Groups:
    return [rollouts[i : i + size] for i in range(0, len(rollouts), size)]


def _scored_turns(groups: Groups, advantages: list[list[list[float]]]) -> list[ScoredTurn]:
    """Pair every sampled turn with its advantage, in the order of the plans."""
    turns = []
    for group, group_advantages in zip(groups, advantages, strict=True):
        for rollout, values in zip(group, group_advantages, strict=True):
            for i, sample in enumerate(rollout.samples if values else ()):
                if sample.score_K is not None:
                    turns.append(ScoredTurn(sample.score_K, values[min(i, len(values) - 1)]))
    return turns
