"""A whole training job with the real agent: what it records, resumes, refuses and repeats."""

from __future__ import annotations

import json
from typing import Any

import mlflow
import pytest
from botocore.exceptions import ClientError

STEPS = 2


@pytest.fixture(scope="module")
def trained(cloud: Any) -> Any:
    """A finished job of two steps with validation."""
    document = cloud.training(cloud.put_rows("train.jsonl", "train", 64), max_steps=str(STEPS))
    source = {"S3DataType": "S3Prefix", "S3Uri": cloud.put_rows("val.jsonl", "validation", 16)}
    document["InputDataConfig"].append(
        {"ChannelName": "validation", "DataSource": {"S3DataSource": source}}
    )
    cloud.create("trained", document)
    return document, cloud.finish("trained")


def packages_of(cloud: Any, group_arn: str) -> list[dict[str, Any]]:
    name = group_arn.rsplit("/", 1)[-1]
    listed = cloud.sagemaker.list_model_packages(ModelPackageGroupName=name)
    return listed["ModelPackageSummaryList"]


def test_a_job_completes_with_progress_tokens_and_an_output_package(trained: Any) -> None:
    _, view = trained
    assert (view.status, view.step, view.total_steps) == ("Completed", STEPS, STEPS)
    assert view.tokens.prefill > view.tokens.sample > 0
    # Validation is read and written, but not trained on.
    assert 0 < view.tokens.train < view.tokens.prefill + view.tokens.sample
    assert view.output["OutputModelPackageArn"] == view.output["ModelCheckpoint"]["ModelPackageArn"]


def test_every_step_leaves_a_checkpoint_and_an_adapter(cloud: Any, trained: Any) -> None:
    document, _ = trained
    groups = document["ModelPackageConfig"]
    for key in ("OutputModelPackageGroupArn", "IntermediateCheckpointModelPackageGroupArn"):
        found = packages_of(cloud, groups[key])
        descriptions = [p["ModelPackageDescription"] for p in found]
        for step in range(1, STEPS + 1):
            assert f"trained, step {step}" in descriptions


def test_billed_tokens_are_those_of_the_recorded_rollouts(cloud: Any, trained: Any) -> None:
    _, view = trained
    train = [line for step in (1, 2) for line in cloud.traces("trained", f"train-{step:05d}")]
    val = [line for step in (0, 2) for line in cloud.traces("trained", f"val-{step:05d}")]
    assert view.tokens.prefill == sum(line["prefill_tokens"] for line in train + val)
    assert view.tokens.sample == sum(line["sample_tokens"] for line in train + val)
    assert view.tokens.train == sum(
        line["prefill_tokens"] + line["sample_tokens"] for line in train
    )


def test_the_agent_counts_the_same_tokens_as_the_service(cloud: Any, trained: Any) -> None:
    for line in cloud.traces("trained", "train-00001"):
        turns = line["trace"]["turns"]
        assert sum(turn["prefill_tokens"] for turn in turns) == line["prefill_tokens"]
        assert sum(turn["sample_tokens"] for turn in turns) == line["sample_tokens"]


def test_a_group_plays_one_row_and_its_members_differ(cloud: Any, trained: Any) -> None:
    lines = cloud.traces("trained", "train-00001")
    assert len(lines) == 64
    groups: dict[int, list[Any]] = {}
    for line in lines:
        groups.setdefault(line["row"], []).append(line["trace"])
    assert all(len(group) == 2 for group in groups.values())
    assert all(len({trace["row_id"] for trace in group}) == 1 for group in groups.values())
    openers = [
        tuple(trace["summary"]["guesses"][0]["word"] for trace in group)
        for group in groups.values()
        if all(trace["summary"]["guesses"] for trace in group)
    ]
    assert any(first != second for first, second in openers)


def test_no_trace_of_a_lost_game_holds_its_answer(cloud: Any, trained: Any) -> None:
    rows = cloud.s3.get_object(Bucket="mtrl-rehearsal", Key="train.jsonl")["Body"].read()
    prompts = [json.loads(json.loads(line)["prompt"]) for line in rows.splitlines()]
    answers = {row["id"]: row["answer"] for row in prompts}
    for line in cloud.traces("trained", "train-00001"):
        trace = line["trace"]
        if not trace["summary"]["solved"]:
            played = " ".join(guess["word"] for guess in trace["summary"]["guesses"])
            text = json.dumps(trace).lower()
            answer = answers[trace["row_id"]]
            assert answer not in played
            assert f'"{answer}"' not in text
            assert f" {answer} " not in text


def test_metrics_reach_a_real_mlflow_store_under_the_services_names(
    cloud: Any, trained: Any
) -> None:
    _, view = trained
    url = cloud.sagemaker.create_presigned_mlflow_app_url(Arn=cloud.environment.mlflow_arn)
    client = mlflow.MlflowClient(url["AuthorizedUrl"])
    run = client.get_run(view.output["MlflowDetails"]["RunId"])
    assert run.info.status == "FINISHED"
    assert run.data.params["group_size"] == "2"
    for name in (
        "rollout/reward/mean",
        "rollout/turns/mean",
        "rollout/tokens/response_mean",
        "rollout/logprob/nz_mean",
        "rollout/advantage/n_positive",
        "analysis/zero_adv_groups",
        "training/total_tokens",
        "timing_s/step",
        "val/reward/mean",
        "val/reward/pass_at_1",
    ):
        assert name in run.data.metrics, name
    steps = [m.step for m in client.get_metric_history(run.info.run_id, "rollout/reward/mean")]
    assert steps == [1, 2]
    validated = [m.step for m in client.get_metric_history(run.info.run_id, "val/reward/mean")]
    assert validated == [0, 2]


def test_the_adapter_says_what_was_learned(cloud: Any, trained: Any) -> None:
    _, view = trained
    package = cloud.sagemaker.describe_model_package(
        ModelPackageName=view.output["OutputModelPackageArn"]
    )
    container = package["InferenceSpecification"]["Containers"][0]
    uri = container["ModelDataSource"]["S3DataSource"]["S3Uri"]
    key = uri.removeprefix("s3://mtrl-rehearsal/") + "behaviours.json"
    learned = json.loads(cloud.s3.get_object(Bucket="mtrl-rehearsal", Key=key)["Body"].read())
    assert {item["behaviour"] for item in learned} >= {"fits_all_clues", "writes_text"}
    assert all(item["before"] != item["after"] for item in learned)


def test_a_checkpoint_with_changed_settings_is_refused_by_name(cloud: Any, trained: Any) -> None:
    document, view = trained
    changed = json.loads(json.dumps(document))
    changed["TrainingConfig"]["HyperParameters"]["learning_rate"] = "1e-5"
    checkpoint = view.output["ResumableCheckpoint"]["ModelPackageArn"]
    changed["ModelPackageConfig"]["InputModelPackageArn"] = checkpoint
    with pytest.raises(ClientError, match="learning_rate"):
        cloud.create("resume-changed", changed)


def test_an_output_package_starts_afresh_from_its_weights(cloud: Any, trained: Any) -> None:
    document, view = trained
    iterated = json.loads(json.dumps(document))
    iterated["TrainingConfig"]["HyperParameters"] |= {"learning_rate": "1e-5", "max_steps": "1"}
    iterated["ModelPackageConfig"]["InputModelPackageArn"] = view.output["OutputModelPackageArn"]
    cloud.create("iterated", iterated)
    again = cloud.finish("iterated")
    assert (again.status, again.step, again.total_steps) == ("Completed", 1, 1)


def rewards(cloud: Any, job: str, step: int) -> list[float]:
    return [line["reward"] for line in cloud.traces(job, f"train-{step:05d}")]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_curve_whatever_the_concurrency(start_cloud: Any) -> None:
    curves = []
    for name, seed, concurrency in (("narrow", 3, 2), ("wide", 3, 32), ("other", 4, 32)):
        with start_cloud(name, seed, concurrency) as cloud:
            rows = cloud.put_rows("train.jsonl", "train", 64)
            cloud.create("curve", cloud.training(rows, max_steps="2"))
            assert cloud.finish("curve").status == "Completed"
            curves.append([rewards(cloud, "curve", step) for step in (1, 2)])
    assert curves[0] == curves[1]
    assert curves[1] != curves[2]


@pytest.mark.slow
def test_a_killed_service_goes_on_after_its_last_recorded_step(start_cloud: Any) -> None:
    with start_cloud("whole") as cloud:
        rows = cloud.put_rows("train.jsonl", "train", 128)
        cloud.create("job", cloud.training(rows, max_steps="4"))
        assert cloud.finish("job").status == "Completed"
        unbroken = [rewards(cloud, "job", step) for step in (1, 2, 3, 4)]
    with start_cloud("broken") as cloud:
        rows = cloud.put_rows("train.jsonl", "train", 128)
        cloud.create("job", cloud.training(rows, max_steps="4"))
        cloud.until("job", lambda view: view.step >= 2)
        cloud.parts.service.kill()
    with start_cloud("broken") as cloud:
        view = cloud.finish("job")
        assert (view.status, view.step) == ("Completed", 4)
        assert [rewards(cloud, "job", step) for step in (1, 2, 3, 4)] == unbroken


@pytest.mark.slow
def test_a_stopped_job_keeps_its_steps_and_resumes_at_the_next_one(start_cloud: Any) -> None:
    with start_cloud("whole") as cloud:
        document = cloud.training(cloud.put_rows("train.jsonl", "train", 128), max_steps="4")
        cloud.create("whole", document)
        cloud.finish("whole")
        unbroken = [rewards(cloud, "whole", step) for step in (1, 2, 3, 4)]
        cloud.create("first", document)
        cloud.until("first", lambda view: view.step >= 1)
        cloud.sagemaker.stop_job(JobName="first", JobCategory="AgentRFT")
        stopped = cloud.finish("first")
        assert stopped.status == "Stopped"
        assert 1 <= stopped.step < 4
        assert "OutputModelPackageArn" in stopped.output
        with pytest.raises(ClientError, match="only a running job"):
            cloud.sagemaker.stop_job(JobName="first", JobCategory="AgentRFT")
        checkpoint = stopped.output["ResumableCheckpoint"]["ModelPackageArn"]
        document["ModelPackageConfig"]["InputModelPackageArn"] = checkpoint
        cloud.create("second", document)
        resumed = cloud.finish("second")
        assert (resumed.status, resumed.step) == ("Completed", 4)
        later = range(stopped.step + 1, 5)
        assert [rewards(cloud, "second", s) for s in later] == unbroken[stopped.step :]
