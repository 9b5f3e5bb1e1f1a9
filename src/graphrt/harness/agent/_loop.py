"""The loop of an agent: call the model, execute its tool calls, and repeat until it answers or reaches a limit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, final

from graphrt.errors import AgentLimitError, BadResponseError, ContextOverflowError
from graphrt.errors._codes.agents import AGENT_LIMIT, ANSWER_CUT_OFF, REPEATED
from graphrt.events import Usage
from graphrt.harness._output.exchange import misfit
from graphrt.harness._output.form import OutputForm
from graphrt.harness.agent._repeats import Repeats
from graphrt.harness.agent.limits import AgentLimits
from graphrt.harness.agent.middleware import ModelCall
from graphrt.harness.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from graphrt.harness.protocol import ROUTED, AgentReply, ModelResponse
from graphrt.harness.request import ModelRequest

if TYPE_CHECKING:
    from graphrt.harness.agent._signals import Signals
    from graphrt.harness.agent._tool_calls import Tooling
    from graphrt.harness.agent.checks import Checks
    from graphrt.harness.agent.compaction import Compactor

__all__ = ["Loop"]

_log: Final = logging.getLogger("graphrt.harness")
_CUT: Final = ("length", "content_filter")
"""Finish reasons of incomplete replies."""
_FILTERED: Final = "%s was broken off by the provider's filter."
"""A log message."""
_GIVEN_UP: Final = "This call was given up: the limit {limit}={bound} was reached."
"""The result of a call that was cut off by a limit."""


@final
@dataclass(slots=True)
class Loop:
    """The loop of one run of an agent."""

    ask: ModelCall
    """Makes a model call, through the middleware."""
    tooling: Tooling
    """Executes tool calls."""
    request: ModelRequest
    """The first request: the beginning of the conversation, and all options."""
    name: str
    """Name of the agent."""
    limits: AgentLimits
    """Bounds of the run."""
    form: OutputForm | None
    """Required form of the answer; None for free text."""
    transcript: list[Message]
    """Receives every message immediately, so that the caller has them however the run ends; it may contain older
    ones."""
    took: Sequence[Usage]
    """Usage of each model call so far; the caller appends to it."""
    below: Sequence[Usage]
    """Usage of sub-agents and failed calls so far; the caller appends to it."""
    signals: Signals | None
    """Takes input from outside between the agent's calls; None if there is none."""
    repeats: Repeats
    """Counts the model's futile repeats."""
    checks: Checks | None
    """Checks of inputs and answers; None if there are none."""
    compactor: Compactor | None
    """Shortens the conversation in requests; None if it is sent whole."""
    earlier: Sequence[Message] | None = None
    """The conversation of the run before the handoff to this agent; None for the agent that began the run."""
    prompted: int | None = None
    """Number of messages before the first answer of the run; None for the agent that began it, meaning those of
    `request`."""
    used: Usage | None = None
    """Usage of the agents that had the conversation before; None if that is unknown, or there were none."""
    handed: int = 0
    """Number of handoffs of the run so far."""
    handoff: Any = None
    """The `Handoff` that ended the part of this agent; None if it answered."""
    goto: Sequence[Any] | None = None
    """Where a tool led, which ended the run: targets that replace the edges of the node; None if none did."""
    _messages: list[Message] = field(default_factory=list["Message"])
    """The conversation so far."""
    _models: int = 0
    _tools: int = 0
    _repaired: bool = False
    """Whether the model has been notified that its answer does not have the required form."""
    _refused: Message | None = None
    """The last answer that a check refused; None if there is none."""
    _counted: int = 0
    """Number of items of `took` already included in `_usage`."""
    _usage: Usage | None = None

    async def run(self) -> AgentReply:
        """Call the model and its tools until it answers.

        If an answer does not have the required form, the model gets the reason and one more attempt.

        Raises:
            AgentLimitError: A limit was reached, or a reply was cut off, and the limits make that an error.
            BadResponseError: The second answer did not have the required form either.
            CheckError: A check refused an input.
            HarnessError: A call failed.
        """
        self._begin()
        if self.checks is not None:
            await self.checks.check_input(self._asked_by_user(), self.said)
        await self._take_signals()
        while True:
            if self._models >= self.limits.model_calls:
                return self.stopped("model_calls")
            response = await self._asked()
            if not response.tool_calls:
                reply = await self._answer(response)
                if reply is not None:
                    return reply
                continue
            limit = await self._turn(response)
            if limit is not None and self.goto is None:
                return self.stopped(limit)
            if self.goto is not None or self.handoff is not None:  # the reply of a handoff is not used
                return replace(self._reply(response), tool_calls=(), finish_reason="tool_calls", stopped=ROUTED)
            await self._take_signals()

    async def _asked(self) -> ModelResponse:
        """Return the model's response to the conversation so far, and add it to the conversation."""
        self._models += 1
        tools = self.request.tools
        if self.tooling.long_results.kept:
            tools = (*tools, *self.tooling.long_results.specs)
        response = self._unique(
            await self._shortened(replace(self.request, messages=tuple(self._messages), tools=tools))
        )
        self._count(response.usage)
        message = response.message
        note = None if self.compactor is None else self.compactor.note()
        self._say(message if note is None else replace(message, left_out=note))
        return response

    async def _shortened(self, request: ModelRequest) -> ModelResponse:
        """Return the response to the compacted *request*; retry with less if the model reports that it is too long."""
        compactor = self.compactor
        if compactor is None:
            return await self.ask(request)
        try:
            return await self.ask(await compactor.shortened(request))
        except ContextOverflowError as error:
            if not compactor.lower():
                raise
            try:
                shorter = await compactor.shortened(request)
            except AgentLimitError:
                raise error from None
        return await self.ask(shorter)

    async def _turn(self, response: ModelResponse) -> str | None:
        """Make the tool calls of *response*; return the name of the limit that ends the run, or None.

        A tool's targets are then in `goto`, and an agent that continues in `handoff`; both also end the run of this
        agent.
        """
        calls = response.tool_calls
        if response.finish_reason in _CUT:
            results = self._cut_calls(response)
        elif self._tools + len(calls) > self.limits.tool_calls:
            return "tool_calls"
        else:
            self._tools += len(calls)
            results, self.goto, self.handoff = await self.tooling.turn(calls)
        handoff = self.handoff
        refused = handoff is not None and self.handed >= self.limits.handoffs
        if handoff is not None and refused:  # its result records that it was made
            name, text = handoff.tool.spec.name, _GIVEN_UP.format(limit="handoffs", bound=self.limits.handoffs)
            results = [
                replace(result, text=text, error=True) if call.name == name and not result.error else result
                for call, result in zip(calls, results, strict=True)
            ]
        self._say(*self.repeats.of_calls(calls, results))
        if refused:
            return "handoffs"
        return None if self.repeats.beyond is None else "repeats"

    async def _answer(self, response: ModelResponse) -> AgentReply | None:
        """Return the reply of a run that ends with *response*; None if the model is called once more.

        Raises:
            BadResponseError: It does not have the required form, and neither did an earlier answer.
            AgentLimitError: It was rejected, as was the same answer before.
            Exception: An exception raised by a check.
        """
        subject = f"The answer of agent {self.name!r}"
        if response.finish_reason == "length":
            self._cut_off(subject)
        elif response.finish_reason == "content_filter":
            _log.warning(_FILTERED, subject)
        output: Any = None
        if self.form is not None:
            try:
                output = self.form.read(response.text)
            except ValueError as error:
                problem = str(error)
                if self._repaired:
                    raise self._misfit(problem, response) from None
                self._repaired = True
                again = "It was cut off: answer more briefly" if response.finish_reason == "length" else "Answer again"
                text = f"Your answer does not have the form that was asked for: {problem}. {again}."
                self._say(UserMessage(text=text))
                return None
        reason: str | None = None
        if self.checks is not None:
            value = response.text if self.form is None else output
            reason = await self.checks.refusal(value, response.text, self.said)
        if reason is not None:
            self._refused = self._messages[-1]
            note = self.repeats.of_answer(response.text)
            if self.repeats.beyond is not None:
                return self.stopped("repeats")
            self._say(UserMessage(text=f"Your answer was not accepted: {reason}\nAnswer again.{note and ' '}{note}"))
            return None
        if await self._take_signals():  # messages that came while the model answered are not lost
            return None
        return self._reply(response, output)

    async def _take_signals(self) -> bool:
        """Add messages sent to the agent since the last check to the conversation; return whether there were any."""
        messages = [] if self.signals is None else await self.signals.taken()
        for message in messages:
            self._say(message)
            if self.checks is not None:
                await self.checks.check_input(message.text, self.said)
        return bool(messages)

    def _asked_by_user(self) -> str:
        """Return the text of the user's last message before the run; after a handoff, before the original run."""
        prompt = self.request.messages if self.earlier is None else self.earlier[: self._prompted()]
        texts = [message.text for message in prompt if isinstance(message, UserMessage)]
        return texts[-1] if texts else prompt[-1].text

    def _begin(self) -> None:
        """Begin the conversation with the messages of the request."""
        if self.earlier is None:
            self._say(*self.request.messages)
        else:  # the transcript has the conversation already
            self._messages += self.request.messages

    @property
    def said(self) -> tuple[Message, ...]:
        """The conversation of the run so far: after a handoff, without the instructions of this agent."""
        if self.earlier is None:
            return tuple(self._messages)
        return (*self.earlier, *self._messages[len(self.request.messages) :])

    def _say(self, *messages: Message) -> None:
        """Add *messages* to the conversation, and to the caller's transcript."""
        self._messages += messages
        self.transcript += messages

    @property
    def usage(self) -> Usage | None:
        """Usage of all calls so far, sub-agents included; None if no model has reported any."""
        return _added(self.used, self._usage, *self.took[self._counted :], *self.below)

    def _count(self, reported: Usage | None) -> None:
        """Add the usage behind one response.

        Middleware may set a price on a single call, so *reported*, the usage in the response, counts. If middleware
        made several calls for the response, their own usages count instead.
        """
        usages = self.took[self._counted :]
        self._counted = len(self.took)
        is_reported = len(usages) <= 1 and reported is not None
        self._usage = _added(self._usage, reported) if is_reported else _added(self._usage, *usages)

    def _reply(self, response: ModelResponse, output: Any = None) -> AgentReply:
        return replace(
            response,
            usage=self.usage,
            output=output,
            messages=self.said,
            agent=self.name,
            prompt_messages=self._prompted(),
        )

    def _prompted(self) -> int:
        """Return how many messages preceded the first answer of the run."""
        return len(self.request.messages) if self.prompted is None else self.prompted

    def stopped(self, limit: str) -> AgentReply:
        """Return the reply of a run that reached *limit*, a field of AgentLimits.

        Raises:
            AgentLimitError: The limits say `on_limit="raise"`.
        """
        bound = getattr(self.limits, limit)
        if self.limits.on_limit == "raise":
            subject, message_count = self.repeats.beyond, len(self.said)
            if subject is not None:
                raise REPEATED(
                    subject=subject,
                    name=self.name,
                    option=limit,
                    limit=bound,
                    models=self._models,
                    tools=self._tools,
                    messages_made=message_count,
                    messages=self.said,
                )
            raise AGENT_LIMIT(
                name=self.name,
                option=limit,
                limit=bound,
                models=self._models,
                tools=self._tools,
                messages_made=message_count,
                messages=self.said,
            )
        last = next(
            (message for message in reversed(self.said) if isinstance(message, AssistantMessage)), AssistantMessage()
        )
        self._say(*self._unanswered(bound, limit))
        return AgentReply(
            text="" if last == self._refused else last.text,  # a refused answer is not the reply
            usage=self.usage,
            finish_reason="unknown",
            messages=self.said,
            stopped=limit,
            agent=self.name,
            prompt_messages=self._prompted(),
        )

    def _cut_calls(self, response: ModelResponse) -> list[ToolMessage]:
        """Return a result for each call of a reply that was cut off; none of the calls is made.

        The missing rest of a call is unknown. Providers close the arguments of a cut call, for instance as `{}`, which
        many tools accept, and complete calls may make no sense without the missing ones.

        Raises:
            AgentLimitError: `max_tokens` cut it off, and the limits say `on_length="raise"` (`answer-cut-off`).
        """
        subject = f"A reply with tool calls of agent {self.name!r}, which were not made,"
        if response.finish_reason == "length":
            cause = f"the reply was cut off at {self._cut_off(subject)}. Make shorter calls, or fewer at once."
        else:
            _log.warning(_FILTERED, subject)
            cause = "the provider's filter broke the reply off."
        return self.tooling.not_made(response.tool_calls, f"This call was not made: {cause}")

    def _cut_off(self, subject: str) -> str:
        """Log that `max_tokens` cut *subject* off, and return the bound in words; or raise.

        Raises:
            AgentLimitError: The limits say `on_length="raise"` (`answer-cut-off`).
        """
        max_tokens = self.request.max_tokens
        bound = "the bound of its model" if max_tokens is None else f"max_tokens={max_tokens}"
        problem = f"{subject} was cut off at {bound}."
        if self.limits.on_length == "raise":
            raise ANSWER_CUT_OFF(problem=problem, name=self.name, limit=max_tokens, messages=self.said)
        _log.warning("%s AgentLimits(on_length='raise') makes it an error.", problem)
        return bound

    def _unanswered(self, bound: Any, limit: str) -> list[ToolMessage]:
        """Answer each tool call that has no answer, since providers reject conversations with unanswered calls."""
        answered = {message.tool_call_id for message in self.said if isinstance(message, ToolMessage)}
        calls = [call for message in self.said if isinstance(message, AssistantMessage) for call in message.tool_calls]
        text = _GIVEN_UP.format(limit=limit, bound=bound)
        return [ToolMessage(tool_call_id=call.id, text=text, error=True) for call in calls if call.id not in answered]

    def _unique(self, response: ModelResponse) -> ModelResponse:
        """Return *response* with tool call ids that are unique in the conversation; some providers give no ids.

        Ids stay short however long the conversation is, since providers limit their length and journals store them.
        """
        calls: Sequence[ToolCall] = response.tool_calls
        if not calls:
            return response
        seen = {
            call.id for message in self.said if isinstance(message, AssistantMessage) for call in message.tool_calls
        }
        renamed: list[ToolCall] = []
        for number, call in enumerate(calls, 1):
            id_ = call.id or f"call-{self._models}-{number}"
            base, suffix = call.id[:30] or "call", len(seen)
            while id_ in seen:
                suffix += 1
                id_ = f"{base}-{suffix}"
            seen.add(id_)
            renamed.append(replace(call, id=id_) if id_ != call.id else call)
        return replace(response, tool_calls=tuple(renamed)) if tuple(renamed) != calls else response

    def _misfit(self, problem: str, response: ModelResponse) -> BadResponseError:
        agent = f"agent {self.name!r}"
        return misfit(
            problem, response, of=agent, where=agent, said=self.said, note="the model was asked to correct it once; "
        )


def _added(*used: Usage | None) -> Usage | None:
    """Return the sum of the usages that are known; None if none is."""
    known = [usage for usage in used if usage is not None]
    return sum(known[1:], known[0]) if known else None
