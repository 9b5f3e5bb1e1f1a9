"""What may stand around the calls of an agent: each layer sees what goes in and what comes out, outermost first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from graphrt.harness.messages import Message, ToolCall
from graphrt.harness.protocol import AgentReply, ModelResponse
from graphrt.harness.request import ModelRequest
from graphrt.harness.tools.protocol import ToolContext

__all__ = ["Middleware"]

ModelCall: TypeAlias = Callable[[ModelRequest], Awaitable[ModelResponse]]
ToolRun: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[Any]]


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
        request = await self.before_model(request)
        return await self.after_model(request, await call(request))

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
        await self.before_tool(call, context)
        return await self.after_tool(call, await run(call, context))


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
    return await layer.wrap_model(request, call)


async def _wrap_tool(layer: Middleware, run: ToolRun, call: ToolCall, context: ToolContext) -> Any:
    return await layer.wrap_tool(call, context, run)
