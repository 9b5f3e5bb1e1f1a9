"""One model call of an agent: a chain of links, each `async (call, next) -> response`, with the model at its end.

| Link | What it does |
|---|---|
| `Recorded` | returns the reply that the task recorded, else records the new one |
| `Cached` | returns the response of an equal request from the agent's cache; only if the agent has one |
| `Fallback` | asks the next model when one has failed for good |
| `Retried` | repeats transient failures, and waits between the attempts |
| `Budgeted` | reserves an upper bound, and settles what the call used |
| `Timed` | cuts the call off when the seconds of a budget are over; only if a budget limits them |
| the model | streams if someone reads, or the runtime says so |

`Caller` defines the chain. User middleware runs outside it. A harness that is not an agent has its own chain, with its
whole reply at the end (`_bound_harness`). The limits of a call, and the question for an increase, are in
`budget._admission`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, final

from graphrt import _retry_policy
from graphrt._ambient import inside, surroundings
from graphrt._usage.amounts import SECONDS, settled, used_amounts
from graphrt._usage.usage import UNREPORTED
from graphrt.errors import BadResponseError, HarnessError, InputError, ToolError, a_type
from graphrt.errors._codes.agents import NOT_A_RESPONSE
from graphrt.errors._codes.budgets import BUDGET_TIME_OVER
from graphrt.events import Amounts, Usage
from graphrt.harness._harness_checks import check_real, reply_problem, usage_problem
from graphrt.harness._output.exchange import in_words
from graphrt.harness._reply_data import is_plain, reply_from, reply_to
from graphrt.harness.agent._digest import of_request
from graphrt.harness.agent._host import Billed, CutOff, Held, Host, Place, Recalled, Released, Replied
from graphrt.harness.agent.cache import ResponseCache, asked_of
from graphrt.harness.agent.events import ModelEnded, ModelFailed, ModelStarted
from graphrt.harness.budget._admission import More, most, reserve
from graphrt.harness.protocol import AgentReply, ChatModel, ModelProfile, ModelResponse, StreamItem, TextDelta, priced
from graphrt.harness.request import ModelRequest
from graphrt.harness.tools._invoke import invoke

if TYPE_CHECKING:
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.limits import RetryPolicy

Emit = Callable[[Any], None]
"""Receives stream items and events."""


@final
@dataclass(slots=True)
class PendingCall:
    """One call on its way through the chain. All links share the same object and record their results in it."""

    request: ModelRequest
    """The request; a fallback model may get a different one."""
    key: str
    """Identifies the call within the task: the same at every execution."""
    digest: str = ""
    """Digest of the request as it came; empty if nothing needs it."""
    number: int = 1
    """Number of the call in its agent run, from 1."""
    of_model: bool = True
    """Whether a model is called; if not, a harness that is not an agent, which gets *prompt* and has no request."""
    prompt: Any = None
    model: Any = None
    """The model or harness that is called; None before it is chosen. `ask` sets it."""
    began: list[StreamItem] = field(default_factory=list["StreamItem"])
    """Items of the response received in this attempt, if it is streamed."""
    failed: list[Usage] = field(default_factory=list["Usage"])
    """Usage of each attempt that was billed without a reply, including earlier executions."""
    source: Literal["model", "cache", "journal"] = "model"
    """Where the response came from."""

    _profile: ModelProfile | None = None
    """Profile of the model; None before it is needed."""

    def ask(self, model: Any) -> None:
        """Use *model* from now on."""
        self.model, self._profile = model, None

    @property
    def messages(self) -> Any:
        """The request, as telemetry sees it."""
        return self.request.messages if self.of_model else self.prompt

    @property
    def profile(self) -> ModelProfile:
        """Profile of the model: name, prices and limits. Without a profile, only the name is known.

        Reading it may import litellm (decision 0041).
        """
        profile = self._profile
        if profile is None:
            profile = getattr(self.model, "profile", None) or ModelProfile(name=type(self.model).__name__)
            self._profile = profile
        return profile


Next: TypeAlias = Callable[[PendingCall], Awaitable[ModelResponse]]
"""The rest of the chain; a link may call it any number of times."""


class Link(Protocol):
    """A link of a chain."""

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        """Return the response to *call*, from *next_* or from its own source."""
        ...


def chained(links: Sequence[Link], end: Next) -> Next:
    """Return the chain of *links*, outermost first, around *end*."""
    for link in reversed(links):
        end = partial(link, next_=end)
    return end


@final
class Caller:
    """Makes the model calls of one run of an agent.

    Args:
        models: The model, then its fallbacks: 1..n.
        place: Place of the run among the others.
        retry: Policy for failed attempts.
        cache: Cache of responses; None for none.
    """

    __slots__ = ("_ask", "_counts", "_keyed", "_models", "_place", "asked", "remembered", "took")

    def __init__(
        self, models: tuple[ChatModel, ...], place: Place, *, retry: RetryPolicy, cache: ResponseCache | None
    ) -> None:
        host, ledger, emit = place.host, place.ledger, place.emit
        links: list[Link] = [Recorded(host, ledger, place.names[-1] if place.is_chat else None)]
        if cache is not None:
            links.append(Cached(cache, models[0]))
        links += [Fallback(models), Retried(retry, place.path, emit), *within(ledger, host)]
        # The text of a sub-agent is not a message of the conversation.
        self._ask = chained(links, partial(ask_model, emit, place.streams, None if place.depth else host, _checked))
        self._models = models
        self._place = place
        self._keyed = host.records or cache is not None  # computing digests used to take a third of a turn's time
        self._counts: dict[str, int] = {}
        self.asked: int = 0
        """Number of calls so far, those of middleware included."""
        self.remembered: bool = False
        """Whether the last response was recorded by an earlier execution of the task, perhaps with older tools."""
        self.took: list[Usage] = []
        """Usage of each call, including replayed ones, even if middleware changes the response."""

    async def ask(self, request: ModelRequest) -> ModelResponse:
        """Return a model's response to *request*, remembered, cached or new."""
        place, emit = self._place, self._place.emit
        self.asked += 1
        digest = of_request(request) if self._keyed else ""
        # The same request may come several times in a run: the number distinguishes the calls.
        count = self._counts[digest] = self._counts.get(digest, 0) + 1
        call = PendingCall(request, f"{place.path}{digest}#{count}", digest=digest, number=self.asked)
        try:
            response = await self._ask(call)
        finally:
            place.took.extend(call.failed)
        self.remembered = call.source == "journal"
        self.took.append(UNREPORTED if response.usage is None else response.usage)
        if emit is not None:
            if call.source != "model":
                emit(response)
            name = response.model or self._models[0].profile.name
            emit(ModelEnded(call=call.number, model=name, usage=response.usage, source=call.source))
        return response


@final
class Recorded:
    """Returns the recorded reply, if the task has one; else makes the call and records its reply.

    Args:
        host: The host.
        ledger: The innermost budget that the calls count against; None without one.
        agent: Name of the agent, if it continues a conversation of the node.
    """

    def __init__(self, host: Host, ledger: Ledger | None, agent: str | None = None) -> None:
        self._host = host
        self._ledger = ledger
        self._agent = agent

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        recalled = await self._host.recall(call.key)
        if recalled.note is not None:
            recalled.note(call.request if call.of_model else call.prompt)
        call.failed.extend(recalled.failed)
        if self._ledger is not None:
            count_earlier(self._ledger, self._host.known_by, recalled)
        watcher = surroundings().watcher
        if recalled.reply is not None:
            response = reply_from(*recalled.reply)
            if recalled.recorded:
                call.source = "journal"
                return response
        elif recalled.instead is not None:
            with inside(instead=recalled.instead):
                response = await next_(call)
        elif watcher is not None:
            response = await watcher.model_call(*recalled.identity, partial(next_, call))
        else:
            response = await next_(call)
        if not self._host.records:
            return response
        usage, model = getattr(response, "usage", None), getattr(response, "model", None)  # of a user's own class
        data = reply_to(response) if is_plain(response) else None
        fact = Replied(call.key, data, usage, model, recalled.identity[1], self._agent)
        stored = await self._host.record(fact)
        return response if stored is None else reply_from(stored, usage, model)  # the same as after a restart


@final
class Cached:
    """Returns the response of an equal request from a cache, whose entries belong to the first model."""

    def __init__(self, cache: ResponseCache, model: ChatModel) -> None:
        self._cache = cache
        self._model = model

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        response, hit = await self._cache.get((asked_of(self._model), call.digest), partial(next_, call))
        call.source = "cache" if hit else "model"
        return response


@final
class Fallback:
    """Asks one model after the other, until one answers."""

    def __init__(self, models: tuple[ChatModel, ...]) -> None:
        self._models = models

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        request = call.request
        for number, model in enumerate(self._models, 1):
            if surroundings().instead is None:
                check_real(model)
            call.ask(model)
            # A fallback may lack capabilities of the first model.
            call.request = request if call.profile.holds_to_output(request) else in_words(request)
            try:
                call.profile.check_media(request)
                return await next_(call)
            except (ToolError, InputError):
                raise  # not a failure of the model: another one would fail too
            except HarnessError:
                if number == len(self._models):
                    raise
        raise AssertionError  # there is at least one model


@final
class Retried:
    """Repeats an attempt that failed in a transient way; the policy says how often, and after how long."""

    def __init__(self, policy: RetryPolicy, path: str, emit: Emit | None) -> None:
        self._policy = policy
        self._path = path
        self._emit = emit

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        policy, emit, name, attempt = self._policy, self._emit, call.profile.name, 1
        while True:
            if emit is not None:
                emit(ModelStarted(call=call.number, model=name, attempt=attempt))
            try:
                return await next_(call)
            except Exception as error:
                wait_s: float | None = None
                if attempt < policy.attempts and _is_retried(policy, error):
                    hinted_s = _retry_policy.hinted_wait(error)
                    wait_s = _retry_policy.delay(policy, f"{self._path}{call.number}", attempt, hinted_s)
                    if wait_s is None:
                        error.add_note(f"Not asked again: {_retry_policy.asks_too_long(policy, error)}.")
                if emit is not None:
                    failed = type(error).__name__
                    emit(ModelFailed(call=call.number, model=name, error=failed, delay_s=wait_s))
                if wait_s is None:
                    raise
            await _rest(wait_s)
            attempt += 1


@final
class Budgeted:
    """Makes a call within the budget of a ledger and of the ledgers above it.

    The budget is charged the amounts that the provider reports; unreported amounts stay charged as reserved. A call
    that fails or is cancelled is free if it was not answered, and otherwise charged like any other (see
    `_count_failed`).

    Args:
        host: Stores the reservation, and asks a person for more.
        ledger: The innermost budget that the calls count against; None only counts failures that were billed.
    """

    def __init__(self, host: Host, ledger: Ledger | None) -> None:
        self._host = host
        self._ledger = ledger

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        """Make *call*. Its usage contains the reservation for amounts that the provider did not report.

        Raises:
            BudgetExceededError: The call does not fit, or its time ran out.
            InputError: The call has no upper bound (`budget-without-max-tokens`, `budget-without-price`).
            Exception: Anything that *next_* raises.
        """
        ledger, host = self._ledger, self._host
        if ledger is None:
            call.began.clear()
            try:
                return await next_(call)
            except BaseException as error:
                await _count_failed(error, call, host)
                raise
        want, more = most(call.request, call.profile, ledger), More(host, call.key, call.profile)
        while True:
            call.began.clear()
            hold = await reserve(ledger, want, more)
            try:
                # Durable first: after a crash the call counts as paid (R11).
                await host.record(Held(call.key, hold.want))
                with inside(holding=True):
                    response = await next_(call)
                usage = _settled(response.usage, hold.want, call.profile)
                hold.commit(used_amounts(usage))
                # For other classes only the ledger counts the usage: they are not replies that graphrt may change.
                return response if type(response) is not AgentReply else replace(response, usage=usage)
            except GeneratorExit:
                if call.began:
                    hold.commit(hold.want)
                raise  # the coroutine is being closed, and cannot await any more
            except BaseException as error:
                failed = await _count_failed(error, call, host, held=hold.want)
                if failed is None:
                    await host.record(Released(call.key))
                hold.commit(used_amounts(failed))
                if not isinstance(error, _LateError):
                    raise
                seconds_left = error.left
            finally:
                hold.release()
            timed = [(member.remaining_s, member) for member in ledger.chain() if member.remaining_s is not None]
            _, expired = min(timed, key=lambda pair: pair[0])
            if expired.budget.on_exceeded != "interrupt" or not await more.ask(expired, SECONDS, want):
                raise BUDGET_TIME_OVER(
                    did="was cancelled, as it did not fit",
                    of=expired.of,
                    seconds=expired.budget.seconds,
                    left=f", of which {seconds_left:g} s were left when the call began",
                    limit=expired.budget,
                    value=None,
                )


@final
class Timed:
    """Cuts a call off when the seconds of a budget are over; `Budgeted`, around it, decides what follows."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def __call__(self, call: PendingCall, next_: Next) -> ModelResponse:
        """Make *call*, within the seconds that are left when it begins."""
        seconds_left = self._ledger.seconds_left() or 0.0
        scope = asyncio.timeout(seconds_left)
        try:
            async with scope:
                return await next_(call)
        except TimeoutError:
            if not scope.expired():
                raise  # the call's own TimeoutError
        raise _LateError(seconds_left)


def within(ledger: Ledger | None, host: Host) -> Sequence[Link]:
    """Return the links that hold calls to the budget of *ledger*, if there is one."""
    if ledger is None or ledger.seconds_left() is None:
        return (Budgeted(host, ledger),)
    return Budgeted(host, ledger), Timed(ledger)


class _LateError(Exception):
    """The budget's seconds ended during the call."""

    def __init__(self, seconds_left: float) -> None:
        super().__init__(seconds_left)
        self.left: Final = seconds_left
        """Seconds that were left when the call began."""


async def _count_failed(
    error: BaseException,
    call: PendingCall,
    host: Host,
    *,
    held: Amounts = Amounts(),  # noqa: B008 - a frozen value
) -> Usage | None:
    """Count *call*, which ended with *error*, if it was billed.

    It was billed if the provider answered with status 200 (`HarnessError.billed`), or if the stream of the answer
    began. An earlier failure is free: a status of 4xx or 5xx, a request that was never sent, a connection that was not
    established. A cancelled or late call without any output is also free.

    Args:
        error: What the call raised.
        call: The call.
        host: Stores the usage, in place of the reservation of the call.
        held: What was reserved for the call.

    Returns:
        The usage of the call, with the reservation for amounts that the provider did not report; None if the call is
        free.
    """
    reported: Usage | None = None
    billed = bool(call.began)
    if isinstance(error, HarnessError):
        billed, reported = billed or error.billed, error.usage
    current = surroundings()
    if not billed or current.instead is not None:  # a run that is executed again has the usage from its log
        return None
    if reported is not None and (usage_problem(reported) is not None or not reported.total_tokens):
        reported = None
    usage = _settled(reported, held, call.profile)
    if current.watcher is not None:
        current.watcher.billed(usage)
    call.failed.append(usage)
    await host.record(Billed(call.key, usage, call.profile.name))
    return usage


def _settled(usage: Usage | None, held: Amounts, profile: ModelProfile) -> Usage:
    """Return the *usage* of a call that ended, priced; *held* is its reservation."""
    return settled(None if usage is None else priced(usage, profile), held)


def count_earlier(ledger: Ledger, known_by: Ledger | None, recalled: Recalled) -> None:
    """Count the usage and grants of a call's earlier executions in the ledgers that start from zero after a restart.

    These are *ledger* and the ledgers above it that are below *known_by*, which has loaded all of it from the journal.
    """
    for member in ledger.chain():
        if member is known_by:
            break
        if any(recalled.used):
            member.charge(recalled.used, here_only=True)
        if member.of in recalled.granted:
            member.allow(recalled.granted[member.of])


async def ask_model(
    emit: Emit | None,
    streams: Callable[[], bool],
    host: Host | None,
    check: Callable[[PendingCall, Any, bool], ModelResponse],
    call: PendingCall,
) -> ModelResponse:
    """Ask the model, and return its response. The end of the chain.

    Args:
        emit: Receives the items of the response, or the response alone if it is not streamed; None without a reader.
        streams: Returns whether the response is streamed, if the model can stream.
        host: Records the text of a response that is cut off; None if it is not a message of the conversation.
        check: Returns the response as it can be used. Its argument says whether the response is the last item of a
            stream.
        call: The call.
    """
    model, request, current = call.model, call.request, surroundings()
    if current.watcher is not None:
        current.watcher.asks(call.profile.name, call.messages)
    streamed = current.instead is None and streams() and hasattr(model, "stream")
    response: Any = None
    if streamed:
        items: Any = model.stream(request)
        try:
            async for item in items:
                response = item
                call.began.append(item)
                if emit is not None:
                    emit(item)
        except asyncio.CancelledError:
            text = "".join(item.text for item in call.began if type(item) is TextDelta)
            in_form = call.of_model and request.output is not None  # if so, it is not a message
            if text and host is not None and not in_form:
                await host.record(CutOff(call.key, text, call.profile.name))
            raise
        finally:
            if hasattr(items, "aclose"):
                await items.aclose()
    else:
        response = await (model.invoke(request) if current.instead is None else current.instead())
    reply = check(call, response, streamed)
    if emit is not None and not streamed:
        emit(response)
    return reply


def _checked(call: PendingCall, response: Any, _streamed: bool) -> ModelResponse:  # noqa: FBT001 - as `ask_model` calls it
    """Return *response* with a priced usage and the name of its model, if an agent can continue it.

    Raises:
        BadResponseError: It cannot.
    """
    problem = _problem(response)
    if problem is not None:
        raise NOT_A_RESPONSE(model=call.profile.name, problem=problem, billed=True)  # the model has answered
    reply: ModelResponse = response
    if reply.finish_reason == "tool_calls" and not (reply.tool_calls or reply.parts):
        # Its calls were lost in transit. As an answer, it would end the run with an empty text.
        raise NOT_A_RESPONSE(
            model=call.profile.name,
            problem="an empty response that ends in tool calls and has none",
            fix="Ask again. If it comes again, the model or its server cannot call tools.",
            billed=True,
            usage=reply.usage,
        )
    if reply.model is None:
        reply = replace(reply, model=call.profile.name)
    if reply.usage is None:
        return reply
    # A model that reports only tokens has still made one call. Unreported amounts are not estimated.
    usage = reply.usage if reply.usage.calls else replace(reply.usage, calls=1)
    usage = priced(usage, call.profile)
    if not usage.input_tokens and not usage.output_tokens:
        usage = replace(usage, unreported_calls=usage.calls)
    return replace(reply, usage=usage)


def _problem(response: Any) -> str | None:
    """Return the problem with the response of a model, which a user may have written; None if it can be used."""
    if not issubclass(type(response), AgentReply):
        return a_type(response)
    return reply_problem(response) or usage_problem(response.usage)


def _is_retried(policy: RetryPolicy, error: Exception) -> bool:
    """Return whether to retry the call after *error*. If the predicate `retry_on` raises, the call is not retried."""
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
