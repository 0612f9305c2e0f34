"""The job API as boto3 sees it: what CreateJob refuses, and how a job lives and ends."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError


def refusal(cloud: Any, document: dict[str, Any], **request: str) -> str:
    members = {
        "JobName": "refused",
        "JobCategory": "AgentRFT",
        "RoleArn": cloud.environment.role_arn,
        "JobConfigSchemaVersion": "1.0.0",
        "JobConfigDocument": json.dumps(document),
    } | request
    with pytest.raises(ClientError) as caught:
        cloud.sagemaker.create_job(**members)
    with pytest.raises(ClientError):
        cloud.view("refused")
    return caught.value.response["Error"]["Message"]


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the document with one key set, or removed when the value is None."""
    copied = copy.deepcopy(document)
    *parents, last = path.split(".")
    place: Any = copied
    for key in parents:
        place = place[int(key)] if key.isdigit() else place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return copied


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("TrainingConfig.HyperParameters.group_size", "99", "HyperParameters.group_size"),
        ("TrainingConfig.HyperParameters.grupp_size", "8", "HyperParameters.grupp_size"),
        ("TrainingConfig.HyperParameters.temperature", 1.0, "must be a string"),
        ("TrainingConfig.HyperParameters.global_batch_size", "48", "32, 64, 128"),
        ("TrainingConfig.MlflowConfig", None, "MlflowConfig is required"),
        ("TrainingConfig.AcceptEula", False, "TrainingConfig.AcceptEula"),
        ("TrainingConfig.Recipe", "x", "TrainingConfig.Recipe: unknown key"),
        ("InputDataConfig", [], "InputDataConfig"),
        ("InputDataConfig.0.ChannelName", "test", "ChannelName"),
        ("OutputDataConfig.S3OutputPath", "/tmp/x", "S3OutputPath"),
        (
            "AgentConfig.BedrockAgentCoreConfig.AgentRuntimeArn",
            "arn:aws:bedrock-agentcore:us-west-2:000000000000:runtime/x",
            "lies in us-west-2",
        ),
        (
            "TrainingConfig.BaseModelArn",
            "arn:aws:sagemaker:us-east-1:aws:hub-content/SageMakerPublicHub/Model/llama",
            "no known base model",
        ),
        (
            "TrainingConfig.BaseModelArn",
            "arn:aws:sagemaker:us-east-1:aws:hub-content/SageMakerPublicHub/Model/rehearsal-solver",
            "measured, not trained",
        ),
        (
            "ModelPackageConfig.OutputModelPackageGroupArn",
            "arn:aws:sagemaker:us-east-1:000000000000:model-package-group/nowhere",
            "OutputModelPackageGroupArn",
        ),
        (
            "ModelPackageConfig.InputModelPackageArn",
            "arn:aws:sagemaker:us-east-1:000000000000:model-package/nowhere/1",
            "InputModelPackageArn",
        ),
    ],
)
def test_a_document_that_the_service_would_refuse_is_refused_by_its_key(
    cloud: Any, path: str, value: Any, named: str
) -> None:
    document = cloud.training("s3://mtrl-rehearsal/any.jsonl")
    assert named in refusal(cloud, changed(document, path, value))


def test_the_two_package_groups_must_differ(cloud: Any) -> None:
    document = cloud.training("s3://mtrl-rehearsal/any.jsonl")
    packages = document["ModelPackageConfig"]
    same = packages["OutputModelPackageGroupArn"]
    path = "ModelPackageConfig.IntermediateCheckpointModelPackageGroupArn"
    assert "must differ" in refusal(cloud, changed(document, path, same))


@pytest.mark.parametrize(
    ("member", "value", "named"),
    [
        ("JobConfigDocument", "{not json", "not JSON"),
        ("JobConfigDocument", "[]", "must be a JSON object"),
        ("JobConfigSchemaVersion", "9.9.9", "JobConfigSchemaVersion"),
        ("RoleArn", "arn:aws:iam::000000000000:user/someone", "RoleArn"),
        ("JobName", "-starts-badly", "JobName"),
    ],
)
def test_a_request_member_out_of_form_is_named(
    cloud: Any, member: str, value: str, named: str
) -> None:
    assert named in refusal(cloud, cloud.training("s3://b-b/x.jsonl"), **{member: value})


def test_missing_rows_fail_the_job_with_a_reason(cloud: Any) -> None:
    cloud.create("no-rows", cloud.training("s3://mtrl-rehearsal/nothing.jsonl"))
    view = cloud.finish("no-rows")
    assert (view.status, view.step) == ("Failed", 0)
    assert "no object under s3://mtrl-rehearsal/nothing.jsonl" in view.failure_reason


def test_a_row_that_the_agent_cannot_read_fails_the_job_as_on_the_service(cloud: Any) -> None:
    row = json.dumps({"prompt": json.dumps({"prompt": "Play.", "id": "x"})})
    body = "\n".join([row] * 32).encode()
    cloud.s3.put_object(Bucket="mtrl-rehearsal", Key="bad.jsonl", Body=body)
    cloud.create("bad-rows", cloud.training("s3://mtrl-rehearsal/bad.jsonl"))
    view = cloud.finish("bad-rows")
    assert view.status == "Failed"
    assert view.failure_reason.startswith("No sampling requests were received")
    assert "answer" in view.failure_reason


def test_a_data_set_smaller_than_a_batch_fails_the_job(cloud: Any) -> None:
    cloud.create("too-few", cloud.training(cloud.put_rows("few.jsonl", "train", 5)))
    assert "fewer than one batch" in cloud.finish("too-few").failure_reason


def test_jobs_are_listed_by_page_and_by_status_and_deleted_once_over(cloud: Any) -> None:
    for name in ("list-a", "list-b", "list-c"):
        cloud.create(name, cloud.training("s3://mtrl-rehearsal/nothing.jsonl"))
        cloud.finish(name)
    first = cloud.sagemaker.list_jobs(JobCategory="AgentRFT", NameContains="list-", MaxResults=2)
    rest = cloud.sagemaker.list_jobs(
        JobCategory="AgentRFT", NameContains="list-", NextToken=first["NextToken"]
    )
    names = [job["JobName"] for page in (first, rest) for job in page["JobSummaries"]]
    assert sorted(names) == ["list-a", "list-b", "list-c"]
    assert not cloud.sagemaker.list_jobs(
        JobCategory="AgentRFT", NameContains="list-", StatusEquals="Completed"
    )["JobSummaries"]
    cloud.sagemaker.delete_job(JobName="list-a", JobCategory="AgentRFT")
    with pytest.raises(cloud.sagemaker.exceptions.ResourceNotFound):
        cloud.view("list-a")


def test_a_taken_name_is_refused_and_the_first_job_stays(cloud: Any) -> None:
    document = cloud.training("s3://mtrl-rehearsal/nothing.jsonl")
    cloud.create("taken", document)
    with pytest.raises(cloud.sagemaker.exceptions.ResourceInUse, match="already exists"):
        cloud.create("taken", document)
    assert cloud.finish("taken").status == "Failed"


def test_one_evaluation_runs_at_a_time(cloud: Any) -> None:
    rows = cloud.put_rows("eval.jsonl", "validation", 40)
    cloud.create("eval-1", cloud.evaluation(rows), "AgentRFTEvaluation")
    with pytest.raises(cloud.sagemaker.exceptions.ResourceLimitExceeded, match="eval-1"):
        cloud.create("eval-2", cloud.evaluation(rows), "AgentRFTEvaluation")
    with pytest.raises(cloud.sagemaker.exceptions.ResourceInUse):
        cloud.sagemaker.delete_job(JobName="eval-1", JobCategory="AgentRFTEvaluation")
    view = cloud.finish("eval-1", "AgentRFTEvaluation")
    assert view.status == "Completed"
    assert view.output["RolloutInfo"]["SucceededRollouts"] == 40
    assert "eval/reward/pass_at_1" in view.output["EvaluationMetrics"]


def test_the_solver_beats_every_word_it_can(cloud: Any) -> None:
    rows = cloud.put_rows("solve.jsonl", "validation", 40)
    document = cloud.evaluation(rows, "rehearsal-solver")
    cloud.create("solver", document, "AgentRFTEvaluation")
    metrics = cloud.finish("solver", "AgentRFTEvaluation").output["EvaluationMetrics"]
    assert metrics["eval/reward/pass_at_1"] >= 0.97
    assert 3 <= metrics["eval/turns/mean"] <= 4.2


def test_schema_versions_describe_both_categories(cloud: Any) -> None:
    for category in ("AgentRFT", "AgentRFTEvaluation"):
        listed = cloud.sagemaker.list_job_schema_versions(JobCategory=category)
        version = listed["JobConfigSchemas"][0]["JobConfigSchemaVersion"]
        schema = cloud.sagemaker.describe_job_schema_version(
            JobCategory=category, JobConfigSchemaVersion=version
        )
        assert "AgentConfig" in json.loads(schema["JobConfigSchema"])["properties"]


def test_groups_with_packages_cannot_be_deleted_and_empty_ones_can(cloud: Any) -> None:
    sagemaker = cloud.sagemaker
    sagemaker.create_model_package_group(ModelPackageGroupName="to-go")
    sagemaker.delete_model_package_group(ModelPackageGroupName="to-go")
    listed = sagemaker.list_model_package_groups(NameContains="to-go")
    assert listed["ModelPackageGroupSummaryList"] == []
