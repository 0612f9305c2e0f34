"""Checks that ask the deployed agent itself: is it ready, does it start, does it play?

Two invocations in one session, which is stopped afterwards so that it is not billed while idle.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from mtrl.aws import error_code, error_message, is_denied, is_not_offered
from mtrl.dataset.files import PROMPT
from mtrl.doctor.check import Check, Subject, Verdict, failed, ok, skipped, warning

REFUSED = ("401", "403")
NO_ROW = "{}"
"""A prompt that no task accepts: the agent answers without sampling."""


def ready(subject: Subject) -> Verdict:
    """Is the runtime READY, and does its endpoint serve the newest version?"""
    d = subject.deployed
    deploy = subject.deploy("agent")
    control = subject.cloud.client("bedrock-agentcore-control")
    try:
        runtime = subject.runtime
        endpoint = control.get_agent_runtime_endpoint(
            agentRuntimeId=d.runtime_id, endpointName=d.runtime_endpoint
        )
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            return failed(f"no such runtime or endpoint: {error_message(error)}", deploy)
        raise
    for what, status in (("runtime", runtime["status"]), ("endpoint", endpoint["status"])):
        if status != "READY":
            said = runtime.get("failureReason") or endpoint.get("failureReason") or ""
            return failed(f"the {what} is {status}{f': {said}' if said else ''}", deploy)
    live, target = endpoint["liveVersion"], endpoint.get("targetVersion")
    if target not in (None, live):
        return failed(f"the endpoint moves from version {live} to {target}", "wait for it to end")
    newest = runtime["agentRuntimeVersion"]
    if newest != live:
        return warning(
            f"the runtime is at version {newest}, the endpoint serves {live}: "
            "it was changed outside of a deployment",
            deploy,
        )
    return ok(f"{d.runtime_id}, version {live}")


class Probe:
    """Invokes the deployed agent within one session."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._session = f"mtrl-doctor-{uuid.uuid4().hex}"
        self._client = subject.cloud.single_try("bedrock-agentcore", subject.probe_limit_s)

    def invoke(self, payload: dict[str, Any]) -> dict[str, Any] | str:
        """The agent's JSON answer, or its answer as text when it is no JSON object.

        Raises:
            ClientError, ReadTimeoutError: as boto3 does.
        """
        d = self._subject.deployed
        answer = self._client.invoke_agent_runtime(
            agentRuntimeArn=d.runtime_arn,
            qualifier=d.runtime_endpoint,
            runtimeSessionId=self._session,
            contentType="application/json",
            accept="application/json",
            payload=json.dumps(payload).encode(),
        )
        body = answer["response"].read()
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else body.decode("utf-8", "replace")[:200]

    def end(self) -> None:
        """Stop the session; a failure only leaves it to its own timeout."""
        d = self._subject.deployed
        try:
            self._client.stop_runtime_session(
                agentRuntimeArn=d.runtime_arn,
                qualifier=d.runtime_endpoint,
                runtimeSessionId=self._session,
            )
        except Exception:  # whatever it is, the session's idle timeout ends it
            return


def answers(subject: Subject) -> Verdict:
    """Does the agent's server start and take a rollout, and does it reach the policy?"""
    probe = Probe(subject)
    try:
        started = _starts(subject, probe)
        return started or _plays(subject, probe)
    finally:
        probe.end()


def _starts(subject: Subject, probe: Probe) -> Verdict | None:
    """A payload that the agent refuses at once; None when it did."""
    limit = f"{subject.probe_limit_s:g} s"
    logs = _logs(subject)
    try:
        probe.invoke({"prompt": NO_ROW})
    except (ReadTimeoutError, ConnectionClosedError):
        return failed(
            f"the agent gave no answer within {limit}: its server did not start (is the "
            "entrypoint the outermost decorator, and the import light enough?)",
            logs,
        )
    except ClientError as error:
        said, code = error_message(error), error_code(error)
        if is_denied(error):
            return skipped(f"not permitted to invoke the agent: {said}")
        if is_not_offered(error):
            return skipped("the endpoint does not offer InvokeAgentRuntime")
        if code == "ResourceNotFoundException":
            return failed(said, subject.deploy("agent"))
        if code != "RuntimeClientError" or _did_not_start(said):
            return failed(f"the agent did not start: {code}: {said}", logs)
    return None


def _did_not_start(said: str) -> bool:
    """AgentCore reports a crash at start as a timeout of the start."""
    words = said.lower()
    return any(word in words for word in ("initiali", "timed out", "timeout", "health"))


def _plays(subject: Subject, probe: Probe) -> Verdict:
    """A payload as the service sends it, for a trajectory that does not exist."""
    logs = _logs(subject)
    try:
        answer = probe.invoke(rollout_payload(subject))
    except (ReadTimeoutError, ConnectionClosedError):
        return failed(
            f"the agent started, but had not come through to the job runtime within "
            f"{subject.probe_limit_s:g} s (no route from its network, or no permission)",
            logs,
        )
    except ClientError as error:
        return failed(f"the agent broke on a rollout: {error_message(error)}", logs)
    if isinstance(answer, str) or "status" not in answer:
        return failed(
            f"the agent answered, but not as a rollout does: {str(answer)[:120]}",
            subject.deploy("agent"),
        )
    said = str(answer.get("error") or "")
    if answer.get("stop_reason") == "bad_row":
        return failed(f"the agent cannot read a row of the data set: {said}", "mtrl dataset check")
    if answer.get("stop_reason") == "task_error":
        return failed(f"the agent's task breaks on a row: {said}", logs)
    if any(f": {status}" in said for status in REFUSED):
        return warning(
            f"the job runtime refused the agent's token, perhaps because the probe's job does "
            f"not exist: {said[:160]}",
            "see the check runtime-role-permissions",
        )
    return ok("it starts, reads a row and reaches the job runtime")


def _logs(subject: Subject) -> str:
    return f"mtrl logs --agent --since 10m --stack-prefix {subject.prefix}"


def rollout_payload(subject: Subject) -> dict[str, Any]:
    """What the service posts for one rollout, with a row of the deployment's data set."""
    d = subject.deployed
    name = f"{d.deployment}-doctor-probe"
    return {
        "prompt": _first_prompt(subject),
        "metadata": {
            "jobArn": f"arn:aws:sagemaker:{d.region}:{d.account}:job/AgentRFT/{name}",
            "rolloutId": f"doctor-{uuid.uuid4().hex}",
            "region": d.region,
        },
        "inferenceParams": {"temperature": 1.0, "topP": 1.0, "maxTokens": 512},
    }


def _first_prompt(subject: Subject) -> str:
    """The first row's text; a row that no agent reads when there is none to be had."""
    bucket, _, key = subject.deployed.train_uri.removeprefix("s3://").partition("/")
    try:
        body = subject.cloud.client("s3").get_object(Bucket=bucket, Key=key)["Body"]
        return json.loads(next(body.iter_lines()))[PROMPT]
    except (ClientError, ValueError, KeyError, TypeError, StopIteration):
        return NO_ROW


CHECKS = (
    Check(
        "runtime-ready",
        "deployment",
        "rollouts that reach no agent never reach the policy, and that fails the job.",
        ready,
    ),
    Check(
        "runtime-answers",
        "deployment",
        'an agent that does not answer fails the job ("No sampling requests were received").',
        answers,
    ),
)
