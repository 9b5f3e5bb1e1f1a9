"""`llm` and `subagent`: nodes that ask a model or an agent, and put the reply into fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from typing_extensions import Unpack

from graphrt._drivers.context import Context
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, INVALID_ARGUMENT
from graphrt.graph import declare_fields
from graphrt.harness import Agent, AgentReply, Budget
from graphrt.harness.protocol import ROUTED
from graphrt.nodes._model_call import ModelCall, ModelForm, ModelOptions, PromptField, PromptSource, model_call
from graphrt.nodes._state_access import AsyncNode, Into, checked_into, fields_in, update_of
from graphrt.specs import BudgetSpec, Form, Section, declare_form
from graphrt.specs.manifest import Name


def llm(
    prompt: PromptSource,
    *,
    into: Into,
    output: Any = None,
    thinking: str | None = None,
    messages: str | None = None,
    item: str | None = None,
    as_list: bool = False,
    **options: Unpack[ModelOptions],
) -> AsyncNode:
    """Return a node that asks a model and writes its answer.

    Like every call of `ctx.harness`, the reply is recorded, charged to the budget, and streamed in the mode `messages`.
    A failed call fails the node, so `retry=` and `on_error=` of `add_node` apply.

    Args:
        prompt: The text of a Template over fields of the state, a Template, or a function of the state that returns a
            prompt.
        into: The field for the answer: its text, or its value with `output=`. Or a mapping of fields to parts of that
            value.
        output: Type of the answer, as `output=` of a harness.
        thinking: The field for the model's thinking, which is never part of the answer.
        messages: The field for the new messages, as for a conversation.
        item: Name in the templates for `ctx.arg`, the item of a batch or the argument of a Send.
        as_list: Write the value as a one-element list, for a field whose reducer appends.
        **options: See `ModelOptions`. Without `model=` and `harness=` the run's harness answers, with the tools that
            the node may use (`tools=` of `add_node`).

    Raises:
        InputError: An argument is wrong (`input`, or the code of a template or an agent).
    """
    call = model_call(prompt, options, of="llm", output=output, item=item)
    if isinstance(into, Mapping) and output is None:
        raise ARGUMENT_NEEDS_ANOTHER(argument="A mapping as into= of llm()", missing="output=, a type with these parts")
    node = _node(call, into, of="llm()", thinking=thinking, messages=messages, as_list=as_list)
    shared = {"thinking": thinking, "messages": messages, "item": item, "as_list": as_list}
    return declare_form(node, LlmForm, {"prompt": prompt, "into": into, "output": output, **shared, **options})


class LlmForm(ModelForm):
    """Asks a model, and writes its answer into a field."""

    kind: Literal["llm"] = "llm"
    prompt: PromptField
    """Text with fields of the state in braces, such as {topic}; or a function of the registry."""
    into: Name | dict[Name, str]
    """The field for the answer, or fields to parts of the output."""
    output: Name | None = None
    """Type of the answer, of the registry; null for text."""
    thinking: Name | None = None
    """The field for the model's thinking."""
    messages: Name | None = None
    """The field for the new messages."""
    item: Name | None = None
    """Name in the prompt for the item of a batch."""
    as_list: bool = False
    """Write the value as a one-element list, for a field whose reducer appends."""

    factory: ClassVar[Any] = staticmethod(llm)


def subagent(
    agent: Agent[Any],
    prompt: PromptSource,
    *,
    into: Into,
    thinking: str | None = None,
    messages: str | None = None,
    budget: Budget | None = None,
    tools: Sequence[str] | None = None,
    item: str | None = None,
    as_list: bool = False,
) -> AsyncNode:
    """Return a node that gives a task to an agent with its own instructions and tools.

    Its model and tool calls are recorded individually, so a resumed run repeats none. Its conversation is private,
    unless `messages=` names a field.

    Args:
        agent: The agent.
        prompt: The task; see `llm`.
        into: The field for the answer, or fields to parts of the agent's output.
        thinking: The field for the model's thinking.
        messages: The field for the agent's new messages.
        budget: Budget of each run of the node, within those of the run and the node.
        tools: Names of the agent's tools that are allowed here; None allows all.
        item: Name in the template for `ctx.arg`.
        as_list: Write the value as a one-element list.

    Raises:
        InputError: An argument is wrong (`input`, or the code of a template).
    """
    unchecked: Any = agent
    if not isinstance(unchecked, Agent):
        raise INVALID_ARGUMENT(
            argument="The agent of subagent()", value=unchecked, wanted="an Agent; for any harness use llm(harness=...)"
        )
    call = model_call(prompt, {"harness": agent}, of="subagent", item=item, budget=budget, tools=tools)
    node = _node(call, into, of=f"agent {agent.name!r}", thinking=thinking, messages=messages, as_list=as_list)
    shared = {"thinking": thinking, "messages": messages, "item": item, "as_list": as_list}
    given_here = {"agent": agent, "prompt": prompt, "into": into, "budget": budget, "tools": tools, **shared}
    return declare_form(node, SubagentForm, given_here)


class SubagentForm(Form):
    """Gives a task to an agent with its own instructions and tools."""

    kind: Literal["subagent"] = "subagent"
    agent: Name
    """An agent of the registry."""
    prompt: PromptField
    """The task: text with fields of the state in braces, or a function of the registry."""
    into: Name | dict[Name, str]
    """The field for the answer, or fields to parts of the output."""
    thinking: Name | None = None
    messages: Name | None = None
    budget: BudgetSpec | None = None
    """Budget of each run of the node."""
    tools: list[Name] | None = None
    """Tools of the agent that are allowed here; null for all."""
    item: Name | None = None
    as_list: bool = False

    factory: ClassVar[Any] = staticmethod(subagent)
    names: ClassVar[Mapping[str, Section]] = {"agent": "agents"}
    texts: ClassVar[frozenset[str]] = frozenset({"prompt"})


def _node(
    call: ModelCall, into: Any, *, of: str, thinking: str | None, messages: str | None, as_list: bool
) -> AsyncNode:
    target = checked_into(into, of)

    async def ask(state: Any, ctx: Context[Any]) -> dict[str, Any]:
        reply = await call.ask(state, ctx)
        routed = reply.stopped == ROUTED  # a tool routed to another node before there was an answer
        update = {} if routed else update_of(target, answer_of(reply), as_list=as_list, of=of)
        if thinking is not None:
            update[thinking] = [reply.thinking] if as_list else reply.thinking
        if messages is not None:
            update[messages] = list(reply.new_messages)
        return update

    extra = [field for field in (thinking, messages) if field is not None]
    written = (*fields_in(target), *extra)
    if len(set(written)) < len(written):
        raise INVALID_ARGUMENT(
            argument=f"The fields that {of} writes", value=written, wanted="another field for each result"
        )
    return declare_fields(ask, reads=call.reads, writes=written, agent=None if call.tools is not None else call.harness)


def answer_of(reply: AgentReply) -> Any:
    """Return the output of a reply, or its text if it has none."""
    return reply.text if reply.output is None else reply.output
