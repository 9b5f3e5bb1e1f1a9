"""`ctx.start` and `ctx.wait`: child threads, which a node starts and whose end it may wait for (R24).

A *thread* is a durable line of state with an id. Before a child is made, its parent stores that it has it: a restart
makes what is missing, and a child is never unknown to its parent. The id of a child is made of those of thread, task
and call, so that no execution of the node makes a second one.

How a child ended is read from the store (a *look*), and recorded once on the task, as the result of an effect: a
mapping with `status`, and `state` if that is "completed", else `error`. If the child has not ended, the task asks a
question of the kind `thread` and pauses. A child that ends later posts a letter to its parent, in the commit that ends
it. The letter answers the question; the node then runs again and looks again.

Ids in questions, effects and journalled events have no tenant (`bare_id`), so that they do not depend on the store that
a process opened. `ChildThread.thread` has that of the store (`beside`). `services.recorded` is set when a run is
executed again from its log: then nothing is made or looked at. `services.root` is the engine (the mutable state) of the
outermost graph, `task.engine` that of the task's own graph, and `task.more()` what only some tasks have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

from graphrt._drivers.child_threads import ChildThreads, Ended, StateGraph, Tags
from graphrt._drivers.ctx_effects import perform, perform_async
from graphrt._engine.child_ids import child_id
from graphrt._engine.child_threads import outcome_key
from graphrt._engine.open_interrupt import THREAD
from graphrt._engine.task import Task
from graphrt.errors import GraphrtError
from graphrt.errors._codes.child_threads import (
    BAD_CHILD,
    CHILD_DELETED,
    CHILD_ENDED,
    CHILDREN_NEED_STORE,
    NOT_A_CHILD,
)
from graphrt.events import ThreadStarted
from graphrt.stores.ids import bare_id, beside

if TYPE_CHECKING:
    from graphrt._drivers.run_services import RunServices

S = TypeVar("S")


@final
class ChildThread(Generic[S]):
    """A child thread: what `ctx.start` returns and `ctx.wait` takes. Compares by the id of the thread.

    A node that waits for a child which another node has started makes one itself, with the id out of the state:
    `ctx.wait(ChildThread(graph, state.child))`.

    Args:
        graph: The graph of the thread.
        thread: Its id.
    """

    __slots__ = ("graph", "thread")

    def __init__(self, graph: StateGraph[S], thread: str) -> None:
        self.graph: StateGraph[S] = graph
        self.thread: str = thread
        """Id of the thread, for the verbs of a `Runtime` of its graph."""

    def __eq__(self, other: object) -> bool:
        """Compare by id: each execution of a node makes a new object for the same child."""
        return isinstance(other, ChildThread) and other.thread == self.thread

    def __hash__(self) -> int:
        return hash(self.thread)

    def __repr__(self) -> str:
        return f"ChildThread({self.thread!r})"


class Starting(ABC):
    """The base class of `Context` with the methods about child threads. For effects it is a `ctx_effects.Asking`."""

    __slots__ = ()
    _scope: RunServices
    _task: Task

    @abstractmethod
    def _count(self, name: str) -> int:
        """Return how often this was called with *name* before, in this attempt."""

    @abstractmethod
    def _ask(
        self, name: str, payload: Any, answer_type: Any = None, *, keyed: bool = True, kind: str = "question"
    ) -> Any:
        """Return the answer to the question *name* of the task; if there is none yet, pause the node by `Suspended`.

        The parameters are those of `Context._ask`. Here *kind* is THREAD, and the payload the child's id.
        """

    @property
    @abstractmethod
    def idempotency_key(self) -> str:
        """Key for outside services, the same at every execution of the task; effects need it."""

    def start(
        self,
        graph: StateGraph[S],
        input: S | Mapping[str, Any],
        *,
        name: str | None = None,
        detached: bool = False,
        title: str | None = None,
        tags: Tags = (),
    ) -> ChildThread[S]:
        """Start a child thread, once however often this node runs, and return at once (R24).

        When this returns, the child is stored in the store of this thread, for the same tenant. A `Worker` for *graph*
        or a call of `Runtime.drive` runs it. The call writes to the store twice; async nodes use `astart`.

        Args:
            graph: The graph that it runs, this one or any other.
            input: Its input.
            name: Name of the child inside this task: a second call with it returns the same child. None counts calls.
            detached: Let it go on when this thread is cancelled. Otherwise it is cancelled too, with its own children.
            title: Its title.
            tags: Its tags.

        Raises:
            InputError: The input does not fit, the name is wrong, or the run has no thread in a store with mail.
        """
        child, make = _begun(self, self._scope, self._task, graph, input, name, title, tags, detached=detached)
        if make is not None:
            make()
        return child

    async def astart(self, graph: StateGraph[S], input: S | Mapping[str, Any], **options: Any) -> ChildThread[S]:
        """Start a child thread in an async node, without blocking the event loop; takes the arguments of `start`."""
        from graphrt._drivers.blocking_calls import call_store

        # The defaults of `start`; an option that `start` does not have is a TypeError.
        how: dict[str, Any] = {"name": None, "title": None, "tags": (), "detached": False, **options}
        child, make = _begun(self, self._scope, self._task, graph, input, **how)
        if make is not None:
            await call_store(self._scope, make)
        return child

    def wait(self, child: ChildThread[S]) -> S:
        """Return the final state of a child thread; pause until its run has completed (R24).

        The run pauses with the status "interrupted", and holds no worker and no memory. A worker, or `Runtime.drive`,
        goes on with it when the child has ended: the node runs again, and this call returns. While the child waits for
        a person, this waits too. Async nodes use `await_`.

        Raises:
            ChildThreadError: It failed, was cancelled, or was deleted. After a `retry` of this thread it looks again.
            InputError: *child* is not a ChildThread, or is a child of another thread that has not ended.
        """
        outcome = _known(self._task, _checked(self._task, child))
        if outcome is None:
            children, thread, asked = _asked(self, self._scope, self._task, child)
            look = _replayed(self._scope, self._task, thread) or children.ended
            ended = look(child.graph, child.thread)
            if ended is None:
                _check_own(self._task, children, child)
                self._ask(asked, thread, kind=THREAD)  # pauses: raises `Suspended`
            key = outcome_key(thread, self._task.more().retried)
            # The effect only returns what was found. "idempotent": its result is stored at once.
            outcome = perform(self, self._scope, self._task, key, lambda: _data(ended), (), "idempotent")
        state: S = _state(self._scope, self._task, child, outcome)
        return state

    async def await_(self, child: ChildThread[S]) -> S:
        """Return the final state of a child thread in an async node, without blocking the event loop; see `wait`."""
        from graphrt._drivers.blocking_calls import call_store

        outcome = _known(self._task, _checked(self._task, child))
        if outcome is None:
            children, thread, asked = _asked(self, self._scope, self._task, child)
            look = _replayed(self._scope, self._task, thread) or children.ended
            ended = await call_store(self._scope, look, child.graph, child.thread)
            if ended is None:
                await call_store(self._scope, _check_own, self._task, children, child)
                self._ask(asked, thread, kind=THREAD)  # pauses, as in `wait`

            async def found() -> Any:
                """Return how the child ended: the effect that records it."""
                return _data(ended)

            key = outcome_key(thread, self._task.more().retried)
            outcome = await perform_async(self, self._scope, self._task, key, found, (), "idempotent")
        state: S = _state(self._scope, self._task, child, outcome)
        return state


LONGEST_NAME: Final = 100
"""Most characters of the name of a child."""


def _begun(
    context: Starting,
    services: RunServices,
    task: Task,
    graph: Any,
    given: Any,
    name: Any,
    title: Any,
    tags: Any,
    *,
    detached: bool,
) -> tuple[ChildThread[Any], Callable[[], None] | None]:
    """Return the child that a task starts, and what makes sure that it exists; None if that is known.

    The function that makes it may block. `start` calls it, and `astart` has it called on a worker thread. The
    parameters after *task* are the arguments of `start`, not checked yet.

    Raises:
        InputError: As `start`.
    """
    children, mine = _of_thread(services, task)
    where = task.engine.where(task)
    if not hasattr(graph, "__graphrt_plan__"):
        raise BAD_CHILD(argument="The graph of ctx.start()", given=graph, wanted="what compile() returned", where=where)
    if name is not None and not (type(name) is str and 1 <= len(name) <= LONGEST_NAME and name.isprintable()):
        raise BAD_CHILD(
            argument="name= of ctx.start()",
            given=name,
            wanted=f"a str of 1 to {LONGEST_NAME} printable characters, or leave it out to count the calls",
            where=where,
        )
    key = f"name={name}" if name is not None else str(context._count("start"))
    labels = children.check(graph, given, title, tags)
    extra = task.more()
    known = extra.threads.get(key)  # what an earlier execution of the node recorded; in a copy, one of its source
    thread = child_id(mine, task.id, key)  # always the same for the same call, without a tenant
    if known is not None and known.thread != thread and _known(task, known.thread) is not None:
        # This thread is a copy or fork. Its source has waited for that child of its own, and the outcome is recorded.
        return ChildThread(graph, beside(mine, known.thread)), None
    # `beside`: the id with the tenant that the run's own thread has in its store.
    child = ChildThread(graph, beside(mine, thread))
    if known is not None and known.thread == thread and known.made:
        return child, None
    event = ThreadStarted(task=task.id, key=key, thread=thread, graph=graph.name, detached=bool(detached))
    new = known is None or known.thread != thread  # not stored yet
    extra.threads[key] = replace(event, made=services.recorded is not None)  # `made`: the child exists for certain
    for engine in (task.engine, services.root):  # so that a cancellation of this thread finds the child, see `_state`
        if engine is not None and not event.detached:
            engine.start_child(thread)
    if services.recorded is not None:  # the first execution of the run made it
        return child, None

    def make() -> None:
        """Store that the task starts the child, then make the child."""
        # Staged before the thread is made. The keys of effects end with a number, this one does not.
        if new:  # `now`: stored when this returns, whatever the durability of the run
            services.keep([(f"{task.id}#start/{key}#", [(task.engine.path, event)])], now=True)
        children.make(graph, given, child.thread, labels, detached=event.detached)
        extra.threads[key] = replace(event, made=True)

    return child, make


def _of_thread(services: RunServices, task: Task) -> tuple[ChildThreads, str]:
    """Return what makes child threads, and the id of the run's own thread.

    Raises:
        InputError: The run has no thread, or its store keeps no mail.
    """
    children, thread = services.children, services.thread
    if children is None or thread is None:
        raise CHILDREN_NEED_STORE(node=task.node.name, where=task.engine.where(task))
    return children, thread


def _checked(task: Task, child: Any) -> str:
    """Return the id of *child* without its tenant.

    Raises:
        InputError: *child* is not a `ChildThread`.
    """
    if not isinstance(child, ChildThread):
        raise BAD_CHILD(
            argument="The child of ctx.wait()",
            given=child,
            wanted="what ctx.start() returned, or ChildThread(graph, thread)",
            where=task.engine.where(task),
        )
    return bare_id(child.thread)


def _known(task: Task, thread: str) -> Any:
    """Return the recorded outcome of *thread*; None if the task has to look.

    A failure counts until the parent is retried: the child may have been retried and completed meanwhile. So the key of
    an outcome contains the number of retries of the parent. A completion counts for ever.

    Args:
        thread: Id of the child without its tenant.
    """
    extra = task.more()
    for retried in range(extra.retried, -1, -1):
        key = outcome_key(thread, retried)
        outcome = extra.effects.get(key)
        if outcome is not None and (outcome["status"] == "completed" or retried == extra.retried):
            extra.request(key)  # notes the order in which the node asked for results, for the journal (R13)
            return outcome
    return None


def _asked(
    context: Starting, services: RunServices, task: Task, child: ChildThread[Any]
) -> tuple[ChildThreads, str, str]:
    """Return what to look with, the id to look for, and the name of the next question; those before it are answered.

    A task may have waited for *child* before, and been woken in vain: the child was given another run before the task
    looked. Then it has to wait once more, with a new question, since an answered one cannot be answered again.
    """
    children, _ = _of_thread(services, task)
    thread = bare_id(child.thread)
    wakes = 0
    while True:
        name = f"thread {wakes} {thread}"
        # `base`: the key without the number of the wording. `current`: its answer counts, and was not discarded.
        last = next((one for one in reversed(task.more().interrupts) if one.base == name), None)
        if last is None or not last.answered or not last.current:
            return children, thread, name
        context._ask(name, thread, kind=THREAD)  # returns at once, and notes that the answer was used
        wakes += 1


def _replayed(services: RunServices, task: Task, thread: str) -> Callable[[Any, str], Ended | None] | None:
    """Return a function for the look at a child if a run is executed again from its log, else None.

    It answers as the first execution's look: None if the child had not ended at this point. How it ended is in the log
    as the result of the effect, which `perform` takes from there.
    """
    recorded = services.recorded
    if recorded is None:
        return None
    knows = recorded.knows(task, outcome_key(thread, task.more().retried))
    return lambda _graph, _thread: Ended("") if knows else None  # no status: `perform` does not use it


def _check_own(task: Task, children: ChildThreads, child: ChildThread[Any]) -> None:
    """Check that the thread will hear of the end of *child*, for which the task is about to wait.

    Raises:
        InputError: It is a child of another thread, or of none.
    """
    thread = bare_id(child.thread)
    started = any(one.thread == thread for one in task.more().threads.values())  # by this task: no look at the store
    if not started and not children.has(child.graph, child.thread):
        raise NOT_A_CHILD(child=child.thread, thread=task.engine.thread, where=task.engine.where(task))


def _data(ended: Ended | None) -> dict[str, Any]:
    """Return the outcome of a child in the form in which it is recorded."""
    assert ended is not None  # noqa: S101 - else the task waits
    if ended.status == "completed":
        return {"status": ended.status, "state": ended.state}
    return {"status": ended.status, "error": ended.error}


def _state(services: RunServices, task: Task, child: ChildThread[Any], outcome: Mapping[str, Any]) -> Any:
    """Return the final state of a child from its recorded outcome, which the task has been given by now.

    Raises:
        ChildThreadError: It did not complete.
    """
    children, _ = _of_thread(services, task)
    thread = bare_id(child.thread)
    for engine in (task.engine, services.root):
        if engine is not None:
            engine.forget_child(thread)  # it has ended, so a cancellation of this thread need not cancel it
    if outcome["status"] == "completed":
        return children.state(child.graph, outcome["state"])
    raise _ended_badly(task, child, outcome)


def _ended_badly(task: Task, child: ChildThread[Any], outcome: Mapping[str, Any]) -> GraphrtError:
    """Return the error of `wait` for a child that failed, was cancelled or was deleted."""
    where = task.engine.where(task)
    # Texts name it as `child`; `thread` is the attribute of the error.
    thread, status, error = child.thread, str(outcome["status"]), str(outcome["error"])
    if status == "deleted":
        return CHILD_DELETED(child=thread, thread=thread, status=status, where=where)
    return CHILD_ENDED(
        child=thread,
        thread=thread,
        status=status,
        runs=child.graph.name,
        ended="was cancelled" if status == "cancelled" else status,
        error=f": {error}" if error else "",
        where=where,
    )
