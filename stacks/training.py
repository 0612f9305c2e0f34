"""The run itself: the job's role, the deployment's record, and, last of all, the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from mtrl.errors import InputError
from mtrl.job.builder import RESUME_LAST, TrainingParts, training_document
from mtrl.job.document import DocumentError, TrainingDocument, parse_document
from mtrl.job.identity import canonical_json
from stacks.agent import Agent
from stacks.constructs.bucket_objects import BucketObjects
from stacks.constructs.functions import Functions
from stacks.constructs.job_role import JobResources, job_role
from stacks.constructs.training_job import TrainingJob
from stacks.datasets import PREFIX as DATASETS
from stacks.datasets import datasets_hash
from stacks.foundation import OUTPUT_PREFIX, Foundation
from stacks.settings import Settings

RECORD_PREFIX = "deployment/"
RECORD_KEY = f"{RECORD_PREFIX}outputs.json"
"""One JSON with all that the operator's commands need, in the deployment's bucket."""


class TrainingStack(Stack):
    """Nothing comes after the job, so nothing that fails later can roll it back."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        root: Path,
        foundation: Foundation,
        agent: Agent,
        dashboard: str,
        **props: Any,
    ) -> None:
        super().__init__(scope, id, **props)
        self._settings = settings
        self._foundation = foundation
        self._agent = agent
        functions = Functions(self, "Handlers", settings=settings, root=root)
        self._document = self._checked_document()
        role = job_role(self, "JobRole", settings=settings, resources=self._resources())
        self._record = self._record_of(role, dashboard)
        record = BucketObjects(
            self,
            "Record",
            functions=functions,
            bucket=foundation.bucket,
            bucket_arn=foundation.bucket_arn,
            prefix=RECORD_PREFIX,
            texts=[(RECORD_KEY, self.to_json_string(self._record, 2))],
        )
        self._outputs(self._record)
        if settings.training.submit_job:
            self._job(functions, role, record)

    def _job(self, functions: Functions, role: iam.Role, record: BucketObjects) -> None:
        job = TrainingJob(
            self,
            "Job",
            settings=self._settings,
            functions=functions,
            document=self._document,
            role=role,
            tags=self._tags(),
            readable_packages=[
                self._foundation.output_group.packages_arn,
                self._foundation.checkpoint_group.packages_arn,
            ],
        )
        job.resource.node.add_dependency(role, record)
        self._outputs({"job_arn": job.job_arn, "job_name": job.job_name})

    def _parts(self) -> TrainingParts:
        settings, foundation = self._settings, self._foundation
        train_uri = foundation.dataset_uri("train")
        assert train_uri is not None  # data.train is required
        vpc = settings.training.vpc
        return TrainingParts(
            base_model_arn=settings.base_model_arn,
            runtime_arn=self._agent.runtime_arn,
            qualifier=self._agent.endpoint,
            train_uri=train_uri,
            validation_uri=foundation.dataset_uri("validation"),
            output_uri=foundation.uri(f"{OUTPUT_PREFIX}/"),
            output_group_arn=foundation.output_group.arn,
            checkpoint_group_arn=foundation.checkpoint_group.arn,
            mlflow_arn=foundation.mlflow_app_arn,
            mlflow_experiment=settings.prefix,
            mlflow_run=f"{settings.prefix}-{settings.training.run_id}",
            hyperparameters=settings.training.wire(),
            input_package_arn=settings.training.resume_from or settings.training.start_from,
            security_group_ids=vpc.security_group_ids if vpc else (),
            subnet_ids=vpc.subnet_ids if vpc else (),
        )

    def _checked_document(self) -> dict[str, Any]:
        """The document; what can be judged before a deployment is judged here."""
        settings = self._settings
        document = training_document(self._parts(), accept_eula=settings.training.accept_eula)
        if settings.training.submit_job:
            sample = canonical_json(_with_samples(self.resolve(document), settings.region))
            try:
                parse_document(sample, TrainingDocument, settings.region)
            except DocumentError as error:
                raise InputError("bad-document", f"the job's document: {error}.") from None
        return document

    def _resources(self) -> JobResources:
        f = self._foundation
        return JobResources(
            bucket=f.bucket_arn,
            readable_prefixes=[DATASETS],
            writable_prefixes=[f"{OUTPUT_PREFIX}/"],
            runtime=self._agent.runtime_arn,
            mlflow_app=f.mlflow_app_arn,
            package_groups=[f.output_group.arn, f.checkpoint_group.arn],
            packages=[f.output_group.packages_arn, f.checkpoint_group.packages_arn],
            base_model=self._settings.base_model_arn,
        )

    def _tags(self) -> dict[str, str]:
        """What the job carries, so that a run can be traced back to what it was made of."""
        return {
            "mtrl:deployment": self._settings.prefix,
            "mtrl:run-id": self._settings.training.run_id,
            "mtrl:agent-bundle": self._agent.bundle_hash,
            "mtrl:dataset": datasets_hash(self._foundation.datasets),
        }

    def _record_of(self, role: iam.Role, dashboard: str) -> dict[str, Any]:
        settings, f, agent = self._settings, self._foundation, self._agent
        return {
            "deployment": settings.prefix,
            "region": self.region,
            "account": self.account,
            "bucket": f.bucket,
            "output_uri": f.uri(f"{OUTPUT_PREFIX}/"),
            **{f"{d.channel}_uri": f.dataset_uri(d.channel) for d in f.datasets},
            "dataset_hash": datasets_hash(f.datasets),
            "runtime_arn": agent.runtime_arn,
            "runtime_endpoint": agent.endpoint,
            "agent_bundle_hash": agent.bundle_hash,
            "mlflow_app_arn": f.mlflow_app_arn,
            "mlflow_experiment": settings.prefix,
            "output_group_arn": f.output_group.arn,
            "checkpoint_group_arn": f.checkpoint_group.arn,
            "job_role_arn": role.role_arn,
            "topic_arn": f.topic_arn,
            "dashboard": dashboard,
            "model": settings.training.model,
            "base_model_arn": settings.base_model_arn,
            "run_id": settings.training.run_id,
            "budget_usd": str(settings.budget.usd),
            "hyperparameters": canonical_json(settings.training.wire()),
            "accept_eula": str(settings.training.accept_eula).lower(),
            **self._network_record(),
        }

    def _network_record(self) -> dict[str, str]:
        vpc = self._settings.training.vpc
        if vpc is None:
            return {}
        return {
            "security_group_ids": json.dumps(vpc.security_group_ids),
            "subnet_ids": json.dumps(vpc.subnet_ids),
        }

    def _outputs(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            CfnOutput(self, "".join(part.title() for part in name.split("_")), value=value)


def _with_samples(value: Any, region: str, key: str = "") -> Any:
    """The document with an example in place of every value that only a deployment knows."""
    if isinstance(value, list):
        return [_with_samples(item, region, key) for item in value]
    unresolved = isinstance(value, dict) and len(value) == 1 and next(iter(value))[:4] in _INTRINSIC
    if isinstance(value, dict) and not unresolved:
        return {k: _with_samples(v, region, k) for k, v in value.items()}
    if unresolved or value == RESUME_LAST:
        return f"s3://example/{key}" if key.startswith("S3") else _sample_arn(key, region)
    return value


_INTRINSIC = ("Fn::", "Ref")


def _sample_arn(key: str, region: str) -> str:
    service = "bedrock-agentcore" if key == "AgentRuntimeArn" else "sagemaker"
    return f"arn:aws:{service}:{region}:000000000000:sample/{key}"
