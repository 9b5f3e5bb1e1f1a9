"""The tool calls of one answer: admitted in order, agreed to, done together, and told in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from graphrt.errors import (
    BudgetExceededError,
    ModelRequestForbiddenError,
    ReplayDivergedError,
    StoreError,
    ToolArgumentsError,
    ToolError,
    closest,
    names,
    told,
)
from graphrt.harness._reply_data import usage_from, usage_to
from graphrt.harness.agent._approval import Done, Ready, allowed, answered, needs_approval, refused
from graphrt.harness.agent._digest import of_arguments
from graphrt.harness.agent._services import HERE, ORDER, Place
from graphrt.harness.agent.events import ToolEnded, ToolStarted
from graphrt.harness.agent.middleware import LayerError, Middleware, around_tool
from graphrt.harness.messages import ToolCall, ToolMessage
from graphrt.harness.tools.protocol import ToolContext, ToolPolicy, ToolResult
from graphrt.harness.tools.results import ToolCommandError, to_result

if TYPE_CHECKING:
    from graphrt.harness.tools.registry import ToolRegistry

__all__ = ["OnBadCall", "Tooling"]

OnBadCall: TypeAlias = Literal["return", "raise"]
Approve: TypeAlias = Callable[[ToolCall], Awaitable[bool] | bool]
_UNCUT: Final = ToolPolicy()
_PASSING: Final = (
    StoreError,
    BudgetExceededError,
    ReplayDivergedError,
    LayerError,
    ModelRequestForbiddenError,
    ToolCommandError,
)
"""What no model is told: the run cannot go on with it."""


@final
class Tooling:
    """The tool calls of one run of an agent."""

    __slots__ = ("_approve", "_bad_arguments", "_emit", "_layers", "_place", "_registry", "_unknown")

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

    async def turn(self, calls: Sequence[ToolCall]) -> list[ToolMessage]:
        """Do what one answer asks for; returns the answers to its calls, in their order.

        Raises:
            ToolError: A tool failed whose failures the model is not to see, or a call is refused by policy.
        """
        admitted = [self._admit(call) for call in calls]
        admitted = await self._agreed(admitted)
        ready = [one for one in admitted if isinstance(one, Ready)]
        if len(ready) == 1:
            done = {ready[0].call.id: await self._do(ready[0])}
        else:
            done = await self._do_all(ready)
        messages: list[ToolMessage] = []
        for call, one in zip(calls, admitted, strict=True):
            result = done[call.id] if isinstance(one, Ready) else one
            if not isinstance(one, Ready) and self._emit is not None:
                self._emit(ToolStarted(call=call))
                self._emit(ToolEnded(call=call, text=result.text, error=True))
            messages.append(ToolMessage(tool_call_id=call.id, text=result.text, error=result.error))
        return messages

    # -- admission -----------------------------------------------------------------------------------------------

    def _admit(self, call: ToolCall) -> Ready | Done:
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
            return Done(text=f"There is no tool {call.name!r}.{hint} The tools are: {known}.", error=True)
        try:
            if call.error is not None:
                raise ToolArgumentsError(f"The arguments are no JSON object: {call.error}.", tool=call.name)
            arguments = tool.check(call.arguments)
        except ToolArgumentsError as error:
            if self._bad_arguments == "raise":
                raise
            return Done(text=error.what, error=True)
        place = self._place
        name = f"tool/{call.name}/{of_arguments({'agent': place.names, 'arguments': call.arguments})}"
        return Ready(call=call, tool=tool, arguments=arguments, key=f"{name}#{place.host.number(name)}")

    async def _agreed(self, admitted: list[Ready | Done]) -> list[Ready | Done]:
        """What a person agrees to, or takes back."""
        host, approve = self._place.host, self._approve
        by_person: list[Ready] = []
        by_code: list[tuple[Ready, Approve]] = []
        for one in admitted:
            if isinstance(one, Done):
                continue
            if host.was_answered(one.key):  # it holds, though the tool may not ask for it any more
                by_person.append(one)
            elif await needs_approval(one):
                if approve is None:
                    by_person.append(one)
                else:
                    by_code.append((one, approve))
        if not by_person and not by_code:
            return admitted
        decided = answered(by_person, self._place)
        for one, decide in by_code:
            ask = partial(allowed, decide, one.call)
            agreed = await host.effect(f"{one.key}/approved", ask, "idempotent", {})
            decided[one.key] = one if agreed is True else refused(one.call, "")
        return [decided.get(one.key, one) if isinstance(one, Ready) else one for one in admitted]

    # -- doing ---------------------------------------------------------------------------------------------------

    async def _do_all(self, ready: Sequence[Ready]) -> dict[str, Done]:
        """Do all at once. If one fails the others still end: what they did is remembered."""
        tasks = [asyncio.ensure_future(self._do_beside(number, one)) for number, one in enumerate(ready)]
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

    async def _do_beside(self, number: int, one: Ready) -> Done:
        ORDER.set((*ORDER.get(), number))  # in the context of the call's own asyncio task
        return await self._do(one)

    async def _do(self, one: Ready) -> Done:
        emit, call = self._emit, one.call
        if emit is not None:
            emit(ToolStarted(call=call))
        value: Any = None
        shown = call

        async def make() -> dict[str, Any]:
            nonlocal value, shown
            done = await self._call(one)
            value, shown = done.value, done.made or call
            used = {} if done.usage is None else {"usage": usage_to(done.usage)}
            return {"text": done.text, "error": done.error, **used}

        try:
            about = {
                "tool": call.name,
                "arguments": dict(one.call.arguments),
                "idempotency_key": self._idempotency_key(one),
            }
            kept = _kept(call, await self._place.host.effect(one.key, make, one.tool.policy.effect, about))
        except BaseException as error:
            if emit is not None:
                emit(ToolEnded(call=call, text=type(error).__name__, error=True))
            raise
        if "usage" in kept:
            self._place.took.append(usage_from(kept["usage"]))
        done = Done(text=str(kept["text"]), error=bool(kept["error"]), value=value)
        if emit is not None:
            emit(ToolEnded(call=shown, text=done.text, error=done.error, value=done.value))
        return done

    def _idempotency_key(self, one: Ready) -> str:
        """What the tool gives to the outside world: by it a person finds out whether the call happened."""
        return f"{self._place.host.key}/{one.key}"

    async def _call(self, one: Ready) -> Done:
        place, policy = self._place, one.tool.policy
        context = ToolContext(
            call=one.call,
            deps=place.host.deps,
            idempotency_key=self._idempotency_key(one),
            depth=place.depth,
            node=place.host.node,
            thread=place.host.thread,
            emit=place.host.custom,
        )

        made = one.call

        async def run(call: ToolCall, context: ToolContext) -> Any:
            nonlocal made
            arguments = one.arguments
            if call is not one.call:
                arguments = _changed(one, call)
                made = replace(call, id=one.call.id)
            return await one.tool.call(arguments, context)

        below = replace(place, path=f"{one.key}/", took=[])  # of agents that the tool calls
        token = HERE.set(below)
        scope = asyncio.timeout(policy.timeout_s)
        try:
            async with scope:
                result = await around_tool(self._layers, run)(one.call, context)
            told = to_result(result, tool=one.call.name, policy=_UNCUT if isinstance(result, ToolResult) else policy)
            done = Done(text=told.text, error=told.error, value=told.value)
        except _PASSING:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            done = self._failed(one, error)  # nobody cancelled it: the tool says so of something of its own
        except TimeoutError as error:
            done = self._late(one) if scope.expired() else self._failed(one, error)
        except Exception as error:
            if isinstance(error.__cause__, ModelRequestForbiddenError):  # of a node in a graph that is the tool
                raise
            done = self._failed(one, error)
        finally:
            HERE.reset(token)
        used = sum(below.took[1:], below.took[0]) if below.took else None
        return replace(done, usage=used, made=made if made != one.call else None)

    def _late(self, one: Ready) -> Done:
        text = f"Tool {one.call.name!r} took longer than {one.tool.policy.timeout_s:g} s."
        if one.tool.policy.on_error == "raise":
            raise ToolError(
                text,
                code="tool-timeout",
                fix='Raise the tool\'s timeout_s, or let the model see it: on_error="return".',
                tool=one.call.name,
            ) from None
        return Done(text=text, error=True)

    def _failed(self, one: Ready, error: BaseException) -> Done:
        if one.tool.policy.on_error == "return":
            text = error.what if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
            return Done(text=text, error=True)
        if isinstance(error, ToolError):
            raise error
        raise ToolError(
            f"Tool {one.call.name!r} failed: {told(error)}",
            fix='Repair the tool, or let the model see what it raises: on_error="return".',
            tool=one.call.name,
        ) from error


def _changed(one: Ready, call: ToolCall) -> Mapping[str, Any]:
    """The arguments of *call*, which a layer made of the call of *one*, as the tool wants them."""
    if call.name != one.call.name:
        raise LayerError(
            f"A layer made of the call of tool {one.call.name!r} one of {call.name!r}.",
            code="tool-renamed",
            known="what was admitted, agreed to and is remembered is the call of the first",
            fix="Change its arguments, return a result without calling run(), or offer the model the other tool.",
            value=call.name,
        )
    if call.error is not None:
        raise ToolArgumentsError(f"The arguments are no JSON object: {call.error}.", tool=call.name)
    return one.tool.check(call.arguments)


def _kept(call: ToolCall, found: Any) -> dict[str, Any]:
    """What is known of a call; what a person said that it came to, after a crash, is what the tool would return."""
    if issubclass(type(found), dict) and type(found.get("text")) is str and type(found.get("error")) is bool:
        kept: dict[str, Any] = found
        return kept
    return {"text": to_result(found, tool=call.name).text, "error": False}
