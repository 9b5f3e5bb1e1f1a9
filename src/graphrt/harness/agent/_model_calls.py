"""One model call of an agent: replay, response cache, fallback models, retries and budget around the model itself.

From the outside in: the replies that the task remembers, the response cache, fallback models, attempts of one model,
the budget, the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

from graphrt import _retry_policy
from graphrt._ambient import surroundings
from graphrt._usage.usage import UNREPORTED
from graphrt.errors import BadResponseError, HarnessError, InputError, ToolError, a_type
from graphrt.errors._codes.agents import NOT_A_RESPONSE
from graphrt.events import Usage
from graphrt.harness._harness_checks import check_real, usage_problem
from graphrt.harness._output.exchange import in_words
from graphrt.harness.agent._digest import of_request
from graphrt.harness.agent._services import Place
from graphrt.harness.agent.cache import ResponseCache, asked_of
from graphrt.harness.agent.events import ModelEnded, ModelFailed, ModelStarted
from graphrt.harness.budget._admission import count_failed, recount, spend
from graphrt.harness.budget._prices import priced
from graphrt.harness.messages import ProviderPart, ThinkingBlock, ToolCall
from graphrt.harness.protocol import AgentReply, ChatModel, ModelResponse, StreamItem, TextDelta
from graphrt.harness.request import ModelRequest
from graphrt.harness.tools._invoke import invoke

if TYPE_CHECKING:
    from graphrt.limits import RetryPolicy


@final
class Caller:
    """Makes the model calls of one run of an agent.

    Args:
        models: The model, then its fallbacks: 1..n.
        place: Place of the run among the others.
        retry: Policy for failed attempts.
        cache: Cache of responses; None for none.
        emit: Receives stream items and events; None if there is no reader.
    """

    __slots__ = ("_asked", "_cache", "_counts", "_emit", "_models", "_place", "_retry", "remembered", "took")

    def __init__(
        self,
        models: tuple[ChatModel, ...],
        place: Place,
        *,
        retry: RetryPolicy,
        cache: ResponseCache | None,
        emit: Callable[[Any], None] | None,
    ) -> None:
        self._models = models
        self._place = place
        self._retry = retry
        self._cache = cache
        self._emit = emit
        self._counts: dict[str, int] = {}
        self._asked = 0
        self.remembered: bool = False
        """Whether the last response was recorded by an earlier execution of the task, perhaps with older tools."""
        self.took: list[Usage] = []
        """Usage of each call, replayed ones included, whatever middleware makes of the response."""

    async def ask(self, request: ModelRequest) -> ModelResponse:
        """Return a model's response to *request*, remembered, cached or new."""
        place = self._place
        self._asked += 1
        call = self._asked
        keyed = place.host.remembers or self._cache is not None  # digests took a third of a turn's time
        digest = of_request(request) if keyed else ""
        # The same request may come several times in a run: the number tells the calls apart.
        count = self._counts[digest] = self._counts.get(digest, 0) + 1
        source, key = "model", f"{place.path}{digest}#{count}"
        failed: Sequence[Usage] | None = None

        async def fresh() -> ModelResponse:
            nonlocal source, failed
            try:
                if self._cache is None:
                    return await self._first_that_answers(request, call, key)
                known_as = (asked_of(self._models[0]), digest)
                response, hit = await self._cache.get(known_as, lambda: self._first_that_answers(request, call, key))
                source = "cache" if hit else "model"
                return response
            finally:
                failed = place.host.failed_calls(key)  # before the reply itself is recorded

        try:
            response, known = await place.host.reply(key, fresh)
        finally:
            place.took.extend(place.host.failed_calls(key) if failed is None else failed)
        self.remembered = known
        if known:
            source = "journal"
            if place.ledger is not None:
                recount(place.ledger, key, host=place.host)
        self.took.append(UNREPORTED if response.usage is None else response.usage)
        if self._emit is not None:
            if source != "model":
                self._emit(response)
            name = response.model or self._models[0].profile.name
            self._emit(ModelEnded(call=call, model=name, usage=response.usage, source=source))
        return response

    async def _first_that_answers(self, request: ModelRequest, call: int, key: str) -> ModelResponse:
        for number, model in enumerate(self._models, 1):
            try:
                return await self._attempts(model, request, call, key)
            except (ToolError, InputError):
                raise  # not a failure of the model: another one would meet it too
            except HarnessError:
                if number == len(self._models):
                    raise
        raise AssertionError  # there is at least one model

    async def _attempts(self, model: ChatModel, request: ModelRequest, call: int, key: str) -> ModelResponse:
        policy, attempt = self._retry, 1
        if surroundings().instead is None:
            check_real(model)
        if not model.profile.holds_to_output(request):  # a fallback may lack what the first model can
            request = in_words(request)
        while True:
            if self._emit is not None:
                self._emit(ModelStarted(call=call, model=model.profile.name, attempt=attempt))
            try:
                return await self._within_budget(model, request, key)
            except Exception as error:
                wait_s: float | None = None
                if attempt < policy.attempts and _is_retried(policy, error):
                    asked_s = _retry_policy.hinted_wait(error)
                    wait_s = _retry_policy.delay(policy, f"{self._place.path}{call}", attempt, asked_s)
                    if wait_s is None:
                        error.add_note(f"Not asked again: {_retry_policy.asks_too_long(policy, error)}.")
                self._failed(call, model, error, wait_s)
                if wait_s is None:
                    raise
            await _rest(wait_s)
            attempt += 1

    def _failed(self, call: int, model: ChatModel, error: Exception, delay_s: float | None) -> None:
        if self._emit is not None:
            name = type(error).__name__
            self._emit(ModelFailed(call=call, model=model.profile.name, error=name, delay_s=delay_s))

    # -- the budget ----------------------------------------------------------------------------------------------

    async def _within_budget(self, model: ChatModel, request: ModelRequest, key: str) -> ModelResponse:
        place, began = self._place, list[StreamItem]()
        call = partial(self._invoke, model, request, key, began)
        if place.ledger is not None:
            return await spend(place.ledger, request, model.profile, call, key=key, host=place.host, began=began)
        try:
            return await call()
        except BaseException as error:
            await count_failed(error, model.profile, key=key, host=place.host, began=began)
            raise

    # -- the call ------------------------------------------------------------------------------------------------

    async def _invoke(
        self, model: ChatModel, request: ModelRequest, key: str, began: list[StreamItem]
    ) -> ModelResponse:
        """Make the call. *began* gets the items of a stream."""
        began.clear()
        emit = self._emit
        watcher = surroundings().watcher
        if watcher is not None:
            watcher.asks(model.profile.name, request.messages)
        response: Any = None
        instead = surroundings().instead
        if instead is not None:
            response = await instead()
            if emit is not None:
                emit(response)
        elif emit is None:
            response = await model.invoke(request)
        else:
            items: Any = model.stream(request)
            try:
                async for item in items:
                    response = item
                    began.append(item)
                    emit(item)
            except asyncio.CancelledError:
                heard = "".join(item.text for item in began if type(item) is TextDelta)
                # What a sub-agent says, or a form of the answer, is not a message of the conversation.
                if heard and not self._place.depth and request.output is None:
                    await self._place.host.stopped(key, heard, model.profile.name)
                raise
            finally:
                if hasattr(items, "aclose"):
                    await items.aclose()
        reply = _checked(response, model)
        if reply.usage is None:
            return reply
        # A model that reports tokens only has made one call all the same. What it does not report is not estimated.
        usage = reply.usage if reply.usage.calls else replace(reply.usage, calls=1)
        usage = priced(usage, model.profile)
        if not usage.input_tokens and not usage.output_tokens:
            usage = replace(usage, unreported_calls=usage.calls)
        return replace(reply, usage=usage)


def _checked(response: Any, model: ChatModel) -> ModelResponse:
    """Return *response* if an agent can go on with it.

    Raises:
        BadResponseError: It cannot.
    """
    problem = _problem(response)
    if problem is not None:
        raise NOT_A_RESPONSE(model=model.profile.name, problem=problem, billed=True)  # the model has answered
    reply: ModelResponse = response
    if reply.finish_reason == "tool_calls" and not (reply.tool_calls or reply.parts):
        # Its calls were lost on the way. As an answer it would end the run with an empty text.
        raise NOT_A_RESPONSE(
            model=model.profile.name,
            problem="an empty response that ends in tool calls and has none",
            fix="Ask again. If it comes again, the model or its server cannot call tools.",
            billed=True,
            usage=reply.usage,
        )
    return reply


def _problem(response: Any) -> str | None:
    """Return what is wrong with the response of a model, which a user may have written; None if it can be used."""
    if not isinstance(response, AgentReply):
        return a_type(response)
    text: Any = response.text
    if not isinstance(text, str):
        return f"a text of type {type(text).__name__}"
    calls: Any = response.tool_calls
    if not issubclass(type(calls), tuple) or any(type(call) is not ToolCall for call in calls):
        return "a response whose tool calls are not a tuple of ToolCalls"
    blocks: Any = response.thinking_blocks
    if not issubclass(type(blocks), tuple) or any(type(block) is not ThinkingBlock for block in blocks):
        return "a response whose thinking blocks are not a tuple of ThinkingBlocks"
    parts: Any = response.provider_parts
    if not issubclass(type(parts), tuple) or any(type(part) is not ProviderPart for part in parts):
        return "a response whose provider parts are not a tuple of ProviderParts"
    return usage_problem(response.usage)


def _is_retried(policy: RetryPolicy, error: Exception) -> bool:
    """Return whether the call is made again after *error*. A predicate `retry_on` that raises counts as no."""
    if not isinstance(error, HarnessError):
        return False
    if policy.retry_on is None and isinstance(error, BadResponseError):
        return not _retry_policy.is_final(error)  # the next answer may be well formed
    try:
        return _retry_policy.wants_retry(policy, error)
    except Exception as broken:  # noqa: BLE001 - the predicate is user code; the error of the call is the one to raise
        error.add_note(f"retry_on raised {type(broken).__name__}: {broken}")
        return False


async def _rest(seconds: float) -> None:
    """Wait between two attempts: by the `sleep=` of the runtime that drives this run, else in real time (decision 0040)."""
    sleep = surroundings().sleep
    if sleep is None:
        await asyncio.sleep(seconds)
    else:
        await invoke(sleep, (seconds,), {})
