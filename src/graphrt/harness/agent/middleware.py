"""What may stand around the calls of an agent: each layer sees what goes in and what comes out, outermost first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from graphrt.errors import InputError
from graphrt.harness.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from graphrt.harness.protocol import AgentReply, ModelResponse
from graphrt.harness.request import ModelRequest
from graphrt.harness.tools.protocol import ToolContext

__all__ = ["Middleware"]

ModelCall: TypeAlias = Callable[[ModelRequest], Awaitable[ModelResponse]]
ToolRun: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[Any]]
LAYER: Final = ("before_run", "after_run", "wrap_model", "wrap_tool")
"""What an agent calls of a layer."""
HOOKS: Final = (*LAYER, "before_model", "after_model", "before_tool", "after_tool")
"""Those, and what a Middleware calls of itself."""
_MESSAGES: Final = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)


class Middleware:
    """A layer around an agent: override what you need; everything else passes through.

    `wrap_*` is the whole of a call, `before_*` and `after_*` are its ends. After a restart in a graph layers run again
    around what is known already; nothing inside is done twice.
    """

    async def before_run(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Change the conversation that a run begins with."""
        return messages

    async def after_run(self, reply: AgentReply) -> AgentReply:
        """Change what a run came to."""
        return reply

    async def before_model(self, request: ModelRequest) -> ModelRequest:
        """Change a request."""
        return request

    async def after_model(self, request: ModelRequest, response: ModelResponse) -> ModelResponse:  # noqa: ARG002
        """Change a response."""
        return response

    async def wrap_model(self, request: ModelRequest, call: ModelCall) -> ModelResponse:
        """Stand around a model call: *call* makes it."""
        request = await _given(self, "before_model", self.before_model(request), ModelRequest)
        response = await call(request)
        changed: ModelResponse = await _given(self, "after_model", self.after_model(request, response), AgentReply)
        return changed

    async def before_tool(self, call: ToolCall, context: ToolContext) -> None:
        """Look at a tool call whose arguments were checked. What is raised is what the tool came to."""

    async def after_tool(self, call: ToolCall, result: Any) -> Any:  # noqa: ARG002
        """Change what a tool returned."""
        return result

    async def wrap_tool(self, call: ToolCall, context: ToolContext, run: ToolRun) -> Any:
        """Stand around a tool call: *run* makes it.

        *run* may be given a call with other arguments, which the tool checks, but no other tool's (`tool-renamed`).
        Nobody is asked again whether they are allowed, and what is remembered stays under the model's own call.
        """
        await _given(self, "before_tool", self.before_tool(call, context))
        result = await run(call, context)
        return await _given(self, "after_tool", self.after_tool(call, result))


async def begun(layers: Sequence[Middleware], messages: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation that a run begins with, once all *layers* have seen it."""
    for layer in layers:
        told = await _given(layer, "before_run", layer.before_run(messages))
        if (
            not isinstance(told, (list, tuple))
            or not all(isinstance(one, _MESSAGES) for one in _items(told))
            or not told
        ):
            raise _misused(layer, "before_run", f"returned {_short(told)}", "a list of 1..n messages")
        messages = tuple(_items(told))
    return tuple(messages)


async def ended(layers: Sequence[Middleware], reply: AgentReply) -> AgentReply:
    """What a run came to, once all *layers* have seen it."""
    for layer in reversed(layers):
        reply = await _given(layer, "after_run", layer.after_run(reply), AgentReply)
    return reply


def around_model(layers: Sequence[Middleware], call: ModelCall) -> ModelCall:
    """*call* with *layers* around it."""
    for layer in reversed(layers):
        call = partial(_wrap_model, layer, call)
    return call


def around_tool(layers: Sequence[Middleware], run: ToolRun) -> ToolRun:
    """*run* with *layers* around it."""
    for layer in reversed(layers):
        run = partial(_wrap_tool, layer, run)
    return run


async def _wrap_model(layer: Middleware, call: ModelCall, request: ModelRequest) -> ModelResponse:
    response: ModelResponse = await _given(layer, "wrap_model", layer.wrap_model(request, call), AgentReply)
    return response


async def _wrap_tool(layer: Middleware, run: ToolRun, call: ToolCall, context: ToolContext) -> Any:
    return await _given(layer, "wrap_tool", layer.wrap_tool(call, context, run))


async def _given(layer: Middleware, method: str, pending: Any, kind: Any = None) -> Any:
    """What a method of *layer* returned: layers are written by hand.

    Raises:
        InputError: It cannot be awaited, or is not of *kind*.
    """
    wanted = "anything" if kind is None else f"a value of type {kind.__name__}"
    if not isawaitable(pending):
        raise _misused(layer, method, f"returned {_short(pending)}, which cannot be awaited", wanted)
    value: Any = await pending
    if kind is not None and not isinstance(value, kind):
        raise _misused(layer, method, f"returned {_short(value)}", wanted)
    return value


class LayerError(InputError):
    """A layer did what it may not. That is no failure of a tool, which a model could be told of."""


def _misused(layer: Middleware, method: str, what: str, wanted: str) -> LayerError:
    name = f"{type(layer).__name__}.{method}()"
    return LayerError(
        f"Middleware {name} {what}.",
        code="bad-middleware",
        known=f"it has to return {wanted}",
        fix=f"Write `async def {method}(...)`, with a return on every way out of it.",
        value=layer,
    )


def _short(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _items(values: Any) -> Any:
    return values
