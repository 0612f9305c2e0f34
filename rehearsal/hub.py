"""The public hub's models, and the recipe by which the SDK knows a job's hyperparameters."""

from __future__ import annotations

import json
from typing import Any

from mtrl.job.hyperparameters import TRAINING, Spec
from mtrl.job.models import BASE_MODELS
from rehearsal.errors import not_found
from rehearsal.objects import FileObjects

PUBLIC_HUB = "SageMakerPublicHub"
TECHNIQUE = "MTRL"
"""What the SDK calls multi-turn reinforcement learning."""
RECIPES = "s3://rehearsal-hub/recipes"
TEMPLATE, OVERRIDES = f"{RECIPES}/mtrl-lora.yaml", f"{RECIPES}/mtrl-lora-override-params.json"
_TYPE_NAMES = {int: "integer", float: "float", str: "string", list: "string"}


def publish_recipes(objects: FileObjects) -> None:
    """Write what the hub's documents refer to; the same bytes every time."""
    objects.write(TEMPLATE, b"# Filled in by the service; see the override parameters.\n")
    overrides = {name: override(spec) for name, spec in TRAINING.items()}
    objects.write(OVERRIDES, json.dumps(overrides).encode())


def override(spec: Spec) -> dict[str, Any]:
    """A hyperparameter as a recipe's override parameters describe it."""
    default = json.dumps(spec.default) if spec.kind is list else spec.default
    described: dict[str, Any] = {"type": _TYPE_NAMES[spec.kind], "default": default}
    if spec.choices:
        described["enum"] = list(spec.choices)
    elif spec.kind is not list:
        described |= {"min": spec.minimum} if spec.minimum is not None else {}
        described |= {"max": spec.maximum} if spec.maximum is not None else {}
    return described


def hub_content(name: str, region: str) -> dict[str, Any]:
    """DescribeHubContent's answer for a base model.

    Raises:
        ServiceError: no such model.
    """
    model = next((m for m in BASE_MODELS.values() if m.hub_name == name), None)
    if model is None:
        raise not_found(f"Hub content {name} was not found in {PUBLIC_HUB}.")
    hub = f"arn:aws:sagemaker:{region}:aws:hub"
    recipe = {
        "Name": "mtrl-lora",
        "CustomizationTechnique": TECHNIQUE,
        "Type": "FineTuning",
        "Peft": "LORA",
        "SmtjRecipeTemplateS3Uri": TEMPLATE,
        "SmtjOverrideParamsS3Uri": OVERRIDES,
    }
    document = {
        "Capabilities": ["AgentRFT"],
        "GatedBucket": False,
        "RecipeCollection": [recipe],
    }
    return {
        "HubContentName": name,
        "HubContentArn": f"{hub}-content/{PUBLIC_HUB}/Model/{name}/1.0.0",
        "HubContentVersion": "1.0.0",
        "HubContentType": "Model",
        "DocumentSchemaVersion": "2.4.0",
        "HubName": PUBLIC_HUB,
        "HubArn": f"{hub}/{PUBLIC_HUB}",
        "HubContentDisplayName": model.title,
        "HubContentDocument": json.dumps(document),
        "HubContentStatus": "Available",
        "CreationTime": 0,
    }
