"""Handoffs: tools by which a model passes the conversation on to another agent, which goes on with the run.

An agent as a tool (`Agent.as_tool`) is asked a question and answers its caller. After a handoff the other agent answers in
the caller's place: with its own instructions, tools and limits, under the same budget and in the same run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from graphrt._arguments import checked_function
from graphrt.errors._codes.agents import HANDOFF_FILTERED, HANDOFF_TO_ITSELF
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
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
    """A way for an agent to hand its conversation over to another one: an item of `Agent(handoffs=[...])`.

    The model sees it as a tool without arguments. An agent in that list stands for a Handoff to it.

    Args:
        agent: The agent that goes on.
        description: Tells the model when to hand over. None: a sentence with the name of the agent.
        filter: Makes the conversation that the agent gets of the one so far, which has 1..n messages: prompt, answers,
            and calls with their results, without the instructions of the first agent. It is called again when the task
            runs again, so it must depend on its argument alone. None passes all on.
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
        given: Any = agent
        if isinstance(given, type) or not hasattr(given, "__graphrt_drive__"):
            raise INVALID_ARGUMENT(argument="The agent of a Handoff", value=given, wanted="an Agent")
        self.agent: Final[Agent[Any]] = agent
        """The agent that goes on."""
        self.filter: Final = checked_function(
            "filter", filter, "Give a function of the messages that returns messages."
        )
        """Makes the conversation that the agent gets; None passes all on."""
        where = f"handoff to agent {agent.name!r}"
        check_description(description, where=where)
        tool = check_name(f"transfer_to_{_plain(agent.name)}" if name is None else name, where=where)
        text = (
            f"Hand the conversation over to {agent.name!r}, who goes on with it."
            if description is None
            else description
        )
        self.tool: Final = HandoffTool(
            self, ToolSpec(name=tool, description=text, parameters=_NOTHING), approval=approval
        )
        """The tool that the model calls."""

    def passed(self, messages: tuple[Message, ...], *, source: str) -> tuple[Message, ...]:
        """Return what the agent gets of *messages*, the conversation so far, from the agent named *source*.

        Raises:
            InputError: The filter returned something other than a conversation (`input`, `bad-conversation`).
        """
        if self.filter is None:
            return messages
        filtered: Any = self.filter(messages)
        passed = as_conversation(filtered)
        if passed is None:
            raise HANDOFF_FILTERED(source=source, target=self.agent.name, value=filtered)
        check_conversation(
            passed, conversation=f"what the filter of the handoff from agent {source!r} to {self.agent.name!r} returned"
        )
        return passed

    def __repr__(self) -> str:
        return f"Handoff({self.agent!r}, name={self.tool.spec.name!r})"


Handoffs: TypeAlias = "Iterable[Agent[Any] | Handoff] | Callable[[], Iterable[Agent[Any] | Handoff]]"
"""Agents that an agent may hand over to, or a function that returns them, for agents that name each other."""


@final
class HandoffTool:
    """The tool of a handoff. Its call does nothing: the run of the agent goes on with another one when it has ended."""

    def __init__(self, handoff: Handoff, spec: ToolSpec, *, approval: bool) -> None:
        self.handoff: Final = handoff
        self.spec: Final = spec
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
        """Return what stands in the conversation as the result of the call."""
        return f"The conversation was handed over to {self.handoff.agent.name!r}."

    def __repr__(self) -> str:
        return f"HandoffTool({self.spec.name!r})"


def checked_handoffs(agent: Agent[Any], given: Any) -> tuple[Handoff, ...]:
    """Return the handoffs of *agent*, which were given as agents or as Handoffs.

    Raises:
        InputError: They are something else, or lead to *agent* itself (`input`).
    """
    several: Any = given
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise _not_handoffs(several)
    found: list[Handoff] = []
    for one in several:
        if not (isinstance(one, Handoff) or (hasattr(one, "__graphrt_drive__") and not isinstance(one, type))):
            raise _not_handoffs(one)
        handoff = one if isinstance(one, Handoff) else Handoff(one)
        if handoff.agent is agent or handoff.agent.name == agent.name:
            raise HANDOFF_TO_ITSELF(name=agent.name)
        found.append(handoff)
    return tuple(found)


def _not_handoffs(value: Any) -> Exception:
    return INVALID_ARGUMENT(
        argument="handoffs",
        value=value,
        wanted="agents, or Handoff(agent, ...), in a list; or a function that returns such a list",
    )


def _plain(name: str) -> str:
    """Return the name of an agent as a part of the name of a tool."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:50]
