"""The rehearsal service under any request: an answer below 500 that names what is wrong."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from botocore.credentials import ReadOnlyCredentials
from botocore.session import Session
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pydantic import ValidationError

from agent.credentials import mint_token
from mtrl.job.document import (
    Channel,
    DocumentError,
    EvaluationDocument,
    TrainingDocument,
    parse_document,
)
from mtrl.job.hyperparameters import EVALUATION, TRAINING, HyperparameterError
from rehearsal.__main__ import fault_rates
from rehearsal.draws import DrawKey
from rehearsal.errors import ServiceError
from rehearsal.objects import FileObjects
from rehearsal.policies import ChatRequest
from rehearsal.policies.behaviour import BehaviourPolicy, initial_weights
from rehearsal.policies.registry import PolicyRegistry, PolicySettings
from rehearsal.rows import RowsError, read_rows
from rehearsal.server import Service, build_app
from rehearsal.settings import Fault, ServiceSettings
from rehearsal.trajectories import Trajectories, Trajectory, TrajectoryStatus
from tests.cloud import channel
from tests.fuzz.strategies import MEGABYTE, anything, mutated, odd_text

JOB = "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/fuzz"
KEYS = ReadOnlyCredentials("FUZZKEY", "a-secret-of-this-test", None)
CHAT = {
    "model": "default",
    "messages": [
        {"role": "user", "content": "Play."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "function": {"name": "guess_word", "arguments": '{"guess": "crane"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "CRANE: XXXXX"},
    ],
    "tools": [{"type": "function", "function": {"name": "guess_word", "parameters": {}}}],
    "temperature": 1.0,
    "max_tokens": 512,
    "stream": False,
}
REPORT = {"JobArn": JOB, "TrajectoryId": "t-1", "Status": "ready", "Rewards": [1.0]}
ACCOUNT = "arn:aws:sagemaker:us-east-1:000000000000"
MODEL = "arn:aws:sagemaker:us-east-1:aws:hub-content/SageMakerPublicHub/Model"
DOCUMENT = {
    "AgentConfig": {
        "BedrockAgentCoreConfig": {
            "AgentRuntimeArn": "arn:aws:bedrock-agentcore:us-east-1:000000000000:runtime/x"
        }
    },
    "InputDataConfig": [channel("train", "s3://bucket/train.jsonl")],
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/output"},
    "ModelPackageConfig": {
        "OutputModelPackageGroupArn": f"{ACCOUNT}:model-package-group/a",
        "IntermediateCheckpointModelPackageGroupArn": f"{ACCOUNT}:model-package-group/b",
    },
    "TrainingConfig": {
        "BaseModelArn": f"{MODEL}/openai-reasoning-gpt-oss-20b",
        "AcceptEula": True,
        "MlflowConfig": {"MlflowResourceArn": f"{ACCOUNT}:mlflow-app/app-x"},
        "HyperParameters": {"global_batch_size": "32", "group_size": "2"},
    },
}
OPERATIONS = (
    "CreateJob",
    "DescribeJob",
    "ListJobs",
    "StopJob",
    "DeleteJob",
    "ListJobSchemaVersions",
    "DescribeJobSchemaVersion",
    "CreateMlflowApp",
    "DescribeMlflowApp",
    "ListMlflowApps",
    "DeleteMlflowApp",
    "CreatePresignedMlflowAppUrl",
    "CreateModelPackageGroup",
    "DescribeModelPackageGroup",
    "ListModelPackageGroups",
    "DeleteModelPackageGroup",
    "DescribeModelPackage",
    "ListModelPackages",
    "DeleteModelPackage",
    "DescribeHubContent",
    "ListTags",
    "AddTags",
)


class Wire:
    """A service in this thread, and requests to it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.app = build_app(service)
        self.token = mint_token(KEYS, "us-east-1")
        model = Session().get_service_model("sagemaker")
        self.members = {
            name: list(model.operation_model(name).input_shape.members)  # type: ignore[union-attr]
            for name in OPERATIONS
        }

    def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> httpx.Response:
        """One request; an exception in the service is this test's failure."""
        sent = {"Authorization": f"Bearer {self.token}", **headers}

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
            base = "http://127.0.0.1"
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, path, content=body, headers=sent)

        return asyncio.run(send())


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    patch = pytest.MonkeyPatch()
    patch.setenv("AWS_ACCESS_KEY_ID", KEYS.access_key)
    patch.setenv("AWS_SECRET_ACCESS_KEY", KEYS.secret_key)
    service = Service(ServiceSettings(state=tmp_path_factory.mktemp("fuzz")))
    yield Wire(service)
    service.parts.mlflow.close()
    service.parts.jobs.records.close()
    patch.undo()


def open_trajectory(service: Service) -> Trajectory:
    """A fresh t-1."""
    space = service.parts.policies.space
    policy = BehaviourPolicy(space, initial_weights(space))
    defaults: dict[str, float | int] = {"temperature": 1.0, "topP": 1.0, "maxTokens": 512}
    draw = DrawKey(1, "train", 1, 0, 0).uniform
    trajectory = Trajectory("t-1", JOB, policy, draw, defaults)
    service.parts.trajectories.add(trajectory)
    return trajectory


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


encoded_chat = encoded(
    {**CHAT, "messages": [{"role": "user", "content": "<|endoftext|>" + "\U0001f600" * MEGABYTE}]}
)
patiently = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
bodies = st.one_of(
    st.binary(max_size=100),
    st.sampled_from((b"[" * 200_000, b'{"messages":' * 50_000, encoded_chat)),
    anything.map(encoded),
    mutated(CHAT).map(encoded),
    mutated(REPORT).map(encoded),
)


@patiently
@given(
    st.sampled_from(
        (
            "/v1/chat/completions",
            "/sample",
            "/sample-with-response-stream",
            "/complete-rollout",
            "/update-reward",
        )
    ),
    bodies,
)
def test_the_job_runtime_answers_any_body(wire: Wire, path: str, body: bytes) -> None:
    trajectory = open_trajectory(wire.service)
    headers = {"X-Amzn-SageMaker-Job-Arn": JOB, "X-Amzn-SageMaker-Trajectory-Id": "t-1"}
    reply = wire.request("POST", path, body, **headers)
    assert reply.status_code in (200, 400, 404, 409), reply.text[:500]
    if reply.status_code == 400:
        assert len(reply.text) < 20_000
    assert trajectory.rewards is None or trajectory.status is TrajectoryStatus.READY


@patiently
@given(st.data())
def test_the_job_api_answers_any_members(wire: Wire, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(OPERATIONS))
    members = st.dictionaries(st.sampled_from(wire.members[operation]), anything, max_size=4)
    body = encoded(data.draw(st.one_of(members, anything)))
    reply = wire.request("POST", "/", body, **{"X-Amz-Target": f"SageMaker.{operation}"})
    assert reply.status_code in (200, 400), reply.text[:500]


@patiently
@given(mutated(DOCUMENT))
def test_a_job_is_refused_by_the_key_of_its_document(wire: Wire, document: Any) -> None:
    body = {
        "JobName": "fuzz",
        "JobCategory": "AgentRFT",
        "RoleArn": "arn:aws:iam::000000000000:role/fuzz",
        "JobConfigSchemaVersion": "1.0.0",
        "JobConfigDocument": json.dumps(document),
    }
    target = {"X-Amz-Target": "SageMaker.CreateJob"}
    reply = wire.request("POST", "/", encoded(body), **target)
    assert reply.status_code == 400  # even whole, it names groups that do not exist
    assert reply.json()["message"]


@patiently
@given(
    st.sampled_from(("GET", "PUT", "HEAD", "DELETE", "POST")),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=300),
    st.sampled_from(("", "?delete", "?uploads", "?list-type=2&max-keys=x", "?prefix=%00")),
    st.one_of(
        st.binary(max_size=60), st.just(b"<Delete><Object><Key>../x</Key></Object></Delete>")
    ),
)
def test_s3_answers_any_key_and_stays_in_its_folder(
    wire: Wire, method: str, key: str, query: str, body: bytes
) -> None:
    from urllib.parse import quote

    root = Path(wire.service.files.root)
    reply = wire.request("PUT", "/bucket")
    assert reply.status_code == 200
    for path in (f"/bucket/{quote(key)}", f"/{quote(key)}", "/bucket"):
        reply = wire.request(method, f"{path}{query}", body)
        assert reply.status_code < 500 or reply.status_code == 501, reply.text[:500]
    assert not any(root.parent.rglob("passwd"))


@patiently
@given(st.dictionaries(st.sampled_from(("Action", "RoleName", "Version")), odd_text))
def test_sts_and_iam_answer_any_form(wire: Wire, fields: dict[str, str]) -> None:
    from urllib.parse import urlencode

    form = urlencode(fields, errors="replace").encode()
    assert wire.request("POST", "/", form).status_code in (200, 400)


@patiently
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
def test_no_authorization_header_breaks_the_door(wire: Wire, header: str) -> None:
    reply = wire.request("POST", "/complete-rollout", b"{}", Authorization=header)
    assert reply.status_code in (400, 401, 403)


@given(st.one_of(odd_text, mutated(DOCUMENT).map(json.dumps)))
def test_a_document_is_read_or_refused_by_a_key(text: str) -> None:
    for kind in (TrainingDocument, EvaluationDocument):
        try:
            parse_document(text, kind, "us-east-1")
        except DocumentError as error:
            assert str(error)


@given(
    st.sampled_from(("jsonl", "json", "csv", "parquet")),
    st.one_of(
        st.binary(max_size=100),
        odd_text.map(lambda text: text.encode("utf-8", "surrogatepass")),
        anything.map(encoded),
        st.lists(anything).map(lambda rows: b"\n".join(map(encoded, rows))),
    ),
)
def test_a_data_set_is_read_or_refused_by_its_file(suffix: str, body: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = FileObjects(Path(folder))
        store.write(f"s3://bucket/rows.{suffix}", body)
        source = Channel.model_validate(channel("train", f"s3://bucket/rows.{suffix}"))
        try:
            rows = read_rows(store, source)
        except RowsError as error:
            assert "rows." in str(error)
        else:
            assert all(isinstance(prompt, str) and prompt for prompt in rows.prompts)


@given(st.sampled_from(sorted({**TRAINING, **EVALUATION})), odd_text)
def test_a_hyperparameter_is_read_or_refused_by_its_name(name: str, raw: str) -> None:
    for specs in (TRAINING, EVALUATION):
        if name in specs:
            try:
                specs[name].parse(name, raw)
            except HyperparameterError as error:
                assert error.name == name


@given(st.dictionaries(st.sampled_from([*ServiceSettings.model_fields, "other"]), anything))
def test_service_settings_are_read_or_refused(raw: dict[str, Any]) -> None:
    try:
        ServiceSettings.model_validate(raw)
    except ValidationError as error:
        assert error.errors()


@given(
    st.lists(
        st.one_of(
            odd_text, st.builds("{}={}".format, st.sampled_from([*Fault, "all"]), st.floats())
        )
    )
)
def test_fault_options_are_read_or_refused(options: list[str]) -> None:
    try:
        assert all(isinstance(rate, float) for rate in fault_rates(options).values())
    except click.UsageError as error:
        assert "NAME=RATE" in error.message


class Reporting(RuleBasedStateMachine):
    """One trajectory under samples and reports in any order, repeated at will."""

    def __init__(self) -> None:
        super().__init__()
        space = PolicyRegistry(PolicySettings()).space
        self.registry = Trajectories()
        policy = BehaviourPolicy(space, initial_weights(space))
        draw = DrawKey(1, "train", 1, 0, 0).uniform
        self.trajectory = Trajectory("t-1", JOB, policy, draw, {})
        self.registry.add(self.trajectory)
        self.accepted: list[float] = []
        self.statuses = [TrajectoryStatus.OPEN]

    @rule(status=st.sampled_from(("ready", "failed", "closed", "")))
    def complete(self, status: str) -> None:
        try:
            self.registry.complete(JOB, "t-1", status)
        except ServiceError as error:
            assert error.status in (400, 409)
        else:
            assert self.statuses[-1] is TrajectoryStatus.OPEN
        self.note()

    @rule(reward=st.floats(-5, 5))
    def reward(self, reward: float) -> None:
        try:
            self.registry.reward(JOB, "t-1", [reward])
        except ServiceError as error:
            assert error.status == 409
        else:
            self.accepted.append(reward)
        self.note()

    @rule(turns=st.integers(0, 3))
    def sample(self, turns: int) -> None:
        messages = [{"role": "user", "content": "Play."}]
        messages += [{"role": "assistant", "content": "x"}] * turns
        request = ChatRequest(tuple(messages), (), 1.0, 1.0, 512)
        try:
            asyncio.run(self.registry.sample(JOB, "t-1", request))
        except ServiceError as error:
            assert error.status == 409
            assert self.statuses[-1] is not TrajectoryStatus.OPEN
        self.note()

    def note(self) -> None:
        if self.trajectory.status is not self.statuses[-1]:
            self.statuses.append(self.trajectory.status)

    @invariant()
    def a_reward_counts_once_and_only_after_completion(self) -> None:
        assert len(self.accepted) <= 1
        assert self.trajectory.rewards == (self.accepted or None)
        if self.accepted:
            assert self.trajectory.status is TrajectoryStatus.READY
        assert len(self.statuses) <= 2
        settled = bool(self.accepted) or self.trajectory.status is TrajectoryStatus.FAILED
        assert self.trajectory.settled.is_set() == settled


TestReporting = Reporting.TestCase
