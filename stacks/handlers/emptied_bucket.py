"""Empties the deployment's bucket before CloudFormation deletes it (CDK Provider framework).

New objects are forbidden first, so that nothing can be written behind the emptying; then every
version, delete marker and unfinished upload goes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from stacks.handlers import jobs

SID = "NothingNewWhileEmptying"
BATCH = 1_000
"""Keys per DeleteObjects call, the service's limit."""
_NO_BUCKET, _NO_POLICY = "NoSuchBucket", "NoSuchBucketPolicy"


class NotEmptied(Exception):
    """Objects that could not be deleted."""


def empty(s3: Any, bucket: str) -> int:
    """Delete everything in the bucket; return how many objects that were. None left is fine.

    Raises:
        NotEmptied: the service refused to delete an object.
    """
    try:
        _forbid_writing(s3, bucket)
        _abort_uploads(s3, bucket)
        return _delete_versions(s3, bucket)
    except ClientError as error:
        if jobs.code_of(error) == _NO_BUCKET:
            return 0
        raise


def _forbid_writing(s3: Any, bucket: str) -> None:
    try:
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    except ClientError as error:
        if jobs.code_of(error) != _NO_POLICY:
            raise
        policy = {"Version": "2012-10-17", "Statement": []}
    others = [s for s in policy["Statement"] if s.get("Sid") != SID]
    deny = {
        "Sid": SID,
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    policy["Statement"] = [*others, deny]
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


def _abort_uploads(s3: Any, bucket: str) -> None:
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
        for upload in page.get("Uploads", []):
            s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def _delete_versions(s3: Any, bucket: str) -> int:
    deleted = 0
    while batch := _some_versions(s3, bucket):
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        if errors := answer.get("Errors"):
            first = errors[0]
            raise NotEmptied(f"{bucket}/{first['Key']}: {first['Code']}: {first['Message']}")
        deleted += len(batch)
    return deleted


def _some_versions(s3: Any, bucket: str) -> list[dict[str, str]]:
    page = s3.list_object_versions(Bucket=bucket, MaxKeys=BATCH)
    found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
    return [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in found]


@jobs.answerable
def on_event(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Only step of the Provider framework."""
    bucket = event["ResourceProperties"]["Bucket"]
    if event["RequestType"] == "Delete":
        print(f"{bucket}: {empty(jobs.client('s3'), bucket)} objects deleted")
    return {"PhysicalResourceId": f"contents-of-{bucket}"}
