"""Agents as tools of an agent.

The sub-agent's work belongs to the calling run: to its budget, depth limit, stream and usage. Graphs as tools are in
`graphrt._agents`, because a harness knows nothing about graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, final

from graphrt.errors._codes.tools import TOOL_ARGUMENTS
from graphrt.harness.messages import ToolSpec
from graphrt.harness.tools._options import check_name
from graphrt.harness.tools.protocol import ToolContext, ToolPolicy, ToolResult

if TYPE_CHECKING:
    from graphrt.harness.agent.agent import Agent

_QUESTION: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"question": {"type": "string", "description": "All that it has to know, in full sentences."}},
    "required": ["question"],
    "additionalProperties": False,
}


@final
class AgentTool:
    """An agent as a tool of another agent: see `Agent.as_tool`."""

    def __init__(
        self, agent: Agent, name: str, description: str, *, approval: bool = False, timeout_s: float | None = None
    ) -> None:
        self.agent: Final = agent
        self.origin: Final = f"agent {agent.name!r} as a tool"
        check_name(name, where=self.origin)
        self.spec: Final = ToolSpec(name=name, description=description, parameters=_QUESTION)
        self.composed: Final = True
        """Its calls are made of model calls and tools that are recorded themselves; see `Composed`."""
        self.policy: Final = ToolPolicy(effect="idempotent", approval=approval, timeout_s=timeout_s)

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return *arguments* if they are exactly one text, `question`.

        Raises:
            ToolArgumentsError: They are not.
        """
        if set(arguments) != {"question"} or not isinstance(arguments["question"], str):
            raise TOOL_ARGUMENTS(text="Give exactly one argument, `question`, a text.", tool=self.spec.name)
        return arguments

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> Any:
        """Run the agent on the question; the model reads its text, the program gets its output."""
        reply = await self.agent.run(arguments["question"], deps=context.deps)
        return ToolResult(text=reply.text, value=reply.output if reply.output is not None else reply.text)

    def __repr__(self) -> str:
        return f"AgentTool({self.spec.name!r}, {self.agent!r})"
