"""Handlers that put files, empty what has to go, and keep logs in bounds."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from stacks.handlers import (
    bucket_objects,
    emptied_bucket,
    package_groups,
    runtime_logs,
)


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "Operation")


class Bucket:
    """Versions of one bucket, in S3's words; writing may be forbidden."""

    def __init__(self, versions: int = 0, exists: bool = True) -> None:
        self.left = [{"Key": f"k{i}", "VersionId": str(i)} for i in range(versions)]
        self.uploads = [{"Key": "half", "UploadId": "u"}]
        self.policy: str | None = None
        self.exists = exists
        self.refused: list[dict[str, str]] = []
        self.steps: list[str] = []

    def get_bucket_policy(self, Bucket: str) -> dict[str, str]:
        if not self.exists:
            raise error("NoSuchBucket")
        if self.policy is None:
            raise error("NoSuchBucketPolicy")
        return {"Policy": self.policy}

    def put_bucket_policy(self, Bucket: str, Policy: str) -> None:
        self.steps.append("forbid")
        self.policy = Policy

    def get_paginator(self, _operation: str) -> Any:
        return type("Pages", (), {"paginate": lambda _, Bucket: [{"Uploads": self.uploads}]})()

    def abort_multipart_upload(self, Bucket: str, Key: str, UploadId: str) -> None:
        self.uploads = []

    def list_object_versions(self, Bucket: str, MaxKeys: int) -> dict[str, Any]:
        half = len(self.left[:MaxKeys]) // 2
        return {"Versions": self.left[:half], "DeleteMarkers": self.left[half:MaxKeys]}

    def delete_objects(self, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:
        self.steps.append("delete")
        if self.refused:
            return {"Errors": self.refused}
        gone = {(o["Key"], o["VersionId"]) for o in Delete["Objects"]}
        self.left = [v for v in self.left if (v["Key"], v["VersionId"]) not in gone]
        return {}


def test_every_version_marker_and_upload_is_deleted_after_writing_is_forbidden():
    bucket = Bucket(2_500)
    assert emptied_bucket.empty(bucket, "b") == 2_500
    assert bucket.left == [] and bucket.uploads == []
    assert bucket.steps == ["forbid", "delete", "delete", "delete"]
    assert '"Deny"' in (bucket.policy or "")


def test_emptying_twice_forbids_once_and_finds_nothing():
    bucket = Bucket(1)
    emptied_bucket.empty(bucket, "b")
    assert emptied_bucket.empty(bucket, "b") == 0
    assert (bucket.policy or "").count(emptied_bucket.SID) == 1


def test_a_bucket_that_is_gone_is_empty():
    assert emptied_bucket.empty(Bucket(exists=False), "b") == 0


def test_an_object_that_cannot_be_deleted_is_named_instead_of_tried_for_ever():
    bucket = Bucket(1)
    bucket.refused = [{"Key": "k0", "Code": "AccessDenied", "Message": "held"}]
    with pytest.raises(emptied_bucket.NotEmptied, match="b/k0: AccessDenied: held"):
        emptied_bucket.empty(bucket, "b")


def test_packages_of_a_group_are_deleted_so_that_the_group_can_be(client, sagemaker):
    sagemaker.add_package("models", 1)
    sagemaker.add_package("models", 2)
    sagemaker.add_package("others", 1)
    assert package_groups.delete_packages(client("sagemaker"), "models") == 2
    assert [p["ModelPackageGroupName"] for p in sagemaker.packages] == ["others"]


def test_a_group_that_is_gone_has_no_packages(client, sagemaker):
    sagemaker.refuse("ListModelPackages", "ValidationException", "group does not exist")
    assert package_groups.delete_packages(client("sagemaker"), "models") == 0


class Groups:
    """Log groups by name, with their retention."""

    def __init__(self, *names: str) -> None:
        self.days: dict[str, int | None] = dict.fromkeys(names)

    def create_log_group(self, logGroupName: str) -> None:
        if logGroupName in self.days:
            raise error("ResourceAlreadyExistsException")
        self.days[logGroupName] = None

    def put_retention_policy(self, logGroupName: str, retentionInDays: int) -> None:
        self.days[logGroupName] = retentionInDays

    def delete_log_group(self, logGroupName: str) -> None:
        del self.days[logGroupName]

    def get_paginator(self, _operation: str) -> Any:
        def paginate(_self: Any, logGroupNamePrefix: str) -> list[dict[str, Any]]:
            found = [n for n in self.days if n.startswith(logGroupNamePrefix)]
            return [{"logGroups": [{"logGroupName": name} for name in found]}]

        return type("Pages", (), {"paginate": paginate})()


def group(endpoint: str, runtime: str = "rt-1") -> str:
    return f"{runtime_logs.PREFIX}{runtime}-{endpoint}"


def test_groups_get_their_retention_whoever_made_them_first():
    logs = Groups(group("DEFAULT"), group("spec_old"), group("spec", "rt-12"))
    runtime_logs.keep_for(logs, "rt-1", "spec_new", 7)
    assert logs.days[group("DEFAULT")] == logs.days[group("spec_old")] == 7
    assert logs.days[group("spec_new")] == 7
    assert logs.days[group("spec", "rt-12")] is None


def test_all_groups_of_the_runtime_and_no_others_are_removed():
    logs = Groups(group("DEFAULT"), group("spec_old"), group("spec", "rt-12"))
    runtime_logs.remove(logs, "rt-1")
    assert list(logs.days) == [group("spec", "rt-12")]


def test_objects_are_copied_or_written():
    done: list[tuple[str, dict[str, Any]]] = []

    class S3:
        def put_object(self, **arguments: Any) -> None:
            done.append(("put", arguments))

        def copy_object(self, **arguments: Any) -> None:
            done.append(("copy", arguments))

    objects = [{"Key": "o.json", "Body": "{}"}, {"Key": "d", "SourceBucket": "a", "SourceKey": "k"}]
    bucket_objects.put_objects(S3(), "b", objects)
    assert done == [
        ("put", {"Bucket": "b", "Key": "o.json", "Body": b"{}", "ContentType": "application/json"}),
        ("copy", {"Bucket": "b", "Key": "d", "CopySource": {"Bucket": "a", "Key": "k"}}),
    ]
