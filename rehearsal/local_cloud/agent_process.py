"""The agent's server, run as the deployed runtime specifies it.

Stands for AgentCore: one process with the runtime's environment variables, replaced when the
runtime is updated, ended when it is deleted. Its code is this repository's `agent/`, not the
runtime's zip, whose native parts are for another machine. Needs the standard library alone.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping

PYTHON_VARIABLE, PORT_VARIABLE = "LOCAL_CLOUD_PYTHON", "LOCAL_CLOUD_AGENT_PORT"
START_LIMIT_S = 30.0
"""AgentCore's own limit for platform version V1."""
INVOCATION_LIMIT_S = 600.0
_POLL_S = 0.1


class AgentProcess:
    """At most one process at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, variables: Mapping[str, str]) -> None:
        """Replace the process by one with these variables; return once it is healthy.

        Raises:
            ValueError: it is not healthy in time.
        """
        self.stop()
        # Its endpoint comes with every rollout (another one's is the rehearsal's), and its
        # credentials are the process's own.
        ours = {k: v for k, v in os.environ.items() if not k.startswith("AWS_ENDPOINT_URL")}
        ours["RFT_RUNTIME_ENDPOINT"] = os.environ["AWS_ENDPOINT_URL_SAGEMAKER"]
        port = os.environ[PORT_VARIABLE]
        command = [os.environ[PYTHON_VARIABLE], "-m", "agent.main"]
        self._process = subprocess.Popen(command, env={**ours, **variables, "PORT": port})
        deadline = time.monotonic() + START_LIMIT_S
        while not _healthy(f"http://127.0.0.1:{port}/ping"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ValueError("Runtime initialization failed: the agent is not healthy.")
            time.sleep(_POLL_S)

    def invoke(self, body: bytes) -> tuple[int, bytes]:
        """Hand an invocation on; the agent's HTTP status and answer.

        Raises:
            OSError: there is no process, or it does not answer within a rollout's longest time.
        """
        url = f"http://127.0.0.1:{os.environ[PORT_VARIABLE]}/invocations"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=INVOCATION_LIMIT_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def stop(self) -> None:
        """End the process if there is one."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (OSError, urllib.error.HTTPError):
        return False
