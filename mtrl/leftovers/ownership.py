"""What living stacks hold: they remove it themselves when they are destroyed."""

from __future__ import annotations

from collections.abc import Iterator

from mtrl.aws import CLOUD_ERRORS, Cloud, is_denied, is_not_offered
from mtrl.leftovers.finding import stack_names

_GONE = ("DELETE_COMPLETE",)


def living_stacks(cloud: Cloud, prefix: str) -> dict[str, str]:
    """Name -> status of the deployment's stacks; empty where there is no CloudFormation."""
    ours = stack_names(prefix)
    pages = cloud.client("cloudformation").get_paginator("describe_stacks").paginate()
    try:
        return {
            stack["StackName"]: stack["StackStatus"]
            for page in pages
            for stack in page["Stacks"]
            if stack["StackName"] in ours and stack["StackStatus"] not in _GONE
        }
    except CLOUD_ERRORS as error:
        if is_not_offered(error) or is_denied(error):
            return {}
        raise


def stack_members(cloud: Cloud, stacks: dict[str, str]) -> dict[str, str]:
    """Physical id of every resource of the stacks -> its stack."""
    return dict(_members(cloud, stacks))


def _members(cloud: Cloud, stacks: dict[str, str]) -> Iterator[tuple[str, str]]:
    client = cloud.client("cloudformation")
    for stack in stacks:
        for page in client.get_paginator("list_stack_resources").paginate(StackName=stack):
            for resource in page["StackResourceSummaries"]:
                physical = resource.get("PhysicalResourceId")
                if physical and resource["ResourceStatus"] != "DELETE_COMPLETE":
                    yield physical, stack
