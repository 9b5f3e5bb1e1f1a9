"""The loop of an agent: ask the model, do what it asks for, ask again, until it has answered or a limit is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from graphrt.errors import AgentLimitError, BadResponseError
from graphrt.events import Usage
from graphrt.harness.agent.limits import AgentLimits
from graphrt.harness.agent.middleware import ModelCall
from graphrt.harness.messages import AssistantMessage, Message, SystemMessage, ToolCall, UserMessage
from graphrt.harness.protocol import AgentReply, ModelResponse
from graphrt.harness.request import ModelRequest

if TYPE_CHECKING:
    from graphrt.harness.agent._output import OutputForm
    from graphrt.harness.agent._tooling import Tooling

__all__ = ["Loop"]


@final
class Loop:
    """One run of an agent.

    Args:
        ask: Makes a model call, with the layers around it.
        tooling: Does tool calls.
        request: The first request: what the conversation begins with, and all options.
        form: What the answer has to be.
        transcript: Gets every message as it is said; it is there whatever happens.
        name: Of the agent.
    """

    def __init__(
        self,
        ask: ModelCall,
        tooling: Tooling,
        request: ModelRequest,
        *,
        limits: AgentLimits,
        form: OutputForm | None,
        transcript: list[Message],
        name: str,
    ) -> None:
        self._ask = ask
        self._tooling = tooling
        self._request = request
        self._limits = limits
        self._form = form
        self._said = transcript
        self._name = name
        self._models = 0
        self._tools = 0
        self.usage: Usage | None = None
        """Of all calls so far; None while no model has told."""

    async def run(self) -> AgentReply:
        """Go round until there is an answer.

        Raises:
            AgentLimitError: A limit was reached.
            BadResponseError: The answer did not have its form, even after the model was told.
            HarnessError: A call failed.
        """
        self._said.extend(self._request.messages)
        repaired = False
        while True:
            if self._models >= self._limits.model_calls:
                return self._stopped("model_calls")
            self._models += 1
            response = _unique(await self._ask(replace(self._request, messages=tuple(self._said))))
            self._count(response.usage)
            self._said.append(response.message)
            if response.tool_calls:
                if self._tools + len(response.tool_calls) > self._limits.tool_calls:
                    return self._stopped("tool_calls")
                self._tools += len(response.tool_calls)
                self._said.extend(await self._tooling.turn(response.tool_calls))
                continue
            if self._form is None:
                return self._reply(response)
            try:
                return self._reply(response, self._form.read(response.text))
            except ValueError as error:
                problem = str(error)
            if repaired:
                raise self._misfit(problem, response)
            repaired = True
            self._said.append(
                UserMessage(text=f"Your answer does not have the form that was asked for: {problem}. Answer again.")
            )

    def stopped(self, limit: str) -> AgentReply:
        """What there is when *limit* is reached from outside.

        Raises:
            AgentLimitError: The limits say so.
        """
        return self._stopped(limit)

    def _count(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def _reply(self, response: ModelResponse, output: Any = None) -> AgentReply:
        return replace(response, usage=self.usage, output=output, messages=tuple(self._said))

    def _stopped(self, limit: str) -> AgentReply:
        bound = getattr(self._limits, limit)
        if self._limits.on_limit == "raise":
            raise AgentLimitError(
                f"Agent {self._name!r} reached its limit {limit}={bound}.",
                where=f"agent {self._name!r}",
                known=f"{self._models} model calls, {self._tools} tool calls, {len(self._said)} messages",
                fix=f'Raise AgentLimits({limit}=...), or use on_limit="stop" to go on with what there is.',
                limit=bound,
                messages=tuple(self._said),
            )
        last = next((said for said in reversed(self._said) if isinstance(said, AssistantMessage)), AssistantMessage())
        return AgentReply(
            text=last.text, usage=self.usage, finish_reason="unknown", messages=tuple(self._said), stopped=limit
        )

    def _misfit(self, problem: str, response: ModelResponse) -> BadResponseError:
        return BadResponseError(
            f"The answer of agent {self._name!r} does not have the form that was asked for: {problem}.",
            code="bad-output",
            where=f"agent {self._name!r}",
            known=f"the model was told once; its answer began with {response.text[:80]!r}",
            fix="Ask for less at once, describe the fields, or use a model that supports structured output.",
            model=response.model,
            messages=tuple(self._said),
        )


def _unique(response: ModelResponse) -> ModelResponse:
    """*response* with an id of its own for each tool call, which some providers do not give."""
    calls: Sequence[ToolCall] = response.tool_calls
    if len({call.id for call in calls}) == len(calls) and all(call.id for call in calls):
        return response
    seen: set[str] = set()
    named: list[ToolCall] = []
    for number, call in enumerate(calls, 1):
        id_ = call.id or f"call-{number}"
        while id_ in seen:
            id_ = f"{id_}-{number}"
        seen.add(id_)
        named.append(replace(call, id=id_) if id_ != call.id else call)
    return replace(response, tool_calls=tuple(named))


def system_message(*texts: str | None) -> tuple[SystemMessage, ...]:
    """The instructions, if there are any, as one message."""
    told = "\n\n".join(text for text in texts if text)
    return (SystemMessage(text=told),) if told else ()
