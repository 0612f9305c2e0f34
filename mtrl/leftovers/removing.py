"""Removes one thing, with all that has to go before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mtrl.aws import Cloud
from mtrl.leftovers.finding import Thing

BATCH = 1_000
"""Keys of one DeleteObjects call."""
DEFAULT_ENDPOINT = "DEFAULT"
"""Goes with its runtime."""


def remove(cloud: Cloud, thing: Thing) -> None:
    """Remove a thing.

    Raises:
        ClientError: AWS refuses.
        KeyError: a kind that is not removed here.
    """
    REMOVERS[thing.kind](cloud, thing.id)


def _bucket(cloud: Cloud, name: str) -> None:
    s3 = cloud.client("s3")
    batch: list[dict[str, str]] = []
    for key in _contents(s3, name):
        batch.append(key)
        if len(batch) == BATCH:
            _delete(s3, name, batch)
            batch = []
    _delete(s3, name, batch)
    s3.delete_bucket(Bucket=name)


def _contents(s3: Any, name: str) -> Iterator[dict[str, str]]:
    """Every version and delete marker, and what is there without a version."""
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
        for item in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
            yield {"Key": item["Key"], "VersionId": item["VersionId"]}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        for item in page.get("Contents", ()):
            yield {"Key": item["Key"]}


def _delete(s3: Any, bucket: str, keys: list[dict[str, str]]) -> None:
    if keys:
        s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})


def _log_group(cloud: Cloud, name: str) -> None:
    cloud.client("logs").delete_log_group(logGroupName=name)


def _runtime(cloud: Cloud, runtime_id: str) -> None:
    control = cloud.client("bedrock-agentcore-control")
    pages = control.get_paginator("list_agent_runtime_endpoints").paginate(
        agentRuntimeId=runtime_id
    )
    for endpoint in [e["name"] for page in pages for e in page["runtimeEndpoints"]]:
        if endpoint != DEFAULT_ENDPOINT:
            control.delete_agent_runtime_endpoint(agentRuntimeId=runtime_id, endpointName=endpoint)
    control.delete_agent_runtime(agentRuntimeId=runtime_id)


def _package_group(cloud: Cloud, arn: str) -> None:
    sagemaker = cloud.client("sagemaker")
    name = arn.rsplit("/", 1)[-1]
    pages = sagemaker.get_paginator("list_model_packages").paginate(ModelPackageGroupName=name)
    arns = [p["ModelPackageArn"] for page in pages for p in page["ModelPackageSummaryList"]]
    for package in arns:
        sagemaker.delete_model_package(ModelPackageName=package)
    sagemaker.delete_model_package_group(ModelPackageGroupName=name)


def _mlflow_app(cloud: Cloud, arn: str) -> None:
    cloud.client("sagemaker").delete_mlflow_app(Arn=arn)


def _job(cloud: Cloud, id: str) -> None:
    category, _, name = id.partition("/")
    cloud.client("sagemaker").delete_job(JobName=name, JobCategory=category)


def _dashboard(cloud: Cloud, name: str) -> None:
    cloud.client("cloudwatch").delete_dashboards(DashboardNames=[name])


def _function(cloud: Cloud, name: str) -> None:
    cloud.client("lambda").delete_function(FunctionName=name)


def _role(cloud: Cloud, name: str) -> None:
    iam = cloud.client("iam")
    for page in iam.get_paginator("list_role_policies").paginate(RoleName=name):
        for policy in page["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=policy)
    for page in iam.get_paginator("list_attached_role_policies").paginate(RoleName=name):
        for policy in page["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
    iam.delete_role(RoleName=name)


REMOVERS: dict[str, Callable[[Cloud, str], None]] = {
    "bucket": _bucket,
    "log group": _log_group,
    "runtime": _runtime,
    "package group": _package_group,
    "MLflow App": _mlflow_app,
    "job": _job,
    "dashboard": _dashboard,
    "function": _function,
    "role": _role,
}
