"""The CloudFormation types that ministack lacks, added to its table of handlers.

This one module knows ministack's insides: `_RESOURCE_HANDLERS` (a private name, hence the pinned
version) and its AgentCore service's functions. AgentCore types are passed on to that service and
start the agent, SageMaker types go to the rehearsal service, and types that only steer AWS's own
log delivery are recorded. Served as `app` by hypercorn, in ministack's own Python environment.
"""

# ministack lives in an environment of its own:
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import botocore.session  # ministack's, not the project's
from botocore.exceptions import ClientError
from ministack.app import app  # noqa: F401  (what hypercorn serves)
from ministack.services import bedrock_agentcore as agentcore
from ministack.services.cloudformation import provisioners

from rehearsal.local_cloud.agent_process import AgentProcess

_agent = AgentProcess()
SESSION_HEADER = "x-amzn-bedrock-agentcore-runtime-session-id"
Properties = dict[str, Any]
Made = tuple[str, dict[str, Any]]
"""Physical id, and attributes for Fn::GetAtt."""
_DELIVERY_TYPES = (
    "AWS::Logs::DeliverySource",
    "AWS::Logs::DeliveryDestination",
    "AWS::Logs::Delivery",
    "AWS::XRay::ResourcePolicy",
)


def _sagemaker() -> Any:
    """A client of the rehearsal service (AWS_ENDPOINT_URL_SAGEMAKER)."""
    session = botocore.session.get_session()
    return session.create_client("sagemaker", region_name=os.environ["AWS_REGION"])


def _answer(response: Any) -> dict[str, Any]:
    """The body of an answer of ministack's AgentCore service, or its error."""
    status, _headers, body = response
    data = json.loads(body)
    if status >= 400:
        raise ValueError(data.get("message") or data.get("Message") or str(data))
    return data


def _camel(value: Any) -> Any:
    """CloudFormation's names as the API spells them; environment variables keep theirs."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if isinstance(value, dict):
        return {
            key[:1].lower() + key[1:]: item if key == "EnvironmentVariables" else _camel(item)
            for key, item in value.items()
        }
    return value


def _runtime_body(props: Properties) -> dict[str, Any]:
    """The API's request: CloudFormation names the protocol by a string, the API by an object."""
    body = _camel(props)
    if isinstance(body.get("protocolConfiguration"), str):
        body["protocolConfiguration"] = {"serverProtocol": body["protocolConfiguration"]}
    return body


def _runtime_attributes(runtime_id: str) -> dict[str, Any]:
    runtime = _answer(agentcore._get_agent_runtime(runtime_id))
    names = ("agentRuntimeArn", "agentRuntimeId", "agentRuntimeVersion", "status")
    return {name[:1].upper() + name[1:]: runtime[name] for name in names}


def _create_runtime(_logical: str, props: Properties, _stack: str) -> Made:
    body = json.dumps(_runtime_body(props))
    runtime_id = _answer(agentcore._create_agent_runtime(body))["agentRuntimeId"]
    try:
        _agent.start(props.get("EnvironmentVariables", {}))
    except ValueError:
        agentcore._delete_agent_runtime(runtime_id)
        raise
    return runtime_id, _runtime_attributes(runtime_id)


def _update_runtime(physical: str, _old: Properties, new: Properties, _stack: str) -> Made:
    _answer(agentcore._update_agent_runtime(physical, json.dumps(_runtime_body(new))))
    _agent.start(new.get("EnvironmentVariables", {}))
    return physical, _runtime_attributes(physical)


def _delete_runtime(physical: str, _props: Properties) -> None:
    agentcore._delete_agent_runtime(physical)
    _agent.stop()


def _invoke(_runtime: Properties, headers: dict[str, str], body: bytes) -> Any:
    """InvokeAgentRuntime: the agent answers, where ministack would echo."""
    try:
        status, answer = _agent.invoke(body)
    except OSError as error:
        said = f"Runtime health check failed or timed out: {error}"
        return agentcore.error_response_json("RuntimeClientError", said, 424)
    if status >= 400:
        said = f"Received error ({status}) from runtime."
        return agentcore.error_response_json("RuntimeClientError", said, 424)
    session = headers.get(SESSION_HEADER) or agentcore.new_uuid()
    return 200, {"Content-Type": "application/json", SESSION_HEADER: session}, answer


def _create_endpoint(_logical: str, props: Properties, _stack: str) -> Made:
    body = json.dumps(_camel(props))
    made = _answer(agentcore._create_agent_runtime_endpoint(props["AgentRuntimeId"], body))
    arn = made["agentRuntimeEndpointArn"]
    return arn, {"AgentRuntimeEndpointArn": arn, "TargetVersion": made["targetVersion"]}


def _update_endpoint(physical: str, _old: Properties, new: Properties, _stack: str) -> Made:
    runtime_id, body = new["AgentRuntimeId"], json.dumps(_camel(new))
    _answer(agentcore._update_agent_runtime_endpoint(runtime_id, new["Name"], body))
    return physical, {"AgentRuntimeEndpointArn": physical}


def _delete_endpoint(_physical: str, props: Properties) -> None:
    agentcore._delete_agent_runtime_endpoint(props["AgentRuntimeId"], props["Name"])


def _create_group(_logical: str, props: Properties, _stack: str) -> Made:
    arn = _sagemaker().create_model_package_group(**props)["ModelPackageGroupArn"]
    return arn, {"ModelPackageGroupArn": arn}


def _delete_group(physical: str, _props: Properties) -> None:
    _ignoring_missing(_sagemaker().delete_model_package_group, ModelPackageGroupName=physical)


def _create_mlflow_app(_logical: str, props: Properties, _stack: str) -> Made:
    arn = _sagemaker().create_mlflow_app(**props)["Arn"]
    return arn, {"Arn": arn}


def _delete_mlflow_app(physical: str, _props: Properties) -> None:
    _ignoring_missing(_sagemaker().delete_mlflow_app, Arn=physical)


def _ignoring_missing(call: Callable[..., Any], **arguments: Any) -> None:
    try:
        call(**arguments)
    except ClientError as error:
        said = error.response["Error"]
        missing = said["Code"] == "ResourceNotFound" or "does not exist" in said["Message"]
        if not missing:
            raise


def _record(logical: str, props: Properties, stack: str) -> Made:
    name = props.get("Name") or props.get("PolicyName") or f"{stack}-{logical}"
    return name, {"Arn": f"arn:aws:logs:{os.environ['AWS_REGION']}:recorded:{name}"}


def _forget(_physical: str, _props: Properties) -> None:
    """Nothing was made."""


def handlers() -> dict[str, dict[str, Callable[..., Any]]]:
    """The added types and their handlers."""
    recorded = {"create": _record, "delete": _forget}
    return {
        "AWS::BedrockAgentCore::Runtime": {
            "create": _create_runtime, "update": _update_runtime, "delete": _delete_runtime,
        },
        "AWS::BedrockAgentCore::RuntimeEndpoint": {
            "create": _create_endpoint, "update": _update_endpoint, "delete": _delete_endpoint,
        },
        "AWS::SageMaker::ModelPackageGroup": {"create": _create_group, "delete": _delete_group},
        "AWS::SageMaker::MlflowApp": {"create": _create_mlflow_app, "delete": _delete_mlflow_app},
        **dict.fromkeys(_DELIVERY_TYPES, recorded),
    }  # fmt: skip


provisioners._RESOURCE_HANDLERS.update(handlers())
agentcore._invoke_agent_runtime_in_owner = _invoke
