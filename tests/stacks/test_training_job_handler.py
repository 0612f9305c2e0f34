"""The training job's custom resource, with real boto3 against a local service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from stacks.handlers import jobs
from stacks.handlers.checkpoints import CheckpointError
from stacks.handlers.training_job import (
    ROLE_WAIT_S,
    JobError,
    Outcome,
    Request,
    TrainingJob,
    parse_request,
)

GROUP = "arn:aws:sagemaker:us-east-1:000000000000:model-package-group/ckpt"
PLACEHOLDER = "mtrl-dev-training-Job-1ABCDEFGHIJKL"


def document(**hyperparameters: str) -> dict[str, Any]:
    return {
        "InputDataConfig": [{"ChannelName": "train"}],
        "ModelPackageConfig": {"IntermediateCheckpointModelPackageGroupArn": GROUP},
        "TrainingConfig": {"HyperParameters": {"max_steps": "20", **hyperparameters}},
    }


def request(run_id: str = "run-1", doc: dict[str, Any] | None = None) -> Request:
    return Request("mtrl-dev", run_id, doc or document(), "arn:aws:iam::000000000000:role/job",
                   {"mtrl:run-id": run_id}, early_watch_s=300)  # fmt: skip


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = time.time()
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def training(client: Callable[[str], Any], clock: Clock) -> TrainingJob:
    return TrainingJob(client("sagemaker"), clock.sleep, lambda: clock.now)


def test_the_same_create_event_twice_makes_one_job(training, sagemaker):
    first = training.create(request())
    second = training.create(request())
    assert first == second
    assert list(sagemaker.jobs) == [request().name]


def test_two_creates_at_once_meet_the_same_job(training, sagemaker):
    def other_wins(operation: str, body: dict[str, Any]) -> None:
        if operation == "CreateJob" and not sagemaker.jobs:
            sagemaker.add_job(body["JobName"])

    sagemaker.before = other_wins
    assert training.create(request()).physical_id == sagemaker.jobs[request().name]["JobArn"]


def test_the_job_carries_its_tags_and_a_document_in_one_spelling(training, sagemaker):
    training.create(request())
    body = next(body for operation, body in sagemaker.calls if operation == "CreateJob")
    assert body["Tags"] == [{"Key": "mtrl:run-id", "Value": "run-1"}]
    assert json.loads(body["JobConfigDocument"]) == document()


@pytest.mark.parametrize("status", ["Failed", "Stopped", "DeleteFailed"])
def test_what_a_broken_attempt_left_is_replaced_on_a_retried_deploy(training, sagemaker, status):
    sagemaker.add_job(request().name, status)
    training.create(request())
    assert sagemaker.jobs[request().name]["JobStatus"] == "InProgress"
    assert sagemaker.count("CreateJob") == 1


def test_a_finished_job_of_the_same_request_is_not_bought_again(training, sagemaker):
    sagemaker.add_job(request().name, "Completed")
    training.create(request())
    assert sagemaker.count("CreateJob") == 0


def test_a_fresh_role_is_waited_for(training, sagemaker, clock):
    sagemaker.refuse("CreateJob", "ValidationException", "unable to assume the role", times=2)
    training.create(request())
    assert request().name in sagemaker.jobs
    assert 0 < clock.slept < ROLE_WAIT_S


def test_a_role_that_never_works_is_reported_in_the_services_words(training, sagemaker, clock):
    sagemaker.refuse("CreateJob", "ValidationException", "cannot assume role")
    with pytest.raises(JobError, match="cannot assume role"):
        training.create(request())
    assert clock.slept >= ROLE_WAIT_S


def test_a_quota_error_names_the_jobs_that_hold_it_and_the_way_out(training, sagemaker, clock):
    sagemaker.add_job("other-team")
    sagemaker.refuse("CreateJob", "ResourceLimitExceeded", "limit of 1 job")
    with pytest.raises(JobError, match=r"limit of 1 job.*other-team.*Service Quotas"):
        training.create(request())
    assert clock.slept == 0


def test_a_changed_document_without_a_new_run_id_fails_with_the_difference(training, sagemaker):
    before = training.create(request()).physical_id
    changed = request(doc=document(learning_rate="0.1"))
    with pytest.raises(JobError, match=r"learning_rate: \(absent\) -> \"0.1\"") as raised:
        training.update(changed, request(), before)
    assert "run_id is still 'run-1'" in str(raised.value)
    assert sagemaker.count("CreateJob") == 1


def test_rolling_that_failure_back_is_allowed_and_changes_nothing(training, sagemaker):
    current = training.create(request()).physical_id
    attempted = request(doc=document(learning_rate="0.1"))
    outcome = training.update(request(), attempted, current)
    assert outcome == Outcome(current, remove=(attempted.name,))
    assert training.settled(outcome, 300)
    assert sagemaker.jobs[request().name]["JobStatus"] == "InProgress"


def test_a_new_run_id_submits_another_job_and_leaves_the_old_to_the_clean_up(training, sagemaker):
    current = training.create(request()).physical_id
    outcome = training.update(request("run-2"), request(), current)
    assert outcome.physical_id != current
    assert outcome.watch
    assert len(sagemaker.jobs) == 2


def test_a_rolled_back_replacement_stops_the_job_that_nobody_acknowledged(training, sagemaker):
    current = training.create(request()).physical_id
    training.update(request("run-2"), request(), current)
    outcome = training.update(request(), request("run-2"), current)
    assert outcome.physical_id == current
    assert sagemaker.jobs[request("run-2").name]["JobStatus"] == "Stopping"
    assert not training.settled(outcome, 300)
    sagemaker.jobs[request("run-2").name]["JobStatus"] = "Stopped"
    assert training.settled(outcome, 300)
    assert list(sagemaker.jobs) == [request().name]


def test_a_rollback_does_not_judge_the_health_of_an_old_job(training, sagemaker):
    sagemaker.add_job(request().name, "Failed", FailureReason="long ago")
    arn = sagemaker.jobs[request().name]["JobArn"]
    outcome = training.update(request(), request("run-2"), arn)
    assert training.settled(outcome, 300)


def test_other_properties_may_change_without_touching_the_job(training, sagemaker):
    current = training.create(request()).physical_id
    other_role = Request("mtrl-dev", "run-1", document(), "arn:other", {}, 0)
    assert training.update(other_role, request(), current) == Outcome(current)
    assert sagemaker.count("CreateJob") == 1


def test_an_early_failure_reports_the_reason_and_leaves_nothing(training, sagemaker):
    outcome = training.create(request())
    job = sagemaker.jobs[request().name]
    job.update(JobStatus="Failed", FailureReason="No sampling requests were received")
    with pytest.raises(JobError, match="No sampling requests were received"):
        training.settled(outcome, 300)
    assert sagemaker.jobs == {}


def test_a_new_job_is_watched_until_its_first_step_or_for_some_minutes(training, sagemaker, clock):
    outcome = training.create(request())
    assert not training.settled(outcome, 300)
    step = {"ServiceOutput": {"ProgressInfo": {"MaxSteps": 20, "CurrentStep": 1}}}
    job = sagemaker.jobs[request().name]
    quiet, job["JobConfigDocument"] = job["JobConfigDocument"], json.dumps(step)
    assert training.settled(outcome, 300)
    job["JobConfigDocument"] = quiet
    clock.sleep(301)
    assert training.settled(outcome, 300)


def test_delete_stops_waits_and_deletes(training, sagemaker):
    arn = training.create(request()).physical_id
    outcome = training.delete(arn, request())
    job = sagemaker.jobs[request().name]
    assert job["JobStatus"] == "Stopping"
    assert not training.settled(outcome, 0)
    job["JobStatus"] = "Stopped"
    assert training.settled(outcome, 0)
    assert sagemaker.jobs == {}


@pytest.mark.parametrize("status", ["Completed", "Failed", "Stopped"])
def test_delete_removes_a_finished_job_at_once(training, sagemaker, status):
    sagemaker.add_job(request().name, status)
    outcome = training.delete(sagemaker.jobs[request().name]["JobArn"], request())
    assert training.settled(outcome, 0)
    assert sagemaker.count("StopJob") == 0


@pytest.mark.parametrize("physical_id", [PLACEHOLDER, "could-not-create", "", "arn:aws:s3:::x"])
def test_delete_with_a_placeholder_id_and_no_job_is_done(training, sagemaker, physical_id):
    assert training.settled(training.delete(physical_id, request()), 0)
    assert training.settled(training.delete(physical_id, None), 0)


def test_delete_with_a_placeholder_id_finds_the_job_that_a_cut_off_create_made(training, sagemaker):
    training.create(request())
    outcome = training.delete(PLACEHOLDER, request())
    assert sagemaker.jobs[request().name]["JobStatus"] == "Stopping"
    assert outcome.physical_id == PLACEHOLDER


@pytest.mark.parametrize("status", ["Stopping", "Deleting"])
def test_delete_during_a_transition_waits(training, sagemaker, status):
    sagemaker.add_job(request().name, status)
    outcome = training.delete(sagemaker.jobs[request().name]["JobArn"], request())
    assert not training.settled(outcome, 0)
    assert sagemaker.count("StopJob") == 0
    del sagemaker.jobs[request().name]
    assert training.settled(outcome, 0)


def test_a_deletion_that_the_service_fails_is_said_and_can_be_tried_again(training, sagemaker):
    sagemaker.add_job(request().name, "DeleteFailed", FailureReason="packages in use")
    arn = sagemaker.jobs[request().name]["JobArn"]
    with pytest.raises(jobs.RemovalError, match="packages in use"):
        training.settled(Outcome(arn, remove=(request().name,)), 0)
    assert training.settled(training.delete(arn, request()), 0)


def test_a_job_that_ends_while_it_is_being_stopped_is_no_error(training, sagemaker):
    sagemaker.add_job(request().name)

    def ends(operation: str, body: dict[str, Any]) -> None:
        if operation == "StopJob":
            sagemaker.jobs[body["JobName"]]["JobStatus"] = "Completed"

    sagemaker.before = ends
    outcome = training.delete(sagemaker.jobs[request().name]["JobArn"], request())
    assert training.settled(outcome, 0)


def resuming(doc: dict[str, Any] | None = None) -> Request:
    wanted = doc or document()
    packages = {**wanted["ModelPackageConfig"], "InputModelPackageArn": "last"}
    return request("run-2", {**wanted, "ModelPackageConfig": packages})


def submitted_package(sagemaker: Any) -> str:
    body = next(body for operation, body in sagemaker.calls if operation == "CreateJob")
    return json.loads(body["JobConfigDocument"])["ModelPackageConfig"]["InputModelPackageArn"]


def test_resume_from_last_takes_the_newest_checkpoint_of_the_stopped_run(training, sagemaker):
    sagemaker.add_package("ckpt", 1, age_s=900)
    sagemaker.add_job("mtrl-dev-run-1-abc", "Stopped", document=document(),
                      CreationTime=time.time() - 600)  # fmt: skip
    sagemaker.add_package("ckpt", 2, age_s=300)
    newest = sagemaker.add_package("ckpt", 3, age_s=100)
    training.create(resuming())
    assert submitted_package(sagemaker) == newest


def test_resume_from_last_prefers_the_checkpoint_that_the_job_shows(training, sagemaker):
    arn = sagemaker.add_package("ckpt", 7)
    shown = {"ServiceOutput": {"ResumableCheckpoint": {"ModelPackageArn": arn}}}
    sagemaker.add_job("mtrl-dev-run-1-abc", "Failed", document={**document(), **shown})
    sagemaker.add_package("ckpt", 8)
    training.create(resuming())
    assert submitted_package(sagemaker) == arn


def test_resuming_twice_by_the_same_event_makes_one_job(training, sagemaker):
    sagemaker.add_job("mtrl-dev-run-1-abc", "Stopped", document=document())
    sagemaker.add_package("ckpt", 1)
    first = training.create(resuming())
    sagemaker.add_package("ckpt", 2)
    assert training.create(resuming()) == first


@pytest.mark.parametrize("status", ["InProgress", "Completed", "Stopping"])
def test_only_a_broken_run_is_resumed(training, sagemaker, status):
    sagemaker.add_job("mtrl-dev-run-1-abc", status, document=document())
    sagemaker.add_package("ckpt", 1)
    with pytest.raises(CheckpointError, match=f"mtrl-dev-run-1-abc is {status}"):
        training.create(resuming())


def test_a_resumed_run_must_have_the_settings_of_the_broken_one(training, sagemaker):
    sagemaker.add_job("mtrl-dev-run-1-abc", "Failed", document=document(lora_rank="16"))
    sagemaker.add_package("ckpt", 1)
    with pytest.raises(CheckpointError, match=r'lora_rank: "16" -> "32"'):
        training.create(resuming(document(lora_rank="32")))


def test_resume_from_last_without_a_checkpoint_says_so(training, sagemaker):
    sagemaker.add_job("mtrl-dev-run-1-abc", "Failed", document=document())
    with pytest.raises(CheckpointError, match="left no resumable checkpoint"):
        training.create(resuming())


def test_jobs_of_a_deployment_with_a_longer_name_are_not_its_predecessors(training, sagemaker):
    sagemaker.add_package("ckpt", 1)
    sagemaker.add_job("other-mtrl-dev-run-1", "Completed")
    training.create(resuming())
    assert sagemaker.count("CreateJob") == 1


def test_properties_are_read_from_the_strings_that_cloudformation_sends():
    parsed = parse_request(
        {"Prefix": "p", "RunId": "r", "Document": "{}", "RoleArn": "a", "EarlyWatchSeconds": "300"}
    )
    assert parsed == Request("p", "r", {}, "a", {}, 300.0)


def test_a_reason_too_long_for_cloudformation_is_cut_instead_of_hanging_the_stack():
    @jobs.answerable
    def on_event(event: Any, _context: object) -> dict[str, Any]:
        raise JobError("x" * event["length"])

    with pytest.raises(JobError, match=r"^x{1500}$"):
        on_event({"length": jobs.REASON_MAX}, None)
    with pytest.raises(jobs.HandlerError) as raised:
        on_event({"length": 100_000}, None)
    assert len(str(raised.value)) < 1_600
