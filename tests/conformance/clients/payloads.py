"""Sends what the SDK sends for one rollout to a server that writes it down.

Reads {"metadata", "inference", "reward", "tools", "system", "prompt"} from standard input.
"""

# pyright: reportMissingImports=false
# The SDK is installed in an environment of its own.
from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from sagemaker.core.token_generator import generate_token
from sagemaker.train.rft import RolloutFeedbackClient, set_rollout_context
from sagemaker.train.rft.adapters.strands import wrap_model
from strands.models.openai import OpenAIModel


async def sample(given: dict[str, Any]) -> None:
    """One sample through the wrapped model."""
    metadata = given["metadata"]
    set_rollout_context(metadata, given["inference"])
    model = wrap_model(
        OpenAIModel(
            client_args={
                "api_key": generate_token(region=metadata["region"]),
                "base_url": f"{metadata['endpoint']}/v1",
            },
            model_id="default",
        )
    )
    messages = [{"role": "user", "content": [{"text": given["prompt"]}]}]
    async for _ in model.stream(messages, given["tools"], given["system"]):
        pass


def main() -> None:
    """Sample, complete, reward."""
    given = json.load(sys.stdin)
    asyncio.run(sample(given))
    for reward in given["rewards"]:
        RolloutFeedbackClient(given["metadata"]).report_complete(reward)
    RolloutFeedbackClient(given["metadata"]).complete_rollout("failed")
    print(json.dumps({"token": generate_token(region=given["metadata"]["region"])}))


if __name__ == "__main__":
    main()
