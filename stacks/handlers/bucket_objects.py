"""Puts a deployment's small files into its bucket (CDK Provider framework).

Each object is copied from a CDK asset or written from text. Keys of data sets hold their hash, so
an update never changes what a running job reads; nothing is deleted here: that is the bucket's
own affair.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stacks.handlers import jobs


def put_objects(s3: Any, bucket: str, objects: list[dict[str, str]]) -> None:
    """Write the objects.

    Args:
        objects: `Key` with either `Body` (text) or `SourceBucket` and `SourceKey`.
    """
    for entry in objects:
        if "Body" in entry:
            kind = "application/json" if entry["Key"].endswith(".json") else "text/plain"
            body = entry["Body"].encode()
            s3.put_object(Bucket=bucket, Key=entry["Key"], Body=body, ContentType=kind)
        else:
            source = {"Bucket": entry["SourceBucket"], "Key": entry["SourceKey"]}
            s3.copy_object(Bucket=bucket, Key=entry["Key"], CopySource=source)


@jobs.answerable
def on_event(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Only step of the Provider framework."""
    properties = event["ResourceProperties"]
    if event["RequestType"] != "Delete":
        put_objects(jobs.client("s3"), properties["Bucket"], json.loads(properties["Objects"]))
    return {"PhysicalResourceId": f"objects-in-{properties['Bucket']}-{properties['Name']}"}
