"""`mtrl train` against a rehearsal service: submit, resume, iterate, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

LONG = ["--set", "max_steps=30", "--set", "max_epochs=30"]


@pytest.fixture(scope="module")
def broken() -> dict[str, str]:
    """The name of a stopped job, once one has been stopped in this module."""
    return {}


def stopped_job(operator: Any, broken: dict[str, str]) -> str:
    if "name" not in broken:
        name = operator.train("--run-id", "broken", *LONG)
        operator.until(name, lambda job: job.view.step >= 1)
        operator.data("stop", name, "--yes")
        broken["name"] = name
    return broken["name"]


def refused(operator: Any, *options: str) -> str:
    result = operator.run("train", "--skip-audit", "--skip-doctor", "--yes", *options)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output


def test_the_document_is_that_of_the_deployment_with_the_chosen_values(operator: Any) -> None:
    found = operator.data("train", "--dry-run", "--run-id", "r", "--set", "learning_rate=2e-5")
    document = found["document"]
    assert found["submitted"] is False
    assert document["TrainingConfig"]["HyperParameters"]["learning_rate"] == "2e-5"
    assert document["TrainingConfig"]["MlflowConfig"]["MlflowRunName"] == "mtrl-test-r"
    assert document["AgentConfig"]["BedrockAgentCoreConfig"]["Qualifier"] == "rehearsal"
    assert found["name"].startswith("mtrl-test-r-")
    assert operator.data("jobs", "--prefix", found["name"])["jobs"] == []


def test_the_same_order_twice_is_one_job(operator: Any) -> None:
    options = ["train", "--skip-audit", "--skip-doctor", "--yes", "--run-id", "twice"]
    first = operator.data(*options, "--set", "max_steps=1")
    second = operator.data(*options, "--set", "max_steps=1")
    assert (first["submitted"], second["submitted"]) == (True, False)
    assert first["name"] == second["name"]
    operator.finished(first["name"])


def test_it_asks_before_it_spends(operator: Any) -> None:
    options = ["train", "--skip-audit", "--skip-doctor", "--run-id", "asked"]
    result = operator.run(*options, stdin="n\n")
    assert result.exit_code == 1 and "Submit?" in result.output
    assert operator.data("jobs", "--prefix", "mtrl-test-asked")["jobs"] == []


def test_a_failing_audit_stops_it_and_can_be_overridden(operator: Any) -> None:
    report = {"ok": False, "findings": [{"message": "a loss pays more than a win"}]}
    operator.monkeypatch.setattr("mtrl.train.gates.audit_report", lambda *_: report)
    result = operator.run("train", "--skip-doctor", "--yes", "--run-id", "audited")
    assert result.exit_code == 1
    assert "a loss pays more than a win" in result.output and "--skip-audit" in result.output
    assert operator.data("jobs", "--prefix", "mtrl-test-audited")["jobs"] == []


def test_a_failing_doctor_stops_it_and_says_what_to_mend(operator: Any) -> None:
    record = operator.record(mlflow_app_arn=operator.environment.mlflow_arn + "-gone")
    operator.write("deployment/outputs.json", json.dumps(record).encode())
    result = operator.run("train", "--skip-audit", "--yes", "--run-id", "ill")
    assert result.exit_code == 1
    assert "mlflow-app" in result.output and "npx cdk deploy" in result.output
    assert "--skip-doctor" in result.output


@pytest.mark.slow
def test_both_gates_are_passed_by_what_is_committed(operator: Any) -> None:
    result = operator.run("train", "--yes", "--run-id", "gated", "--set", "max_steps=1")
    assert result.exit_code == 0, result.output
    assert (
        "audit of task wordle" in result.output and "mtrl watch mtrl-test-gated-" in result.output
    )


def test_a_budget_travels_with_the_job(operator: Any) -> None:
    found = operator.data("train", "--dry-run", "--max-cost", "12.50")
    assert found["tags"]["mtrl:max-cost-usd"] == "12.5"


def test_a_budget_needs_a_price(operator: Any) -> None:
    operator.write("deployment/outputs.json", json.dumps(operator.record(model="mine")).encode())
    assert "no token price" in refused(operator, "--max-cost", "5")


def test_a_stopped_job_goes_on_at_its_last_checkpoint(operator: Any, broken: Any) -> None:
    name = stopped_job(operator, broken)
    done = operator.data("jobs", "--prefix", name)["jobs"][0]["step"]
    resumed = operator.train("--resume", name, "--run-id", "resumed", *LONG)
    job = operator.until(resumed, lambda job: job.view.step > 0)
    assert job.view.step >= done
    assert "InputModelPackageArn" in job.document["ModelPackageConfig"]
    operator.data("stop", resumed, "--yes")


def test_resume_alone_means_the_newest_job_of_the_deployment(operator: Any, broken: Any) -> None:
    stopped_job(operator, broken)
    newest = operator.data("jobs", "--prefix", "mtrl-test-", "--limit", "1")["jobs"][0]
    found = operator.run("train", "--dry-run", *LONG, "--resume")
    assert newest["name"] in found.output


def test_what_the_service_would_refuse_is_refused_by_name(operator: Any, broken: Any) -> None:
    name = stopped_job(operator, broken)
    changed = ["--set", "learning_rate=1e-3", "--set", "lora_rank=16"]
    text = refused(operator, "--resume", name, *LONG, *changed)
    assert "hyperparameter learning_rate: 4e-05 -> 0.001" in text
    assert "LoRA lora_rank: 32 -> 16" in text
    record = operator.record(
        base_model_arn=operator.environment.model_arn("another"),
        train_uri=f"s3://{operator.record()['bucket']}/datasets/other.jsonl",
    )
    operator.write("deployment/outputs.json", json.dumps(record).encode())
    text = refused(operator, "--resume", name, *LONG)
    assert "base model: openai-reasoning-gpt-oss-20b -> another" in text
    assert "data train: " in text and "other.jsonl" in text


def test_a_version_at_the_end_of_the_models_arn_is_no_change(operator: Any, broken: Any) -> None:
    name = stopped_job(operator, broken)
    arn = operator.environment.model_arn() + "/1.0.0"
    record = json.dumps(operator.record(base_model_arn=arn)).encode()
    operator.write("deployment/outputs.json", record)
    assert operator.run("train", "--dry-run", "--resume", name, *LONG).exit_code == 0


def test_a_model_of_another_base_is_refused(operator: Any, broken: Any) -> None:
    name = stopped_job(operator, broken)
    record = operator.record(base_model_arn=operator.environment.model_arn("another"))
    operator.write("deployment/outputs.json", json.dumps(record).encode())
    assert "its base model is openai-reasoning-gpt-oss-20b" in refused(operator, "--from", name)


def test_the_service_agrees_with_what_is_refused(operator: Any, broken: Any) -> None:
    name = stopped_job(operator, broken)
    checkpoint = operator.data("jobs", "--prefix", name)["jobs"][0]["checkpoint"]
    document = operator.data("train", "--dry-run", *LONG, "--set", "lora_rank=16")["document"]
    document["ModelPackageConfig"]["InputModelPackageArn"] = checkpoint
    with pytest.raises(Exception, match="lora_rank"):
        operator.parts.client("sagemaker").create_job(
            JobName="refused",
            JobCategory="AgentRFT",
            RoleArn=operator.environment.role_arn,
            JobConfigSchemaVersion="1.0.0",
            JobConfigDocument=json.dumps(document),
        )


def test_as_before_takes_the_jobs_own_values(operator: Any, broken: Any) -> None:
    name = stopped_job(operator, broken)
    found = operator.data("train", "--dry-run", "--resume", name, "--as-before")
    assert found["document"]["TrainingConfig"]["HyperParameters"]["max_steps"] == "30"


def test_rows_that_were_changed_since_are_refused_and_equal_ones_are_not(
    operator: Any, broken: Any, aws: Any
) -> None:
    name = stopped_job(operator, broken)
    job = operator.until(name, lambda job: True)
    s3 = operator.parts.client("s3")
    bucket, key = operator.record()["bucket"], "datasets/train.jsonl"
    operator.write(key, s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    etag = s3.head_object(Bucket=bucket, Key=key)["ETag"]

    def versions(found: str) -> dict[str, Any]:
        return {"Versions": [{"Key": key, "ETag": found, "LastModified": job.created}]}

    resume = ["--resume", name, *LONG]
    aws.on("s3", "ListObjectVersions", versions('"other"'))
    assert "data train: s3://" in refused(operator, *resume)
    aws.on("s3", "ListObjectVersions", versions(etag))
    assert operator.run("train", "--dry-run", *resume).exit_code == 0
    aws.on("s3", "ListObjectVersions", {})
    unsure = operator.run("train", "--dry-run", *resume)
    assert unsure.exit_code == 0 and "the service refuses the job if" in unsure.stderr


def test_a_finished_or_running_job_is_not_resumed(operator: Any) -> None:
    name = operator.train("--run-id", "whole", "--set", "max_steps=1")
    operator.finished(name)
    assert f"mtrl train --from {name}" in refused(operator, "--resume", name)
    running = operator.train("--run-id", "running", *LONG)
    assert f"mtrl stop {running}" in refused(operator, "--resume", running)
    operator.data("stop", running, "--yes")


def test_a_new_run_starts_from_a_trained_model(operator: Any) -> None:
    name = operator.train("--run-id", "first", "--set", "max_steps=1")
    first = operator.finished(name)
    found = operator.data("train", "--dry-run", "--from", name, "--set", "learning_rate=1e-3")
    assert found["document"]["ModelPackageConfig"]["InputModelPackageArn"] == first.package
    by_arn = operator.data("train", "--dry-run", "--from", first.package)
    assert by_arn["document"]["ModelPackageConfig"]["InputModelPackageArn"] == first.package


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--resume", "x", "--from", "y"], "exclude each other"),
        (["--as-before"], "--as-before"),
        (["--resume", "nobody"], "'nobody'"),
        (["--from", "nobody"], "'nobody'"),
        (["--from", "arn:aws:sagemaker:us-east-1:0:model-package/none/1"], "no such package"),
        (["--set", "group_size=99"], "group_size"),
        (["--set", "grupp_size=9"], "grupp_size"),
        (["--max-cost", "0"], "--max-cost"),
        (["--rehearsal", "nowhere"], "nowhere"),
        (["--deployment", "s3://mtrl-rehearsal/none.json"], "none.json"),
        (["--deployment", "nowhere.json"], "nowhere.json"),
    ],
)
def test_what_cannot_be_submitted_is_named(operator: Any, options: list[str], named: str) -> None:
    assert named in refused(operator, *options)


def test_a_checkpoint_is_not_taken_for_a_model(operator: Any, broken: Any) -> None:
    name = stopped_job(operator, broken)
    checkpoint = operator.data("jobs", "--prefix", name)["jobs"][0]["checkpoint"]
    assert "resumable checkpoint" in refused(operator, "--from", checkpoint)


def test_the_licence_has_to_be_accepted_by_somebody(operator: Any) -> None:
    record = operator.record(accept_eula="false")
    operator.write("deployment/outputs.json", json.dumps(record).encode())
    assert "--accept-eula" in refused(operator, "--run-id", "eula")
    found = operator.data("train", "--dry-run", "--accept-eula")
    assert found["document"]["TrainingConfig"]["AcceptEula"] is True


def test_a_record_that_lacks_something_is_named_by_its_key(operator: Any) -> None:
    record = operator.record()
    del record["runtime_arn"]
    operator.write("deployment/outputs.json", json.dumps(record).encode())
    assert "runtime_arn" in refused(operator)


def test_a_used_up_quota_names_the_job_that_holds_it(operator: Any, aws: Any) -> None:
    from botocore.exceptions import ClientError

    error = {"Error": {"Code": "ResourceLimitExceeded", "Message": "limit of 1 reached"}}
    running = operator.train("--run-id", "holding", *LONG)
    aws.on("sagemaker", "CreateJob", ClientError(error, "CreateJob"))
    options = ["train", "--skip-audit", "--skip-doctor", "--yes", "--run-id", "waiting"]
    result = operator.run(*options)
    assert result.exit_code == 1
    assert running in result.output and "mtrl stop" in result.output
    operator.parts.client("sagemaker").stop_job(JobName=running, JobCategory="AgentRFT")
