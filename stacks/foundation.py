"""What outlives a run: the bucket with the data sets, MLflow, the model packages, the notices."""

# jsii names protocol parameters otherwise than their implementations do:
# pyright: reportArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.constructs.bucket_objects import BucketObjects
from stacks.constructs.functions import Functions, Handler
from stacks.constructs.grants import Grant, acknowledge, inline_role
from stacks.constructs.package_groups import EmptiedPackageGroups, PackageGroup
from stacks.constructs.published import publish
from stacks.datasets import PREFIX, DatasetFile, read_datasets
from stacks.settings import Settings

MLFLOW_PREFIX = "mlflow"
OUTPUT_PREFIX = "output"
OLD_VERSIONS_DAYS = 30
ABORTED_UPLOADS_DAYS = 7


@dataclass(frozen=True, slots=True)
class Foundation:
    """What the stacks after this one use."""

    bucket: str
    bucket_arn: str
    topic_arn: str
    mlflow_app_arn: str
    output_group: PackageGroup
    checkpoint_group: PackageGroup
    datasets: list[DatasetFile]

    def uri(self, key: str) -> str:
        """S3 URI of a key in the bucket."""
        return f"s3://{self.bucket}/{key}"

    def dataset_uri(self, channel: str) -> str | None:
        """S3 URI of a channel's rows, or None when the deployment has none."""
        key = next((f.key for f in self.datasets if f.channel == channel), None)
        return self.uri(key) if key else None


class FoundationStack(Stack):
    """Bucket, data sets, MLflow App, model package groups, topic. Attribute: `published`."""

    def __init__(
        self, scope: Construct, id: str, *, settings: Settings, root: Path, **props: Any
    ) -> None:
        super().__init__(scope, id, **props)
        self._settings = settings
        keep = settings.keep_data
        self._removal = RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY
        self._functions = Functions(self, "Handlers", settings=settings, root=root)
        self._bucket = self._make_bucket()
        datasets = self._datasets(root)
        output = self._group("OutputGroup", "models", "Trained adapters of multi-turn RL jobs")
        checkpoints = self._group(
            "CheckpointGroup", "checkpoints", "Resumable checkpoints of multi-turn RL jobs"
        )
        if not keep:
            groups = [output, checkpoints]
            EmptiedPackageGroups(self, "Emptied", groups=groups, functions=self._functions)
        self.published = Foundation(
            bucket=publish(self, "BucketName", self._bucket.bucket_name),
            bucket_arn=publish(self, "BucketArn", self._bucket.bucket_arn),
            topic_arn=publish(self, "TopicArn", self._topic().topic_arn),
            mlflow_app_arn=publish(self, "MlflowAppArn", self._mlflow_app().attr_arn),
            output_group=output,
            checkpoint_group=checkpoints,
            datasets=datasets,
        )

    def _group(self, id: str, suffix: str, description: str) -> PackageGroup:
        return PackageGroup(
            self,
            id,
            name=f"{self._settings.prefix}-{suffix}",
            description=description,
            keep=self._settings.keep_data,
        )

    def _make_bucket(self) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    noncurrent_version_expiration=Duration.days(OLD_VERSIONS_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(ABORTED_UPLOADS_DAYS),
                )
            ],
            removal_policy=self._removal,
        )
        if self._removal == RemovalPolicy.DESTROY:
            self._empty_at_the_end(bucket)
        acknowledge(
            bucket,
            "One deployment's own data; CloudTrail data events serve who needs access logs, "
            "and a log bucket would be one more thing to empty.",
            "AwsSolutions-S1",
        )
        return bucket

    def _empty_at_the_end(self, bucket: s3.Bucket) -> None:
        grants = [
            Grant(
                [
                    "s3:GetBucketPolicy",
                    "s3:PutBucketPolicy",
                    "s3:ListBucketVersions",
                    "s3:ListBucketMultipartUploads",
                ],
                [bucket.bucket_arn],
            ),
            Grant(
                ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload"],
                [bucket.arn_for_objects("*")],
                "Everything in the bucket goes with the bucket.",
            ),
        ]
        handler = Handler("emptied_bucket.on_event", grants, Duration.minutes(15))
        emptied = CustomResource(
            self,
            "EmptiedBucket",
            resource_type="Custom::EmptiedBucket",
            service_token=self._functions.provider("BucketProvider", handler).service_token,
            properties={"Bucket": bucket.bucket_name},
        )
        if bucket.policy is not None:
            emptied.node.add_dependency(bucket.policy)

    def _datasets(self, root: Path) -> list[DatasetFile]:
        batch = self._settings.training.values()["global_batch_size"]
        files = read_datasets(root, self._settings.data.files(), batch)
        copies = [
            (f.key, assets.Asset(self, f"Dataset-{f.channel}", path=str(f.path))) for f in files
        ]
        BucketObjects(
            self, "Datasets", functions=self._functions, bucket=self._bucket.bucket_name,
            bucket_arn=self._bucket.bucket_arn, prefix=PREFIX,
            copies=copies,
        )  # fmt: skip
        return files

    def _mlflow_app(self) -> sagemaker.CfnMlflowApp:
        role = inline_role(
            self,
            "MlflowRole",
            iam.ServicePrincipal(
                "sagemaker.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            ),
            {"Artifacts": self._mlflow_grants()},
        )
        app = sagemaker.CfnMlflowApp(
            self,
            "MlflowApp",
            name=f"{self._settings.prefix}-mlflow-app",
            artifact_store_uri=f"s3://{self._bucket.bucket_name}/{MLFLOW_PREFIX}",
            role_arn=role.role_arn,
            model_registration_mode="AutoModelRegistrationDisabled",
        )
        app.apply_removal_policy(self._removal)
        return app

    def _mlflow_grants(self) -> list[Grant]:
        return [
            Grant(
                ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
                [self._bucket.arn_for_objects(f"{MLFLOW_PREFIX}/*")],
                "MLflow chooses the keys of its artifacts below this one prefix.",
            ),
            Grant(
                ["s3:ListBucket"],
                [self._bucket.bucket_arn],
                conditions={"StringLike": {"s3:prefix": [MLFLOW_PREFIX, f"{MLFLOW_PREFIX}/*"]}},
            ),
        ]

    def _topic(self) -> sns.Topic:
        topic = sns.Topic(self, "Notices", enforce_ssl=True)
        topic.grant_publish(iam.ServicePrincipal("events.amazonaws.com"))
        if self._settings.notify_email:
            topic.add_subscription(subscriptions.EmailSubscription(self._settings.notify_email))
        return topic
