"""What a person says of tool calls before they are made: asked in one go, and again where an answer cannot be used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Literal

from graphrt.errors import InputError, ToolArgumentsError
from graphrt.harness.agent._services import Place, Question
from graphrt.harness.messages import ToolCall
from graphrt.harness.tools.protocol import Tool

if TYPE_CHECKING:
    from graphrt.events import Usage

__all__ = ["Done", "Ready", "allowed", "answered", "needs_approval", "refused"]

_ANSWER: Final[Any] = Literal[True, False] | dict[Literal["approve", "reason", "arguments"], Any]
"""A `bool` would take "yes", "on" and 1 for agreement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A call that may be made."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any]
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a call came to."""

    text: str
    error: bool = False
    value: Any = None
    usage: Usage | None = None
    """Of agents that the tool called."""
    made: ToolCall | None = None
    """The call that was made, where a layer changed it."""


async def needs_approval(one: Ready) -> bool:
    """Whether a person has to agree to the call.

    Raises:
        InputError: The tool's `approval` says neither True nor False (`bad-approval`): None is no permission.
    """
    wanted = one.tool.policy.approval
    if isinstance(wanted, bool):
        return wanted
    said: Any = wanted(one.arguments)
    return _decided(await said if isawaitable(said) else said, "approval= of the tool", one.call)


async def allowed(approve: Callable[[ToolCall], Awaitable[bool] | bool], call: ToolCall) -> bool:
    """What the program decides about a call.

    Raises:
        InputError: It is neither True nor False (`bad-approval`).
    """
    said: Any = approve(call)
    if isawaitable(said):
        said = await said
    return _decided(said, "approve= of the agent", call)


def _decided(said: Any, who: str, call: ToolCall) -> bool:
    if not isinstance(said, bool):
        raise InputError(
            f"The {who} said {said!r} to a call of tool {call.name!r}, which is neither True nor False.",
            code="bad-approval",
            fix="Return True or False; only a person's answer may be a mapping.",
            value=said,
        )
    return said


def refused(call: ToolCall, reason: str) -> Done:
    """What a call came to that a person did not want."""
    return Done(text=f"A person refused this call of {call.name!r}{f': {reason}' if reason else ''}.", error=True)


def answered(asking: Sequence[Ready], place: Place) -> dict[str, Ready | Done]:
    """What was decided about each call, by its key. An answer that cannot be used is asked for once more."""
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
    """What True, False, or a mapping with `approve`, and perhaps `reason` and other `arguments`, means; or why nothing."""
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
