"""The real CDK CLI against the local cloud: one account's life, from bootstrap to nothing left.

The tests are chapters of one story and run in their order; each says what it proves. A proxy in
front of the service lets a chapter refuse a call.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from rehearsal.local_cloud.cloud import CdkFailed, LocalCloud
from rehearsal.local_cloud.inventory import inventory

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = "mtrl_local"
LONG = {"training__hyperparameters__max_steps": 400, "training__hyperparameters__max_epochs": 30}
WAIT_S = 240


class Proxy(ThreadingHTTPServer):
    """Passes SageMaker calls on, unless `refusals` holds an answer for the operation.

    A stopped job is described as still stopping `lingering` times, as the service's own, which
    have checkpoints to promote, are for minutes.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = 0
        self.refusals: dict[str, tuple[str, str]] = {}
        self.lingering = 0


class _Passing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        proxy = cast(Proxy, self.server)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        operation = self.headers.get("X-Amz-Target", "").split(".")[-1]
        if operation in proxy.refusals:
            code, message = proxy.refusals[operation]
            self._send(400, json.dumps({"__type": code, "message": message}).encode())
            return
        headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
        url = f"http://127.0.0.1:{proxy.target}{self.path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
                said = answer.read()
            if operation == "DescribeJob" and proxy.lingering and b'"Stopped"' in said:
                proxy.lingering -= 1
                said = json.dumps({**json.loads(said), "JobStatus": "Stopping"}).encode()
            self._send(200, said)
        except urllib.error.HTTPError as error:
            self._send(error.code, error.read())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    server = Proxy()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def cloud(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    folder = tmp_path_factory.mktemp("cloud")
    local = LocalCloud(ROOT, folder, sagemaker_port=proxy.server_address[1])
    local.start()
    proxy.target = local.ports.rehearsal
    yield local
    local.stop()


@pytest.fixture(scope="module")
def bad_rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset that passes every check before a job and that the agent cannot play."""
    path = tmp_path_factory.mktemp("rows") / "train.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"no game {n}"}) + "\n" for n in range(64)))
    return str(path)


class Account:
    """What the chapters do and look at."""

    def __init__(self, cloud: LocalCloud, synth: Callable[..., Any]) -> None:
        self.cloud = cloud
        self._synth = synth
        self.sagemaker = cloud.client("sagemaker")

    def deploy(self, stack: str = "", **changes: Any) -> str:
        app = self._synth("local", **changes).folder
        what = [f"mtrl-local-{stack}", "--exclusively"] if stack else ["--all"]
        return self.cloud.cdk("deploy", *what, "--require-approval", "never",
                              "--progress", "events", app=app, show=lambda line: None)  # fmt: skip

    def refused(self, stack: str, **changes: Any) -> str:
        """Deploy something that must fail; return what the CLI printed, in one line."""
        with pytest.raises(CdkFailed) as raised:
            self.deploy(stack, **changes)
        return " ".join(raised.value.output.split())

    def status(self, stack: str) -> str:
        described = self.cloud.client("cloudformation").describe_stacks(
            StackName=f"mtrl-local-{stack}"
        )
        return described["Stacks"][0]["StackStatus"]

    def jobs(self) -> dict[str, str]:
        found = self.sagemaker.list_jobs(JobCategory="AgentRFT")["JobSummaries"]
        return {job["JobName"]: job["JobStatus"] for job in found}

    def wait_for(self, name: str, *statuses: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while self.jobs().get(name) not in statuses:
            assert time.monotonic() < deadline, self.jobs()
            time.sleep(0.2)

    def endpoints(self) -> dict[str, str]:
        agentcore = self.cloud.client("bedrock-agentcore-control")
        runtime = agentcore.list_agent_runtimes()["agentRuntimes"][0]["agentRuntimeId"]
        found = agentcore.list_agent_runtime_endpoints(agentRuntimeId=runtime)
        return {e["name"]: e["liveVersion"] for e in found["runtimeEndpoints"]}

    def invoke(self, entry: str, event: dict[str, Any]) -> dict[str, Any]:
        """Call a deployed handler as the Provider framework does."""
        functions = self.cloud.client("lambda")
        name = next(
            f["FunctionName"]
            for page in functions.get_paginator("list_functions").paginate()
            for f in page["Functions"]
            if f["Handler"] == f"stacks.handlers.{entry}"
        )
        answer = functions.invoke(FunctionName=name, Payload=json.dumps(event))
        return json.loads(answer["Payload"].read())

    def job_properties(self) -> dict[str, str]:
        """The training job's properties as CloudFormation hands them over."""
        (job,) = self.jobs()
        described = self.sagemaker.describe_job(JobName=job, JobCategory="AgentRFT")
        document = json.loads(described["JobConfigDocument"])
        document.pop("ServiceOutput", None)
        return {
            "Prefix": "mtrl-local",
            "RunId": "direct",
            "Document": json.dumps(document),
            "RoleArn": described["RoleArn"],
        }


@pytest.fixture(scope="module")
def account(cloud: LocalCloud, synth: Any) -> Account:
    return Account(cloud, synth)


def only_running(account: Account) -> str:
    ((name, status),) = account.jobs().items()
    assert status == "InProgress"
    return name


def test_an_early_failure_rolls_back_with_its_reason_and_leaves_no_job(account, bad_rows):
    account.cloud.bootstrap()
    said = account.refused("", data__train=bad_rows, training__hyperparameters__max_epochs=30)
    assert "failed" in said and "The job was removed" in said
    assert account.jobs() == {}
    assert account.status("training") == "ROLLBACK_COMPLETE"
    assert account.status("agent") == "CREATE_COMPLETE"


def test_a_quota_error_is_said_with_the_way_out(account, proxy):
    proxy.refusals["CreateJob"] = ("ResourceLimitExceeded", "account-level limit of 1 job")
    said = account.refused("training", **LONG)
    proxy.refusals.clear()
    assert "account-level limit of 1 job" in said
    assert "Service Quotas" in said
    assert account.jobs() == {}


def test_a_deploy_retried_after_failed_ones_starts_the_job(account):
    account.deploy(**LONG)
    assert account.status("training") == "CREATE_COMPLETE"
    assert only_running(account).startswith("mtrl-local-run-1-")


def test_a_second_look_finds_no_difference(account, synth):
    app = synth("local", **LONG).folder
    said = account.cloud.cdk("diff", "--fail", app=app, show=lambda line: None)
    assert "Number of stacks with differences: 0" in said


def test_the_record_in_the_bucket_is_json_that_agrees_with_the_outputs(account):
    outputs = account.cloud.client("cloudformation").describe_stacks(
        StackName="mtrl-local-training"
    )["Stacks"][0]["Outputs"]
    values = {o["OutputKey"]: o["OutputValue"] for o in outputs}
    body = account.cloud.client("s3").get_object(
        Bucket=values["Bucket"], Key="deployment/outputs.json"
    )["Body"]
    record = json.loads(body.read())
    assert record["runtime_arn"] == values["RuntimeArn"]
    assert record["job_role_arn"] == values["JobRoleArn"]
    assert values["JobName"] == only_running(account)


def test_an_update_of_the_agent_during_a_job_is_refused_and_changes_nothing(account):
    job, before = only_running(account), account.endpoints()
    said = account.refused("agent", agent__reasoning_effort="low", **LONG)
    assert f"in use by job {job}" in said
    assert "force=true" in said
    assert account.status("agent") == "UPDATE_ROLLBACK_COMPLETE"
    assert account.endpoints() == before
    assert only_running(account) == job


def test_a_changed_document_without_a_new_run_id_is_refused_with_the_difference(account):
    job = only_running(account)
    changed = {**LONG, "training__hyperparameters__learning_rate": 1e-5}
    said = account.refused("training", **changed)
    assert 'learning_rate: (absent) -> "1e-05"' in said
    assert "run_id" in said
    assert account.status("training") == "UPDATE_ROLLBACK_COMPLETE"
    assert only_running(account) == job


def test_the_same_create_event_twice_meets_one_job_and_a_placeholder_finds_it(account):
    properties = account.job_properties()
    running = only_running(account)
    event = {"RequestType": "Create", "ResourceProperties": properties}
    first, second = (
        account.invoke("training_job.on_event", event),
        account.invoke("training_job.on_event", event),
    )
    assert first == second
    (direct,) = account.jobs().keys() - {running}
    gone = {**event, "RequestType": "Delete", "PhysicalResourceId": "mtrl-local-training-Job-1ABC"}
    deleting = {**gone, **account.invoke("training_job.on_event", gone)}
    deadline = time.monotonic() + WAIT_S
    while not account.invoke("training_job.is_complete", deleting)["IsComplete"]:
        assert time.monotonic() < deadline
    assert direct not in account.jobs()
    assert only_running(account) == running


def test_a_new_run_id_replaces_the_running_job(account):
    before = only_running(account)
    account.deploy("training", training__run_id="run-2", **LONG)
    assert only_running(account) != before


def test_a_forced_update_goes_through_and_moves_no_endpoint(account):
    before = account.endpoints()
    account.deploy("agent", agent__reasoning_effort="low", force=True, **LONG)
    after = account.endpoints()
    assert after["DEFAULT"] == "2"
    (old,), (new,) = before.keys() - {"DEFAULT"}, after.keys() - {"DEFAULT"}
    assert (before[old], after[new]) == ("1", "2")
    assert old != new


def test_once_the_job_has_ended_the_agent_may_change(account):
    (job,) = account.jobs()
    with contextlib.suppress(ClientError):  # the forced update may have failed it already
        account.sagemaker.stop_job(JobName=job, JobCategory="AgentRFT")
    account.wait_for(job, "Stopped", "Failed")
    account.deploy("agent", agent__reasoning_effort="high", **LONG)
    assert account.endpoints()["DEFAULT"] == "3"


def test_a_stopped_run_is_resumed_from_its_last_checkpoint(account):
    (stopped,) = account.jobs()
    account.deploy("training", training__run_id="run-3", training__resume_from="last",
                   agent__reasoning_effort="high", **LONG)  # fmt: skip
    job = account.sagemaker.describe_job(JobName=only_running(account), JobCategory="AgentRFT")
    document = json.loads(job["JobConfigDocument"])
    package = document["ModelPackageConfig"]["InputModelPackageArn"]
    assert ":model-package/mtrl-local-checkpoints/" in package
    assert document["ServiceOutput"]["ProgressInfo"]["CurrentStep"] > 1
    assert stopped not in account.jobs()


def test_the_budget_guard_measures_the_running_job_and_stops_it_past_its_budget(account):
    running = only_running(account)
    account.deploy("oversight", agent__reasoning_effort="high", budget__usd=0.000001, **LONG)
    answer = account.invoke("budget_guard.on_schedule", {})
    assert answer == {"stopped": [running]}
    assert account.jobs()[running] in ("Stopping", "Stopped")
    metrics = account.cloud.client("cloudwatch").list_metrics(Namespace="MultiTurnRL")["Metrics"]
    assert {"SpentUsd", "TrainTokens", "Step"} <= {metric["MetricName"] for metric in metrics}


def test_destroying_while_a_job_stops_waits_for_it_and_leaves_nothing(account, synth, proxy):
    (job,) = account.jobs()
    account.wait_for(job, "Stopped")
    proxy.lingering = 2
    app = synth("local", **LONG).folder
    account.cloud.cdk("destroy", "--all", "--force", app=app, show=lambda line: None)
    assert proxy.lingering == 0
    account.cloud.remove_bootstrap()
    assert inventory(account.cloud.client) == []


def the_operators_commands_agree(account: Account, job: str) -> None:
    """What `mtrl` says of a deployment, with nothing but the environment to find it by."""

    def say(*arguments: str, exit_code: int = 0) -> Any:
        command = [Path(sys.executable).with_name("mtrl"), *arguments, "--json"]
        environment = account.cloud.environment() | {"MTRL_ENV": "local"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == exit_code, done.stdout + done.stderr
        return json.loads(done.stdout)

    states = {finding["check"]: finding["state"] for finding in say("doctor")["findings"]}
    assert states["runtime-answers"] == states["job-role-permissions"] == "ok", states
    assert say("watch", job, "--once")["status"] == "Completed"
    left = say("leftovers", exit_code=3)
    assert [thing for thing in left["things"] if not thing["stack"]] == []


def test_a_whole_run_trains_to_completion_and_goes_without_a_trace(account):
    account.cloud.bootstrap()
    account.deploy()
    (job,) = account.jobs()
    account.wait_for(job, "Completed")
    found = inventory(account.cloud.client)
    assert any(line.startswith("sagemaker packages: arn:") for line in found)
    assert any(line == f"sagemaker jobs: {job} (Completed)" for line in found)
    the_operators_commands_agree(account, job)
    account.cloud.cdk("destroy", "--all", "--force", "-c", "env=local", show=lambda line: None)
    account.cloud.remove_bootstrap()
    assert inventory(account.cloud.client) == []
