"""Model package groups that can be removed although they hold packages."""

from __future__ import annotations

from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.functions import Functions, Handler
from stacks.constructs.grants import Grant, regional_arn


class PackageGroup(Construct):
    """One group. Attributes: `name`, `arn`, and `packages_arn`, which matches its packages."""

    def __init__(
        self, scope: Construct, id: str, *, name: str, description: str, keep: bool
    ) -> None:
        super().__init__(scope, id)
        self.name = name
        self.resource = sagemaker.CfnModelPackageGroup(
            self,
            "Group",
            model_package_group_name=name,
            model_package_group_description=description,
        )
        if keep:
            self.resource.apply_removal_policy(RemovalPolicy.RETAIN)
        self.arn = regional_arn(Stack.of(self), "sagemaker", f"model-package-group/{name}")
        self.packages_arn = regional_arn(Stack.of(self), "sagemaker", f"model-package/{name}/*")


class EmptiedPackageGroups(Construct):
    """Deletes the groups' packages before CloudFormation deletes the groups themselves."""

    def __init__(
        self, scope: Construct, id: str, *, groups: list[PackageGroup], functions: Functions
    ) -> None:
        super().__init__(scope, id)
        grants = [
            Grant(["sagemaker:ListModelPackages"], ["*"], "Listing knows no resource."),
            Grant(
                ["sagemaker:DeleteModelPackage"],
                [group.packages_arn for group in groups],
                "Jobs number the packages of a group.",
            ),
        ]
        handler = Handler("package_groups.on_event", grants, Duration.minutes(15))
        provider = functions.provider("PackagesProvider", handler)
        emptied = CustomResource(
            self,
            "Resource",
            resource_type="Custom::EmptiedPackageGroups",
            service_token=provider.service_token,
            properties={"Names": Stack.of(self).to_json_string([group.name for group in groups])},
        )
        for group in groups:
            emptied.node.add_dependency(group.resource)
