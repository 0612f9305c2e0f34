"""`mtrl leftovers`: what a deployment leaves, what holds it, what it costs, and its removal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from mtrl.cli import main

MOMENT = datetime(2026, 12, 1, tzinfo=UTC)
GB = 1024**3
ARN = "arn:aws:{}:us-east-1:111111111111:{}"
BUCKET = "mtrl-dev-foundation-bucket83908e77-abc"


def denied(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)


@pytest.fixture
def account(aws: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An account after `cdk destroy` of a deployment that keeps its data; another one lives."""
    monkeypatch.setattr("mtrl.aws.ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nothing may get past the fake
    monkeypatch.delenv("MTRL_DEPLOYMENT", raising=False)
    aws.on("cloudformation", "DescribeStacks", {"Stacks": []})
    aws.on("sagemaker", "ListJobs", {"JobSummaries": []})
    aws.on("bedrock-agentcore-control", "ListAgentRuntimes", {"agentRuntimes": [
        runtime("mtrl_dev"), runtime("mtrl_dev_2")]})  # fmt: skip
    aws.on("sagemaker", "ListModelPackageGroups", {"ModelPackageGroupSummaryList": [
        group("mtrl-dev-models"), group("mtrl-dev-2-models")]})  # fmt: skip
    aws.on("sagemaker", "ListModelPackages", {"ModelPackageSummaryList": [package()]})
    aws.on("sagemaker", "ListMlflowApps", {"Summaries": [
        {"Arn": ARN.format("sagemaker", "mlflow-app/app-1"), "Name": "mtrl-dev-mlflow-app",
         "Status": "Created", "CreationTime": MOMENT, "MlflowVersion": "3.10"}]})  # fmt: skip
    buckets = [BUCKET, "mtrl-dev-2-foundation-bucket-x", "other"]
    aws.on("s3", "ListBuckets", {"Buckets": [{"Name": name} for name in buckets]})
    aws.on("s3", "ListObjectVersions", {"Versions": [
        {"Key": "a", "VersionId": "1", "Size": 60 * GB, "LastModified": MOMENT},
        {"Key": "a", "VersionId": "2", "Size": 40 * GB, "LastModified": MOMENT}],
        "DeleteMarkers": [{"Key": "b", "VersionId": "3"}]})  # fmt: skip
    aws.on("s3", "ListObjectsV2", {})
    aws.on("logs", "DescribeLogGroups", log_groups)
    aws.on("lambda", "ListFunctions", {"Functions": []})
    aws.on("cloudwatch", "ListDashboards", {"DashboardEntries": []})
    aws.on("iam", "ListRoles", {"Roles": [role("mtrl-dev-training-JobRole-x"), role("admin")],
                                "IsTruncated": False})  # fmt: skip
    aws.on("resourcegroupstaggingapi", "GetResources", {"ResourceTagMappingList": [
        {"ResourceARN": f"arn:aws:s3:::{BUCKET}"},
        {"ResourceARN": ARN.format("sns", "mtrl-dev-notices")}]})  # fmt: skip
    return aws


def runtime(name: str) -> dict[str, Any]:
    return {
        "agentRuntimeArn": ARN.format("bedrock-agentcore", f"runtime/{name}-0123456789"),
        "agentRuntimeId": f"{name}-0123456789",
        "agentRuntimeVersion": "4",
        "agentRuntimeName": name,
        "description": "agent",
        "lastUpdatedAt": MOMENT,
        "status": "READY",
    }


def group(name: str) -> dict[str, Any]:
    return {
        "ModelPackageGroupName": name,
        "ModelPackageGroupArn": ARN.format("sagemaker", f"model-package-group/{name}"),
        "CreationTime": MOMENT,
        "ModelPackageGroupStatus": "Completed",
    }


def package() -> dict[str, Any]:
    return {
        "ModelPackageArn": ARN.format("sagemaker", "model-package/mtrl-dev-models/1"),
        "CreationTime": MOMENT,
        "ModelPackageStatus": "Completed",
    }


def role(name: str) -> dict[str, Any]:
    return {
        "Path": "/",
        "RoleName": name,
        "RoleId": "AROA0123456789012345",
        "Arn": f"arn:aws:iam::111111111111:role/{name}",
        "CreateDate": MOMENT,
    }


def log_groups(params: dict[str, Any]) -> dict[str, Any]:
    start = params["logGroupNamePrefix"]
    if not start.startswith("/aws/bedrock-agentcore"):
        return {"logGroups": []}
    name = f"{start}0123456789-spec_1"
    return {"logGroups": [{"logGroupName": name, "storedBytes": 10 * GB}]}


def run(*options: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, ["leftovers", "--env", "dev", *options], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def found(*options: str, exit_code: int = 3) -> Any:
    result = run(*options, "--json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def test_what_is_left_is_listed_with_its_cost_and_nothing_of_another_deployment(
    account: Any,
) -> None:
    things = {(t["kind"], t["name"]): t for t in found()["things"]}
    assert set(things) == {
        ("runtime", "mtrl_dev-0123456789"),
        ("package group", "mtrl-dev-models"),
        ("MLflow App", "mtrl-dev-mlflow-app"),
        ("bucket", BUCKET),
        ("log group", "/aws/bedrock-agentcore/runtimes/mtrl_dev-0123456789-spec_1"),
        ("role", "mtrl-dev-training-JobRole-x"),
        ("tagged", "mtrl-dev-notices"),
    }
    assert things["bucket", BUCKET]["usd_month"] == pytest.approx(2.30)
    assert found()["usd_month"] == pytest.approx(2.30 + 0.30)
    assert things["MLflow App", "mtrl-dev-mlflow-app"]["usd_month"] is None


def test_before_the_stacks_are_destroyed_what_they_hold_is_theirs(account: Any) -> None:
    stack = {
        "StackName": "mtrl-dev-foundation", "StackStatus": "CREATE_COMPLETE",
        "CreationTime": MOMENT,
    }  # fmt: skip
    other = {**stack, "StackName": "mtrl-dev-2-foundation"}
    account.on("cloudformation", "DescribeStacks", {"Stacks": [stack, other]})
    member = {
        "LogicalResourceId": "Bucket", "PhysicalResourceId": BUCKET,
        "ResourceType": "AWS::S3::Bucket", "LastUpdatedTimestamp": MOMENT,
        "ResourceStatus": "CREATE_COMPLETE",
    }  # fmt: skip
    account.on("cloudformation", "ListStackResources", {"StackResourceSummaries": [member]})
    data = found()
    assert list(data["stacks"]) == ["mtrl-dev-foundation"]
    bucket = next(t for t in data["things"] if t["kind"] == "bucket")
    assert bucket["stack"] == "mtrl-dev-foundation"
    account.on("s3", "DeleteBucket", AssertionError("a stack's bucket is its own affair"))
    result = run("--delete", stdin="n\n" * 10)
    assert BUCKET not in "".join(line for line in result.output.splitlines() if "Delete" in line)
    assert "make destroy ENV=dev" in result.output


def test_each_thing_is_asked_for_once_and_removed_with_what_is_in_it(account: Any) -> None:
    for service, operation in [
        ("s3", "DeleteObjects"), ("s3", "DeleteBucket"), ("logs", "DeleteLogGroup"),
        ("sagemaker", "DeleteModelPackage"), ("sagemaker", "DeleteModelPackageGroup"),
        ("iam", "DeleteRolePolicy"), ("iam", "DetachRolePolicy"), ("iam", "DeleteRole"),
    ]:  # fmt: skip
        account.on(service, operation, {})
    control = "bedrock-agentcore-control"
    account.on(control, "ListAgentRuntimeEndpoints", {"runtimeEndpoints": [
        endpoint("DEFAULT"), endpoint("spec_1")]})  # fmt: skip
    account.on(control, "DeleteAgentRuntimeEndpoint", {"status": "DELETING"})
    account.on(control, "DeleteAgentRuntime", {"status": "DELETING"})
    account.on("sagemaker", "DeleteMlflowApp", {})
    account.on("iam", "ListRolePolicies", {"PolicyNames": ["Data"], "IsTruncated": False})
    account.on("iam", "ListAttachedRolePolicies", {"AttachedPolicies": [], "IsTruncated": False})
    result = run("--delete", stdin="y\n" * 6)
    assert result.output.count("? [y/N]") == 6
    assert result.exit_code == 3  # the tagged topic is not removed here
    (deleted,) = account.asked("DeleteObjects")
    assert {"Key": "b", "VersionId": "3"} in deleted["Delete"]["Objects"]
    assert [e["endpointName"] for e in account.asked("DeleteAgentRuntimeEndpoint")] == ["spec_1"]
    order = [name for _, name, _ in account.calls if name.startswith("Delete")]
    assert order.index("DeleteModelPackage") < order.index("DeleteModelPackageGroup")
    assert order.index("DeleteObjects") < order.index("DeleteBucket")
    assert order.index("DeleteRolePolicy") < order.index("DeleteRole")


def endpoint(name: str) -> dict[str, Any]:
    return {
        "name": name, "agentRuntimeEndpointArn": "arn", "agentRuntimeArn": "arn", "id": name,
        "status": "READY", "createdAt": MOMENT, "lastUpdatedAt": MOMENT,
    }  # fmt: skip


def test_what_is_declined_stays_and_is_no_success(account: Any) -> None:
    result = run("--delete", stdin="n\n" * 6)
    assert result.exit_code == 1
    assert not [name for _, name, _ in account.calls if name.startswith("Delete")]


def test_a_removal_that_aws_refuses_is_said_and_the_next_is_asked_for(account: Any) -> None:
    account.on("s3", "DeleteObjects", denied("DeleteObjects"))
    answers = "n\nn\nn\ny\nn\nn\n"
    result = run("--delete", stdin=answers)
    assert result.exit_code == 1
    assert "not removed: DeleteObjects is not permitted" in result.output
    assert result.output.count("? [y/N]") == 6


def test_what_may_not_be_looked_at_is_named_and_hides_nothing_else(account: Any) -> None:
    account.on("s3", "ListBuckets", denied("ListBuckets"))
    data = found(exit_code=1)
    assert "buckets: ListBuckets is not permitted" in data["not_looked_at"][0]
    assert {t["kind"] for t in data["things"]} >= {"runtime", "log group"}
    assert "not looked at" in run().output


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_the_terminal(
    account: Any, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mtrl.terminal.PIPE_WIDTH", width)
    lines = run().output.splitlines()
    assert max(map(len, lines)) <= width
    assert any("$2.60 a month and 2 of no known price" in line for line in lines)


def test_the_rehearsals_own_things_are_listed_and_removed(own_operator: Any) -> None:
    with own_operator() as operator:
        operator.monkeypatch.delenv("MTRL_DEPLOYMENT")
        where = ["--stack-prefix", "mtrl-rehearsal"]
        data = operator.data("leftovers", *where, exit_code=3)
        kinds = sorted(thing["kind"] for thing in data["things"])
        assert kinds == ["MLflow App", "package group", "package group"]
        assert "runtimes" in data["not_offered_here"]
        result = operator.run("leftovers", *where, "--delete", stdin="y\ny\ny\n")
        assert result.exit_code == 0, result.output
        after = operator.run("leftovers", *where)
        assert after.exit_code == 0 and "nothing of mtrl-rehearsal is left" in after.output
