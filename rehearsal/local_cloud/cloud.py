"""One local cloud: its processes, its environment, and the CDK CLI that deploys to it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from mtrl.errors import MtrlError
from rehearsal.local_cloud.agent_process import PORT_VARIABLE, PYTHON_VARIABLE
from rehearsal.local_cloud.servers import Server, Servers, free_ports
from rehearsal.settings import REHEARSAL_ACCOUNT

REGION = "us-east-1"
TOOLKIT = "CDKToolkit"
"""The stack that `cdk bootstrap` makes."""
RESOURCE_TYPES = "rehearsal.local_cloud.resource_types:app"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the processes listen, on the loopback interface."""

    ministack: int
    rehearsal: int
    agent: int


class LocalCloud:
    """A folder with everything of one local cloud.

    Args:
        root: the repository, with the tools that `make` installs.
        folder: state and logs; a second cloud in another folder is independent.
        sagemaker_port: where deployed functions find SageMaker, when that is not the rehearsal
            service itself (a test puts a faulty one in between).
    """

    def __init__(self, root: Path, folder: Path, sagemaker_port: int | None = None) -> None:
        self._root = root
        self._folder = folder
        self._sagemaker_port = sagemaker_port
        self._servers = Servers(folder)
        self._ports_file = folder / "ports.json"

    @property
    def ports(self) -> Ports:
        """Ports of the running processes.

        Raises:
            MtrlError: the cloud is not running.
        """
        if not self.running:
            raise MtrlError("not-running", "no local cloud is running.", "Run `make deploy-local`.")
        return Ports(**json.loads(self._ports_file.read_text()))

    @property
    def running(self) -> bool:
        """True while both processes are alive."""
        return len(self._servers.running()) == 2

    def start(self) -> None:
        """Start the processes unless they run.

        Raises:
            MtrlError: a tool is missing, or a process does not start.
        """
        if self.running:
            return
        self._servers.stop()
        self._check_tools()
        self._folder.mkdir(parents=True, exist_ok=True)
        ports = Ports(*free_ports(3))
        self._ports_file.write_text(json.dumps({k: getattr(ports, k) for k in Ports.__slots__}))
        try:
            for server in (self._ministack(ports), self._rehearsal(ports)):
                self._servers.start(server)
        except BaseException:
            self._servers.stop()
            raise

    def stop(self) -> None:
        """End the processes."""
        self._servers.stop()

    def client(self, service: str) -> Any:
        """A boto3 client of this cloud."""
        url = self.ports.rehearsal if service == "sagemaker" else self.ports.ministack
        return boto3.client(
            service,
            endpoint_url=f"http://127.0.0.1:{url}",
            region_name=REGION,
            aws_access_key_id=REHEARSAL_ACCOUNT,
            aws_secret_access_key="test",
        )

    def environment(self) -> dict[str, str]:
        """Environment in which AWS clients reach this cloud and nothing else."""
        return self._environment(self.ports)

    def cdk(
        self, *arguments: str, app: Path | None = None, show: Callable[[str], None] = print
    ) -> str:
        """Run the CDK CLI on the project and return all that it printed.

        Args:
            app: a folder that was synthesised already, instead of the project.

        Raises:
            CdkFailed: with the output.
        """
        source = ["--app", str(app)] if app else ["--output", str(self._folder / "cdk.out")]
        return self._run([*arguments, *source], self._root, show)

    def _run(self, arguments: list[str], folder: Path, show: Callable[[str], None]) -> str:
        process = subprocess.Popen(
            [str(self._root / "node_modules/.bin/cdk"), *arguments],
            cwd=folder, env=self.environment(), text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        lines: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            show(line.rstrip())
        if process.wait():
            raise CdkFailed("".join(lines))
        return "".join(lines)

    def bootstrap(self) -> None:
        """`cdk bootstrap`, unless it was done."""
        cloudformation = self.client("cloudformation")
        stacks = [s["StackName"] for s in cloudformation.describe_stacks()["Stacks"]]
        if TOOLKIT not in stacks:
            self._run(["bootstrap", f"aws://{REHEARSAL_ACCOUNT}/{REGION}"], self._folder, print)

    def remove_bootstrap(self) -> None:
        """What a person does to get rid of CDK's own stack, whose bucket and images are kept."""
        cloudformation = self.client("cloudformation")
        resources = cloudformation.describe_stack_resources(StackName=TOOLKIT)["StackResources"]
        named = {r["ResourceType"]: r["PhysicalResourceId"] for r in resources}
        bucket, s3 = named["AWS::S3::Bucket"], self.client("s3")
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for version in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
                s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
        cloudformation.delete_stack(StackName=TOOLKIT)
        cloudformation.get_waiter("stack_delete_complete").wait(
            StackName=TOOLKIT, WaiterConfig={"Delay": 1}
        )
        with contextlib.suppress(s3.exceptions.NoSuchBucket):
            s3.delete_bucket(Bucket=bucket)

    def _check_tools(self) -> None:
        for path in (self._root / "node_modules/.bin/cdk", self._tool("hypercorn")):
            if not path.exists():
                raise MtrlError(
                    "no-tools", f"{path} is missing.", "Run `make local-cloud-tools` first."
                )

    def _tool(self, name: str) -> Path:
        return self._root / ".local-cloud" / "venv" / "bin" / name

    def _environment(self, ports: Ports) -> dict[str, str]:
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "CDK_"))}
        url = f"http://127.0.0.1:{ports.ministack}"
        return ours | {
            "AWS_ACCESS_KEY_ID": REHEARSAL_ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": url,
            "AWS_ENDPOINT_URL_S3": url,
            "AWS_ENDPOINT_URL_SAGEMAKER": f"http://127.0.0.1:{ports.rehearsal}",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NODE_PATH": str(self._root / "node_modules"),
            "CDK_DISABLE_VERSION_CHECK": "1",
            "PYTHONPATH": str(self._root),
        }

    def _ministack(self, ports: Ports) -> Server:
        url = f"127.0.0.1:{ports.ministack}"
        command = [str(self._tool("hypercorn")), "-w", "0", "-b", url, RESOURCE_TYPES]
        sagemaker = self._sagemaker_port or ports.rehearsal
        environment = self._environment(ports) | {
            "GATEWAY_PORT": str(ports.ministack),
            "MINISTACK_HOST": "127.0.0.1",
            "MINISTACK_REGION": REGION,
            "IOT_MTLS_ENABLED": "0",
            "PYTHONUNBUFFERED": "1",
            "AWS_ENDPOINT_URL_SAGEMAKER": f"http://127.0.0.1:{sagemaker}",
            PYTHON_VARIABLE: sys.executable,
            PORT_VARIABLE: str(ports.agent),
        }
        return Server("ministack", command, environment, f"http://{url}/_ministack/health")

    def _rehearsal(self, ports: Ports) -> Server:
        command = [sys.executable, "-m", "rehearsal", "--port", str(ports.rehearsal)]
        command += ["--state", str(self._folder / "rehearsal"), "--region", REGION]
        command += ["--account", REHEARSAL_ACCOUNT]
        command += ["--agent-url", f"http://127.0.0.1:{ports.agent}"]
        command += ["--s3-endpoint", f"http://127.0.0.1:{ports.ministack}"]
        url = f"http://127.0.0.1:{ports.rehearsal}/ping"
        return Server("rehearsal", command, self._environment(ports), url)


class CdkFailed(MtrlError):
    """The CDK CLI ended with an error; `output` is all that it printed."""

    def __init__(self, output: str) -> None:
        super().__init__("cdk-failed", f"cdk failed:\n{output[-4000:]}")
        self.output = output
