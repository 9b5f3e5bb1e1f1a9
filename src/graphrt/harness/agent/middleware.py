"""Middleware of agents: layers around runs, model calls and tool calls, outermost first, and how they are called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from graphrt.errors import InputError
from graphrt.errors._codes.agents import BAD_MIDDLEWARE
from graphrt.errors._error_code import ErrorCode
from graphrt.harness.messages import Message, ToolCall, as_conversation
from graphrt.harness.protocol import AgentReply, ModelResponse
from graphrt.harness.request import ModelRequest
from graphrt.harness.tools.protocol import ToolContext

__all__ = ["Middleware"]

ModelCall: TypeAlias = Callable[[ModelRequest], Awaitable[ModelResponse]]
"""Makes a model call, including the layers inside."""
ToolRun: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[Any]]
"""Makes a tool call, including the layers inside."""
LAYER: Final = ("before_run", "after_run", "wrap_model", "wrap_tool")
"""Methods of a layer that an agent calls."""
HOOKS: Final = (*LAYER, "before_model", "after_model", "before_tool", "after_tool")
"""All methods that a layer may define: those, and the ones that a Middleware calls itself."""


class Middleware:
    """A layer around an agent: override the methods you need; the others pass everything through.

    `wrap_*` surrounds a whole call; `before_*` and `after_*` see only its beginning or its end. After a restart in a
    graph, layers run again around calls that are remembered; the calls themselves are not repeated.
    """

    async def before_run(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the conversation that the run shall begin with: 1..n messages."""
        return messages

    async def after_run(self, reply: AgentReply) -> AgentReply:
        """Return the reply that the run shall have."""
        return reply

    async def before_model(self, request: ModelRequest) -> ModelRequest:
        """Return the request that shall be made."""
        return request

    async def after_model(self, request: ModelRequest, response: ModelResponse) -> ModelResponse:  # noqa: ARG002
        """Return the response that the agent shall see."""
        return response

    async def wrap_model(self, request: ModelRequest, call: ModelCall) -> ModelResponse:
        """Surround a model call; *call* makes it, and may be called any number of times.

        An override without `super()` replaces `before_model` and `after_model`, which are called here.
        """
        request = await _given(self, "before_model", self.before_model(request), ModelRequest)
        response = await call(request)
        changed: ModelResponse = await _given(self, "after_model", self.after_model(request, response), AgentReply)
        return changed

    async def before_tool(self, call: ToolCall, context: ToolContext) -> None:
        """Inspect a tool call whose arguments were checked. An exception counts as a failure of the tool."""

    async def after_tool(self, call: ToolCall, result: Any) -> Any:  # noqa: ARG002
        """Return the result that the tool call shall have."""
        return result

    async def wrap_tool(self, call: ToolCall, context: ToolContext, run: ToolRun) -> Any:
        """Surround a tool call; *run* makes it.

        *run* accepts a call with other arguments, which the tool checks, but not a call of another tool
        (`tool-renamed`). Changed arguments are not approved again, and the result is remembered under the model's call.

        An override without `super()` replaces `before_tool` and `after_tool`, which are called here.
        """
        await _given(self, "before_tool", self.before_tool(call, context))
        result = await run(call, context)
        return await _given(self, "after_tool", self.after_tool(call, result))


async def begun(layers: Sequence[Middleware], messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return *messages* as changed by `before_run` of all *layers*, outermost first.

    Raises:
        LayerError: A layer returned something other than a list of 1..n messages (`bad-middleware`).
    """
    for layer in layers:
        returned = await _given(layer, "before_run", layer.before_run(messages))
        conversation = as_conversation(returned)
        if conversation is None:
            raise _misused(layer, "before_run", f"returned {_short(returned)}", "a list of 1..n messages")
        messages = conversation
    return tuple(messages)


async def ended(layers: Sequence[Middleware], reply: AgentReply) -> AgentReply:
    """Return *reply* as changed by `after_run` of all *layers*, innermost first.

    Raises:
        LayerError: A layer returned something other than a reply (`bad-middleware`).
    """
    for layer in reversed(layers):
        reply = await _given(layer, "after_run", layer.after_run(reply), AgentReply)
    return reply


def around_model(layers: Sequence[Middleware], call: ModelCall) -> ModelCall:
    """Return *call* with `wrap_model` of all *layers* around it."""
    for layer in reversed(layers):
        call = partial(_wrap_model, layer, call)
    return call


def around_tool(layers: Sequence[Middleware], run: ToolRun) -> ToolRun:
    """Return *run* with `wrap_tool` of all *layers* around it."""
    for layer in reversed(layers):
        run = partial(_wrap_tool, layer, run)
    return run


async def _wrap_model(layer: Middleware, call: ModelCall, request: ModelRequest) -> ModelResponse:
    response: ModelResponse = await _given(layer, "wrap_model", layer.wrap_model(request, call), AgentReply)
    return response


async def _wrap_tool(layer: Middleware, run: ToolRun, call: ToolCall, context: ToolContext) -> Any:
    return await _given(layer, "wrap_tool", layer.wrap_tool(call, context, run))


async def _given(layer: Middleware, method: str, pending: Any, kind: Any = None) -> Any:
    """Await *pending*, the result of a method of *layer*, and check it: layers are written by users.

    Raises:
        LayerError: It is not awaitable, or its value is not of *kind* (`bad-middleware`).
    """
    expected = "anything" if kind is None else f"a value of type {kind.__name__}"
    if not isawaitable(pending):
        raise _misused(layer, method, f"returned {_short(pending)}, which cannot be awaited", expected)
    value: Any = await pending
    if kind is not None and not isinstance(value, kind):
        raise _misused(layer, method, f"returned {_short(value)}", expected)
    return value


class LayerError(InputError):
    """A layer is wrong. The model does not see it, as it would see the failure of a tool."""


# Declared here and not with the other errors of agents, beside their class.
LAYER_MISUSED: Final = BAD_MIDDLEWARE.variant(
    "Middleware {hook} {did}.",
    error=LayerError,
    known="it has to return {wanted}",
    fix="Write `async def {method}(...)`, with a return on every way out of it.",
)
TOOL_RENAMED: Final = ErrorCode(
    "tool-renamed",
    LayerError,
    "A layer changed the call of tool {first!r} to one of {value!r}.",
    known="the call of the first was admitted and approved, and is the one that is recorded",
    fix="Change its arguments, return a result without calling run(), or offer the model the other tool.",
)


def _misused(layer: Middleware, method: str, problem: str, expected: str) -> LayerError:
    name = f"{type(layer).__name__}.{method}()"
    return LAYER_MISUSED(hook=name, did=problem, wanted=expected, method=method, value=layer)


def _short(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
