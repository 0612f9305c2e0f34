"""Where evaluation jobs run: a deployment, or a rehearsal service that is started for them.

Both are spoken to with the same calls; they differ in the client and in names.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agent
from mtrl.aws import Cloud
from mtrl.deployment import Deployment
from mtrl.errors import InputError
from mtrl.evaluate.plan import Cell, Kind, Policy
from mtrl.job.document import DocumentError, EvaluationDocument, parse_document
from mtrl.job.evaluation import EvaluationParts, evaluation_document
from mtrl.job.hyperparameters import to_wire
from mtrl.job.identity import canonical_json
from mtrl.rehearse.environment import BUCKET, EXPERIMENT, create_environment
from mtrl.rehearse.processes import local_parts
from mtrl.rehearse.results import agent_hash

ROWS_FOLDER = "evaluations/rows"
"""In the bucket; each set of rows under the hash of its content."""
LOCAL_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Site:
    """Names and clients of one place."""

    client: Callable[[str], Any]
    """Service name -> boto3 client."""
    name: str
    """What its jobs' names begin with."""
    region: str
    bucket: str
    output_uri: str
    runtime_arn: str
    qualifier: str
    mlflow_arn: str
    experiment: str
    role_arn: str
    base_model: str
    """ARN."""
    agent_hash: str
    """Of the agent that plays; empty when it is not known."""
    accept_eula: bool
    local: bool = False
    """True for a service of this command's own: nothing else runs there and nothing is billed."""


def deployed(cloud: Cloud, d: Deployment, *, accept_eula: bool) -> Site:
    """A deployment.

    Raises:
        InputError: the base model's licence has not been accepted.
    """
    if not accept_eula:
        raise InputError(
            "eula",
            "the base model's licence has not been accepted.",
            "Read it in the model's card, then add --accept-eula.",
        )
    return Site(
        client=cloud.client,
        name=d.deployment,
        region=d.region,
        bucket=d.bucket,
        output_uri=d.output_uri,
        runtime_arn=d.runtime_arn,
        qualifier=d.runtime_endpoint,
        mlflow_arn=d.mlflow_app_arn,
        experiment=d.mlflow_experiment,
        role_arn=d.job_role_arn,
        base_model=d.base_model_arn,
        agent_hash=d.agent_bundle_hash,
        accept_eula=True,
    )


@contextmanager
def started(policy: Policy, task: str) -> Iterator[Site]:
    """A rehearsal service for a local policy, ended with the block.

    Raises:
        MtrlError: it does not start; its logs are kept and named.
    """
    folder = Path(tempfile.mkdtemp(prefix="mtrl-evaluate-"))
    options = []
    if policy.kind is Kind.UPSTREAM:
        options = ["--upstream-url", policy.target, "--upstream-model", policy.model]
    with local_parts(folder, LOCAL_REGION, options, 1, task) as parts:
        environment = create_environment(parts)
        yield Site(
            client=parts.client,
            name="local",
            region=parts.region,
            bucket=BUCKET,
            output_uri=environment.uri("output"),
            runtime_arn=environment.runtime_arn,
            qualifier="rehearsal",
            mlflow_arn=environment.mlflow_arn,
            experiment=EXPERIMENT,
            role_arn=environment.role_arn,
            base_model=environment.model_arn(),
            agent_hash=agent_hash(Path(agent.__file__).parent),
            accept_eula=True,
            local=True,
        )
    shutil.rmtree(folder)  # not reached when something failed: then its logs are wanted


def document(site: Site, cell: Cell, rows_uri: str, run: str) -> dict[str, Any]:
    """The evaluation job's document.

    Raises:
        InputError: the service would refuse it; names the key.
    """
    repeats = cell.conditions.repeats
    values = {
        "temperature": cell.conditions.temperature,
        "eval_group_size": repeats,
        "pass_k_values": [2**n for n in range(repeats.bit_length())],
        **dict(cell.values),
    }
    made = evaluation_document(
        EvaluationParts(
            base_model_arn=cell.policy.model_arn(site.base_model, site.region),
            runtime_arn=site.runtime_arn,
            qualifier=site.qualifier,
            rows_uri=rows_uri,
            output_uri=site.output_uri,
            mlflow_arn=site.mlflow_arn,
            mlflow_experiment=site.experiment,
            mlflow_run=run,
            hyperparameters=to_wire(values),
            package_arn=cell.policy.target if cell.policy.kind is Kind.PACKAGE else None,
        ),
        accept_eula=site.accept_eula,
    )
    try:
        parse_document(canonical_json(made), EvaluationDocument, site.region)
    except DocumentError as error:
        raise InputError("bad-document", f"the evaluation of {cell.title}: {error}.") from None
    return made
