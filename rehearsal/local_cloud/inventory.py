"""Everything that exists in an account, service by service: what a deployment made or left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Clients = Callable[[str], Any]
CATEGORIES = ("AgentRFT", "AgentRFTEvaluation")
_GONE = {"DELETE_COMPLETE"}


def inventory(client: Clients) -> list[str]:
    """One line a thing, "service: name", for every service that a deployment touches.

    Args:
        client: makes a boto3 client for a service.
    """
    return sorted(
        f"{service}: {name}"
        for service, list_names in _LISTINGS.items()
        for name in list_names(client(service.split(" ")[0]))
    )


def _pages(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
    if client.can_paginate(operation):
        for page in client.get_paginator(operation).paginate(**arguments):
            yield from page.get(key, [])
    else:
        yield from getattr(client, operation)(**arguments).get(key, [])


def _names(operation: str, key: str, field: str) -> Callable[[Any], Iterator[str]]:
    return lambda client: (item[field] for item in _pages(client, operation, key))


def _stacks(client: Any) -> Iterator[str]:
    for stack in _pages(client, "list_stacks", "StackSummaries"):
        if stack["StackStatus"] not in _GONE:
            yield f"{stack['StackName']} ({stack['StackStatus']})"


def _buckets(client: Any) -> Iterator[str]:
    for bucket in client.list_buckets()["Buckets"]:
        yield bucket["Name"]


def _runtimes(client: Any) -> Iterator[str]:
    for runtime in _pages(client, "list_agent_runtimes", "agentRuntimes"):
        runtime_id = runtime["agentRuntimeId"]
        yield runtime_id
        endpoints = _pages(client, "list_agent_runtime_endpoints", "runtimeEndpoints",
                           agentRuntimeId=runtime_id)  # fmt: skip
        yield from (f"{runtime_id}/{endpoint['name']}" for endpoint in endpoints)


def _jobs(client: Any) -> Iterator[str]:
    for category in CATEGORIES:
        for job in _pages(client, "list_jobs", "JobSummaries", JobCategory=category):
            yield f"{job['JobName']} ({job['JobStatus']})"


def _packages(client: Any) -> Iterator[str]:
    for group in _pages(client, "list_model_package_groups", "ModelPackageGroupSummaryList"):
        name = group["ModelPackageGroupName"]
        yield name
        found = _pages(client, "list_model_packages", "ModelPackageSummaryList",
                       ModelPackageGroupName=name)  # fmt: skip
        yield from (package["ModelPackageArn"] for package in found)


def _customer_policies(client: Any) -> Iterator[str]:
    found = _pages(client, "list_policies", "Policies", Scope="Local")
    return (policy["PolicyName"] for policy in found)


_LISTINGS: dict[str, Callable[[Any], Iterator[str]]] = {
    "cloudformation": _stacks,
    "s3": _buckets,
    "lambda": _names("list_functions", "Functions", "FunctionName"),
    "stepfunctions": _names("list_state_machines", "stateMachines", "name"),
    "iam roles": _names("list_roles", "Roles", "RoleName"),
    "iam policies": _customer_policies,
    "sns": _names("list_topics", "Topics", "TopicArn"),
    "events": _names("list_rules", "Rules", "Name"),
    "logs": _names("describe_log_groups", "logGroups", "logGroupName"),
    "cloudwatch dashboards": _names("list_dashboards", "DashboardEntries", "DashboardName"),
    "cloudwatch alarms": _names("describe_alarms", "MetricAlarms", "AlarmName"),
    "ssm": _names("describe_parameters", "Parameters", "Name"),
    "ecr": _names("describe_repositories", "repositories", "repositoryName"),
    "bedrock-agentcore-control": _runtimes,
    "sagemaker jobs": _jobs,
    "sagemaker packages": _packages,
    "sagemaker apps": _names("list_mlflow_apps", "Summaries", "Name"),
}
