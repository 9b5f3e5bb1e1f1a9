"""Handoffs: tools with which a model passes the conversation to another agent, which continues the run.

An agent used as a tool (`Agent.as_tool`) gets a question and answers its caller. After a handoff the other agent
answers in the caller's place: with its own instructions, tools and limits, under the same budget and in the same run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from graphrt._arguments import checked_function
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT, WRONG_RETURN_VALUE
from graphrt.errors._codes.tools import TOOL_ARGUMENTS
from graphrt.harness.messages import Message, ToolSpec, as_conversation, check_conversation
from graphrt.harness.tools._options import check_description, check_name
from graphrt.harness.tools.protocol import ToolContext, ToolPolicy

if TYPE_CHECKING:
    from graphrt.harness.agent.agent import Agent

__all__ = ["Handoff"]

_NOTHING: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


@final
class Handoff:
    """A way for an agent to hand its conversation over to another agent: an item of `Agent(handoffs=[...])`.

    The model sees it as a tool without arguments. An agent in that list stands for a Handoff to it.

    Args:
        agent: The agent that continues.
        description: Tells the model when to hand over. None: a sentence with the name of the agent.
        filter: Selects the conversation for the agent from the one so far, which has 1..n messages: prompt, answers,
            and calls with their results, without the instructions of the first agent. It is called again when the task
            runs again, so it must depend only on its argument. None passes everything on.
        name: Name of the tool. None: `transfer_to_` and the name of the agent.
        approval: Whether a person has to approve each handoff.

    Raises:
        InputError: An argument is wrong (`input`).
    """

    __slots__ = ("agent", "filter", "tool")

    def __init__(
        self,
        agent: Agent[Any],
        *,
        description: str | None = None,
        filter: Callable[[Sequence[Message]], Iterable[Message]] | None = None,
        name: str | None = None,
        approval: bool = False,
    ) -> None:
        value: Any = agent
        if isinstance(value, type) or not hasattr(value, "__graphrt_drive__"):
            raise INVALID_ARGUMENT(argument="The agent of a Handoff", value=value, wanted="an Agent")
        self.agent: Final[Agent[Any]] = agent
        """The agent that continues."""
        self.filter: Final = checked_function(
            "filter", filter, "Give a function of the messages that returns messages."
        )
        """Selects the conversation for the agent; None passes everything on."""
        where = f"handoff to agent {agent.name!r}"
        check_description(description, where=where)
        tool = check_name(f"transfer_to_{_plain(agent.name)}" if name is None else name, where=where)
        text = (
            f"Hand the conversation over to {agent.name!r}, who continues with it."
            if description is None
            else description
        )
        self.tool: Final = HandoffTool(
            self, ToolSpec(name=tool, description=text, parameters=_NOTHING), approval=approval
        )
        """The tool that the model calls."""

    def passed(self, messages: tuple[Message, ...], *, source: str) -> tuple[Message, ...]:
        """Return the part of *messages*, the conversation so far, that the agent named *source* hands over.

        Raises:
            InputError: The filter returned something other than a conversation (`input`, `bad-conversation`).
        """
        if self.filter is None:
            return messages
        filtered: Any = self.filter(messages)
        passed = as_conversation(filtered)
        function = f"filter of the handoff from agent {source!r} to {self.agent.name!r}"
        if passed is None:
            raise WRONG_RETURN_VALUE(
                function=f"The {function}",
                returned=type(filtered).__name__,
                wanted="a list of 1..n messages",
                value=filtered,
            )
        check_conversation(passed, conversation=f"what the {function} returned")
        return passed

    def __repr__(self) -> str:
        return f"Handoff({self.agent!r}, name={self.tool.spec.name!r})"


Handoffs: TypeAlias = "Iterable[Agent[Any] | Handoff] | Callable[[], Iterable[Agent[Any] | Handoff]]"
"""Agents that an agent may hand over to, or a function that returns them, for agents that name each other."""


@final
class HandoffTool:
    """The tool of a handoff. The call itself does nothing; once it has ended, the run continues with another agent."""

    def __init__(self, handoff: Handoff, spec: ToolSpec, *, approval: bool) -> None:
        self.handoff: Final = handoff
        self.spec: Final = spec
        self.origin: Final = f"handoff to agent {handoff.agent.name!r}"
        self.policy: Final = ToolPolicy(effect="idempotent", approval=approval)

    def check(self, arguments: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return *arguments* if there are none.

        Raises:
            ToolArgumentsError: There are some.
        """
        if arguments:
            raise TOOL_ARGUMENTS(text=f"{self.spec.name} takes no arguments.", tool=self.spec.name)
        return arguments

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, /) -> str:  # noqa: ARG002
        """Return the result of the call as shown in the conversation."""
        return f"The conversation was handed over to {self.handoff.agent.name!r}."

    def __repr__(self) -> str:
        return f"HandoffTool({self.spec.name!r})"


def checked_handoffs(agent: Agent[Any], handoffs: Any) -> tuple[Handoff, ...]:
    """Return the handoffs of *agent*, which were given as agents or as Handoffs.

    Raises:
        InputError: They are something else, or lead to *agent* itself (`input`).
    """
    items: Any = handoffs
    if isinstance(handoffs, str) or not isinstance(handoffs, Iterable):
        raise _not_handoffs(items)
    checked: list[Handoff] = []
    for item in items:
        if not (isinstance(item, Handoff) or (hasattr(item, "__graphrt_drive__") and not isinstance(item, type))):
            raise _not_handoffs(item)
        handoff = item if isinstance(item, Handoff) else Handoff(item)
        if handoff.agent is agent or handoff.agent.name == agent.name:
            raise ARGUMENT_OUT_OF_BOUNDS(
                problem=f"Agent {agent.name!r} hands over to itself, or to another agent with the same name",
                wanted="other agents in handoffs=, each with a name of its own",
            )
        checked.append(handoff)
    return tuple(checked)


def _not_handoffs(value: Any) -> Exception:
    return INVALID_ARGUMENT(
        argument="handoffs",
        value=value,
        wanted="agents, or Handoff(agent, ...), in a list; or a function that returns such a list",
    )


def _plain(name: str) -> str:
    """Return the name of an agent as a part of the name of a tool."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:50]
