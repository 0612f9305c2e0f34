"""Checks of roles: who may assume them, and whether they may do what a job makes them do.

Permissions are simulated by IAM itself, so wildcards, conditions and boundaries count. What the
roles need is listed here once, as data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from mtrl.aws import is_missing
from mtrl.deployment import Deployment
from mtrl.doctor.check import Check, Subject, Verdict, failed, ok, skipped

JOB_SERVICE = "job.sagemaker.amazonaws.com"
GENERIC_SERVICE = "sagemaker.amazonaws.com"
TRUST_ACTIONS = ("sts:AssumeRole", "sts:TagSession")


@dataclass(frozen=True, slots=True)
class Need:
    """Actions that one principal has to be allowed on resources."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    context: tuple[tuple[str, str], ...] = ()
    """Condition keys of the real call and their values."""


def job_role_needs(d: Deployment) -> list[Need]:
    """What a job does under its role."""
    groups = (d.output_group_arn, d.checkpoint_group_arn)
    packages = tuple(
        arn.replace(":model-package-group/", ":model-package/") + "/1" for arn in groups
    )
    rows = tuple(_object(uri) for uri in (d.train_uri, d.validation_uri) if uri)
    return [
        Need(("s3:GetObject",), rows),
        Need(("s3:PutObject",), (_object(d.output_uri.rstrip("/") + "/any"),)),
        Need(("s3:ListBucket",), (f"arn:aws:s3:::{d.bucket}",)),
        Need(("sagemaker:DescribeHubContent",), (d.base_model_arn,)),
        Need(("sagemaker:DescribeModelPackageGroup",), groups),
        Need(
            (
                "sagemaker:CreateModelPackage",
                "sagemaker:DescribeModelPackage",
                "sagemaker:AccessModelPackage",
            ),
            packages,
        ),
        Need(
            (
                "sagemaker:DescribeMlflowApp",
                "sagemaker:CallMlflowAppApi",
                "sagemaker-mlflow:CreateExperiment",
                "sagemaker-mlflow:CreateRun",
                "sagemaker-mlflow:LogBatch",
            ),
            (d.mlflow_app_arn,),
        ),
        Need(
            ("bedrock-agentcore:InvokeAgentRuntime",),
            (d.runtime_arn, f"{d.runtime_arn}/runtime-endpoint/{d.runtime_endpoint}"),
        ),
    ]


def runtime_role_needs(d: Deployment) -> list[Need]:
    """What the agent does under the runtime's role."""
    return [
        Need(
            (
                "sagemaker:Sample",
                "sagemaker:SampleWithResponseStream",
                "sagemaker:CompleteRollout",
                "sagemaker:UpdateReward",
            ),
            (_job(d),),
        ),
        Need(("sagemaker:CallWithBearerToken",), ("*",)),
    ]


def caller_needs(d: Deployment) -> list[Need]:
    """What submitting, watching and stopping a job does."""
    return [
        Need(
            (
                "sagemaker:CreateJob",
                "sagemaker:AddTags",
                "sagemaker:DescribeJob",
                "sagemaker:StopJob",
            ),
            (_job(d),),
        ),
        Need(("sagemaker:ListJobs",), ("*",)),
        Need(("iam:PassRole",), (d.job_role_arn,), (("iam:PassedToService", JOB_SERVICE),)),
    ]


def _object(uri: str) -> str:
    return f"arn:aws:s3:::{uri.removeprefix('s3://')}"


def _job(d: Deployment) -> str:
    return f"arn:aws:sagemaker:{d.region}:{d.account}:job/AgentRFT/{d.deployment}-any"


def trust(subject: Subject) -> Verdict:
    """Does the job role trust the job service, with both actions?"""
    name = subject.deployed.job_role_arn.rsplit("/", 1)[-1]
    try:
        policy = subject.job_role["AssumeRolePolicyDocument"]
    except ClientError as error:
        if is_missing(error):
            return failed(f"role {name} does not exist", subject.deploy())
        raise
    allowed = _trusted_actions(policy, JOB_SERVICE, subject.deployed.account)
    missing = [action for action in TRUST_ACTIONS if not _covers(allowed, action)]
    fix = (
        f"aws iam update-assume-role-policy --role-name {name} "
        f"--policy-document '{json.dumps(_good_trust(subject.deployed.account))}'"
    )
    if not missing:
        return ok(f"{name} trusts {JOB_SERVICE} with AssumeRole and TagSession")
    if allowed:
        return failed(f"{name} does not let {JOB_SERVICE} call {', '.join(missing)}", fix)
    if _trusted_actions(policy, GENERIC_SERVICE, subject.deployed.account):
        return failed(f"{name} trusts {GENERIC_SERVICE} instead of {JOB_SERVICE}", fix)
    return failed(f"{name} does not trust {JOB_SERVICE}", fix)


def _good_trust(account: str) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": JOB_SERVICE},
        "Action": list(TRUST_ACTIONS),
        "Condition": {"StringEquals": {"aws:SourceAccount": account}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def _trusted_actions(policy: Any, service: str, account: str) -> set[str]:
    """Actions that a trust policy allows a service, from this account."""
    found: set[str] = set()
    for statement in _listed(policy.get("Statement", ())):
        services = _listed(statement.get("Principal", {}).get("Service", ()))
        accounts = statement.get("Condition", {}).get("StringEquals", {}).get("aws:SourceAccount")
        elsewhere = accounts is not None and account not in _listed(accounts)
        if statement.get("Effect") == "Allow" and service in services and not elsewhere:
            found.update(_listed(statement.get("Action", ())))
    return found


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str | dict) else list(value)


def _covers(allowed: set[str], action: str) -> bool:
    return bool(allowed & {action, "sts:*", "*"})


def job_role(subject: Subject) -> Verdict:
    """May the job role do what a job does?"""
    arn = subject.job_role["Arn"]
    return _simulated(subject, arn, job_role_needs(subject.deployed))


def runtime_role(subject: Subject) -> Verdict:
    """May the runtime's role do what the agent does?"""
    return _simulated(subject, subject.runtime["roleArn"], runtime_role_needs(subject.deployed))


def caller(subject: Subject) -> Verdict:
    """May the operator submit, watch and stop a job, and pass it its role?"""
    arn = subject.caller["Arn"]
    if arn.endswith(":root"):
        return skipped("the account's root user may do everything; better use a role")
    if ":assumed-role/" in arn:
        name = arn.split("/")[-2]
        arn = subject.cloud.client("iam").get_role(RoleName=name)["Role"]["Arn"]
    return _simulated(subject, arn, caller_needs(subject.deployed))


def _simulated(subject: Subject, principal: str, needs: Sequence[Need]) -> Verdict:
    denied = [line for need in needs for line in _denied(subject, principal, need)]
    name = principal.rsplit("/", 1)[-1]
    if not denied:
        actions = sum(len(need.actions) for need in needs)
        return ok(f"{name} may call all of {actions} actions")
    fix = f"{subject.deploy()}  # or add the actions to {name}"
    return failed(f"{name} may not {'; '.join(denied)}", fix)


def _denied(subject: Subject, principal: str, need: Need) -> Iterable[str]:
    answer = subject.cloud.client("iam").simulate_principal_policy(
        PolicySourceArn=principal,
        ActionNames=list(need.actions),
        ResourceArns=list(need.resources),
        ContextEntries=[
            {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
            for key, value in need.context
        ],
    )
    for result in answer["EvaluationResults"]:
        parts = result.get("ResourceSpecificResults") or [
            {
                "EvalResourceName": result.get("EvalResourceName", "*"),
                "EvalResourceDecision": result["EvalDecision"],
            }
        ]
        for part in parts:
            if part["EvalResourceDecision"] != "allowed":
                yield f"{result['EvalActionName']} on {part['EvalResourceName']}"


CHECKS = (
    Check("job-role-trust", "deployment", "CreateJob refuses a role it cannot assume.", trust),
    Check(
        "job-role-permissions",
        "deployment",
        "the job fails at the first thing that it may not touch.",
        job_role,
    ),
    Check(
        "runtime-role-permissions",
        "deployment",
        "an agent that may not sample or report never gives a reward.",
        runtime_role,
    ),
    Check("caller-permissions", "deployment", "the job cannot be submitted or stopped.", caller),
)
