"""A task's tool, made safe to run beside an answer that must stay secret.

In: a Strands tool of an episode. Out: the same tool, but an exception in it ends here. Strands
would put the exception's text into the policy's next prompt, the log and the telemetry span; that
text may hold the answer, so the policy is told only what it can mend, and the log only the type.
"""

from __future__ import annotations

import logging
from typing import Any

from strands.types.tools import AgentTool, ToolGenerator, ToolSpec, ToolUse

logger = logging.getLogger(__name__)


class GuardedTool(AgentTool):
    """Delegates to `tool`, and answers for it when it raises."""

    def __init__(self, tool: AgentTool) -> None:
        super().__init__()
        self._tool = tool

    @property
    def tool_name(self) -> str:
        """Strands' interface."""
        return self._tool.tool_name

    @property
    def tool_spec(self) -> ToolSpec:
        """Strands' interface."""
        return self._tool.tool_spec

    @property
    def tool_type(self) -> str:
        """Strands' interface."""
        return self._tool.tool_type

    async def stream(
        self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any
    ) -> ToolGenerator:
        """Run the tool; its last event is its result, whatever happens in it."""
        try:
            async for event in self._tool.stream(tool_use, invocation_state, **kwargs):
                # A decorated tool catches its own exception and hands it on with its text.
                error = getattr(event, "exception", None)
                if error is not None:
                    yield self._refusal(tool_use, error)
                    return
                yield event
        except Exception as error:
            yield self._refusal(tool_use, error)

    def _refusal(self, tool_use: ToolUse, error: Exception) -> dict[str, Any]:
        if not isinstance(error, ValueError):  # which is how arguments of a wrong type show
            logger.warning("tool %s raised %s", self.tool_name, type(error).__name__)
        text = f"The call could not be used. Check its arguments against {self.tool_name}."
        return {
            "toolUseId": tool_use["toolUseId"],
            "status": "error",
            "content": [{"text": text}],
        }
