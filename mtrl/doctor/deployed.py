"""Checks of what was deployed: stacks, data sets, MLflow App, model packages, and their places."""

from __future__ import annotations

import tempfile
from pathlib import Path

from botocore.exceptions import ClientError

from agent.settings import REPORT_RESERVE_S
from agent.settings import Settings as AgentSettings
from agent.task import load_task
from mtrl.aws import error_code, is_missing
from mtrl.dataset.check import ERROR, check
from mtrl.dataset.remote import download
from mtrl.deployment import STACKS, describe_stack
from mtrl.doctor.check import Check, Subject, Verdict, failed, ok, runtime_or_none, skipped, warning
from mtrl.doctor.programs import numbers
from mtrl.errors import InputError
from mtrl.job.choices import typed

MLFLOW_VERSION = (3,)
"""The first release line that keeps one trace a rollout."""
FAULTS_SHOWN = 3


def stacks(subject: Subject) -> Verdict:
    """Are all stacks there, and none of them in the middle of something?"""
    deploy = subject.deploy()
    names = [f"{subject.prefix}-{part}" for part in STACKS]
    found = {name: describe_stack(subject.cloud, name) for name in names}
    missing = [name for name, stack in found.items() if stack is None]
    if missing:
        return failed(f"there is no stack {', '.join(missing)}", deploy)
    states = {name: stack["StackStatus"] for name, stack in found.items() if stack}
    busy = [f"{name} is {state}" for name, state in states.items() if "IN_PROGRESS" in state]
    if busy:
        return failed(f"a deployment is under way: {'; '.join(busy)}", "wait for it to end")
    broken = [
        f"{name} is {state}"
        for name, state in states.items()
        if state not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")
    ]
    if broken:
        return failed("; ".join(broken), deploy)
    return ok(f"{len(names)} stacks, all settled")


def data(subject: Subject) -> Verdict:
    """Can the rows be read, and does the agent's task accept each of them?"""
    d = subject.deployed
    task_name = _task_name(subject)
    try:
        task = load_task(task_name)
    except KeyError:
        return skipped(f"the agent's task {task_name!r} is not part of this repository")
    batch = typed(d.hyperparameters)["global_batch_size"]
    uris = [uri for uri in (d.train_uri, d.validation_uri) if uri]
    with tempfile.TemporaryDirectory() as folder:
        try:
            files = [
                file
                for number, uri in enumerate(uris)
                for file in download(subject.cloud, uri, Path(folder) / str(number))
            ]
            report = check(files, task, batch)
        except InputError as error:
            return failed(error.message, subject.deploy("foundation"))
    errors = [finding for finding in report.findings if finding.severity == ERROR]
    if errors:
        shown = "; ".join(
            f"{Path(e.path).name}{f':{e.line}' if e.line else ''}: {e.message}"
            for e in errors[:FAULTS_SHOWN]
        )
        more = len(errors) - FAULTS_SHOWN
        return failed(
            f"{len(errors)} faulty rows: {shown}{f'; and {more} more' if more > 0 else ''}",
            f"mtrl dataset check {task_name}",
        )
    counts = ", ".join(f"{Path(f.path).name} {f.rows} rows" for f in report.files)
    if report.findings:
        return warning(f"{counts}: {report.findings[0].message}", f"mtrl dataset check {task_name}")
    return ok(counts)


def _task_name(subject: Subject) -> str:
    """The task that the runtime plays; the agent's default where there is no runtime to ask."""
    environment = (runtime_or_none(subject) or {}).get("environmentVariables") or {}
    return environment.get("AGENT_TASK") or AgentSettings().task


def mlflow_app(subject: Subject) -> Verdict:
    """Is the MLflow App there, ready, and new enough?"""
    deploy = subject.deploy("foundation")
    arn = subject.deployed.mlflow_app_arn
    try:
        app = subject.cloud.client("sagemaker").describe_mlflow_app(Arn=arn)
    except ClientError as error:
        if is_missing(error):
            return failed(f"there is no MLflow App {arn}", deploy)
        raise
    if app["Status"] not in ("Created", "Updated"):
        return failed(f"the MLflow App is {app['Status']}", deploy)
    version = app.get("MlflowVersion", "")
    if numbers(version) < MLFLOW_VERSION:
        return failed(
            f"the MLflow App runs MLflow {version or '?'}, older than 3",
            "make a new App (its version cannot be chosen), then deploy",
        )
    if app.get("MaintenanceStatus") == "MaintenanceInProgress":
        return warning("the MLflow App is being maintained right now", "wait a few minutes")
    return ok(f"{app.get('Name', arn)}, MLflow {version}")


def package_groups(subject: Subject) -> Verdict:
    """Do both model package groups exist, and are they two?"""
    d = subject.deployed
    deploy = subject.deploy("foundation")
    if d.output_group_arn == d.checkpoint_group_arn:
        return failed("models and checkpoints share one package group", deploy)
    sagemaker = subject.cloud.client("sagemaker")
    for arn in (d.output_group_arn, d.checkpoint_group_arn):
        try:
            group = sagemaker.describe_model_package_group(ModelPackageGroupName=arn)
        except ClientError as error:
            if is_missing(error):
                return failed(f"there is no model package group {arn}", deploy)
            raise
        if group["ModelPackageGroupStatus"] != "Completed":
            return failed(f"package group {arn} is {group['ModelPackageGroupStatus']}", deploy)
    return ok("models and checkpoints")


def regions(subject: Subject) -> Verdict:
    """Does everything lie in one Region?"""
    d = subject.deployed
    arns = {
        "runtime": d.runtime_arn,
        "MLflow App": d.mlflow_app_arn,
        "models": d.output_group_arn,
        "checkpoints": d.checkpoint_group_arn,
        "base model": d.base_model_arn,
    }
    place = subject.cloud.region
    found = {name: arn.split(":")[3] for name, arn in arns.items()}
    elsewhere = [f"{name} in {region}" for name, region in found.items() if region != place]
    bucket = _bucket_region(subject)
    if bucket and bucket != place:
        elsewhere.append(f"bucket in {bucket}")
    if elsewhere:
        return failed(
            f"the job would run in {place}, but {'; '.join(elsewhere)}",
            "set region in stacks/environments/*.toml, then deploy",
        )
    return ok(f"all in {place}")


def _bucket_region(subject: Subject) -> str | None:
    """Where the bucket lies, if S3 says so; the data check reports a bucket that is missing."""
    try:
        answer = subject.cloud.client("s3").head_bucket(Bucket=subject.deployed.bucket)
    except ClientError as error:
        if is_missing(error):
            return None
        if error_code(error) in ("301", "PermanentRedirect"):
            return error.response["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region")
        raise
    headers = answer["ResponseMetadata"].get("HTTPHeaders", {})
    return answer.get("BucketRegion") or headers.get("x-amz-bucket-region")


def rollout_budget(subject: Subject) -> Verdict:
    """Does a rollout report its reward before the job gives it up?"""
    environment = subject.runtime.get("environmentVariables") or {}
    budget = float(environment.get("ROLLOUT_BUDGET_S") or AgentSettings().rollout_budget_s)
    timeout = typed(subject.deployed.hyperparameters)["rollout_timeout"]
    lifetime = subject.runtime["lifecycleConfiguration"]["maxLifetime"]
    fix = "set agent.rollout_budget_s in stacks/environments/*.toml, then deploy"
    said = f"{budget:g} s of play and {REPORT_RESERVE_S:g} s of reports"
    if budget + REPORT_RESERVE_S > timeout:
        return failed(f"{said} do not fit into rollout_timeout {timeout} s", fix)
    if lifetime < timeout:
        return failed(
            f"sessions end after {lifetime} s, before rollout_timeout {timeout} s",
            "set agent.max_lifetime_s in stacks/environments/*.toml, then deploy",
        )
    return ok(f"{said}, rollout_timeout {timeout} s")


CHECKS = (
    Check(
        "stacks-settled",
        "deployment",
        "a runtime that is updated under a job fails all of it.",
        stacks,
    ),
    Check("regions", "deployment", "CreateJob refuses a runtime of another Region.", regions),
    Check("dataset", "deployment", "a row that the agent cannot read fails the job.", data),
    Check("mlflow-app", "deployment", "a job without its MLflow App does not start.", mlflow_app),
    Check(
        "package-groups",
        "deployment",
        "the job has nowhere to keep checkpoints and model.",
        package_groups,
    ),
    Check(
        "rollout-budget",
        "deployment",
        'a reward that comes too late fails the job ("no reward was received in time").',
        rollout_budget,
    ),
)
