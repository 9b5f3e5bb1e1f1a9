"""An agent or another harness as a node: where its prompt comes from, and which fields its reply goes to.

`add_node` turns an agent or harness into an async function that sends a prompt and writes the *reply* to fields. Two
policy arguments control this: `input=` is the prompt, and `output=` the fields. By default, both are the
*conversation*: a field of messages that the reducer `messages` extends. Ready-made nodes that do more (templates,
structured output, fallbacks) belong to `graphrt.nodes`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from graphrt import reducers
from graphrt._arguments import is_mapping
from graphrt._drivers.context import Context
from graphrt._plan.node_attributes import declare_fields, declare_form
from graphrt._plan.state import StateSchema
from graphrt.errors import Problem, names
from graphrt.errors._codes.findings import (
    BAD_HARNESS_NODE,
    BAD_HARNESS_PART,
)
from graphrt.graph.handles import S
from graphrt.graph.policies import NodePolicy, several

if TYPE_CHECKING:
    from graphrt.harness import AgentReply, Prompt, Template

REPLY: Final = ("text", "output", "thinking", "new_messages", "tool_calls", "finish_reason", "stopped")
"""Attributes of a reply that `output=` may name. An empty text stands for the answer; see `_part`."""


class HarnessPolicy(NodePolicy[S], total=False):
    """How an agent or harness is run as a node, and how its prompt and its reply map to fields of this graph."""

    input: str | Template | Callable[[S], Prompt] | None
    """The field that is the prompt, a Template over fields, or a function of the state that returns the prompt."""
    output: str | Mapping[str, str] | None
    """The field for the answer, or fields to attributes of the reply."""


def is_harness(fn: Any) -> bool:
    """Return True if *fn* is an agent or harness: an instance with an async `run` that cannot itself be called."""
    return not isinstance(fn, type) and not callable(fn) and inspect.iscoroutinefunction(getattr(fn, "run", None))


def harness_node(
    name: Any, harness: Any, arguments: Mapping[str, Any], state: StateSchema, where: str
) -> tuple[Any, dict[str, Any], Problem | None]:
    """Return the node function of a harness, the policy arguments left, and the problem of `input=` and `output=`.

    The function is returned even if there is a problem, so that `compile()` can continue and report all problems at
    once.

    Args:
        name: The node's name.
        harness: The agent or harness.
        arguments: The policy arguments, as the user wrote them.
        state: The schema of the state.
        where: `file:line` of the call.
    """
    policy = {option: value for option, value in arguments.items() if option not in ("input", "output")}
    source, target = arguments.get("input"), arguments.get("output")  # of the prompt, and for the reply
    chat = _conversation(state)
    if source is None:  # a custom prompt needs an `output=` and does not continue the conversation
        source = chat
        target = chat if target is None else target
    problem = _problem(name, source, target, where)
    # Fields to parts of the reply, for the fields that the node writes.
    parts_by_field: dict[str, str] = {target: ""} if isinstance(target, str) else {}
    parts_by_field |= target if is_mapping(target) else {}
    tools: Any = arguments.get("tools")
    if tools is not None:
        policy["tools"] = tools = list(several(tools))
    reads = getattr(source, "fields", (source,) if isinstance(source, str) else ())

    async def node(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        """Run the harness on the prompt, and return the update. `bind` lets it use only the tools of this node."""
        prompt: Any = _prompt(source, state)
        reply: AgentReply = await ctx.bind(harness, tools=tools).run(prompt)
        parts = {
            field: part for field, part in parts_by_field.items() if not _is_missing(reply, part, is_chat=field == chat)
        }
        return {field: _part(reply, part, is_chat=field == chat) for field, part in parts.items()}

    declare_form(node, "agent", {"agent": harness, "input": arguments.get("input"), "output": arguments.get("output")})
    return declare_fields(node, reads=reads, writes=parts_by_field, agent=harness), policy, problem


def _conversation(state: StateSchema) -> str | None:
    """Return the field of the conversation: the only one with the reducer `messages`, else "messages", else None."""
    candidates = [name for name, field in state.fields.items() if field.reduce is reducers.messages]
    if len(candidates) == 1:
        return candidates[0]
    return "messages" if "messages" in state.fields else None


def _problem(name: Any, source: Any, target: Any, where: str) -> Problem | None:
    """Return the problem with the source of the prompt or the target of the reply; None if there is none."""
    node = name if isinstance(name, str) else None
    parts: tuple[Any, ...] = tuple(target.values()) if is_mapping(target) else ()
    if source is None:
        return BAD_HARNESS_NODE(node=node, name=name, part="prompt", where=where)
    if target is None:
        return BAD_HARNESS_NODE(node=node, name=name, part="answer", where=where)
    if not (isinstance(source, str) or callable(source) or hasattr(source, "render")):
        return BAD_HARNESS_PART(
            name=name,
            part="input",
            given=source,
            wanted="the name of a field, a Template, or a function of the state",
            node=node,
            where=where,
        )
    if not (target and isinstance(target, (str, Mapping))):
        return BAD_HARNESS_PART(
            name=name,
            part="output",
            given=target,
            wanted="a field, or a mapping of fields to attributes of the reply",
            node=node,
            where=where,
        )
    if unknown := [part for part in parts if part not in REPLY]:
        return BAD_HARNESS_PART(
            name=name,
            part="output",
            given=unknown[0],
            wanted=f"attributes of the reply, of {names(REPLY)}",
            node=node,
            where=where,
        )
    return None


def _prompt(source: Any, state: Any) -> Any:
    """Return the prompt: the value of a field, a rendered Template, or what a function of the state returns."""
    if isinstance(source, str):
        return state[source] if is_mapping(state) else getattr(state, source)
    return source.render(state) if hasattr(source, "render") else source(state)


def _is_missing(reply: Any, part: str, *, is_chat: bool) -> bool:
    """Return whether *part* is the answer and a tool routed to another node before the agent gave one."""
    return reply.stopped == "goto" and part in ("", "output") and not is_chat


def _part(reply: Any, part: str, *, is_chat: bool) -> Any:
    """Return the *part* of a reply; "" stands for the messages in a conversation, and for the answer elsewhere.

    The answer is the structured output, or the text if there is none. Lists are copied, because the state keeps them.
    """
    if not part:
        if is_chat:
            return list(reply.new_messages)
        return reply.text if reply.output is None else reply.output
    value: Any = getattr(reply, part)
    return list(value) if part in ("new_messages", "tool_calls") else value
