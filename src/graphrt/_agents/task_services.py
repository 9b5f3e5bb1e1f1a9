"""Services of a task for agents and harnesses: record model and tool calls, ask persons, show items, count usage.

A model's reply is recorded with the task (decision 0033) under a digest of the request. After a pause or a crash the
same request gets the recorded reply. After a failed attempt it does not, since the replies may be what made the attempt
fail. The values and their events are in `_engine.model_calls`, and the functions at the end of the file stage them
(decision 0020). What is staged under an existing key replaces the older value, so each kind of value has a key of its
own.

A *harness run* is one call of an agent or another harness in the node; several may be in flight at once. An *execution*
is one call of the node: each attempt, resume and retry is one. The key of a call, effect or question identifies it
within the task, at every execution. `_scope` has the services of the run. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, final

from graphrt._agents.bound_harness import BoundHarness, default_tools
from graphrt._agents.budget_grants import grant, owner, was_granted
from graphrt._agents.redacted_items import redacted_item, redacted_reply
from graphrt._ambient import inside, surroundings
from graphrt._drivers.blocking_calls import call_store
from graphrt._drivers.context import Suspended
from graphrt._drivers.node_effects import EffectKind, perform_async
from graphrt._drivers.remembered_calls import Call
from graphrt._engine.model_calls import Reply
from graphrt._engine.spending import spending
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Spent
from graphrt._flows.live import MessageItem
from graphrt._plan.fields import own
from graphrt._usage.amounts import settled, used_amounts
from graphrt.errors import BudgetExceededError, HarnessError, ReplayDivergedError, StoreError
from graphrt.events import Amounts, Usage
from graphrt.harness._harness_checks import check_harness
from graphrt.harness._reply_data import is_plain, reply_from, reply_to
from graphrt.stores.ids import bare_id

if TYPE_CHECKING:
    from asyncio import Future
    from asyncio import Task as AsyncTask

    from graphrt._drivers.context import Context
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.model_calls import ModelCall, ModelEvent
    from graphrt._engine.task import Task
    from graphrt._usage.budget import Budget
    from graphrt.harness.agent._services import Question
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.harness.protocol import ModelResponse

T = TypeVar("T")


@final
class TaskServices:
    """The services of one attempt of a task; implements `graphrt.harness.agent._services.AgentServices`."""

    __slots__ = (
        "_asked",
        "_begun",
        "_context",
        "_flying",
        "_numbers",
        "_scope",
        "_task",
        "_told",
        "deps",
        "emit",
        "known_by",
        "ledger",
        "node",
        "remembers",
        "thread",
    )

    def __init__(self, context: Context[Any], *, ledger: Ledger | None = None) -> None:
        self._context = context
        self._scope = context._scope
        self._task: Task = context._task
        self._numbers: dict[str, int] = {}
        self._begun = count(1)
        """Start order of harness runs."""
        self._asked: dict[str, tuple[int, ...]] = {}
        """Key of a question to the start order of the runs that asked it, outermost first."""
        self._flying: dict[Future[None], AsyncTask[Any] | None] = {}
        """Harness runs in flight: a future that is set at their end, and their asyncio task."""
        self._told: set[str] = set()
        """Keys of calls that `before` has reported."""
        self.remembers: bool = True
        """True if replies are recorded by key. Outside a graph they are not, and agents compute no keys."""
        self.deps: Any = self._scope.deps
        self.node: str | None = self._task.node.name
        thread = self._scope.thread
        self.thread: str | None = None if thread is None else bare_id(thread)  # as `ctx.thread`, without the tenant
        self.ledger: Ledger | None = ledger
        """Innermost ledger that bounds the calls."""
        self.known_by: Ledger | None = ledger
        """Innermost ledger that includes what earlier executions used. Ledgers inside it begin anew."""
        self.emit: Callable[[Any], None] | None = None
        """Shows an item of a harness run; None without a reader."""
        above = surroundings().above
        if self._scope.emit is not None:
            self.emit = self.publish
        elif above is not None and above.emit is not None:  # an agent runs this graph: show it on the agent's stream
            self.emit = partial(above.emit, self.node)

    @property
    def key(self) -> str:
        """The task's idempotency key for the outside world: the same at every execution of the task."""
        return self._context.idempotency_key

    def check(self) -> None:
        """Check that the attempt may act, for which nothing is sent, charged or recorded else; see `Context._check`."""
        context = self._context
        # Attributes first: most calls need no more.
        if context._reason is not None or context._guarded or self._scope.control.halt is not None:
            context._check()

    def call(self, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function from a sync node; see `Context.call`."""
        return self._context.call(fn, *args, **kwargs)

    def showing(self, show: Callable[[Any], None] | None) -> TaskServices:
        """Return these services with *show* in place of `emit`, for one harness run that the node streams."""
        if show == self.emit:
            return self
        other = copy(self)  # shares the counters and what is in flight
        other.emit = show
        return other

    def within(self, ledger: Ledger) -> TaskServices:
        """Return these services with another ledger, which begins anew with each execution: that of `ctx.bind()`."""
        other = copy(self)  # as in `showing`; `known_by` stays
        other.ledger = ledger
        return other

    def number(self, what: str) -> int:
        """Count *what*, such as the digest of a request, and return the count, from 1 at each execution.

        The count is part of keys: it tells equal requests apart, so that different ones may come in any order.
        """
        number = self._numbers[what] = self._numbers.get(what, 0) + 1
        return number

    async def beside(self, run: Callable[[], Awaitable[T]]) -> T:
        """Await one *run* of a harness; if it pauses, first wait until its siblings have ended or paused too.

        Otherwise the replies that the siblings get after the pause would be lost, and their questions asked one by one.
        """
        from asyncio import current_task, get_running_loop, sleep, wait

        mine = get_running_loop().create_future()  # set when this run ends or pauses
        around = surroundings()
        runs, order = around.harness_runs, (*around.order, next(self._begun))
        self._flying[mine] = current_task()
        try:
            with inside(harness_runs=runs | {mine}, order=order):
                return await run()
        except Suspended:
            del self._flying[mine]
            mine.set_result(None)
            await sleep(0)  # lets siblings begin that were created in the same turn of the loop
            while others := self._flying.keys() - runs:
                await wait(others)
            raise
        finally:
            if not mine.done():
                del self._flying[mine]
                mine.set_result(None)

    def abandon(self) -> set[Future[None]]:
        """Cancel the harness runs of a failed node, from any thread; return futures that are set at their ends."""
        flying = dict(self._flying)
        for mine, task in flying.items():
            if task is not None:
                mine.get_loop().call_soon_threadsafe(task.cancel)  # a sync node fails on another thread
        return set(flying)

    def custom(self, item: Any) -> None:
        """Show *item*, a value of the user's, on the run's stream, mode `custom`."""
        self._context.emit(item)

    def publish(self, item: Any) -> None:
        """Show *item* on the run's stream, mode `messages`; not if redaction hides it or the attempt was given up."""
        emit = self._scope.emit
        if self._context._reason is not None or self._scope.control.halt is not None:
            return
        self._context.heartbeat()
        if self._task.engine.redactor is not None and (item := redacted_item(self._task, item)) is None:
            return
        if emit is not None:
            emit("messages", MessageItem(node=self._task.node.name, task_id=self._task.id, item=item))

    def knows(self, prefix: str) -> bool:
        """Return whether a reply is recorded under a key that begins with *prefix*, the path of an agent run.

        An agent whose model was replaced while the thread paused looks for the requests that the older one would get.
        """
        models = self._task.extra.models if self._task.extra is not None else None
        return models is not None and models.knows(prefix)

    async def reply(self, key: str, call: Callable[[], Awaitable[ModelResponse]]) -> tuple[ModelResponse, bool]:
        """Return the recorded reply for *key*, else make *call* and record its reply.

        A reply that is not plain data is counted, and asked for anew by each execution.

        Returns:
            The reply, and whether it was recorded before.
        """
        services, task = self._scope, self._task
        extra = task.more()
        models = extra.model_calls()
        asked = models.call(key)  # the key with the number of failed attempts
        extra.request(asked)  # entries come in the order of the requests, not of the replies (rule R13)
        known = models.replies.get(asked)
        if known is not None:
            self.account()  # this execution may not have counted it yet
            return reply_from(own(known.data), known.usage, known.model), True  # a copy, which the node may change
        self.check()
        recorded, watcher = services.recorded, surroundings().watcher
        if recorded is not None:  # the run is executed again from its log, which has the replies
            before = len(models.failed(asked))
            try:
                response = await recorded.reply(task, asked, call)
            finally:  # failed calls that were billed are not made again: their usage is in the log
                if self.ledger is not None:
                    for one in models.failed(asked)[before:]:
                        self.ledger.charge(used_amounts(one))
        elif watcher is None:
            response = await call()
        else:
            response = await watcher.model_call(task.id, asked.failed_attempts, key, call)
        if not is_plain(response):
            held = models.holds.get(asked, ())[-1:] or (Amounts(),)  # its own reservation, if a budget bounds it
            usage = settled(getattr(response, "usage", None), held[0])
            await self.spent(key, usage, getattr(response, "model", None))
            return response, False
        data = reply_to(response)
        stored = check_storable(task.engine, task, data, "got a reply of a model")  # *data*, or a redacted copy
        data = stored if stored is data else redacted_reply(stored, data)
        if self._context._reason is not None:
            self._context._check_kept()
        models.replies[asked] = Reply(own(data), response.usage, response.model, extra.answers)  # its answers so far
        if services.stage is not None:  # spares the event; without a store, `keep_reply` would do nothing
            await call_store(services, keep_reply, services, task, asked)
        self.account()
        # Made of the stored data, so that the node gets the same reply as after a restart.
        return reply_from(data, response.usage, response.model), False

    async def stopped(self, key: str, text: str, model: str) -> None:
        """Record what the reply to the call *key* had said when it was cut off, for the messages of the thread (R10)."""
        services, task = self._scope, self._task
        if task.engine.redactor is not None:
            text = check_storable(task.engine, task, text, "was cut off in a reply of a model")
        models = task.more().model_calls()
        call = models.call(key)
        models.stop(call, text, model, task.attempt)
        await call_store(services, keep_stopped, services, task, call)

    async def spent(self, key: str, usage: Usage, model: str | None) -> None:
        """Record the usage of a call that has no recorded reply, and which each execution makes again.

        In the same write, the usage takes the place of the reservation of the call.
        """
        services, task = self._scope, self._task
        models = task.more().model_calls()
        call = models.call(key)
        nth = models.count(call, usage, model)
        await call_store(services, keep_usage, services, task, call, nth)
        self.account()

    async def hold(self, key: str, want: Amounts) -> None:
        """Store, before the call *key* is made, that it may use *want*: after a crash it stays counted (rule R11)."""
        services, task = self._scope, self._task
        models = task.more().model_calls()
        call = models.call(key)
        models.hold(call, want)  # no `account`: it is settled when the call ends
        await call_store(services, keep_hold, services, task, call)

    def failed_calls(self, key: str) -> Sequence[Usage]:
        """Return the usage of each execution of the call *key* that left no reply, such as failed but billed ones."""
        models = self._task.extra.models if self._task.extra is not None else None
        return () if models is None else models.failed(models.call(key))

    async def let_go(self, key: str) -> None:
        """Store that the call *key* used nothing, by giving back its newest reservation."""
        services, task = self._scope, self._task
        models = task.more().model_calls()
        call = models.call(key)
        if models.release(call):  # False: there is none
            self.account()  # another call may have counted it meanwhile
            await call_store(services, keep_hold, services, task, call)

    def before(self, key: str) -> tuple[Amounts, Mapping[str, Amounts]]:
        """Return what earlier executions of the call *key* used, and its grants by name of the budget.

        Calls that a crash cut off count with their reservations. A grant is what a person allowed beyond the limit. This
        is for ledgers that begin anew with each execution. A second request for the same key gets nothing, because these
        ledgers must count the amounts once.
        """
        extra = self._task.extra
        if extra is None or extra.models is None or key in self._told:
            return Amounts(), {}
        self._told.add(key)
        used = extra.models.charged(extra.models.call(key))
        return used, extra.models.granted_for(key) if extra.interrupts else {}  # no grant without a question

    def was_granted(self, question: str, of: str) -> bool:
        """Return whether the answer to *question* is recorded as a grant of the budget *of*."""
        return was_granted(owner(self._task, of, self._scope.root), question)

    async def grant(self, question: str, of: str, more: Amounts) -> None:
        """Record that the answer to *question* granted *more* to the budget *of*."""
        services, task = self._scope, owner(self._task, of, self._scope.root)
        grant(task, question, of, more)
        await call_store(services, keep_grant, services, task, question)

    async def effect(
        self, key: str, call: Callable[[], Awaitable[Any]], kind: EffectKind, about: Mapping[str, Any]
    ) -> Any:
        """Return the recorded result of an effect, such as a tool call, else make *call* and record its result.

        *call* takes no arguments. *kind* says whether it may be repeated after a crash; *about* describes it to the
        person who has to decide that.
        """
        return await perform_async(self._context, self._scope, self._task, Call(key), call, (), kind, about)

    def was_answered(self, question: str) -> bool:
        """Return whether the question with that key has an answer that counts: one that was not discarded."""
        extra = self._task.extra  # below, "key=" marks a key that the asker chose, as in `ask`
        return extra is not None and any(
            one.answered and one.current and one.base == f"key={question}" for one in extra.interrupts
        )

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers to *questions*, in order; pause once for all that have none."""
        answers: list[Any] = []
        pause: Suspended | None = None  # the exception that pauses the node
        known = self._task.more().interrupts
        before = len(known)  # `_ask` appends new questions
        for question in questions:
            try:
                name, wanted = f"key={question.key}", question.answer_type
                answers.append(self._context._ask(name, question.payload, wanted, kind=question.kind))
            except Suspended as asked:
                pause = asked
        if pause is None:
            return answers
        # Parallel runs ask in any order: sorted by the start order of the runs, the journal is the same (rule R13).
        for one in known[before:]:
            self._asked[one.key] = surroundings().order
        known.sort(key=lambda one: self._asked.get(one.key, ()))  # those of earlier executions stay in front
        raise pause

    def harness(self) -> BoundHarness[Any]:
        """Return the run's harness, bound to the task, with the tools that the node names, or the default ones."""
        harness = self._scope.harness
        tools: Sequence[str] | None = self._task.node.policy.tools
        if tools is None and self._task.engine.path:  # a nested graph
            tools = default_tools(harness, self._task, self._scope.warnings)
        return self.bind(harness, tools, None)  # None: all tools of the agent; no budget

    def bind(self, harness: Any, tools: Sequence[Any] | None, budget: Budget | None) -> BoundHarness[Any]:
        """Return *harness* bound to the task, for `ctx.bind()`.

        *tools* are those that an agent may use, None for all of its own; *budget* is for this one use. In a graph that
        was designed at run time, None stands for those that need no approval.
        """
        if tools is None and self._task.engine.designed:
            tools = default_tools(harness, self._task, self._scope.warnings)
        check_harness(
            harness,
            taker="ctx.bind() takes a harness",
            of_model="Put the model into an agent: ctx.bind(Agent(model)).",
            otherwise="Bind an Agent, or any object with an async run().",
            node=self.node,
        )
        services = self
        if budget is not None:
            from graphrt._usage.budget import check_budget
            from graphrt.harness.budget._ledger import Ledger

            check_budget(budget)
            one_use = Ledger(budget, of=f"one use in node {self.node!r}", parent=self.ledger, warn=self.emit)
            services = self.within(one_use)
        return BoundHarness(harness, services, tools=tools)

    def charged(self, reply: Any) -> Any:
        """Set the task's usage; return *reply*, what the node returned, in the form in which the engine gets it.

        It becomes a `Spent` if the tokens that the node used must be taken off the field `token_budget` of the state.
        """
        task = self._task
        if task.extra is None:
            return reply
        self.account()
        return Spent(reply) if spending(task.engine, task) else reply  # `spending`: the update of that field, if any

    async def failed(self, error: Exception) -> None:
        """Cancel and await what a failed attempt left behind; discard its replies if they may have caused *error*."""
        left = self.abandon()
        if left:
            from asyncio import wait

            await wait(left)
        if _asks_anew(error):
            await call_store(self._scope, self._ask_anew)

    def failed_sync(self, error: Exception) -> None:
        """Do what `failed` does in the thread of a sync node, which cannot await what it cancels."""
        self.abandon()
        if _asks_anew(error):
            self._ask_anew()

    def _ask_anew(self) -> None:
        """Count a failed attempt, so that the next one finds no recorded reply and asks its models anew."""
        models = self._task.more().models
        if models is not None and models.discard_replies():
            keep_discarded(self._scope, self._task)

    def account(self) -> None:
        """Set the task's usage to that of all its calls, those of failed attempts included. Called when they change."""
        extra = self._task.more()
        extra.usage = extra.models.used() if extra.models is not None else None


def _asks_anew(error: Exception) -> bool:
    """Return whether a recorded reply may have caused *error*; a failed model call does not make earlier ones wrong."""
    if isinstance(error, (StoreError, BudgetExceededError, ReplayDivergedError)):
        return False
    # `bad-output`: the reply itself does not have the required form.
    return not isinstance(error, HarnessError) or error.code == "bad-output"


def keep_reply(services: RunServices, task: Task, call: ModelCall) -> None:
    """Store the reply to *call*.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, f"model/{_name(call)}", task.more().model_calls().reply_event(task.id, call))


def keep_stopped(services: RunServices, task: Task, call: ModelCall) -> None:
    """Store what the reply to *call* had said when it was cut off.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, f"stopped/{_name(call)}", task.more().model_calls().stopped_event(task.id, call))


def keep_usage(services: RunServices, task: Task, call: ModelCall, nth: int) -> None:
    """Store the *nth* usage of *call*, from 1, whose reply is not recorded.

    Each execution of the task makes such a call again, so one call may have several usages.

    Raises:
        StoreError: It could not be stored.
    """
    models = task.more().model_calls()
    events: dict[str, ModelEvent] = {f"model/{_name(call)}/spent/{nth}": models.usage_event(task.id, call, nth)}
    if (
        call in models.holds
    ):  # without the reservation that the usage replaces; in one write, so that neither counts twice
        events[f"held/{_name(call)}"] = models.hold_event(task.id, call)
    services.keep([(f"{task.id}#{name}", [(task.engine.path, event)]) for name, event in events.items()])


def keep_hold(services: RunServices, task: Task, call: ModelCall) -> None:
    """Store the reservations of *call*: amounts that it may use, reserved before it is made.

    They are durable when this returns (rule R11), so that after a crash the call counts as paid.

    Raises:
        StoreError: They could not be stored.
    """
    _keep(services, task, f"held/{_name(call)}", task.more().model_calls().hold_event(task.id, call))


def keep_grant(services: RunServices, task: Task, question: str) -> None:
    """Store the grant, an amount beyond the limit of a budget, with which a person answered *question*.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, f"granted/{question}", task.more().model_calls().grant_event(task.id, question))


def keep_discarded(services: RunServices, task: Task) -> None:
    """Store that an attempt failed after model calls, so that the replies recorded so far are not used again.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, "harness/failed", task.more().model_calls().discarded_event(task.id))


def _name(call: ModelCall) -> str:
    """Return the part of a staged key that identifies *call* within its task."""
    return f"{call.failed_attempts}/{call.key}"


def _keep(services: RunServices, task: Task, name: str, event: ModelEvent) -> None:
    """Stage *event* of *task* under the key `task#name`. Without a store, nothing happens.

    The path says which nested graph the event belongs to; it is empty for the graph of the run.
    """
    services.keep([(f"{task.id}#{name}", [(task.engine.path, event)])])
