"""Model package groups and their numbered packages: checkpoints and adapters of a job."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from rehearsal.errors import ServiceError, in_use, validation
from rehearsal.records import Records

GROUP, PACKAGE = "package-group", "package"


@dataclass(frozen=True, slots=True)
class Place:
    """Account, Region and partition that the service's ARNs carry."""

    region: str
    account: str
    partition: str = "aws"

    def arn(self, resource: str, service: str = "sagemaker") -> str:
        """ARN of a resource in this place."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"


class Packages:
    """The registry. Records: a group by its name, a package by its ARN."""

    def __init__(self, records: Records, place: Place) -> None:
        self._records = records
        self._place = place

    def create_group(self, name: str, description: str, tags: list[dict[str, str]]) -> str:
        """Make an empty group and return its ARN."""
        if self._records.get(GROUP, name):
            raise in_use(f"Model Package Group already exists: {self.group_arn(name)}")
        body = {
            "ModelPackageGroupName": name,
            "ModelPackageGroupArn": self.group_arn(name),
            "ModelPackageGroupDescription": description,
            "CreationTime": time.time(),
            "ModelPackageGroupStatus": "Completed",
            "Tags": tags,
        }
        self._records.put(GROUP, name, body)
        return body["ModelPackageGroupArn"]

    def group_arn(self, name: str) -> str:
        """ARN of a group by its name."""
        return self._place.arn(f"model-package-group/{name}")

    def group(self, name_or_arn: str) -> dict[str, Any]:
        """A group's record. Raises ServiceError when missing."""
        name = name_or_arn.rsplit("/", 1)[-1]
        record = self._records.get(GROUP, name)
        if record is None:
            raise validation(f"ModelPackageGroup {self.group_arn(name)} does not exist.")
        return record

    def groups(self) -> list[dict[str, Any]]:
        """All groups."""
        return self._records.list(GROUP)

    def delete_group(self, name_or_arn: str) -> None:
        """Remove an empty group."""
        group = self.group(name_or_arn)
        if self.packages(group["ModelPackageGroupName"]):
            raise ServiceError(
                "ConflictException",
                f"Model Package Group {group['ModelPackageGroupArn']} still has model packages.",
            )
        self._records.delete(GROUP, group["ModelPackageGroupName"])

    def add(self, group_arn: str, s3_uri: str, properties: dict[str, str], description: str) -> str:
        """Add the next version to a group and return its ARN.

        Args:
            properties: CustomerMetadataProperties: kind of checkpoint, job, step, hashes.
        """
        group = self.group(group_arn)
        name = group["ModelPackageGroupName"]
        version = 1 + max((p["ModelPackageVersion"] for p in self.packages(name)), default=0)
        arn = self._place.arn(f"model-package/{name}/{version}")
        source = {
            "S3DataSource": {
                "S3Uri": s3_uri,
                "S3DataType": "S3Prefix",
                "CompressionType": "None",
            }
        }
        body = {
            "ModelPackageName": name,
            "ModelPackageGroupName": name,
            "ModelPackageVersion": version,
            "ModelPackageArn": arn,
            "ModelPackageDescription": description,
            "CreationTime": time.time(),
            "ModelPackageStatus": "Completed",
            "ModelPackageStatusDetails": {"ValidationStatuses": [], "ImageScanStatuses": []},
            "ModelApprovalStatus": "Approved",
            "CustomerMetadataProperties": properties,
            "InferenceSpecification": {
                "Containers": [{"ModelDataSource": source, "IsCheckpoint": True}]
            },
        }
        self._records.put(PACKAGE, arn, body)
        return arn

    def package(self, arn: str) -> dict[str, Any]:
        """A package's record. Raises ServiceError when missing."""
        record = self._records.get(PACKAGE, arn)
        if record is None:
            raise validation(f"ModelPackage {arn} does not exist.")
        return record

    def packages(self, group_name: str) -> list[dict[str, Any]]:
        """A group's packages, oldest first."""
        name = group_name.rsplit("/", 1)[-1]
        found = [p for p in self._records.list(PACKAGE) if p["ModelPackageGroupName"] == name]
        return sorted(found, key=lambda p: p["ModelPackageVersion"])

    def delete(self, arn: str) -> None:
        """Remove a package."""
        self.package(arn)
        self._records.delete(PACKAGE, arn)


def package_uri(package: dict[str, Any]) -> str:
    """Where a package's files lie."""
    container = package["InferenceSpecification"]["Containers"][0]
    return container["ModelDataSource"]["S3DataSource"]["S3Uri"]
