"""The Job Runtime under the clients that real agents use: OpenAI's, boto3's, plain HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import openai
import pytest
import uvicorn
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from rehearsal.draws import DrawKey
from rehearsal.policies.behaviour import BehaviourPolicy, initial_weights
from rehearsal.server import Service, build_app
from rehearsal.settings import ServiceSettings
from rehearsal.trajectories import Trajectory, TrajectoryStatus

JOB = "arn:aws:sagemaker:us-east-1:000000000000:job/AgentRFT/test"
KEYS = ("REHEARSALKEY", "a-secret-of-this-test")
TOOLS = [{"type": "function", "function": {"name": "guess_word", "parameters": {}}}]
MESSAGES = [{"role": "user", "content": "Play."}]
DEFAULTS = {"temperature": 1.0, "topP": 1.0, "maxTokens": 512}


def bearer(keys: tuple[str, str] = KEYS, expires: int = 300) -> str:
    """A token made by botocore's own signer, as SageMaker's token generator makes it."""
    import base64

    request = AWSRequest(
        "POST",
        "https://sagemaker.amazonaws.com/",
        headers={"host": "sagemaker.amazonaws.com"},
        params={"Action": "CallWithBearerToken"},
    )
    SigV4QueryAuth(Credentials(*keys), "sagemaker", "us-east-1", expires=expires).add_auth(request)
    url = str(request.url).removeprefix("https://") + "&Version=1"
    return "sagemaker-api-key-" + base64.b64encode(url.encode()).decode()


class Runtime:
    """A service in this process's own thread, with trajectories that tests make."""

    def __init__(self, service: Service, url: str) -> None:
        self.service = service
        self.url = url
        space = service.parts.policies.space
        self.policy = BehaviourPolicy(space, initial_weights(space))

    def open(self, trajectory_id: str) -> Trajectory:
        draw = DrawKey(1, "train", 1, 0, hash(trajectory_id) % 1000).uniform
        trajectory = Trajectory(trajectory_id, JOB, self.policy, draw, DEFAULTS)
        self.service.parts.trajectories.add(trajectory)
        return trajectory

    def openai(self, trajectory_id: str, token: str | None = None) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key=token or bearer(),
            max_retries=0,
            default_headers={
                "X-Amzn-SageMaker-Job-Arn": JOB,
                "X-Amzn-SageMaker-Trajectory-Id": trajectory_id,
            },
        )

    def boto3(self) -> Any:
        return boto3.client(
            "sagemakerjobruntime",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=KEYS[0],
            aws_secret_access_key=KEYS[1],
        )


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    import socket
    import threading

    patch = pytest.MonkeyPatch()
    patch.setenv("AWS_ACCESS_KEY_ID", KEYS[0])
    patch.setenv("AWS_SECRET_ACCESS_KEY", KEYS[1])
    state: Path = tmp_path_factory.mktemp("runtime")
    holder: dict[str, Any] = {}
    started = threading.Event()

    def serve() -> None:  # SQLite objects belong to the thread that made them
        service = Service(ServiceSettings(state=state))
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        service.port = listener.getsockname()[1]
        config = uvicorn.Config(build_app(service), log_level="warning", access_log=False)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        holder.update(service=service, server=server)
        started.set()
        server.run(sockets=[listener])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert started.wait(30)
    service = holder["service"]
    yield Runtime(service, f"http://127.0.0.1:{service.port}")
    holder["server"].should_exit = True
    thread.join(30)
    patch.undo()


def test_the_openai_client_gets_the_same_move_streamed_and_not(runtime: Runtime) -> None:
    runtime.open("stream")
    client = runtime.openai("stream")
    arguments: Any = {"model": "default", "messages": MESSAGES, "tools": TOOLS}
    whole = client.chat.completions.create(**arguments)
    streamed = list(
        client.chat.completions.create(
            **arguments, stream=True, stream_options={"include_usage": True}
        )
    )
    message = whole.choices[0].message
    deltas = [chunk.choices[0].delta for chunk in streamed if chunk.choices]
    if message.tool_calls:
        calls = [call for delta in deltas for call in delta.tool_calls or ()]
        assert [c.function.arguments for c in calls if c.function] == [
            message.tool_calls[0].function.arguments  # type: ignore[union-attr]
        ]
    else:
        assert "".join(delta.content or "" for delta in deltas) == message.content
    assert streamed[-1].usage == whole.usage
    assert whole.usage is not None and whole.usage.completion_tokens > 3


def test_a_repeated_sample_replaces_its_turn_and_never_adds_one(runtime: Runtime) -> None:
    trajectory = runtime.open("repeat")
    client = runtime.openai("repeat")
    for _ in range(3):
        client.chat.completions.create(model="default", messages=MESSAGES)  # type: ignore[arg-type]
    assert len(trajectory.ordered_samples()) == 1


def test_boto3_samples_completes_and_rewards(runtime: Runtime) -> None:
    trajectory = runtime.open("boto")
    client = runtime.boto3()
    body = json.dumps({"messages": MESSAGES, "tools": TOOLS}).encode()
    ids = {"JobArn": JOB, "TrajectoryId": "boto"}
    answer = json.loads(client.sample(**ids, Body=body)["Body"].read())
    assert answer["choices"][0]["message"]["role"] == "assistant"
    events = client.sample_with_response_stream(**ids, Body=body)["Body"].read().decode()
    assert events.rstrip().endswith("data: [DONE]")
    client.complete_rollout(**ids, Status="ready")
    client.update_reward(**ids, Rewards=[0.25, 0.5])
    assert trajectory.rewards == [0.25, 0.5]
    assert trajectory.settled.is_set()


def test_a_repeated_report_is_answered_as_already_processed(runtime: Runtime) -> None:
    runtime.open("twice")
    client = runtime.boto3()
    ids = {"JobArn": JOB, "TrajectoryId": "twice"}
    client.complete_rollout(**ids, Status="ready")
    with pytest.raises(ClientError, match="Cannot transition trajectory"):
        client.complete_rollout(**ids, Status="ready")
    client.update_reward(**ids, Rewards=[1.0])
    with pytest.raises(ClientError, match="not in valid status"):
        client.update_reward(**ids, Rewards=[2.0])


def test_a_reward_before_completion_is_refused(runtime: Runtime) -> None:
    trajectory = runtime.open("early")
    with pytest.raises(ClientError, match="not in valid status"):
        runtime.boto3().update_reward(JobArn=JOB, TrajectoryId="early", Rewards=[1.0])
    assert trajectory.rewards is None


def test_sampling_a_closed_trajectory_is_refused(runtime: Runtime) -> None:
    runtime.open("closed").status = TrajectoryStatus.CLOSED
    with pytest.raises(openai.ConflictError, match="not in valid status"):
        runtime.openai("closed").chat.completions.create(
            model="default",
            messages=MESSAGES,  # type: ignore[arg-type]
        )


def test_an_unknown_trajectory_is_not_found(runtime: Runtime) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        runtime.boto3().complete_rollout(JobArn=JOB, TrajectoryId="nobody", Status="ready")


@pytest.mark.parametrize(
    ("header", "status", "reason"),
    [
        (None, 401, "missing"),
        ("Basic abc", 401, "neither"),
        ("Bearer nonsense", 403, "malformed"),
        (f"Bearer {bearer(('REHEARSALKEY', 'wrong'))}", 403, "InvalidSignature"),
        (f"Bearer {bearer(('SOMEONE', 'else'))}", 403, "not known"),
        (f"Bearer {bearer(expires=0)}", 403, "out of range"),
        (f"Bearer {bearer(expires=50_000)}", 403, "out of range"),
    ],
)
def test_only_a_token_signed_with_the_known_key_is_let_in(
    runtime: Runtime, header: str | None, status: int, reason: str
) -> None:
    headers = {"Authorization": header} if header else {}
    answer = httpx.get(f"{runtime.url}/v1/models", headers=headers)
    assert answer.status_code == status
    assert reason in answer.json()["error"]["message"]


def test_another_host_name_is_refused(runtime: Runtime) -> None:
    headers = {"Host": "rebound.example", "Authorization": f"Bearer {bearer()}"}
    assert httpx.get(f"{runtime.url}/v1/models", headers=headers).status_code == 400


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "messages"),
        (b'{"messages": ["hi"]}', "messages"),
        (b'{"messages": [{"role": "user"}], "temperature": 9}', "temperature"),
        (b'{"messages": [{"role": "user"}], "max_tokens": "many"}', "max_tokens"),
    ],
)
def test_a_malformed_request_is_refused_by_its_member(
    runtime: Runtime, body: bytes, named: str
) -> None:
    runtime.open("malformed")
    headers = {
        "Authorization": f"Bearer {bearer()}",
        "X-Amzn-SageMaker-Job-Arn": JOB,
        "X-Amzn-SageMaker-Trajectory-Id": "malformed",
    }
    answer = httpx.post(f"{runtime.url}/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]


@pytest.mark.parametrize("rewards", [[], ["high"], [True], [float("inf")], [float("nan")], "1"])
def test_rewards_that_are_no_finite_numbers_are_refused(runtime: Runtime, rewards: Any) -> None:
    trajectory = runtime.open("numbers")
    trajectory.status = TrajectoryStatus.READY
    body = json.dumps({"JobArn": JOB, "TrajectoryId": "numbers", "Rewards": rewards})
    headers = {"Authorization": f"Bearer {bearer()}"}
    answer = httpx.post(f"{runtime.url}/update-reward", content=body, headers=headers)
    assert answer.status_code == 400
    assert "Rewards" in answer.json()["message"]
    assert trajectory.rewards is None
