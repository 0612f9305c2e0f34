"""Checks of the account: who is asking, where, and what the account still allows."""

from __future__ import annotations

import math
from typing import Any

from botocore.exceptions import ClientError

from mtrl.aws import CLOUD_ERRORS, is_denied, is_missing, is_not_offered
from mtrl.cost.inputs import DEPLOYED_IDLE_TIMEOUT_S
from mtrl.cost.reference import SECONDS_PER_ROLLOUT
from mtrl.doctor.check import Check, Subject, Verdict, failed, ok, runtime_or_none, skipped
from mtrl.job.choices import typed
from mtrl.job.identity import TRAINING_CATEGORY
from mtrl.job.models import BASE_MODELS, REGIONS, hub_name_of
from mtrl.jobs.reading import summaries

HUB = "SageMakerPublicHub"
CONCURRENT_JOBS = 1
"""Training jobs at a time. Source: SageMaker developer guide, multi-turn RL quotas (late 2026)."""
ACTIVE_SESSIONS = {"us-east-1": 5_000, "us-west-2": 5_000}
OTHER_ACTIVE_SESSIONS = 2_500
"""AgentCore sessions at a time. Source: AgentCore developer guide, quotas (late 2026)."""
RUNTIME_ROLE = "AWSServiceRoleForBedrockAgentCoreRuntimeIdentity"
NETWORK_ROLE = "AWSServiceRoleForBedrockAgentCoreNetwork"
SERVICES = {
    RUNTIME_ROLE: "runtime-identity.bedrock-agentcore.amazonaws.com",
    NETWORK_ROLE: "network.bedrock-agentcore.amazonaws.com",
}
"""Service-linked roles of AgentCore, and the services that assume them."""


def credentials(subject: Subject) -> Verdict:
    """Do the credentials work, and belong to the deployment's account?"""
    caller = subject.caller
    deployment = subject.deployment
    if deployment and deployment.account not in ("", caller["Account"]):
        return failed(
            f"the credentials belong to account {caller['Account']}, the deployment to "
            f"{deployment.account}",
            "export AWS_PROFILE=… (a profile of the deployment's account)",
        )
    return ok(f"account {caller['Account']} as {caller['Arn'].rsplit(':', 1)[-1]}")


def region(subject: Subject) -> Verdict:
    """Is multi-turn RL offered in this Region?"""
    found = subject.cloud.region
    if found in REGIONS:
        return ok(found)
    return failed(f"{found} offers no multi-turn RL", f"export AWS_REGION={REGIONS[0]}")


def model(subject: Subject) -> Verdict:
    """Is the base model offered here?"""
    key = subject.deployment.model if subject.deployment else "gpt-oss-20b"
    known = BASE_MODELS.get(key)
    if known and subject.cloud.region not in known.regions:
        return failed(
            f"{known.title} is not offered in {subject.cloud.region}",
            f"deploy in {' or '.join(known.regions)} (region in stacks/environments/*.toml)",
        )
    name = _hub_name(subject, known.hub_name if known else None)
    if name is None:
        return skipped(f"no source states the hub name of {key}")
    sagemaker = subject.cloud.client("sagemaker")
    fix = "set training.base_model in stacks/environments/*.toml, then deploy"
    try:
        found = sagemaker.describe_hub_content(
            HubName=HUB, HubContentType="Model", HubContentName=name
        )
    except ClientError as error:
        if is_missing(error):
            return failed(f"the hub has no model {name} in {subject.cloud.region}", fix)
        raise
    if found["HubContentStatus"] != "Available":
        return failed(f"model {name} is {found['HubContentStatus']}", fix)
    return ok(f"{found.get('HubContentDisplayName') or name} {found['HubContentVersion']}")


def _hub_name(subject: Subject, known: str | None) -> str | None:
    """Name of the model in the hub: the deployment's own ARN says it best."""
    if subject.deployment is None:
        return known
    return hub_name_of(subject.deployment.base_model_arn)


def job_quota(subject: Subject) -> Verdict:
    """May one more training job run?"""
    found = _quota(subject, "sagemaker", ("multi-turn", "fine"))
    allowed = CONCURRENT_JOBS if found is None else int(found)
    sagemaker = subject.cloud.client("sagemaker")
    running = [
        summary["JobName"]
        for status in ("InProgress", "Stopping")
        for summary in summaries(sagemaker, [TRAINING_CATEGORY], StatusEquals=status)
    ]
    said = f"{len(running)} of {allowed} concurrent training jobs"
    if len(running) < allowed:
        return ok(said)
    if running:
        return failed(f"{said}: {', '.join(running)}", f"mtrl watch {running[0]}")
    return failed("the quota of concurrent training jobs is 0", _quota_fix("sagemaker"))


def session_quota(subject: Subject) -> Verdict:
    """May as many sessions live as the job's rollouts need, idle ones included?"""
    found = _quota(subject, "bedrock-agentcore", ("active session",))
    known = ACTIVE_SESSIONS.get(subject.cloud.region, OTHER_ACTIVE_SESSIONS)
    allowed = known if found is None else int(found)
    needed = sessions_needed(_concurrency(subject), _idle_timeout_s(subject))
    said = f"up to {needed:,} sessions at a time, {allowed:,} allowed"
    if needed <= allowed:
        return ok(said)
    return failed(said, _quota_fix("bedrock-agentcore"))


def sessions_needed(concurrency: int, idle_timeout_s: float) -> int:
    """Sessions alive at once: one a rollout under way, and those that wait for their timeout.

    A rollout is taken to last half as long as those of the reference run at most did.
    """
    rollouts_per_s = concurrency / (SECONDS_PER_ROLLOUT / 2)
    return math.ceil(concurrency + rollouts_per_s * idle_timeout_s)


def _concurrency(subject: Subject) -> int:
    wire = subject.deployment.hyperparameters if subject.deployment else {}
    return typed(wire)["rollout_max_concurrency"]


def _idle_timeout_s(subject: Subject) -> float:
    runtime = runtime_or_none(subject)
    if runtime is None:
        return DEPLOYED_IDLE_TIMEOUT_S
    return runtime["lifecycleConfiguration"]["idleRuntimeSessionTimeout"]


def _quota(subject: Subject, service: str, words: tuple[str, ...]) -> float | None:
    """Value of the first quota whose name holds all words; None when it cannot be read."""
    pages = subject.cloud.client("service-quotas").get_paginator("list_service_quotas")
    try:
        for page in pages.paginate(ServiceCode=service):
            for quota in page["Quotas"]:
                if all(word in quota["QuotaName"].lower() for word in words):
                    return quota["Value"]
    except CLOUD_ERRORS as error:
        if not (is_denied(error) or is_not_offered(error)):
            raise
    return None


def _quota_fix(service: str) -> str:
    return f"aws service-quotas list-service-quotas --service-code {service}  # then request more"


def service_linked_roles(subject: Subject) -> Verdict:
    """Do AgentCore's service-linked roles exist, or has it a runtime already without?"""
    runtime = runtime_or_none(subject)
    if runtime is not None and runtime["status"] == "READY":
        return ok("a runtime is there, so AgentCore has the roles that it needs")
    wanted = [RUNTIME_ROLE, *([NETWORK_ROLE] if _in_vpc(subject) else [])]
    iam = subject.cloud.client("iam")
    missing = [role for role in wanted if not _exists(iam, role)]
    if not missing:
        return ok(", ".join(wanted))
    return failed(
        f"{', '.join(missing)} does not exist yet",
        "; ".join(
            f"aws iam create-service-linked-role --aws-service-name {SERVICES[role]}"
            for role in missing
        ),
    )


def _in_vpc(subject: Subject) -> bool:
    runtime = runtime_or_none(subject)
    return runtime is not None and runtime["networkConfiguration"]["networkMode"] == "VPC"


def _exists(iam: Any, role: str) -> bool:
    try:
        iam.get_role(RoleName=role)
    except ClientError as error:
        if is_missing(error):
            return False
        raise
    return True


CHECKS = (
    Check("credentials", "account", "every call is signed with them.", credentials),
    Check("region", "account", "CreateJob refuses a Region without the service.", region),
    Check("model", "account", "the job cannot load a model that is not there.", model),
    Check("job-quota", "account", "CreateJob answers ResourceLimitExceeded.", job_quota),
    Check(
        "session-quota",
        "account",
        "rollouts that find no session never reach the policy, and that fails the job.",
        session_quota,
    ),
    Check(
        "service-linked-roles",
        "account",
        "a fresh account cannot create its first runtime without them.",
        service_linked_roles,
    ),
)
