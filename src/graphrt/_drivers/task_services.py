"""The task as the host of agents and harnesses: it remembers what was said and done, asks, shows and counts.

What a model said is an effect of the task. A pause or a crash and what follows find it again; an attempt that failed
does not: the next one asks anew. Keys tell what was asked, so that only the same question gets the same answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from graphrt._ambient import PARENT_AGENT
from graphrt._drivers.blocking_calls import call_store
from graphrt._drivers.budget_grants import grant, granted_before, owner
from graphrt._drivers.ctx_effects import EffectKind, keep_effect, perform_async
from graphrt._drivers.message_item import MessageItem
from graphrt._engine.spending import GRANTED, spending
from graphrt._engine.task import Spent
from graphrt.errors import BudgetExceededError, HarnessError, ReplayDivergedError, StoreError
from graphrt.events import Usage
from graphrt.harness._reply_data import MODEL, is_model, is_plain, reply_from, reply_to, usage_from, usage_to
from graphrt.harness.agent._services import ORDER
from graphrt.harness.budget._budget import MICRO, Amounts

if TYPE_CHECKING:
    from asyncio import Future
    from asyncio import Task as AsyncTask

    from graphrt._drivers.context import Context
    from graphrt._engine.task import Task
    from graphrt.harness.agent._services import Question
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.harness.protocol import ModelResponse

HELD: Final = "held/"
"""Keys of effects that tell what a model call may take begin so; one amount for each time that it was begun."""
FAILED: Final = "harness/failed"
"""Key of the effect that counts the task's attempts which failed after they had spoken to a model."""


T = TypeVar("T")
_AROUND: Final[ContextVar[frozenset[Future[None]]]] = ContextVar("graphrt_runs_around", default=frozenset())
"""The runs of harnesses that what runs here is a part of."""


class _UnkeptError(Exception):
    """The response is more than text and calls: it cannot be remembered."""


@final
class TaskServices:
    """See `graphrt.harness.agent._services.AgentServices`."""

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
        "key",
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
        self._asked: dict[str, tuple[int, ...]] = {}
        self._flying: dict[Future[None], AsyncTask[Any] | None] = {}
        self._told: set[str] = set()
        self.remembers: bool = True
        self.deps: Any = self._scope.deps
        self.node: str | None = self._task.node.name
        self.thread: str | None = self._scope.thread
        self.key: str = context.idempotency_key
        self.ledger: Ledger | None = ledger
        self.known_by: Ledger | None = ledger
        self.emit: Callable[[Any], None] | None = None
        above = PARENT_AGENT.get()
        if self._scope.emit is not None:
            self.emit = self.publish
        elif above is not None and above.emit is not None:  # the stream of the agent that runs this graph
            self.emit = partial(above.emit, self.node)

    @property
    def over(self) -> bool:
        """Whether the attempt has ended that it stands for."""
        return self._context._done

    def call(self, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """What an async function returns, for a sync node: as `Context.call`."""
        return self._context.call(fn, *args, **kwargs)

    def showing(self, show: Callable[[Any], None] | None) -> TaskServices:
        """The same host, which shows items elsewhere."""
        if show == self.emit:
            return self
        other = copy(self)
        other.emit = show
        return other

    def within(self, ledger: Ledger) -> TaskServices:
        """The same host, with another budget, which begins anew with each execution."""
        other = copy(self)
        other.ledger = ledger
        return other

    def number(self, what: str) -> int:
        """Count what is the same: several things at once need no order then, only those that are alike."""
        number = self._numbers[what] = self._numbers.get(what, 0) + 1
        return number

    async def beside(self, run: Callable[[], Awaitable[T]]) -> T:
        """Make one *run* of a harness. If it pauses, those beside it first come to their end, or to a question too.

        Otherwise what they are told after the pause would be lost, and their questions asked one by one.
        """
        from asyncio import current_task, get_running_loop, sleep, wait

        from graphrt._drivers.context import Suspended

        mine = get_running_loop().create_future()
        around = _AROUND.get()
        token, order = _AROUND.set(around | {mine}), ORDER.set((*ORDER.get(), next(self._begun)))
        self._flying[mine] = current_task()
        try:
            return await run()
        except Suspended:
            del self._flying[mine]
            mine.set_result(None)
            await sleep(0)  # those that were made together with it begin
            while others := self._flying.keys() - around:
                await wait(others)
            raise
        finally:
            _AROUND.reset(token)
            ORDER.reset(order)
            if not mine.done():
                del self._flying[mine]
                mine.set_result(None)

    def abandon(self) -> set[Future[None]]:
        """Cancel the runs that the node left behind, and say when they will have ended."""
        flying = dict(self._flying)
        for mine, task in flying.items():
            if task is not None:
                mine.get_loop().call_soon_threadsafe(task.cancel)
        return set(flying)

    def custom(self, item: Any) -> None:
        """Show an item of the user's own on the run's stream, mode `custom`."""
        self._context.emit(item)

    def publish(self, item: Any) -> None:
        """Show *item* on the run's stream, mode `messages`."""
        emit = self._scope.emit
        if emit is not None and not self._context.cancelled:
            emit("messages", MessageItem(node=self._task.node.name, task_id=self._task.id, item=item))

    def knows(self, prefix: str) -> bool:
        """Whether an answer is remembered under a key that begins with *prefix*."""
        extra = self._task.extra
        if extra is None:
            return False
        begin = f"{MODEL}{extra.effects.get(FAILED, 0)}/{prefix}"
        return any(key.startswith(begin) for key in extra.effects)

    async def reply(self, key: str, call: Callable[[], Awaitable[ModelResponse]]) -> tuple[ModelResponse, bool]:
        """What a model said, remembered; what is no plain response is asked for anew by each execution."""
        said: list[ModelResponse] = []

        async def make() -> dict[str, Any]:
            response = await call()
            said.append(response)
            if not is_plain(response):
                raise _UnkeptError
            return reply_to(response)

        context, services, task = self._context, self._scope, self._task
        effects = task.more().effects
        name = f"{MODEL}{effects.get(FAILED, 0)}/{key}"
        made: Any = None
        try:
            made = await perform_async(context, services, task, name, make, (), "idempotent")
        except _UnkeptError:
            usage = getattr(said[0], "usage", None)
            await self.spent(key, Usage(calls=1) if usage is None else usage, getattr(said[0], "model", None))
            return said[0], False
        self.account()
        return reply_from(made), not said  # the same as after a restart, also the first time

    async def spent(self, key: str, usage: Usage, model: str | None) -> None:
        """Count what was used and cannot be remembered: it is used again by each execution."""
        services, task = self._scope, self._task
        effects = task.more().effects
        name = f"{MODEL}{effects.get(FAILED, 0)}/{key}/spent/"
        name = f"{name}{sum(known.startswith(name) for known in effects)}"
        effects[name] = {"usage": usage_to(usage), **({} if model is None else {"model": model})}
        await call_store(services, keep_effect, services, task, name)
        self.account()

    async def hold(self, key: str, want: Amounts) -> None:
        """Store that the call *key* may take *want*, before it is made: a crash leaves it counted (rule R11)."""
        services, task = self._scope, self._task
        name = f"{HELD}{task.more().effects.get(FAILED, 0)}/{key}"
        effects = task.more().effects
        effects[name] = [*effects.get(name, ()), list(want)]
        await call_store(services, keep_effect, services, task, name, True)

    async def let_go(self, key: str) -> None:
        """Store that the call *key* took nothing; a crash before leaves it counted."""
        services, task = self._scope, self._task
        effects = task.more().effects
        name = f"{HELD}{effects.get(FAILED, 0)}/{key}"
        if effects.get(name):
            effects[name] = effects[name][:-1]
            self.account()
            await call_store(services, keep_effect, services, task, name)

    def before(self, key: str) -> tuple[Amounts, Mapping[str, Amounts]]:
        """What the call *key* may have taken unseen, and what it was allowed by whose budget; told once."""
        extra = self._task.extra
        if extra is None or key in self._told:
            return Amounts(), {}
        self._told.add(key)
        effects = extra.effects
        lost = Amounts()
        for one in _lost_calls(effects, f"{HELD}{effects.get(FAILED, 0)}/{key}"):
            lost = lost.plus(Amounts(*one))
        return lost, granted_before(effects).get(key, {}) if extra.interrupts else {}

    def was_granted(self, question: str, of: str) -> bool:
        """Whether the budget of *of* has what was answered to *question*."""
        return f"{GRANTED}{question}" in owner(self._task, of, self._scope.root).more().effects

    async def grant(self, question: str, of: str, more: Amounts) -> None:
        """Remember that the budget of *of* was allowed *more* in answer to *question*."""
        services, task = self._scope, owner(self._task, of, self._scope.root)
        await call_store(services, keep_effect, services, task, grant(task, question, of, more))

    async def effect(
        self, key: str, call: Callable[[], Awaitable[Any]], kind: EffectKind, about: Mapping[str, Any]
    ) -> Any:
        """What *call* came to, remembered."""
        return await perform_async(self._context, self._scope, self._task, key, call, (), kind, about)

    def was_answered(self, question: str) -> bool:
        """Whether a person has answered the question of that key."""
        extra = self._task.extra
        return extra is not None and any(
            one.answered and one.current and one.base == f"key={question}" for one in extra.interrupts
        )

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """The answers; pauses once for all questions that have none."""
        from graphrt._drivers.context import Suspended

        answers: list[Any] = []
        pause: Suspended | None = None
        known = self._task.more().interrupts
        before = len(known)
        for question in questions:
            try:
                name, wanted = f"key={question.key}", question.answer_type
                answers.append(self._context._ask(name, question.payload, wanted, kind=question.kind))
            except Suspended as asked:
                pause = asked
        if pause is None:
            return answers
        # Those of parallel runs come in any order; what is stored of them must not (rule R13).
        for one in known[before:]:
            self._asked[one.key] = ORDER.get()
        known.sort(key=lambda one: self._asked.get(one.key, ()))
        raise pause

    def account(self) -> None:
        """Count what all calls of the task took, those of attempts that failed included."""
        extra = self._task.more()
        extra.usage = taken(extra.effects)


def of_harness(key: str) -> bool:
    """Whether the harness recorded the effect *key*: a model reply, a budget reservation, a grant or an approval.

    The key of a user's effect can start in the same way, but ends with a count, as in `name#0`.
    """
    own = key == FAILED or key.startswith((MODEL, HELD, GRANTED)) or key.endswith("/approved")
    return own and not key.rpartition("#")[2].isdigit()


def charged(task: Task, reply: Any) -> Any:
    """*reply* with what the task's model calls took of the field `token_budget`, if the state has one."""
    extra = task.extra
    if extra is None:
        return reply
    extra.usage = taken(extra.effects)
    return Spent(reply) if spending(task.engine, task) else reply


def used(effects: dict[str, Any]) -> Usage | None:
    """What the model calls among *effects* took; None if there is none. A call whose usage is unknown is a call."""
    total: Usage | None = None
    for key, result in effects.items():
        if is_model(key, result):
            told = result.get("usage")
            one = Usage(calls=1) if told is None else usage_from(told)
            total = one if total is None else total + one
    return total


def taken(effects: dict[str, Any]) -> Usage | None:
    """What `used` says, and all that calls may have taken whose end nobody saw (rule R11)."""
    effects = dict(effects)  # another worker thread may add to them
    total = used(effects)
    for tokens, microusd, calls in _lost(effects):
        one = Usage(input_tokens=tokens, cost_usd=microusd / MICRO if microusd else None, calls=calls)
        total = one if total is None else total + one
    return total


def _lost(effects: dict[str, Any]) -> list[list[int]]:
    return [one for key in effects if key.startswith(HELD) for one in _lost_calls(effects, key)]


def _lost_calls(effects: dict[str, Any], key: str) -> list[list[int]]:
    held: Any = effects.get(key)
    if not issubclass(type(held), list):  # a user's own effect may be named so
        return []
    name = f"{MODEL}{key.removeprefix(HELD)}"
    ended = (name in effects) + sum(known.startswith(f"{name}/spent/") for known in effects)
    found: list[list[int]] = held[: max(0, len(held) - ended)]
    return found


async def failed(context: Context[Any], error: Exception) -> None:
    """Note that an attempt failed with *error*; what it left behind does not go on beside the next one."""
    left = context._host().abandon()
    if left:
        from asyncio import wait

        await wait(left)
    if _asks_anew(error):
        await call_store(context._scope, _ask_anew, context)


def failed_sync(context: Context[Any], error: Exception) -> None:
    """As `failed`, in the worker thread of a sync node."""
    context._host().abandon()
    if _asks_anew(error):
        _ask_anew(context)


def _ask_anew(context: Context[Any]) -> None:
    """Let the next attempt ask its models anew.

    A model call that failed does not make the others wrong: what was said before stays said. Anything else that a node
    raises may come from what a model said.
    """
    extra = context._task.more()
    if any(key.startswith(MODEL) for key in extra.effects):
        extra.effects[FAILED] = extra.effects.get(FAILED, 0) + 1
        keep_effect(context._scope, context._task, FAILED)


def _asks_anew(error: Exception) -> bool:
    if isinstance(error, (StoreError, BudgetExceededError, ReplayDivergedError)):
        return False
    return not isinstance(error, HarnessError) or error.code == "bad-output"
