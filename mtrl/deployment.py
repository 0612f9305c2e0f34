"""A deployment as the operator's commands see it: its names and ARNs, read from what it left.

Read from the outputs of its last stack, or from the JSON of the same content that lies in the
deployment's bucket, or from a copy of that in a file. Nothing else in `mtrl` knows those names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from botocore.exceptions import ClientError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from mtrl.aws import CLOUD_ERRORS, Cloud, chosen_region, is_missing, is_not_offered
from mtrl.errors import InputError

NAME, ENV = "mtrl", "dev"
"""A deployment's names begin with NAME-ENV unless its settings say otherwise."""
STACKS = ("foundation", "agent", "oversight", "training")
"""Of one deployment, in the order in which they are deployed; the last holds the outputs."""
RECORD_KEY = "deployment/outputs.json"
"""In the deployment's bucket."""
TAG = "mtrl:deployment"
"""Tag of everything that a deployment makes; its value is the deployment's prefix."""
F = TypeVar("F", bound=Callable[..., Any])


def env_of(prefix: str) -> str:
    """The settings (`-c env=…`) that a deployment of this prefix was made with."""
    return (
        prefix.removeprefix(f"{NAME}-") if prefix.startswith(f"{NAME}-") else prefix.split("-")[-1]
    )


class Deployment(BaseModel):
    """What one deployment consists of."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    deployment: str
    """What all its names begin with."""
    region: str
    account: str
    bucket: str
    output_uri: str
    train_uri: str
    validation_uri: str | None = None
    evaluation_uri: str | None = None
    dataset_hash: str = ""
    runtime_arn: str
    runtime_endpoint: str
    agent_bundle_hash: str = ""
    mlflow_app_arn: str
    mlflow_experiment: str
    output_group_arn: str
    checkpoint_group_arn: str
    job_role_arn: str
    topic_arn: str = ""
    model: str
    base_model_arn: str
    run_id: str = ""
    budget_usd: float | None = None
    hyperparameters: dict[str, str] = Field(default_factory=dict)
    """Those of the deployment's settings, as the service wants them."""
    accept_eula: bool = False
    """True when the deployment's settings accept the base model's licence."""
    security_group_ids: tuple[str, ...] = ()
    subnet_ids: tuple[str, ...] = ()
    job_name: str = ""

    @field_validator("hyperparameters", "security_group_ids", "subnet_ids", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """A stack's outputs are strings; what is more than that is JSON in them."""
        return json.loads(value) if isinstance(value, str) else value

    @property
    def runtime_id(self) -> str:
        """Id of the AgentCore runtime."""
        return self.runtime_arn.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Where:
    """Which deployment is meant."""

    prefix: str
    record: str | None
    """A file or an S3 URI with its outputs."""
    region: str | None
    named: bool
    """True when the operator said which one, by an option or the environment."""

    def cloud(self) -> Cloud:
        """Clients of the deployment's Region.

        Raises:
            InputError: no Region is set anywhere.
        """
        return Cloud(chosen_region(self.region))


def deployment_options(command: F) -> F:
    """Adds `--env`, `--stack-prefix`, `--deployment` and `--region`, handed over as `where`."""
    options = (
        click.option(
            "--env",
            envvar="MTRL_ENV",
            shell_complete=_complete_env,
            help=f"Deployment {NAME}-ENV.  [default: {ENV}; or MTRL_ENV]",
        ),
        click.option(
            "--stack-prefix",
            envvar="MTRL_STACK_PREFIX",
            help="What the stacks' names begin with, when it is not mtrl-ENV.",
        ),
        click.option(
            "--deployment",
            "record",
            envvar="MTRL_DEPLOYMENT",
            metavar="FILE|S3URI",
            help="Read the deployment's outputs from this JSON instead of its stacks.",
        ),
        click.option("--region", help="AWS Region; otherwise as boto3 finds it."),
    )
    wrapped = _gathered(command)
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # pyright: ignore[reportReturnType]


def _gathered(command: Callable[..., Any]) -> Callable[..., Any]:
    def inner(
        *,
        env: str | None,
        stack_prefix: str | None,
        record: str | None,
        region: str | None,
        **rest: Any,
    ) -> Any:
        prefix = stack_prefix or f"{NAME}-{env or ENV}"
        named = bool(env or stack_prefix or record)
        return command(where=Where(prefix, record, region, named), **rest)

    inner.__name__, inner.__doc__ = command.__name__, command.__doc__
    inner.__click_params__ = getattr(command, "__click_params__", [])  # pyright: ignore
    return inner


def _complete_env(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    names = sorted(path.stem for path in Path("stacks/environments").glob("*.toml"))
    return [name for name in names if name.startswith(typed)]


def read_deployment(cloud: Cloud, where: Where) -> Deployment:
    """Read the deployment that is meant.

    Raises:
        InputError: there is no such deployment, or its record lacks something; by name.
    """
    if where.record:
        return _parsed(_read_record(cloud, where.record), where.record)
    stack = f"{where.prefix}-{STACKS[-1]}"
    try:
        outputs = stack_outputs(cloud, stack)
    except CLOUD_ERRORS as error:
        if not is_not_offered(error):
            raise
        raise InputError(
            "no-stacks-here",
            "the endpoint offers no CloudFormation.",
            "Name the deployment's outputs with --deployment FILE or s3://….",
        ) from None
    if outputs is not None:
        return _parsed(outputs, f"stack {stack}")
    raise InputError(
        "no-deployment",
        f"there is no stack {stack} in {cloud.region}.",
        "Deploy it (make deploy ENV=…), or say which one is meant with --env, "
        "--stack-prefix, --deployment or --region.",
    )


def stack_outputs(cloud: Cloud, stack: str) -> dict[str, str] | None:
    """A stack's outputs under the record's names, or None when there is no such stack."""
    found = describe_stack(cloud, stack)
    if found is None:
        return None
    return {_snake(o["OutputKey"]): o["OutputValue"] for o in found.get("Outputs", ())}


def describe_stack(cloud: Cloud, stack: str) -> dict[str, Any] | None:
    """A stack as CloudFormation describes it, or None when there is none."""
    try:
        found = cloud.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if is_missing(error):
            return None
        raise
    return found[0] if found else None


def _snake(name: str) -> str:
    """ "MlflowAppArn" -> "mlflow_app_arn"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _read_record(cloud: Cloud, place: str) -> dict[str, Any]:
    try:
        text = _s3_text(cloud, place) if place.startswith("s3://") else Path(place).read_text()
        record = json.loads(text)
    except OSError as error:
        raise InputError("no-deployment", f"--deployment {place}: {error.strerror}.") from None
    except ValueError as error:
        raise InputError("no-deployment", f"--deployment {place}: not JSON: {error}.") from None
    if not isinstance(record, dict):
        raise InputError("no-deployment", f"--deployment {place}: not a JSON object.")
    return record


def _s3_text(cloud: Cloud, uri: str) -> str:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        body = cloud.client("s3").get_object(Bucket=bucket, Key=key or RECORD_KEY)["Body"]
    except ClientError as error:
        if is_missing(error):
            raise InputError("no-deployment", f"--deployment {uri}: no such object.") from None
        raise
    return body.read().decode()


def _parsed(record: Mapping[str, Any], place: str) -> Deployment:
    try:
        return Deployment.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(
            "bad-deployment",
            f"{place}: {key}: {first['msg'].lower()}.",
            "Deploy again with this version, or complete the record.",
        ) from None
