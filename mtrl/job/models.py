"""Which base models a multi-turn RL job can train, and in which Regions.

Source: SageMaker AI developer guide, supported models (late 2026). The hub content name of
gpt-oss-20b is the one that the public sample uses; those of the other three are not published in
a source at hand and are left to the operator.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BaseModel:
    """A trainable base model."""

    title: str
    hub_name: str | None
    """Name in SageMakerPublicHub, or None when no source names it."""
    regions: tuple[str, ...]


BASE_MODELS: dict[str, BaseModel] = {
    "gpt-oss-20b": BaseModel(
        "GPT-OSS-20B", "openai-reasoning-gpt-oss-20b", ("us-east-1", "us-west-2")
    ),
    "nova-2-lite": BaseModel("Nova 2 Lite", None, ("us-east-1", "us-west-2")),
    "gemma-4-31b": BaseModel("Gemma 4 31B instruction-tuned", None, ("us-west-2",)),
    "qwen-3.6-27b": BaseModel("Qwen 3.6 27B", None, ("us-west-2",)),
}

REGIONS = tuple(sorted({region for model in BASE_MODELS.values() for region in model.regions}))
"""Regions in which at least one base model can be trained."""


def base_model_arn(hub_name: str, region: str, partition: str = "aws") -> str:
    """ARN of a public hub model, as `TrainingConfig.BaseModelArn` wants it."""
    return f"arn:{partition}:sagemaker:{region}:aws:hub-content/SageMakerPublicHub/Model/{hub_name}"


def hub_name_of(arn: str) -> str:
    """The model's name in its hub.

    ARNs come without a version, as in the documentation, and with one, as DescribeHubContent
    returns them and the SDK passes them on.
    """
    return arn.split("/Model/")[-1].split("/")[0]
