"""Empties model package groups before they are deleted (CDK Provider framework).

The service refuses to delete a group that holds packages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from stacks.handlers import jobs


def delete_packages(sagemaker: Any, group: str) -> int:
    """Delete every package of the group; return how many. A missing group has none."""
    pages = sagemaker.get_paginator("list_model_packages").paginate(ModelPackageGroupName=group)
    try:
        arns = [p["ModelPackageArn"] for page in pages for p in page["ModelPackageSummaryList"]]
    except ClientError as error:
        if jobs.is_missing(error):
            return 0
        raise
    for arn in arns:
        try:
            sagemaker.delete_model_package(ModelPackageName=arn)
        except ClientError as error:
            if not jobs.is_missing(error):
                raise
    return len(arns)


@jobs.answerable
def on_event(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Only step of the Provider framework."""
    names = json.loads(event["ResourceProperties"]["Names"])
    if event["RequestType"] == "Delete":
        sagemaker = jobs.client("sagemaker")
        for name in names:
            print(f"{name}: {delete_packages(sagemaker, name)} packages deleted")
    return {"PhysicalResourceId": f"packages-of-{'-and-'.join(names)}"}
