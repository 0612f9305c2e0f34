"""An agent as the SDK's documentation writes one: its handler and its model, our environment.

Serves the AgentCore contract on PORT. Nothing of this project's rollout path is in it: of ours it
uses the task alone.
"""

# pyright: reportMissingImports=false
# The SDK is installed in an environment of its own.
from __future__ import annotations

import os
from typing import Any

from bedrock_agentcore.runtime import BedrockAgentCoreApp
from sagemaker.core.token_generator import generate_token
from sagemaker.train.rft import sagemaker_rft_handler
from sagemaker.train.rft.adapters.strands import wrap_model
from strands import Agent
from strands.hooks import AfterToolsEvent
from strands.models.openai import OpenAIModel

from agent.task import load_task

REGION = os.environ["AWS_REGION"]
TASK = load_task("wordle")
TURNS = 12
app = BedrockAgentCoreApp()


@app.entrypoint
@sagemaker_rft_handler
async def invoke(payload: dict[str, Any]) -> dict[str, Any]:
    """Play one row."""
    episode = TASK.start(payload["prompt"])
    model = OpenAIModel(
        client_args={
            "api_key": generate_token(region=REGION),
            "base_url": f"{payload['metadata']['endpoint']}/v1",
        },
        model_id="default",
    )
    agent = Agent(
        model=wrap_model(model),
        tools=episode.tools,
        system_prompt=episode.system_prompt,
        callback_handler=None,
    )
    turns = 0

    def stop(event: AfterToolsEvent) -> None:
        nonlocal turns
        turns += 1
        if episode.done or turns >= TURNS:
            event.agent.cancel(after_current_tools=True)

    agent.hooks.add_callback(AfterToolsEvent, stop)
    await agent.invoke_async(episode.user_prompt)
    return {"reward": episode.reward(), "summary": episode.summary()}


if __name__ == "__main__":
    app.run(port=int(os.environ["PORT"]))
