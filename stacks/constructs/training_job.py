"""The SageMaker training job as a resource of a stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.functions import Functions, Handler
from stacks.constructs.grants import Grant
from stacks.constructs.job_role import JOB_SERVICE
from stacks.constructs.runtime_guard import job_arns
from stacks.settings import Settings

FIRST_STEP_LIMIT = Duration.minutes(15)
"""Waiting for a fresh role and for the remains of an earlier attempt fits into it."""


class TrainingJob(Construct):
    """Attributes `job_arn` and `job_name` are known once the job has been accepted."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        functions: Functions,
        document: Mapping[str, Any],
        role: iam.Role,
        tags: Mapping[str, str],
        readable_packages: Sequence[str],
    ) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        grants = self._grants(stack, settings, role, readable_packages)
        provider = functions.provider(
            "JobProvider",
            Handler("training_job.on_event", grants, FIRST_STEP_LIMIT),
            Handler("training_job.is_complete", grants, Duration.minutes(2)),
        )
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::TrainingJob",
            service_token=provider.service_token,
            properties={
                "Prefix": settings.prefix,
                "RunId": settings.training.run_id,
                "Document": stack.to_json_string(document),
                "RoleArn": role.role_arn,
                "Tags": stack.to_json_string(tags),
                "EarlyWatchSeconds": settings.training.early_watch_s,
            },
        )
        self.job_arn = self.resource.get_att_string("JobArn")
        self.job_name = self.resource.get_att_string("JobName")

    def _grants(
        self, stack: Stack, settings: Settings, role: iam.Role, packages: Sequence[str]
    ) -> list[Grant]:
        return [
            Grant(
                ["sagemaker:ListJobs", "sagemaker:ListModelPackages"],
                ["*"],
                "Listing knows no resource.",
            ),
            Grant(
                ["sagemaker:DescribeJob"],
                job_arns(stack, "*"),
                "When a quota refuses the job, those that hold it are named.",
            ),
            Grant(
                [
                    "sagemaker:CreateJob",
                    "sagemaker:StopJob",
                    "sagemaker:DeleteJob",
                    "sagemaker:AddTags",
                ],
                job_arns(stack, f"{settings.prefix}-*")[:1],
                "Jobs of this deployment begin with its name and end in a hash.",
            ),
            Grant(
                ["sagemaker:DescribeModelPackage", "sagemaker:AccessModelPackage"],
                packages,
                "Jobs number the packages of a group.",
            ),
            Grant(
                ["iam:PassRole"],
                [role.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": JOB_SERVICE}},
            ),
        ]
