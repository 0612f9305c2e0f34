"""A rehearsal service with a deployment's record in its bucket, and commands run against it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.loaders import create_loader
from botocore.validate import ParamValidator
from click.testing import CliRunner, Result

from mtrl.aws import Cloud
from mtrl.cli import main
from mtrl.job.identity import TERMINAL_STATUSES
from mtrl.jobs.reading import Job, find_job
from mtrl.rehearse.environment import BUCKET, Environment, create_environment
from mtrl.rehearse.processes import LocalParts, local_parts

REGION = "us-east-1"
DATASETS = Path(__file__).parents[2] / "datasets" / "wordle"
RECORD = f"s3://{BUCKET}/deployment/outputs.json"
SMALL = {"global_batch_size": "32", "group_size": "2", "max_steps": "2", "val_every": "0"}
JOB_TIMEOUT_S = 240


@dataclass
class Operator:
    """Runs `mtrl` commands with the service's endpoint and keys in the environment."""

    parts: LocalParts
    environment: Environment
    monkeypatch: pytest.MonkeyPatch

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run a command."""
        result = CliRunner().invoke(main, list(arguments), input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return result

    def data(self, *arguments: str, exit_code: int = 0) -> Any:
        """Run a command with --json and return what it printed."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    def record(self, **changes: Any) -> dict[str, Any]:
        """The deployment's outputs, with changes."""
        env = self.environment
        return {
            "deployment": "mtrl-test",
            "region": REGION,
            "account": env.account,
            "bucket": BUCKET,
            "output_uri": env.uri("output/"),
            "train_uri": env.uri("datasets/train.jsonl"),
            "runtime_arn": env.runtime_arn,
            "runtime_endpoint": "rehearsal",
            "mlflow_app_arn": env.mlflow_arn,
            "mlflow_experiment": "mtrl-test",
            "output_group_arn": env.output_group_arn,
            "checkpoint_group_arn": env.checkpoint_group_arn,
            "job_role_arn": env.role_arn,
            "model": "gpt-oss-20b",
            "base_model_arn": env.model_arn(),
            "hyperparameters": json.dumps(SMALL),
            "accept_eula": "true",
        } | changes

    def write(self, key: str, body: bytes) -> None:
        """Put an object into the deployment's bucket."""
        self.parts.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)

    def train(self, *options: str) -> str:
        """Submit a job past its gates; returns its name."""
        return self.data("train", "--skip-audit", "--skip-doctor", "--yes", *options)["name"]

    def until(self, name: str, reached: Callable[[Job], bool]) -> Job:
        """Look at a job until it is as wanted."""
        deadline = time.monotonic() + JOB_TIMEOUT_S
        cloud = Cloud(REGION)
        while time.monotonic() < deadline:
            job = find_job(cloud, name)
            if reached(job):
                return job
            time.sleep(0.1)
        raise AssertionError(find_job(cloud, name))

    def finished(self, name: str) -> Job:
        """The job once it has ended."""
        return self.until(name, lambda job: job.view.status in TERMINAL_STATUSES)


def rows(name: str, count: int | None = None) -> bytes:
    """The first rows of a committed data set."""
    lines = (DATASETS / f"{name}.jsonl").read_text().splitlines()[:count]
    return "\n".join(lines).encode()


def use(parts: LocalParts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment as an operator would."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", parts.url)
    monkeypatch.setenv("MTRL_DEPLOYMENT", RECORD)
    for name, value in parts.keys.environment(REGION).items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)


_LOADER = create_loader()
"""Reads each service's model once a process: tests make hundreds of clients."""


class _Session(boto3.Session):
    """A session that shares the loader."""

    def __init__(self, **options: Any) -> None:
        if "botocore_session" not in options:
            core = botocore.session.get_session()
            core.register_component("data_loader", _LOADER)
            options["botocore_session"] = core
        super().__init__(**options)


@pytest.fixture(autouse=True)
def _one_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtrl.aws.boto3.Session", _Session)


@pytest.fixture(scope="session")
def _service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalParts, Environment]]:
    folder = tmp_path_factory.mktemp("service")
    with local_parts(folder, REGION, ["--seed", "7"], 1, "wordle") as parts:
        environment = create_environment(parts)
        s3 = parts.client("s3")
        s3.put_object(Bucket=BUCKET, Key="datasets/train.jsonl", Body=rows("train", 64))
        yield parts, environment


@pytest.fixture
def operator(_service: tuple[LocalParts, Environment], monkeypatch: pytest.MonkeyPatch) -> Operator:
    """An operator of a service that all tests of this process share."""
    found = Operator(*_service, monkeypatch)
    use(found.parts, monkeypatch)
    found.write("deployment/outputs.json", json.dumps(found.record()).encode())
    return found


@pytest.fixture
def own_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Opens services of a test's own: `with own_operator() as operator`, the same state again.

    Positional arguments are options of the service, `agent` is environment of the agent.
    """
    folder = tmp_path / "own"
    made: list[Environment] = []

    @contextmanager
    def start(*options: str, agent: dict[str, str] | None = None) -> Iterator[Operator]:
        folder.mkdir(exist_ok=True)
        seeded = ["--seed", "7", *options]
        with local_parts(folder, REGION, seeded, 1, "wordle", agent) as parts:
            fresh = not made
            if fresh:
                made.append(create_environment(parts))
            found = Operator(parts, made[0], monkeypatch)
            use(parts, monkeypatch)
            if fresh:
                found.write("datasets/train.jsonl", rows("train", 64))
            found.write("deployment/outputs.json", json.dumps(found.record()).encode())
            yield found

    return start


Answer = Any
"""What a call of AWS answers: a dict, a function of the call's parameters, or an exception."""


class Aws:
    """Stands for services of AWS in this process, each answer checked against botocore's model.

    Calls without an answer here go to the endpoint in the environment.
    """

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], Answer] = {}
        self.calls: list[tuple[str, str, dict[str, Any]]] = []

    def on(self, service: str, operation: str, answer: Answer) -> None:
        """Set the answer of an operation (by its name in the API: "GetRole")."""
        self.answers[service, operation] = answer

    def attach(self, service: str, client: Any) -> Any:
        """Let a client's calls be answered here."""

        def note(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
            context["given"] = dict(params)

        def answer(model: Any, context: dict[str, Any], **_: Any) -> Any:
            found = self.answers.get((service, model.name))
            if found is None:
                return None
            self.calls.append((service, model.name, context["given"]))
            value: Any = found(context["given"]) if callable(found) else found
            if isinstance(value, Exception):
                raise value
            value = {key: item for key, item in value.items() if key != "ResponseMetadata"}
            if model.output_shape:
                # A streamed body is a file, which the validator takes for a blob.
                report = ParamValidator().validate(value, model.output_shape)
                assert not report.has_errors(), report.generate_report()
            status = {"HTTPStatusCode": 200}
            response = type("Response", (), {"status_code": 200})()
            return response, {"ResponseMetadata": status, **value}

        client.meta.events.register("before-parameter-build", note)
        client.meta.events.register("before-call", answer)
        return client

    def asked(self, operation: str) -> list[dict[str, Any]]:
        """Parameters of the calls of an operation."""
        return [params for _, name, params in self.calls if name == operation]


def refusal(code: str, message: str = "", operation: str = "Operation") -> ClientError:
    """An error as a service sends it."""
    return ClientError({"Error": {"Code": code, "Message": message or code}}, operation)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Aws:
    """Answers for services that the rehearsal does not offer."""
    found = Aws()
    make = Cloud._make

    def made(self: Cloud, service: str, *arguments: Any) -> Any:
        return found.attach(service, make(self, service, *arguments))

    monkeypatch.setattr(Cloud, "_make", made)
    if "AWS_ENDPOINT_URL" in os.environ:  # a service runs: its keys are set already
        return found
    for name, value in {
        "AWS_ACCESS_KEY_ID": "TEST",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return found
