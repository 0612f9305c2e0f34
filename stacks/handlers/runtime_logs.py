"""Sets the retention of a runtime's log groups, and removes them at the end (Provider framework).

AgentCore makes a group per endpoint by itself, perhaps before CloudFormation could, and keeps it
for ever; groups of endpoints that have been replaced stay until the runtime goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from stacks.handlers import jobs

PREFIX = "/aws/bedrock-agentcore/runtimes/"
DEFAULT_ENDPOINT = "DEFAULT"


def keep_for(logs: Any, runtime_id: str, endpoint: str, days: int) -> None:
    """Make the groups of the endpoint and of DEFAULT if need be, and set the retention of all."""
    wanted = {f"{PREFIX}{runtime_id}-{name}" for name in (DEFAULT_ENDPOINT, endpoint)}
    for group in sorted(wanted):
        try:
            logs.create_log_group(logGroupName=group)
        except ClientError as error:
            if jobs.code_of(error) != "ResourceAlreadyExistsException":
                raise
    for group in wanted | set(_groups(logs, runtime_id)):
        logs.put_retention_policy(logGroupName=group, retentionInDays=days)


def remove(logs: Any, runtime_id: str) -> None:
    """Delete all groups of the runtime."""
    for group in list(_groups(logs, runtime_id)):
        try:
            logs.delete_log_group(logGroupName=group)
        except ClientError as error:
            if not jobs.is_missing(error):
                raise


def _groups(logs: Any, runtime_id: str) -> Iterator[str]:
    pages = logs.get_paginator("describe_log_groups").paginate(
        logGroupNamePrefix=f"{PREFIX}{runtime_id}-"
    )
    for page in pages:
        yield from (group["logGroupName"] for group in page["logGroups"])


@jobs.answerable
def on_event(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Only step of the Provider framework."""
    properties = event["ResourceProperties"]
    runtime_id, logs = properties["RuntimeId"], jobs.client("logs")
    if event["RequestType"] != "Delete":
        keep_for(logs, runtime_id, properties["Endpoint"], int(properties["RetentionDays"]))
    elif properties["KeepData"] != "true":
        remove(logs, runtime_id)
    return {"PhysicalResourceId": f"logs-of-{runtime_id}"}
