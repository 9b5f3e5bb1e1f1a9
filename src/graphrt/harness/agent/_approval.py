"""Approval of tool calls by a person or the program: all questions at once, and again for an unusable answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Literal

from graphrt.errors import ToolArgumentsError
from graphrt.errors._codes.agents import BAD_APPROVAL
from graphrt.harness.agent._host import Place, Question
from graphrt.harness.messages import ToolCall
from graphrt.harness.tools.protocol import Tool

if TYPE_CHECKING:
    from graphrt.events import Usage

__all__ = ["Done", "Ready", "allowed", "answered", "as_read", "needs_approval", "refused"]

_ANSWER: Final[Any] = bool | dict[Literal["approve", "reason", "arguments"], Any]
"""Answer type of an approval. As for every question, a bool is True or False, and not a word such as "yes"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A tool call that was admitted: its tool exists and its arguments are valid."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any]
    """The arguments as `tool.check` returned them."""
    key: str
    """Identifies the call within the task: the same at every execution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The outcome of a tool call."""

    text: str
    """The text for the model."""
    error: bool = False
    value: Any = None
    """The value for the program: on the stream and in events, never for the model."""
    usage: Usage | None = None
    """Usage of agents that the tool called; None if there were none."""
    made: ToolCall | None = None
    """The call that was really made, if middleware changed it; else None."""


async def needs_approval(one: Ready) -> bool:
    """Return whether a person has to approve the call, by the tool's policy.

    Raises:
        InputError: The tool's `approval=` returned neither True nor False (`bad-approval`). A forgotten `return` must
            not count as permission.
    """
    wanted = one.tool.policy.approval
    if isinstance(wanted, bool):
        return wanted
    said: Any = wanted(one.arguments)
    return _decided(await said if isawaitable(said) else said, "approval= of the tool", one.call)


async def allowed(approve: Callable[[ToolCall], Awaitable[bool] | bool], call: ToolCall) -> bool:
    """Return the decision of the agent's `approve=` about *call*.

    Raises:
        InputError: It returned neither True nor False (`bad-approval`).
    """
    said: Any = approve(call)
    if isawaitable(said):
        said = await said
    return _decided(said, "approve= of the agent", call)


def _decided(said: Any, who: str, call: ToolCall) -> bool:
    if not isinstance(said, bool):
        raise BAD_APPROVAL(who=who, value=said, tool_name=call.name)
    return said


def refused(call: ToolCall, reason: str) -> Done:
    """Return the outcome of a call that a person refused."""
    return Done(text=f"A person refused this call of {call.name!r}{f': {reason}' if reason else ''}.", error=True)


def as_read(call: ToolCall, one: Ready, text: str) -> str:
    """Return the result *text* as the model reads it: after the arguments, if a person changed those of its *call*.

    The call in the conversation stays what the model said. Without the sentence it would believe, and say later, that
    its own arguments were used.
    """
    changed = one.call.arguments
    if one.call is call or changed == call.arguments:
        return text
    told = json.dumps(changed, ensure_ascii=False, default=repr)
    return f"A person changed the arguments of this call of {call.name!r} to {told}. The result is:\n{text}"


def answered(asking: Sequence[Ready], place: Place) -> dict[str, Ready | Done]:
    """Return the decision about each call, by its key: the call itself, perhaps with other arguments, or its refusal.

    A call with an unusable answer is asked about again, under a key with a number.
    """
    decided: dict[str, Ready | Done] = {}
    open_ = [(one, "", 1) for one in asking]
    while open_:
        questions = [
            Question(
                key=one.key if times == 1 else f"{one.key}/{times}",
                payload=_payload(one, place, problem),
                answer_type=_ANSWER,
                kind="approval",
            )
            for one, problem, times in open_
        ]
        again: list[tuple[Ready, str, int]] = []
        for (one, _, times), answer in zip(open_, place.host.ask(questions), strict=True):
            decision = _decision(one, answer)
            if isinstance(decision, str):
                again.append((one, decision, times + 1))
            else:
                decided[one.key] = decision
        open_ = again
    return decided


def _payload(one: Ready, place: Place, problem: str) -> dict[str, Any]:
    payload = {
        "problem": "approve a tool call",
        "tool": one.call.name,
        "arguments": dict(one.call.arguments),
        "agent": "/".join(place.names),
    }
    return {**payload, "refused_answer": problem} if problem else payload


def _decision(one: Ready, answer: Any) -> Ready | Done | str:
    """Read an answer: True, False, or a mapping with `approve`, and optionally `reason` or new `arguments`.

    Returns:
        The call to make, its refusal, or a text that says why the answer is unusable.
    """
    if isinstance(answer, bool):
        return one if answer else refused(one.call, "")
    agreed, edited = answer.get("approve"), answer.get("arguments")
    changed: dict[str, Any] = edited if issubclass(type(edited), dict) else {}
    if not isinstance(agreed, bool):
        return "Answer True, False, or a mapping whose 'approve' is one of them."
    if not agreed:
        return refused(one.call, str(answer.get("reason") or ""))
    if edited is None:
        return one
    if not issubclass(type(edited), dict):
        return "'arguments' must be a mapping."
    call = replace(one.call, arguments=dict(changed), arguments_text="", error=None)
    try:
        return replace(one, call=call, arguments=one.tool.check(call.arguments))
    except ToolArgumentsError as error:
        return error.what
