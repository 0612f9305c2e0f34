"""Finds what carries a deployment's name or tag, service by service.

Each source stands alone: one that may not be asked, or is not offered at the endpoint, is said so
and hides nothing of the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from mtrl.aws import CLOUD_ERRORS, Cloud, in_words, is_denied, is_not_offered
from mtrl.deployment import STACKS, TAG
from mtrl.jobs.reading import describe, summaries
from mtrl.pricing import PriceList
from mtrl.report.agent_log import LOG_GROUPS

GB = Decimal(1024**3)
FREE = Decimal(0)


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing that exists."""

    kind: str
    """"bucket", "log group", "runtime", …: says how it is removed."""
    name: str
    id: str
    """What its deletion takes: an ARN, an id, or the name."""
    detail: str = ""
    usd_month: Decimal | None = FREE
    """While nothing runs; None when no source states a price."""
    stack: str = ""
    """The living stack that it belongs to and that removes it; empty when there is none."""
    removable: bool = True
    """False for what this command does not remove."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, and what could not be looked at."""

    things: tuple[Thing, ...]
    not_looked_at: tuple[str, ...]
    """A line a source that may not be asked."""
    not_offered: tuple[str, ...]
    """Kinds that the endpoint does not know, so that none can be there."""


Source = Callable[[Cloud, str, PriceList], Iterator[Thing]]


def find_things(cloud: Cloud, prefix: str, prices: PriceList) -> Found:
    """Look everywhere for things whose names begin with the prefix, or that carry its tag."""
    things: dict[tuple[str, str], Thing] = {}
    refused, absent = [], []
    for kind, source in SOURCES.items():
        try:
            for thing in source(cloud, prefix, prices):
                things.setdefault((thing.kind, thing.id), thing)
        except CLOUD_ERRORS as error:
            if is_not_offered(error):
                absent.append(kind)
            elif is_denied(error):
                refused.append(f"{kind}: {in_words(error).message}")
            else:
                raise
    known = {t.id for t in things.values()} | {t.name for t in things.values()}
    try:
        for thing in _tagged(cloud, prefix):
            if not known & {thing.id, thing.name}:
                things.setdefault((thing.kind, thing.id), thing)
    except CLOUD_ERRORS as error:
        if is_denied(error):
            refused.append(f"tags: {in_words(error).message}")
        elif not is_not_offered(error):
            raise
    return Found(tuple(things.values()), tuple(refused), tuple(absent))


def of_a_stack(name: str, prefix: str) -> bool:
    """True for a name that CloudFormation made for one of the deployment's stacks.

    The stack's part of the name keeps apart deployments such as mtrl-dev and mtrl-dev-2.
    """
    return any(name == stack or name.startswith(f"{stack}-") for stack in stack_names(prefix))


def stack_names(prefix: str) -> list[str]:
    """Names of a deployment's stacks."""
    return [f"{prefix}-{part}" for part in STACKS]


def _pages(client: Any, operation: str, key: str, **options: Any) -> Iterator[Any]:
    for page in client.get_paginator(operation).paginate(**options):
        yield from page.get(key, ())


def _buckets(cloud: Cloud, prefix: str, prices: PriceList) -> Iterator[Thing]:
    s3 = cloud.client("s3")
    for bucket in s3.list_buckets().get("Buckets", ()):
        name = bucket["Name"]
        if of_a_stack(name, prefix):
            size, count = bucket_size(s3, name)
            yield Thing(
                "bucket",
                name,
                name,
                f"{_gb(size)}, {count:,} objects and versions",
                size / GB * prices.storage.bucket,
            )


def bucket_size(s3: Any, name: str) -> tuple[Decimal, int]:
    """Bytes and number of all objects, old versions included."""
    sizes = [v["Size"] for v in _pages(s3, "list_object_versions", "Versions", Bucket=name)]
    if not sizes:
        sizes = [o["Size"] for o in _pages(s3, "list_objects_v2", "Contents", Bucket=name)]
    return Decimal(sum(sizes)), len(sizes)


def _gb(size: Decimal) -> str:
    return f"{size / GB:.2f} GB" if size >= GB / 100 else f"{size / 1024:,.0f} KB"


def _log_groups(cloud: Cloud, prefix: str, prices: PriceList) -> Iterator[Thing]:
    logs = cloud.client("logs")
    runtime = prefix.replace("-", "_")
    starts = [f"/aws/lambda/{stack}-" for stack in stack_names(prefix)]
    for start in (*starts, f"{LOG_GROUPS}{runtime}-"):
        for group in _pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=start):
            size = Decimal(group.get("storedBytes") or 0)
            kept = group.get("retentionInDays")
            yield Thing(
                "log group",
                group["logGroupName"],
                group["logGroupName"],
                f"{_gb(size)}, kept {f'{kept} days' if kept else 'for ever'}",
                size / GB * prices.storage.logs,
            )


def _runtimes(cloud: Cloud, prefix: str, _prices: PriceList) -> Iterator[Thing]:
    control = cloud.client("bedrock-agentcore-control")
    wanted = prefix.replace("-", "_")
    for runtime in _pages(control, "list_agent_runtimes", "agentRuntimes"):
        if runtime["agentRuntimeName"] == wanted:
            detail = f"version {runtime['agentRuntimeVersion']}, {runtime['status']}"
            yield Thing("runtime", runtime["agentRuntimeId"], runtime["agentRuntimeId"], detail)


def _package_groups(cloud: Cloud, prefix: str, _prices: PriceList) -> Iterator[Thing]:
    sagemaker = cloud.client("sagemaker")
    key = "ModelPackageGroupSummaryList"
    for group in _pages(sagemaker, "list_model_package_groups", key, NameContains=prefix):
        name = group["ModelPackageGroupName"]
        if name in (f"{prefix}-models", f"{prefix}-checkpoints"):
            packages = _pages(
                sagemaker, "list_model_packages", "ModelPackageSummaryList",
                ModelPackageGroupName=name,
            )  # fmt: skip
            detail = f"{sum(1 for _ in packages)} packages"
            yield Thing("package group", name, group["ModelPackageGroupArn"], detail)


def _mlflow_apps(cloud: Cloud, prefix: str, _prices: PriceList) -> Iterator[Thing]:
    apps = _pages(cloud.client("sagemaker"), "list_mlflow_apps", "Summaries")
    for app in apps:
        if app["Name"] in (prefix, f"{prefix}-mlflow-app") and app["Status"] != "Deleted":
            detail = f"{app['Status']}; its artifacts lie in the bucket"
            yield Thing("MLflow App", app["Name"], app["Arn"], detail, None)


def _jobs(cloud: Cloud, prefix: str, _prices: PriceList) -> Iterator[Thing]:
    sagemaker = cloud.client("sagemaker")
    for summary in summaries(sagemaker, NameContains=prefix):
        name, category = summary["JobName"], summary["JobCategory"]
        job = describe(sagemaker, name, category) if name.startswith(f"{prefix}-") else None
        if job is None or job.tags.get(TAG, prefix) != prefix:
            continue
        yield Thing(
            "job",
            name,
            f"{category}/{name}",
            f"{job.view.status}; {'stop it first' if job.running else 'its record only'}",
            None if job.running else FREE,
            removable=not job.running,
        )


def _dashboards(cloud: Cloud, prefix: str, _prices: PriceList) -> Iterator[Thing]:
    client = cloud.client("cloudwatch")
    for board in _pages(client, "list_dashboards", "DashboardEntries", DashboardNamePrefix=prefix):
        if board["DashboardName"] == prefix:
            # Source: CloudWatch's price page; the first three of an account are free.
            yield Thing("dashboard", prefix, prefix, "the first three are free", None)


def _roles(cloud: Cloud, prefix: str, _prices: PriceList) -> Iterator[Thing]:
    for role in _pages(cloud.client("iam"), "list_roles", "Roles"):
        if of_a_stack(role["RoleName"], prefix):
            yield Thing("role", role["RoleName"], role["RoleName"])


def _functions(cloud: Cloud, prefix: str, _prices: PriceList) -> Iterator[Thing]:
    for function in _pages(cloud.client("lambda"), "list_functions", "Functions"):
        if of_a_stack(function["FunctionName"], prefix):
            yield Thing("function", function["FunctionName"], function["FunctionName"])


def _tagged(cloud: Cloud, prefix: str) -> Iterator[Thing]:
    """Whatever else carries the deployment's tag."""
    client = cloud.client("resourcegroupstaggingapi")
    tag = [{"Key": TAG, "Values": [prefix]}]
    for found in _pages(client, "get_resources", "ResourceTagMappingList", TagFilters=tag):
        arn = found["ResourceARN"]
        service = arn.split(":")[2]
        if service == "cloudformation":
            continue
        name = re.split("[/:]", arn)[-1]
        detail = f"{service}; carries the deployment's tag"
        yield Thing("tagged", name, arn, detail, None, removable=False)


SOURCES: dict[str, Source] = {
    "jobs": _jobs,
    "runtimes": _runtimes,
    "package groups": _package_groups,
    "MLflow Apps": _mlflow_apps,
    "buckets": _buckets,
    "log groups": _log_groups,
    "functions": _functions,
    "dashboards": _dashboards,
    "roles": _roles,
}
"""In the order in which things are removed: what is used comes after what uses it."""


def owned(things: tuple[Thing, ...], owners: dict[str, str]) -> list[Thing]:
    """The things with the living stack that holds each.

    The service makes log groups of a runtime by itself; they go with the runtime's stack.

    Args:
        owners: physical id or ARN -> stack; see `ownership.stack_members`.
    """
    by_name = {physical.split(":job/")[-1]: stack for physical, stack in owners.items()}
    runtimes = {t.id: by_name.get(t.id, "") for t in things if t.kind == "runtime"}
    return [replace(thing, stack=_holder(thing, by_name, runtimes)) for thing in things]


def _holder(thing: Thing, owners: dict[str, str], runtimes: dict[str, str]) -> str:
    if thing.kind == "log group":
        logged = thing.name.removeprefix(LOG_GROUPS)
        return next((s for runtime, s in runtimes.items() if logged.startswith(runtime)), "")
    return owners.get(thing.id) or owners.get(thing.name, "")
