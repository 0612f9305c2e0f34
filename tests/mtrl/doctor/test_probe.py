"""The probe of a deployed agent: what it sends, and what a silent, refused or real agent gives."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mtrl.doctor.check import State

AGENT = "bedrock-agentcore"


def test_a_refused_token_is_warned_of(patient: Any) -> None:
    refused = patient.make.reply(error="/v1/chat/completions: 403 AccessDenied")
    patient.aws.on(AGENT, "InvokeAgentRuntime", refused)
    assert patient.examined("runtime-answers")["runtime-answers"].state is State.WARNING


def test_the_probe_is_shaped_like_a_rollout_and_ends_its_session(patient: Any) -> None:
    patient.examined("runtime-answers")
    first, second = patient.aws.asked("InvokeAgentRuntime")
    payload = json.loads(second["payload"])
    assert set(payload) == {"prompt", "metadata", "inferenceParams"}
    assert json.loads(payload["prompt"])["answer"]
    assert first["runtimeSessionId"] == second["runtimeSessionId"]
    (stopped,) = patient.aws.asked("StopRuntimeSession")
    assert stopped["runtimeSessionId"] == first["runtimeSessionId"]


def test_an_agent_whose_server_never_starts_is_found_by_its_silence(
    patient: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        del patient.aws.answers[AGENT, "InvokeAgentRuntime"]
        patient.probe_limit_s = 0.2
        finding = patient.examined("runtime-answers")["runtime-answers"]
    assert finding.state is State.FAILED
    assert "no answer within 0.2 s" in finding.what and "outermost" in finding.what
    assert "mtrl logs --agent" in finding.fix


@contextmanager
def agentcore(agent_url: str, runtime_url: str) -> Iterator[str]:
    """AgentCore's data plane in front of a real agent: hands invocations on."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "metadata" in body:
                body["metadata"]["endpoint"] = runtime_url
            request = urllib.request.Request(
                f"{agent_url}/invocations", json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )  # fmt: skip
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    self.reply(200, answer.read())
            except urllib.error.HTTPError:
                self.reply(424, b'{"message": "Received error (400) from runtime."}')

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if status != 200:
                self.send_header("x-amzn-ErrorType", "RuntimeClientError")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_the_real_agent_passes_the_probe(patient: Any, operator: Any) -> None:
    del patient.aws.answers[AGENT, "InvokeAgentRuntime"]
    patient.probe_limit_s = 30.0
    with agentcore(operator.parts.agents[0].url, operator.parts.url) as url:
        operator.monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", url)
        finding = patient.examined("runtime-answers")["runtime-answers"]
    assert finding.state is State.OK, finding
