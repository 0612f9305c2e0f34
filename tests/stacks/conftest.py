"""What the tests of the stacks share: templates by settings, and a local SageMaker.

The small SageMaker and AgentCore control API on a local port serve real boto3 clients.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import boto3
import pytest

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "18,20")

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT, REGION = "000000000000", "us-east-1"
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


class Refusal(Exception):
    """An error answer of the fake."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


APP_OPTIONS: dict[str, Any] = {
    "builtin_cloud_formation_validation": False,
    "tree_metadata": False,
}
"""As app.py has them."""


def arn_of(name: str, category: str = "AgentRFT") -> str:
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:job/{category}/{name}"


class FakeSageMaker:
    """Jobs and packages in memory. `before` may refuse or change anything, call by call."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.packages: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.before: Callable[[str, dict[str, Any]], None] = lambda operation, body: None

    def add_job(self, name: str, status: str = "InProgress", **fields: Any) -> dict[str, Any]:
        category = fields.pop("JobCategory", "AgentRFT")
        document = fields.pop("document", {})
        job = {
            "JobName": name,
            "JobArn": arn_of(name, category),
            "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/job",
            "JobCategory": category,
            "JobConfigSchemaVersion": "1.0.0",
            "JobConfigDocument": json.dumps(document),
            "CreationTime": time.time() - 1 + len(self.jobs) / 1000,
            "LastModifiedTime": time.time(),
            "JobStatus": status,
            "SecondaryStatus": "Training",
            "SecondaryStatusTransitions": [],
            **fields,
        }
        self.jobs[name] = job
        return job

    def answer(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((operation, body))
        self.before(operation, body)
        return getattr(self, f"_{operation}")(body)

    def refuse(self, operation: str, code: str, message: str, times: int = 1_000_000) -> None:
        """Answer the next `times` calls of an operation with an error."""
        until = self.count(operation) + times

        def before(called: str, _body: dict[str, Any]) -> None:
            if called == operation and self.count(operation) <= until:
                raise Refusal(code, message)

        self.before = before

    def count(self, operation: str) -> int:
        return sum(called == operation for called, _ in self.calls)

    def _job(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self.jobs.get(body["JobName"])
        if job is None:
            raise Refusal("ResourceNotFound", f"Job {body['JobName']} not found")
        return job

    def _CreateJob(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["JobName"] in self.jobs:
            raise Refusal("ResourceInUse", "Job name already in use")
        document = json.loads(body["JobConfigDocument"])
        job = self.add_job(body["JobName"], document=document, Tags=body["Tags"])
        return {"JobArn": job["JobArn"]}

    def _DescribeJob(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._job(body)

    def _StopJob(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._job(body)
        if job["JobStatus"] != "InProgress":
            raise Refusal("ValidationException", "The job has already ended")
        job["JobStatus"] = "Stopping"
        return {}

    def _DeleteJob(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._job(body)["JobStatus"] in ("InProgress", "Stopping", "Deleting"):
            raise Refusal("ResourceInUse", "The job is changing its state")
        del self.jobs[body["JobName"]]
        return {}

    def _ListJobs(self, body: dict[str, Any]) -> dict[str, Any]:
        keys = ("JobArn", "JobName", "JobCategory", "JobStatus", "CreationTime", "LastModifiedTime")
        found = [
            {**{k: job[k] for k in keys}, "JobSecondaryStatus": job["SecondaryStatus"]}
            for job in sorted(self.jobs.values(), key=lambda j: -j["CreationTime"])
            if job["JobCategory"] == body["JobCategory"]
            and body.get("StatusEquals") in (None, job["JobStatus"])
            and body.get("NameContains", "") in job["JobName"]
        ]
        start = int(body.get("NextToken") or 0)
        more = {"NextToken": str(start + 2)} if len(found) > start + 2 else {}
        return {"JobSummaries": found[start : start + 2], **more}

    def _ListModelPackages(self, body: dict[str, Any]) -> dict[str, Any]:
        since = body.get("CreationTimeAfter", 0)
        group = body["ModelPackageGroupName"]
        found = [
            p
            for p in self.packages
            if f"/{group.split('/')[-1]}/" in p["ModelPackageArn"] and p["CreationTime"] >= since
        ]
        return {"ModelPackageSummaryList": sorted(found, key=lambda p: -p["CreationTime"])}

    def _DeleteModelPackage(self, body: dict[str, Any]) -> dict[str, Any]:
        arn = body["ModelPackageName"]
        self.packages = [p for p in self.packages if p["ModelPackageArn"] != arn]
        return {}

    def add_package(self, group: str, number: int, age_s: float = 0) -> str:
        arn = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model-package/{group}/{number}"
        self.packages.append(
            {
                "ModelPackageArn": arn,
                "ModelPackageGroupName": group,
                "CreationTime": time.time() - age_s,
                "ModelPackageStatus": "Completed",
            }
        )
        return arn


class FakeAgentCore:
    """Runtimes by name, each with the names of its endpoints."""

    def __init__(self) -> None:
        self.runtimes: dict[str, list[str]] = {}

    def arn(self, name: str) -> str:
        return f"arn:aws:bedrock-agentcore:{REGION}:{ACCOUNT}:runtime/{name}-0123456789"

    def answer(self, path: str) -> dict[str, Any]:
        if path.strip("/") == "runtimes":
            return {"agentRuntimes": [self._summary(name) for name in self.runtimes]}
        name = path.strip("/").split("/")[1].rsplit("-", 1)[0]
        return {"runtimeEndpoints": [self._endpoint(name, e) for e in self.runtimes[name]]}

    def _summary(self, name: str) -> dict[str, Any]:
        return {
            "agentRuntimeArn": self.arn(name),
            "agentRuntimeId": f"{name}-0123456789",
            "agentRuntimeVersion": "1",
            "agentRuntimeName": name,
            "description": "",
            "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "status": "READY",
        }

    def _endpoint(self, name: str, endpoint: str) -> dict[str, Any]:
        return {
            "name": endpoint,
            "agentRuntimeEndpointArn": f"{self.arn(name)}/runtime-endpoint/{endpoint}",
            "agentRuntimeArn": self.arn(name),
            "status": "READY",
            "id": endpoint,
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z",
        }


class _Fakes(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.sagemaker = FakeSageMaker()
        self.agentcore = FakeAgentCore()


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        fakes = cast(_Fakes, self.server)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = self.headers.get("X-Amz-Target", "")
        try:
            if target:
                operation = target.split(".")[1]
                self._send(200, fakes.sagemaker.answer(operation, json.loads(raw)))
            else:
                self._send(200, fakes.agentcore.answer(self.path.split("?")[0]))
        except Refusal as refusal:
            self._send(400, {"__type": refusal.code, "message": str(refusal)})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def fakes() -> Iterator[_Fakes]:
    server = _Fakes()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def sagemaker(fakes: _Fakes) -> FakeSageMaker:
    return fakes.sagemaker


@pytest.fixture
def agentcore(fakes: _Fakes) -> FakeAgentCore:
    return fakes.agentcore


@pytest.fixture
def client(fakes: _Fakes) -> Callable[[str], Any]:
    """Makes a real boto3 client of the fakes."""
    url = f"http://127.0.0.1:{fakes.server_address[1]}"
    return lambda service: boto3.client(
        service, endpoint_url=url, region_name=REGION, **CREDENTIALS
    )


@dataclass(frozen=True)
class Synthesised:
    """Templates by stack ("foundation", "agent", "oversight", "training"), and where they lie."""

    templates: dict[str, dict[str, Any]]
    folder: Path

    def resources(self, stack: str, kind: str) -> dict[str, dict[str, Any]]:
        found = self.templates[stack]["Resources"].items()
        return {name: body for name, body in found if body["Type"] == kind}

    def only(self, stack: str, kind: str, like: str = "") -> dict[str, Any]:
        ((_, body),) = [
            item for item in self.resources(stack, kind).items() if item[0].startswith(like)
        ]
        return body


Synth = Callable[..., Synthesised]


@pytest.fixture(scope="session")
def app_options() -> dict[str, Any]:
    return APP_OPTIONS


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is deployed, so that a file saved meanwhile changes nothing half-way."""
    root = tmp_path_factory.mktemp("sources")
    for folder in ("agent", "datasets", "mtrl", "stacks"):
        shutil.copytree(ROOT / folder, root / folder)
    (ROOT / ".build").mkdir(exist_ok=True)
    (root / ".build").symlink_to(ROOT / ".build")
    return root


@pytest.fixture(scope="session")
def synth(tmp_path_factory: pytest.TempPathFactory, sources: Path) -> Synth:
    """Synthesises a deployment; every set of changes once. `a__b=1` sets a.b."""
    from aws_cdk import App

    from stacks.deployment import build
    from stacks.settings import Settings, load_settings

    done: dict[str, Synthesised] = {}

    def synthesise(env: str = "dev", **changes: Any) -> Synthesised:
        key = json.dumps([env, changes], sort_keys=True)
        if key not in done:
            raw = load_settings(env).model_dump(exclude_none=True)
            for path, value in changes.items():
                *groups, name = path.split("__")
                target = raw
                for group in groups:
                    target = target.setdefault(group, {})
                target[name] = value
            folder = tmp_path_factory.mktemp("cdk")
            app = App(outdir=str(folder), **APP_OPTIONS)
            settings = Settings.model_validate(raw)
            build(app, settings, sources)
            app.synth()
            templates = {
                stack: json.loads((folder / f"{settings.prefix}-{stack}.template.json").read_text())
                for stack in ("foundation", "agent", "oversight", "training")
            }
            done[key] = Synthesised(templates, folder)
        return done[key]

    return synthesise
