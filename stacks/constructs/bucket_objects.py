"""Files of the deployment in its bucket: copies of CDK assets, or text known while deploying."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from stacks.constructs.functions import Functions, Handler
from stacks.constructs.grants import Grant


class BucketObjects(Construct):
    """Puts objects under one prefix of a bucket.

    Args:
        copies: key -> asset.
        texts: key -> content, which may hold values that are known only while deploying.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        functions: Functions,
        bucket: str,
        bucket_arn: str,
        prefix: str,
        copies: Sequence[tuple[str, assets.Asset]] = (),
        texts: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(scope, id)
        write = Grant(
            ["s3:PutObject"],
            [f"{bucket_arn}/{prefix}*"],
            "Keys hold the content's hash, so they differ from one deployment to the next.",
        )
        read = [
            Grant(["s3:GetObject"], [asset.bucket.arn_for_objects(asset.s3_object_key)])
            for _, asset in copies
        ]
        handler = Handler("bucket_objects.on_event", [write, *read], Duration.minutes(5))
        provider = functions.provider(f"{id}Provider", handler)
        entries = [
            {"Key": key, "SourceBucket": asset.s3_bucket_name, "SourceKey": asset.s3_object_key}
            for key, asset in copies
        ] + [{"Key": key, "Body": body} for key, body in texts]
        CustomResource(
            self,
            "Resource",
            resource_type="Custom::BucketObjects",
            service_token=provider.service_token,
            properties={
                "Bucket": bucket,
                "Name": id,
                "Objects": Stack.of(self).to_json_string(entries),
            },
        )
