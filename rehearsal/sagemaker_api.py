"""The SageMaker API over its JSON 1.1 protocol, as far as multi-turn RL jobs need it.

One function an operation: request members in, response members out. Unknown operations are
refused by name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from botocore.session import Session
from botocore.validate import ParamValidator
from starlette.requests import Request
from starlette.responses import Response

from mtrl.job.document import EvaluationDocument, TrainingDocument
from mtrl.job.identity import EVALUATION_CATEGORY, SCHEMA_VERSION, TRAINING_CATEGORY
from rehearsal import admission
from rehearsal.engine import Engine, Parts
from rehearsal.errors import ServiceError, in_use, not_found, validation
from rehearsal.hub import hub_content
from rehearsal.jobs import RUNNING, described, summarised
from rehearsal.paging import page

TARGET_PREFIX = "SageMaker."
MLFLOW_APP = "mlflow-app"
MLFLOW_VERSION = "3.17.2"
Body = dict[str, Any]


class SageMakerApi:
    """Dispatches `X-Amz-Target: SageMaker.<Operation>`."""

    def __init__(self, parts: Parts, engine: Engine) -> None:
        self._parts = parts
        self._engine = engine
        self._operations: dict[str, Callable[[Body], Body]] = {
            "CreateJob": self._create_job,
            "DescribeJob": self._describe_job,
            "ListJobs": self._list_jobs,
            "StopJob": self._stop_job,
            "DeleteJob": self._delete_job,
            "ListJobSchemaVersions": self._list_schema_versions,
            "DescribeJobSchemaVersion": self._describe_schema_version,
            "CreateMlflowApp": self._create_mlflow_app,
            "DescribeMlflowApp": self._describe_mlflow_app,
            "ListMlflowApps": self._list_mlflow_apps,
            "DeleteMlflowApp": self._delete_mlflow_app,
            "CreatePresignedMlflowAppUrl": self._presign_mlflow_app,
            "CreateModelPackageGroup": self._create_group,
            "DescribeModelPackageGroup": self._describe_group,
            "ListModelPackageGroups": self._list_groups,
            "DeleteModelPackageGroup": self._delete_group,
            "DescribeModelPackage": self._describe_package,
            "ListModelPackages": self._list_packages,
            "DeleteModelPackage": self._delete_package,
            "DescribeHubContent": self._describe_hub_content,
            "ListTags": self._list_tags,
            "AddTags": self._add_tags,
        }

    async def handle(self, request: Request) -> Response:
        """Answer one call."""
        target = request.headers.get("x-amz-target", "")
        operation_name = target.removeprefix(TARGET_PREFIX)
        operation = self._operations.get(operation_name)
        if not target.startswith(TARGET_PREFIX) or operation is None:
            raise ServiceError("UnknownOperationException", f"{target!r} is not offered here", 404)
        try:
            body = json.loads(await request.body() or b"{}")
        except (ValueError, RecursionError):
            raise ServiceError("SerializationException", "the body is not JSON") from None
        if not isinstance(body, dict):
            raise ServiceError("SerializationException", "the body is not a JSON object")
        _check_members(operation_name, body)
        answer = json.dumps(operation(body))
        return Response(answer, media_type="application/x-amz-json-1.1")

    def _create_job(self, body: Body) -> Body:
        admission.check_request(body)
        document = admission.check_document(self._parts, body)
        jobs = self._parts.jobs
        with jobs.records.transaction():
            job = jobs.add(
                body["JobName"],
                body["JobCategory"],
                body["RoleArn"],
                body["JobConfigSchemaVersion"],
                document,
                body.get("Tags", []),
            )
            admission.check_start(self._parts, job)
        self._engine.start(job)
        return {"JobArn": job["JobArn"]}

    def _describe_job(self, body: Body) -> Body:
        return described(self._job(body))

    def _list_jobs(self, body: Body) -> Body:
        jobs = self._parts.jobs.list(_text(body, "JobCategory"))
        if status := body.get("StatusEquals"):
            jobs = [job for job in jobs if job["JobStatus"] == status]
        if part := body.get("NameContains"):
            jobs = [job for job in jobs if part in job["JobName"]]
        for bound, keep in (
            ("CreationTimeAfter", lambda job, t: job["CreationTime"] > t),
            ("CreationTimeBefore", lambda job, t: job["CreationTime"] < t),
        ):
            if (moment := body.get(bound)) is not None:
                jobs = [job for job in jobs if keep(job, moment)]
        order = {"Name": "JobName", "Status": "JobStatus"}.get(
            body.get("SortBy", ""), "CreationTime"
        )
        jobs.sort(key=lambda job: job[order], reverse=body.get("SortOrder") != "Ascending")
        return page("JobSummaries", [summarised(job) for job in jobs], body)

    def _stop_job(self, body: Body) -> Body:
        job = self._job(body)
        if job["JobStatus"] == "InProgress":
            self._engine.stop(job["JobName"])
        elif job["JobStatus"] not in RUNNING:
            raise validation(
                f"Job {job['JobName']} is {job['JobStatus']}; only a running job can be stopped."
            )
        return {}

    def _delete_job(self, body: Body) -> Body:
        self._parts.jobs.remove(_text(body, "JobName"), _text(body, "JobCategory"))
        return {}

    def _job(self, body: Body) -> Body:
        return self._parts.jobs.get(_text(body, "JobName"), _text(body, "JobCategory"))

    def _list_schema_versions(self, body: Body) -> Body:
        _category(body)
        return {"JobConfigSchemas": [{"JobConfigSchemaVersion": SCHEMA_VERSION}]}

    def _describe_schema_version(self, body: Body) -> Body:
        category = _category(body)
        version = body.get("JobConfigSchemaVersion", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise not_found(f"Schema version {version} of {category} was not found.")
        model = TrainingDocument if category == TRAINING_CATEGORY else EvaluationDocument
        return {
            "JobCategory": category,
            "JobConfigSchemaVersion": version,
            "JobConfigSchema": json.dumps(model.model_json_schema(by_alias=True)),
        }

    def _create_mlflow_app(self, body: Body) -> Body:
        name = _text(body, "Name")
        records = self._parts.jobs.records
        if any(app["Name"] == name for app in records.list(MLFLOW_APP)):
            raise in_use(f"MLflow App {name} already exists.")
        arn = self._parts.place.arn(f"mlflow-app/app-{name}")
        app = {
            "Arn": arn,
            "Name": name,
            "ArtifactStoreUri": _text(body, "ArtifactStoreUri"),
            "RoleArn": _text(body, "RoleArn"),
            "MlflowVersion": MLFLOW_VERSION,
            "Status": "Created",
            "CreationTime": time.time(),
            "LastModifiedTime": time.time(),
            "Tags": body.get("Tags", []),
        }
        records.put(MLFLOW_APP, arn, app)
        return {"Arn": arn}

    def _describe_mlflow_app(self, body: Body) -> Body:
        return self._mlflow_app(body)

    def _list_mlflow_apps(self, body: Body) -> Body:
        keys = ("Arn", "Name", "Status", "CreationTime", "LastModifiedTime", "MlflowVersion")
        apps = self._parts.jobs.records.list(MLFLOW_APP)
        return page("Summaries", [{key: app[key] for key in keys} for app in apps], body)

    def _delete_mlflow_app(self, body: Body) -> Body:
        app = self._mlflow_app(body)
        self._parts.jobs.records.delete(MLFLOW_APP, app["Arn"])
        return {"Arn": app["Arn"]}

    def _presign_mlflow_app(self, body: Body) -> Body:
        self._mlflow_app(body)
        return {"AuthorizedUrl": self._parts.mlflow.tracking_uri}

    def _mlflow_app(self, body: Body) -> Body:
        arn = _text(body, "Arn")
        app = self._parts.jobs.records.get(MLFLOW_APP, arn)
        if app is None:
            raise not_found(f"MLflow App {arn} was not found.")
        return app

    def _create_group(self, body: Body) -> Body:
        arn = self._parts.packages.create_group(
            _text(body, "ModelPackageGroupName"),
            body.get("ModelPackageGroupDescription", ""),
            body.get("Tags", []),
        )
        return {"ModelPackageGroupArn": arn}

    def _describe_group(self, body: Body) -> Body:
        group = self._parts.packages.group(_text(body, "ModelPackageGroupName"))
        return {**group, "CreatedBy": {}}

    def _list_groups(self, body: Body) -> Body:
        part = body.get("NameContains", "")
        groups = [
            group
            for group in self._parts.packages.groups()
            if part in group["ModelPackageGroupName"]
        ]
        return page("ModelPackageGroupSummaryList", groups, body)

    def _delete_group(self, body: Body) -> Body:
        self._parts.packages.delete_group(_text(body, "ModelPackageGroupName"))
        return {}

    def _describe_package(self, body: Body) -> Body:
        return self._parts.packages.package(_text(body, "ModelPackageName"))

    def _list_packages(self, body: Body) -> Body:
        name = _text(body, "ModelPackageGroupName")
        self._parts.packages.group(name)
        packages = self._parts.packages.packages(name)
        if body.get("SortOrder") == "Descending":
            packages.reverse()
        return page("ModelPackageSummaryList", packages, body)

    def _delete_package(self, body: Body) -> Body:
        self._parts.packages.delete(_text(body, "ModelPackageName"))
        return {}

    def _describe_hub_content(self, body: Body) -> Body:
        return hub_content(_text(body, "HubContentName"), self._parts.settings.region)

    def _list_tags(self, body: Body) -> Body:
        return {"Tags": self._tagged(_text(body, "ResourceArn"))[1].get("Tags", [])}

    def _add_tags(self, body: Body) -> Body:
        kind, record, key = self._tagged_with_key(_text(body, "ResourceArn"))
        tags = {tag["Key"]: tag for tag in [*record.get("Tags", []), *body.get("Tags", [])]}
        self._parts.jobs.records.put(kind, key, {**record, "Tags": list(tags.values())})
        return {"Tags": list(tags.values())}

    def _tagged(self, arn: str) -> tuple[str, Body]:
        kind, record, _ = self._tagged_with_key(arn)
        return kind, record

    def _tagged_with_key(self, arn: str) -> tuple[str, Body, str]:
        name = arn.rsplit("/", 1)[-1]
        candidates = (
            ("job", "JobArn", name),
            ("package-group", "ModelPackageGroupArn", name),
            (MLFLOW_APP, "Arn", arn),
        )
        for kind, arn_key, key in candidates:
            record = self._parts.jobs.records.get(kind, key)
            if record and record[arn_key] == arn:
                return kind, record, key
        raise not_found(f"{arn} was not found.")


def _check_members(operation: str, body: Body) -> None:
    """Check a request against AWS's own description of the API."""
    shape = _service_model().operation_model(operation).input_shape
    try:
        report = ParamValidator().validate(body, shape)
    except (RuntimeError, ValueError, OverflowError) as error:  # a timestamp's own conversion
        raise validation(f"a timestamp is out of range: {error}") from None
    if report.has_errors():
        raise validation(report.generate_report())


@cache
def _service_model() -> Any:
    return Session().get_service_model("sagemaker")


def _text(body: Body, key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise validation(f"{key}: required, a string")
    return value


def _category(body: Body) -> str:
    category = _text(body, "JobCategory")
    if category not in (TRAINING_CATEGORY, EVALUATION_CATEGORY):
        raise validation(
            f"JobCategory: {category!r} is not one of {TRAINING_CATEGORY}, {EVALUATION_CATEGORY}"
        )
    return category
