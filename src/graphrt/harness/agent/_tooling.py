"""The tool calls of one answer: admitted in order, agreed to, done together, and told in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from graphrt.errors import (
    BudgetExceededError,
    InputError,
    ReplayDivergedError,
    StoreError,
    ToolArgumentsError,
    ToolError,
    closest,
    names,
)
from graphrt.harness.agent._digest import of_arguments
from graphrt.harness.agent._host import HERE, Place, Question
from graphrt.harness.agent.happenings import ToolEnded, ToolStarted
from graphrt.harness.agent.middleware import Middleware, around_tool
from graphrt.harness.messages import ToolCall, ToolMessage
from graphrt.harness.tools.protocol import Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from graphrt.harness.tools.registry import ToolRegistry

__all__ = ["OnBadCall", "Tooling"]

OnBadCall: TypeAlias = Literal["return", "raise"]
Approve: TypeAlias = Callable[[ToolCall], Awaitable[bool] | bool]
_PASSING: Final = (StoreError, BudgetExceededError, ReplayDivergedError)
"""What no model is told: the run cannot go on with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A call that may be made."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any]
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """What a call came to."""

    text: str
    error: bool = False
    value: Any = None


@final
class Tooling:
    """The tool calls of one run of an agent."""

    __slots__ = ("_approve", "_bad_arguments", "_counts", "_emit", "_layers", "_place", "_registry", "_unknown")

    def __init__(
        self,
        registry: ToolRegistry,
        place: Place,
        *,
        layers: Sequence[Middleware],
        unknown: OnBadCall,
        bad_arguments: OnBadCall,
        approve: Approve | None,
        emit: Callable[[Any], None] | None,
    ) -> None:
        self._registry = registry
        self._place = place
        self._layers = layers
        self._unknown = unknown
        self._bad_arguments = bad_arguments
        self._approve = approve
        self._emit = emit
        self._counts: dict[str, int] = {}

    async def turn(self, calls: Sequence[ToolCall]) -> list[ToolMessage]:
        """Do what one answer asks for; returns the answers to its calls, in their order.

        Raises:
            ToolError: A tool failed whose failures the model is not to see, or a call is refused by policy.
        """
        admitted = [self._admit(call) for call in calls]
        admitted = await self._agreed(admitted)
        ready = [one for one in admitted if isinstance(one, _Ready)]
        if len(ready) == 1:
            done = {ready[0].call.id: await self._do(ready[0])}
        else:
            done = await self._do_all(ready)
        messages: list[ToolMessage] = []
        for call, one in zip(calls, admitted, strict=True):
            result = done[call.id] if isinstance(one, _Ready) else one
            if not isinstance(one, _Ready) and self._emit is not None:
                self._emit(ToolStarted(call=call))
                self._emit(ToolEnded(call=call, text=result.text, error=True))
            messages.append(ToolMessage(tool_call_id=call.id, text=result.text, error=result.error))
        return messages

    # -- admission -----------------------------------------------------------------------------------------------

    def _admit(self, call: ToolCall) -> _Ready | _Done:
        tool = self._registry.get(call.name) if call.name in self._registry else None
        if tool is None:
            guess = closest(call.name, self._registry.names)
            hint = f" Did you mean {guess!r}?" if guess else ""
            known = names(self._registry.names) or "none"
            if self._unknown == "raise":
                raise ToolError(
                    f"The model called a tool that it was not offered: {call.name!r}.",
                    code="unknown-tool",
                    known=f"tools: {known}",
                    fix='Offer it, or use unknown_tool="return", which lets the model correct itself.',
                    tool=call.name,
                )
            return _Done(text=f"There is no tool {call.name!r}.{hint} The tools are: {known}.", error=True)
        try:
            if call.error is not None:
                raise ToolArgumentsError(f"The arguments are no JSON object: {call.error}.", tool=call.name)
            arguments = tool.check(call.arguments)
        except ToolArgumentsError as error:
            if self._bad_arguments == "raise":
                raise
            return _Done(text=error.what, error=True)
        name = f"tool/{call.name}/{of_arguments(call.arguments)}"
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return _Ready(call=call, tool=tool, arguments=arguments, key=f"{self._place.path}{name}#{count}")

    async def _agreed(self, admitted: list[_Ready | _Done]) -> list[_Ready | _Done]:
        """What a person agrees to, or takes back; all questions are asked at once."""
        asking = [one for one in admitted if isinstance(one, _Ready) and _needs_approval(one)]
        if not asking:
            return admitted
        decided: dict[str, _Ready | _Done] = {}
        if self._approve is not None:
            for one in asking:
                said = self._approve(one.call)
                agreed = said if isinstance(said, bool) else await said
                decided[one.key] = one if agreed else _refused(one.call, "")
        else:
            questions = [
                Question(key=one.key, payload=_payload(one, self._place), answer_type=_ANSWER) for one in asking
            ]
            for one, answer in zip(asking, self._place.host.ask(questions), strict=True):
                decided[one.key] = _decision(one, answer)
        return [decided.get(one.key, one) if isinstance(one, _Ready) else one for one in admitted]

    # -- doing ---------------------------------------------------------------------------------------------------

    async def _do_all(self, ready: Sequence[_Ready]) -> dict[str, _Done]:
        """Do all at once. If one fails the others still end: what they did is remembered."""
        tasks = [asyncio.ensure_future(self._do(one)) for one in ready]
        if not tasks:
            return {}
        try:
            await asyncio.wait(tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        failed = [error for task in tasks if (error := None if task.cancelled() else task.exception()) is not None]
        if failed:  # what is no Exception pauses the task: it goes first
            raise next((error for error in failed if not isinstance(error, Exception)), failed[0])
        return {one.call.id: task.result() for one, task in zip(ready, tasks, strict=True)}

    async def _do(self, one: _Ready) -> _Done:
        emit, call = self._emit, one.call
        if emit is not None:
            emit(ToolStarted(call=call))
        value: Any = None

        async def make() -> dict[str, Any]:
            nonlocal value
            done = await self._call(one)
            value = done.value
            return {"text": done.text, "error": done.error}

        try:
            kept = await self._place.host.effect(one.key, make, one.tool.policy.effect)
        except BaseException as error:
            if emit is not None:
                emit(ToolEnded(call=call, text=type(error).__name__, error=True))
            raise
        done = _Done(text=str(kept["text"]), error=bool(kept["error"]), value=value)
        if emit is not None:
            emit(ToolEnded(call=call, text=done.text, error=done.error, value=done.value))
        return done

    async def _call(self, one: _Ready) -> _Done:
        place, policy = self._place, one.tool.policy
        context = ToolContext(
            call=one.call,
            deps=place.host.deps,
            idempotency_key=f"{place.host.key}/{one.key}",
            depth=place.depth,
            node=place.host.node,
            thread=place.host.thread,
            emit=place.host.custom,
        )

        async def run(_call: ToolCall, context: ToolContext) -> Any:
            return await one.tool.call(one.arguments, context)

        token = HERE.set(replace(place, path=f"{one.key}/"))  # agents that the tool calls
        scope = asyncio.timeout(policy.timeout_s)
        try:
            async with scope:
                result = await around_tool(self._layers, run)(one.call, context)
            return _told(one.call, result)
        except _PASSING:
            raise
        except TimeoutError as error:
            if not scope.expired():
                return self._failed(one, error)
            text = f"Tool {one.call.name!r} took longer than {policy.timeout_s:g} s."
            if policy.on_error == "raise":
                raise ToolError(text, code="tool-timeout", tool=one.call.name) from None
            return _Done(text=text, error=True)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is what it came to
            return self._failed(one, error)
        finally:
            HERE.reset(token)

    def _failed(self, one: _Ready, error: Exception) -> _Done:
        if one.tool.policy.on_error == "return":
            text = error.what if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
            return _Done(text=text, error=True)
        if isinstance(error, ToolError):
            raise error
        raise ToolError(
            f"Tool {one.call.name!r} failed: {type(error).__name__}: {error}",
            fix='Repair the tool, or let the model see what it raises: on_error="return".',
            tool=one.call.name,
        ) from error


_ANSWER: Final[Any] = bool | dict[str, Any]


def _needs_approval(one: _Ready) -> bool:
    wanted = one.tool.policy.approval
    return wanted if isinstance(wanted, bool) else bool(wanted(one.arguments))


def _payload(one: _Ready, place: Place) -> dict[str, Any]:
    return {
        "problem": "approve a tool call",
        "tool": one.call.name,
        "arguments": dict(one.call.arguments),
        "agent": "/".join(place.names),
    }


def _decision(one: _Ready, answer: Any) -> _Ready | _Done:
    """What a person said: True, False, or a mapping with `approve`, and perhaps `reason` and other `arguments`."""
    if isinstance(answer, bool):
        return one if answer else _refused(one.call, "")
    unknown = sorted(set(answer) - {"approve", "reason", "arguments"})
    if unknown or not isinstance(answer.get("approve"), bool):
        raise InputError(
            f"An approval of a tool call cannot be {answer!r}.",
            code="bad-approval",
            known="'approve' (True or False), 'reason', 'arguments'",
            fix='Answer True, False, or {"approve": True, "arguments": {...}}.',
            value=answer,
        )
    if not answer["approve"]:
        return _refused(one.call, str(answer.get("reason", "")))
    if "arguments" not in answer:
        return one
    call = replace(one.call, arguments=dict(answer["arguments"]), arguments_text="", error=None)
    return replace(one, call=call, arguments=one.tool.check(call.arguments))


def _refused(call: ToolCall, reason: str) -> _Done:
    return _Done(text=f"A person refused this call of {call.name!r}{f': {reason}' if reason else ''}.", error=True)


def _told(call: ToolCall, result: Any) -> _Done:
    """What the model is told of what a tool returned.

    Raises:
        ToolError: It cannot be told.
    """
    if isinstance(result, ToolResult):
        return _Done(text=result.text, error=result.error, value=result.value)
    if isinstance(result, str):
        return _Done(text=result, value=result)
    from pydantic_core import to_json

    try:
        return _Done(text=to_json(result).decode(), value=result)
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolError(
            f"Tool {call.name!r} returned a {type(result).__name__} that cannot be told to a model: {error}.",
            code="tool-result",
            fix="Return a text, a ToolResult, or something that becomes JSON.",
            tool=call.name,
        ) from None
