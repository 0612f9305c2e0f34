"""An AgentRFTEvaluation job: every row of the evaluation channel, `eval_group_size` times."""

from __future__ import annotations

import asyncio

from mtrl.job.document import EvaluationDocument
from rehearsal import checkpoint
from rehearsal.billing import Billing
from rehearsal.draws import DrawKey
from rehearsal.engine import RunningJob
from rehearsal.metrics import validation_metrics
from rehearsal.packages import package_uri
from rehearsal.policies import Policy
from rehearsal.policies.behaviour import BehaviourPolicy, behaviour_names, initial_weights
from rehearsal.policies.registry import TRAINABLE
from rehearsal.policies.upstream import UpstreamPolicy
from rehearsal.rollouts import JobFailed, RolloutPlan
from rehearsal.rows import read_rows
from rehearsal.traces import trace_lines

TRACES = "traces/eval.jsonl"
"""Where the rollouts' traces lie below the job's output."""


async def evaluate(job: RunningJob) -> None:
    """Run an evaluation job's body within its time limit.

    Raises:
        JobFailed, RowsError, CheckpointError: become the job's FailureReason.
    """
    assert isinstance(job.document, EvaluationDocument)
    condition = job.document.stopping_condition
    limit = condition.max_runtime_in_seconds if condition else None
    try:
        async with asyncio.timeout(limit):
            await _evaluate(job, job.document)
    except TimeoutError:
        raise JobFailed(f"MaxRuntimeInSeconds ({limit}) exceeded") from None


async def _evaluate(job: RunningJob, document: EvaluationDocument) -> None:
    parts, values = job.parts, job.values
    parts.jobs.enter(job.name, "Downloading")
    channel = document.channel("evaluation")
    assert channel is not None
    rows = read_rows(parts.objects, channel)
    policy = evaluation_policy(job, document)
    if isinstance(policy, UpstreamPolicy):
        await policy.check()
    run = await job.start_mlflow()
    parts.jobs.enter(job.name, "Evaluating")
    size = values["eval_group_size"]
    plans = [
        RolloutPlan(DrawKey(parts.settings.seed, "eval", 0, row, g), prompt)
        for row, prompt in enumerate(rows.prompts)
        for g in range(size)
    ]
    rollouts = await job.runner().run(plans, policy)
    groups = [rollouts[i : i + size] for i in range(0, len(rollouts), size)]
    metrics = validation_metrics(
        "eval/", groups, values["pass_k_values"], values["success_threshold"]
    )
    parts.jobs.enter(job.name, "Uploading")
    parts.objects.write(f"{job.output_uri}/{TRACES}", trace_lines("eval", 0, groups))
    if run:
        await parts.mlflow.log(run.run_id, 0, metrics)
        await parts.mlflow.end_run(run.run_id, "FINISHED")
    parts.jobs.output(
        job.name,
        BillableTokenUsage=Billing().with_sampling(groups).to_wire(),
        RolloutInfo={
            "Total": len(rollouts),
            "Completed": len(rollouts),
            "SucceededRollouts": sum(r.rewards is not None for r in rollouts),
            "FailedRollouts": sum(r.rewards is None for r in rollouts),
        },
        EvaluationMetrics=metrics,
    )


def evaluation_policy(job: RunningJob, document: EvaluationDocument) -> Policy:
    """The policy that the job measures: base, a trained package, or a fixed one by model name."""
    parts = job.parts
    name = parts.policies.name_for(document.base_model_arn)
    packages = document.model_package_config
    if name != TRAINABLE:
        return parts.policies.fixed(name)
    space = parts.policies.space
    if packages is None:
        return BehaviourPolicy(space, initial_weights(space))
    package = parts.packages.package(packages.input_model_package_arn)
    weights, _ = checkpoint.read_weights(
        parts.objects, package_uri(package), behaviour_names(space)
    )
    return BehaviourPolicy(space, weights)
