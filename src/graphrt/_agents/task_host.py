"""The host of a task's agents and harnesses: it records their calls, asks questions, publishes items and counts usage.

A model's reply is recorded with the task (decision 0033) under a digest of the request. After a pause or a crash the
same request gets the recorded reply. After a failed attempt it does not, since the replies may have caused the failure.
The values and their events are in `_engine.model_calls`; `stage` stores the events next to the journal while the task
runs (decision 0020). Data staged under an existing key replaces the older value, so each kind of value has its own key.

A *harness run* is one call of an agent or another harness in the node; several may be in flight at once. An *execution*
is one call of the node: each attempt, resume and retry is one. The key of a call, effect or question identifies it
within the task, at every execution. `_scope` holds the services of the run. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from copy import copy
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, assert_never, final

from graphrt._agents.redacted_items import redacted_item, redacted_reply
from graphrt._agents.run_ledgers import grant, owner, was_granted
from graphrt._ambient import inside, surroundings
from graphrt._drivers.blocking_calls import call_store
from graphrt._drivers.context import Suspended
from graphrt._drivers.node_effects import EffectKind, perform_async
from graphrt._drivers.remembered_calls import Call
from graphrt._engine.fold import FoldError, applied, fold
from graphrt._engine.model_calls import ModelCall
from graphrt._engine.open_interrupt import SIGNAL
from graphrt._engine.redacting import redacted_update
from graphrt._engine.route import Router
from graphrt._engine.spending import spending
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Spent, Task, Wrote
from graphrt._flows.live import MessageItem
from graphrt._plan.fields import own
from graphrt._plan.nodes import tool_problems
from graphrt._plan.quoting import short
from graphrt._plan.specs import ToolUse
from graphrt._usage.amounts import settled, used_amounts
from graphrt._usage.budget import check_budget
from graphrt.errors import BudgetExceededError, HarnessError, ReplayDivergedError, StoreError
from graphrt.errors._codes.nodes import BAD_UPDATE, UNDECLARED_WRITE
from graphrt.errors._codes.tools import TOOL_STATE
from graphrt.events import Amounts
from graphrt.harness._harness_checks import check_harness
from graphrt.harness.agent._bound_harness import BoundHarness
from graphrt.harness.agent._host import (
    GRANTED,
    NO_SIGNAL,
    Answered,
    Billed,
    CutOff,
    Granted,
    Held,
    Question,
    Recalled,
    Released,
    Replied,
    StoredReply,
    warn,
)
from graphrt.harness.budget._ledger import Ledger
from graphrt.harness.tools._state_view import state_view
from graphrt.stores.ids import bare_id

if TYPE_CHECKING:
    from asyncio import Future
    from asyncio import Task as AsyncTask

    from graphrt._drivers.context import Context
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.model_calls import ModelEvent
    from graphrt._engine.run_state import RunState
    from graphrt._usage.budget import Budget
    from graphrt.harness.agent._host import Fact
    from graphrt.harness.protocol import ModelResponse
    from graphrt.harness.tools.protocol import Tool


@final
class TaskHost:
    """The host of one attempt of a task; implements `graphrt.harness.agent._host.Host`."""

    __slots__ = (
        "_asked",
        "_begun",
        "_context",
        "_flying",
        "_scope",
        "_task",
        "_written",
        "deps",
        "emit",
        "is_read",
        "known_by",
        "ledger",
        "node",
        "numbers",
        "stream_models",
        "thread",
    )

    records: bool = True

    def __init__(self, context: Context[Any], *, ledger: Ledger | None = None) -> None:
        self._context = context
        self._scope = context._scope
        self._task: Task = context._task
        self.numbers: dict[str, int] = {}
        self._begun = count(1)
        """Start order of the next harness run."""
        self._asked: dict[str, tuple[int, ...]] = {}
        """Maps the key of a question to the start order of the runs that asked it, outermost first."""
        self._flying: dict[Future[None], AsyncTask[Any] | None] = {}
        """Harness runs in flight: a future that is set when the run ends, and its asyncio task."""
        self._written: list[tuple[tuple[int, ...], Sequence[dict[str, Any]], Sequence[Any] | None]] = []
        """Tool writes of each ended agent run: start order of the run, updates in call order, and targets."""
        self.deps: Any = self._scope.deps
        self.node: str | None = self._task.node.name
        thread = self._scope.thread
        self.thread: str | None = None if thread is None else bare_id(thread)  # as `ctx.thread`, without the tenant
        self.ledger: Ledger | None = ledger
        """Innermost ledger that bounds the calls."""
        self.known_by: Ledger | None = ledger
        """Innermost ledger that includes the usage of earlier executions. Ledgers below it start over."""
        self.emit: Callable[[Any], None] | None = None
        """Publishes an item of a harness run; None if the stream has no reader."""
        self.is_read: bool = False
        above, scope = surroundings().above, self._scope
        self.stream_models: bool | None = scope.streams
        if above is not None and above.emit is not None:  # an agent runs this graph: show it on the agent's stream
            self.emit, self.is_read = partial(above.emit, self.node), above.streams
        if scope.emit is not None and (self.emit is None or scope.is_read_live):
            self.emit, self.is_read = self.publish, False

    @property
    def streams(self) -> bool | None:
        """Whether model calls are streamed; None if there is no reader at present."""
        if self.is_read:
            return True
        streamed = self.stream_models
        return (self._scope.is_read_live or None) if streamed is None else streamed

    @property
    def key(self) -> str:
        """The task's idempotency key for the outside world: the same at every execution of the task."""
        return self._context.idempotency_key

    @property
    def replies(self) -> Collection[str]:
        """Keys of the calls that this attempt would answer from the record."""
        models = self._task.extra.models if self._task.extra is not None else None
        return () if models is None else models.answered()

    @property
    def answered(self) -> Mapping[str, Answered]:
        """The questions with a valid answer, one that was not discarded, by key."""
        extra = self._task.extra  # the prefix "key=" marks a key chosen by the caller, as in `ask`
        known = () if extra is None else extra.interrupts
        return {
            interrupt.base.removeprefix("key="): Answered(interrupt.payload, interrupt.answer)
            for interrupt in known
            if interrupt.answered and interrupt.current
        }

    def check(self) -> None:
        """Check that the attempt may still act; otherwise nothing is sent, charged or recorded.

        See `Context._check`.
        """
        context = self._context
        # Attributes first: most calls need no more.
        if context._reason is not None or context._guarded or self._scope.control.halt is not None:
            context._check()

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[None, None]:
        """Context manager around one run of a harness.

        If it pauses, wait first until its siblings have ended or paused too.

        Otherwise the replies that the siblings get after the pause would be lost, and their questions asked one by one.
        """
        from asyncio import current_task, get_running_loop, sleep, wait

        self.check()
        own_future = get_running_loop().create_future()  # set when this run ends or pauses
        current = surroundings()
        runs, order = current.harness_runs, (*current.order, next(self._begun))
        self._flying[own_future] = current_task()
        try:
            with inside(harness_runs=runs | {own_future}, order=order):
                yield
        except Suspended:
            del self._flying[own_future]
            own_future.set_result(None)
            await sleep(0)  # lets siblings start that were created in the same iteration of the event loop
            while siblings := self._flying.keys() - runs:
                await wait(siblings)
            raise
        finally:
            if not own_future.done():
                del self._flying[own_future]
                own_future.set_result(None)

    def abandon(self) -> set[Future[None]]:
        """Cancel the harness runs of a failed node, from any thread. Returns futures that are set when the runs end."""
        in_flight = dict(self._flying)
        for future, task in in_flight.items():
            if task is not None:
                future.get_loop().call_soon_threadsafe(task.cancel)  # a sync node fails on another thread
        return set(in_flight)

    def show(self, item: Any) -> None:
        """Publish *item*, any user value, to the run's stream in the mode `custom`."""
        self._context.emit(item)

    def publish(self, item: Any) -> None:
        """Publish *item* in the stream mode `messages`, unless redaction hides it or the attempt was abandoned."""
        emit = self._scope.emit
        if self._context._reason is not None or self._scope.control.halt is not None:
            return
        self._context.heartbeat()
        if self._task.engine.redactor is not None and (item := redacted_item(self._task, item)) is None:
            return
        if emit is not None:
            emit("messages", MessageItem(node=self._task.node.name, task_id=self._task.id, item=item), self._task)

    def recorded_whole(self) -> AbstractContextManager[None]:
        """Context manager around a call of a plain harness, whose reply is recorded as a whole."""
        return inside(recording=self._context)

    async def recall(self, key: str) -> Recalled:
        """Return the record of the model call *key*: from this task, or from the log of a run that is executed again.

        A reply that is not plain data is only counted; each execution makes the call again.
        """
        task, log = self._task, self._scope.recorded
        extra = task.more()
        models = extra.model_calls()
        call = models.call(key)  # the key with the number of failed attempts
        extra.request(call)  # entries are in the order of the requests, not of the replies (rule R13)
        known = models.replies.get(call)
        reply: StoredReply | None = None
        instead: Callable[[], Awaitable[ModelResponse]] | None = None
        if known is not None:
            self.account()  # this execution may not have counted it yet
            reply = StoredReply(own(known.reply), known.usage, known.model)  # a copy, because the node may modify it
        else:
            self.check()
            if log is not None:
                failed_before = len(models.failed(call))
                reply, instead = log.reply(task, call)
                if self.ledger is not None:  # billed failed calls are not repeated: their usage is in the log
                    for usage in models.failed(call)[failed_before:]:
                        self.ledger.charge(used_amounts(usage))
        return Recalled(
            reply=reply,
            recorded=known is not None,
            failed=models.failed(call),
            used=models.charged(call),
            granted=models.granted_for(key) if extra.interrupts else {},  # no grant without a question
            instead=instead,
            identity=(task.id, call.failed_attempts, key),
            note=None if log is None else partial(log.note, task, call),
        )

    async def record(self, fact: Fact) -> Any:
        """Make *fact* a value of the task, and stage its event. For a reply, return its stored form."""
        if isinstance(fact, Replied):
            return await self._replied(fact)
        services, task = self._scope, self._task
        if isinstance(fact, Granted):
            holder = owner(task, fact.of, services.root)
            grant(holder, *fact)
            await call_store(services, keep_grant, services, holder, fact.question)
            return None
        models = task.more().model_calls()
        call = models.call(fact.key)
        match fact:
            case Held(want=want):  # no call to `account`: the reservation is settled when the call ends
                models.hold(call, want)
                staged = held_event(task, call)
            case Released():
                if not models.release(call):  # there is none
                    return None
                self.account()  # another call may have counted it in the meantime
                staged = held_event(task, call)
            case Billed(usage=usage):
                spent = models.count(task.id, call, usage, fact.model)
                staged = {f"model/{_name(call)}/spent/{spent.nth}": spent}
                if call in models.holds:  # without the reservation that the usage replaces: in one write, so that
                    staged |= held_event(task, call)  # neither counts twice
                self.account()
            case CutOff(text=text):  # for the messages of the thread (R10)
                if task.engine.redactor is not None:
                    text = check_storable(task.engine, task, text, "was cut off in a reply of a model")
                staged = {f"stopped/{_name(call)}": models.stop(task.id, call, text, fact.model, task.attempt)}
            case _:
                assert_never(fact)
        await call_store(services, stage, services, task, staged)
        return None

    async def _replied(self, fact: Replied) -> Mapping[str, Any] | None:
        """Record a reply. Returns its data as stored, or None if only its usage is stored."""
        services, task, call = self._scope, self._task, ModelCall(fact.attempts, fact.key)
        extra = task.more()
        models = extra.model_calls()
        if fact.data is None:
            held = models.holds.get(call, ())[-1:] or (Amounts(),)  # its own reservation, if a budget bounds it
            await self.record(Billed(call.key, settled(fact.usage, held[0]), fact.model))
            return None
        stored = check_storable(task.engine, task, fact.data, "got a reply of a model", is_form=True)
        data = fact.data if stored is fact.data else redacted_reply(stored, fact.data)
        if self._context._reason is not None:
            self._context._check_kept()
        # Record how many answers the task had received by then.
        event = models.reply(task.id, call, own(data), fact.usage, fact.model, extra.answers, fact.agent)
        if services.stage is not None:
            await call_store(services, stage, services, task, {f"model/{_name(call)}": event})
        self.account()
        return data

    async def effect(
        self, key: str, call: Callable[[], Awaitable[Any]], kind: EffectKind, about: Mapping[str, Any]
    ) -> Any:
        """Return the recorded result of an effect, such as a tool call, or run *call* and record its result.

        *call* takes no arguments. *kind* says whether it may be repeated after a crash; *about* describes it to the
        person who decides about a repetition.
        """
        made = Call(key, is_tool="tool" in about)
        return await perform_async(self._context, self._scope, self._task, made, call, (), kind, about)

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers to *questions*, in order. If some are unanswered, pause once for all of them."""
        answers: list[Any] = []
        pause: Suspended | None = None  # the exception that pauses the node
        known = self._task.more().interrupts
        known_before = len(known)  # `_ask` appends new questions
        for question in questions:
            budget = question.budget
            if budget is not None and was_granted(owner(self._task, budget, self._scope.root), question.key):
                answers.append(GRANTED)
                continue
            try:
                name, answer_type = f"key={question.key}", question.answer_type
                answers.append(self._context._ask(name, question.payload, answer_type, kind=question.kind))
            except Suspended as suspended:
                pause = suspended
        if pause is None:
            return answers
        # Parallel runs ask in any order. Sorting by the start order of the runs keeps the journal deterministic (rule
        # R13).
        for interrupt in known[known_before:]:
            self._asked[interrupt.key] = surroundings().order
        # Questions of earlier executions stay first.
        known.sort(key=lambda interrupt: self._asked.get(interrupt.key, ()))
        raise pause

    async def receive(self, name: str, path: str, calls: int, nth: int) -> Any:
        """Return the value of the next signal *name*, or NO_SIGNAL if none is waiting; pause to receive one (R22)."""
        self.check()
        scope, task = self._scope, self._task
        question = Question(key=f"signal/{path}{calls}.{nth}", payload=name, kind=SIGNAL)
        base = f"key={question.key}"
        look = scope.control.look
        if scope.recorded is not None:
            known = scope.recorded.receives(task, base)
            if known and look is not None:
                look()
        else:
            interrupts = () if task.extra is None else task.extra.interrupts
            known = any(interrupt.base == base for interrupt in interrupts)  # by an earlier execution
            # Repeat the actions of an earlier execution first, in their order; otherwise replies that were already paid
            # for would be lost.
            if not known and look is not None and sum(_is_call(key, path) for key in self.replies) <= calls:
                await call_store(scope, look)
                known = self._is_waiting(name)
        return self.ask([question])[0] if known else NO_SIGNAL

    def _is_waiting(self, name: str) -> bool:
        """Return whether more signals *name* have arrived than the tasks of the run have asked for."""
        root = self._scope.root
        if root is None:
            return False
        names = [letter.content["name"] for letter in list(self._scope.control.letters) if letter.what == "signal"]
        arrived = [*names, *(signal[1] for signal in root.signals)].count(name)
        pending = [question for question in list(root.questions.values()) if question.open and question.kind == SIGNAL]
        return arrived > [question.payload for question in pending].count(name)

    def harness(self) -> BoundHarness[Any]:
        """Return the run's harness, bound to the task, with the tools that the node names or the default tools."""
        harness = self._scope.harness
        tools: Sequence[str] | None = self._task.node.policy.tools
        if tools is None and self._task.engine.path:  # a nested graph
            tools = default_tools(harness, self._task, self._scope.warnings)
        return self.bind(harness, tools, None)  # None: all tools of the agent; no budget

    def bind(self, harness: Any, tools: Sequence[Any] | None, budget: Budget | None) -> BoundHarness[Any]:
        """Return *harness* bound to the task, for `ctx.bind()`.

        *tools* are the ones that an agent may use; None means all of them or, in a graph that was designed at run time,
        those that need no approval. *budget* applies to this use only.
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
        host = self
        if budget is not None:
            check_budget(budget)
            host = copy(self)  # shares the counters and the calls in flight; `known_by` is unchanged
            host.ledger = Ledger(budget, of=f"one use in node {self.node!r}", parent=self.ledger, warn=self.emit)
        return BoundHarness(harness, host, tools=tools, call=self._context.call, publish=self.publish)

    def charged(self, reply: Any) -> Any:
        """Set the task's usage, and convert *reply*, the node's return value, for the engine.

        The result is a `Wrote` if tools of the node's agents wrote to the state or routed, and a `Spent` if the node's
        tokens must be subtracted from the state field `token_budget`.
        """
        task = self._task
        if self._written:
            # Sorted by the start of the runs, not by their end: the fold must not depend on timing (rule R2).
            runs = sorted(self._written, key=lambda run: run[0])
            updates = [update for _, wrote, _ in runs for update in wrote]
            reply = Wrote(reply, updates, [goto for _, _, goto in runs if goto is not None])
        if task.extra is None:
            return reply
        self.account()
        return Spent(reply) if spending(task.engine, task) else reply  # `spending`: the update of that field, if any

    def admit(self, agent: str, tool: Tool, *, below: bool) -> None:
        """Check that the graph has the fields and targets that *tool* of *agent* declares."""
        task, use = self._task, ToolUse.of(tool, below=below)
        where = task.engine.where(task)
        problem = next(tool_problems(use, task.engine.plan.update, cached=task.node.cache is not None), None)
        current = surroundings()
        if (
            problem is None
            and current.agent is None
            and current.recording is self._context
            and (use.writes or use.goto)
        ):
            problem = (
                "writes or routes, and the agent runs in ctx.effect() or in another harness, whose result is recorded "
                "without that: run it with ctx.bind(agent)"
            )
        if problem is not None:
            raise TOOL_STATE(tool=use.tool, agent=agent, node=self.node, problem=problem, where=where)
        if use.goto:
            Router(task.engine.plan, lambda: where).targets(use.goto, task.node)

    def state(self, tool: Tool, wrote: Sequence[Mapping[str, Any]]) -> Any:
        """Return the view of the state for one call of *tool*, with the updates *wrote* folded in."""
        engine, task = self._task.engine, self._task
        make = partial(state_with, engine, task, wrote)
        return state_view(tool.spec.name, tool.policy.reads, make, mapping=engine.plan.state.kind == "typeddict")

    def update(self, tool: Tool, update: Any) -> dict[str, Any]:
        """Return the update of a `Command` of *tool*, checked and redacted."""
        engine, task, name = self._task.engine, self._task, tool.spec.name
        schema, where = engine.plan.update, engine.where(task)
        entries = schema.entries(update)
        if entries is None:
            form, expected = f"Command(update={short(update)})", "an update (a mapping of fields)"
            raise BAD_UPDATE(
                who=f"Tool {name!r}", form=form, wanted=expected, fields=engine.fields, node=self.node, where=where
            )
        for field in entries:
            if field not in tool.policy.writes:
                raise UNDECLARED_WRITE(
                    who=f"Tool {name!r}", field=field, declared=tool.policy.writes, node=self.node, where=where
                )
        checked = schema.checked(entries, node=task.node.name, where=where)
        # Redact before the update is recorded with the call: redaction rules may name its fields.
        return dict(redacted_update(engine, checked, f"an update of tool {name!r}"))

    def wrote(self, updates: Sequence[Mapping[str, Any]], goto: Sequence[Any] | None) -> None:
        """Keep the updates and targets from the tools of an agent run until the node ends."""
        self._written.append((surroundings().order, [dict(update) for update in updates], goto))

    async def failed(self, error: Exception) -> None:
        """Cancel and await the remaining work of a failed attempt.

        Replies that may have caused *error* are discarded.
        """
        running = self.abandon()
        if running:
            from asyncio import wait

            await wait(running)
        if asks_anew(error):
            await call_store(self._scope, self._ask_anew)

    def failed_sync(self, error: Exception) -> None:
        """Like `failed`, for a sync node: its thread cannot await the work that it cancels."""
        self.abandon()
        if asks_anew(error):
            self._ask_anew()

    def _ask_anew(self) -> None:
        """Count a failed attempt, so that the next one finds no recorded reply and asks its models again."""
        models = self._task.more().models
        if models is not None and models.discard_replies():
            stage(self._scope, self._task, {"harness/failed": models.discarded_event(self._task.id)})

    def account(self) -> None:
        """Set the task's usage to that of all its calls, including failed attempts. Called when the calls change."""
        extra = self._task.more()
        extra.usage = extra.models.used() if extra.models is not None else None


def state_with(engine: RunState, task: Task, wrote: Sequence[Mapping[str, Any]]) -> Any:
    """Return the snapshot of *task* with the updates *wrote* folded in, as an instance of the state class.

    Raises:
        UpdateError: A reducer failed.
    """
    if not wrote:
        return engine.make_view(engine.values)
    writer = Task(task.node, task.index, task.superstep, task.arg, None, engine)
    writer.updates = tuple(dict(update) for update in wrote)
    values = dict(engine.values)  # another reference to each list, so that `applied` copies before extending (R15)
    try:
        folded = fold(engine, values, [writer], None, (), where=partial(engine.where, task))
    except FoldError as error:
        raise error.error from error.error.__cause__
    return engine.make_view(applied(values, engine.fields, folded)[0])


def default_tools(harness: Any, task: Task, warnings: list[str]) -> Sequence[str] | None:
    """Return the names of the tools of *harness* that a node of a nested graph may use without naming them.

    These are the tools that need no approval. A warning lists the others; it is added to the *warnings* of each run,
    and logged once per process.

    Returns:
        0..n names; None if *harness* has no tool that needs approval, or is not an agent.
    """
    tools: list[Tool] = []
    if hasattr(harness, "__graphrt_drive__"):
        tools = [*harness.tools, *(handoff.tool for handoff in getattr(harness, "handoffs", ()))]
    withheld = [tool.spec.name for tool in tools if tool.policy.approval is not False]
    if not withheld:
        return None
    agent, node, plan = str(harness.name), task.node.name, task.engine.plan
    at = plan.spec_where(task.node.index)  # file and line where the node was added; empty if unknown
    text = (
        f"Node {node!r} of nested graph {plan.name!r}{f' at {at}' if at else ''} does not offer agent {agent!r} its tools "
        f"{withheld}, which need approval: a node of a nested graph has to name them in tools=[...]."
    )
    warn(warnings, text)
    return [tool.spec.name for tool in tools if tool.policy.approval is False]


def asks_anew(error: Exception) -> bool:
    """Return whether a recorded reply may have caused *error*.

    A failed model call does not invalidate earlier replies.
    """
    if isinstance(error, (StoreError, BudgetExceededError, ReplayDivergedError)):
        return False
    # `bad-output`: the reply itself does not have the required form.
    return not isinstance(error, HarnessError) or error.code == "bad-output"


def _is_call(key: str, path: str) -> bool:
    """Return whether *key* belongs to a model call of the agent run *path* itself, not of an agent below it."""
    return key.startswith(path) and "/" not in key[len(path) :]


def held_event(task: Task, call: ModelCall) -> dict[str, ModelEvent]:
    """Return the event that records the reservations of *call*, by its staged name."""
    return {f"held/{_name(call)}": task.more().model_calls().hold_event(task.id, call)}


def keep_grant(services: RunServices, task: Task, question: str) -> None:
    """Store the amount that a person granted in answer to *question*."""
    stage(services, task, {f"granted/{question}": task.more().model_calls().grants[question]})


def _name(call: ModelCall) -> str:
    """Return the part of a staged name that identifies *call* within its task."""
    return f"{call.failed_attempts}/{call.key}"


def stage(services: RunServices, task: Task, staged: Mapping[str, ModelEvent]) -> None:
    """Store events of *task*, by their staged names, in one write; does nothing without a store.

    The events are durable when this returns. The path identifies their nested graph; it is empty for the graph of the
    run.

    Raises:
        StoreError: They could not be stored.
    """
    services.keep([(f"{task.id}#{name}", [(task.engine.path, event)]) for name, event in staged.items()])
