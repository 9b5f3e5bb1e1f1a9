"""Opening and closing one run: the engine, its surroundings and its thread. The Runtime's verbs are made of this."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, final

from graphrt import events
from graphrt._drivers.scope import Scope
from graphrt._engine import log
from graphrt._engine.engine import Engine
from graphrt._engine.fold import FoldError, fold
from graphrt._engine.grow import applied
from graphrt._engine.task import DONE, Task
from graphrt._flows.effects import Control, Flow
from graphrt._flows.run import Watch, run
from graphrt._plan.fields import is_mapping, own
from graphrt._plan.state import EXTRA
from graphrt._runs.results import RunResult
from graphrt.commands import Replacement
from graphrt.errors import InputError, names
from graphrt.graph import CompiledGraph
from graphrt.limits import Limits
from graphrt.stores import Journal, MemoryStore, Status, Thread

if TYPE_CHECKING:
    from graphrt._drivers.loop_thread import LoopThread


class Owner(Protocol):
    """What a run needs of the runtime that opens it."""

    graph: CompiledGraph[Any, Any]
    limits: Limits
    store: MemoryStore | None
    harness: Any
    deps: Any
    sinks: tuple[Callable[[events.Entry], Any], ...]
    clock: Callable[[], float]
    ids: Callable[[], str]
    seed: int | None
    check_state: bool
    _active: dict[str, Control]
    _loop_source: Callable[[], LoopThread] | None


@final
class Run:
    """One run in flight."""

    __slots__ = ("_store", "_thread", "control", "engine", "listening", "runtime", "scope", "watch")

    def __init__(
        self,
        runtime: Owner,
        engine: Engine,
        thread: Thread | None,
        store: MemoryStore | None,
        *,
        listen: bool,
        watch: Watch | None,
    ) -> None:
        self.runtime: Owner = runtime
        self.engine: Engine = engine
        self._thread = thread
        self._store = store
        control = Control()
        self.control: Control = control
        control.watched = thread is not None
        scope = Scope(
            control,
            thread=thread.id if thread is not None else None,
            deps=runtime.deps,
            harness=runtime.harness,
            clock=runtime.clock,
            make_run_id=runtime.ids,
            seed=runtime.seed if runtime.seed is not None or thread is None else thread.seed,
            loop_source=runtime._loop_source,
        )
        self.scope: Scope = scope
        self.watch: Watch = watch if watch is not None else _NOBODY
        engine.watch(tape=self.watch.steps or self.watch.updates)
        self.listening: bool = listen or thread is not None or bool(runtime.sinks)
        if self.listening:
            journal = thread.journal if thread is not None else Journal(keep=False)
            engine.log = []
            engine.run_id = scope.run_id
            sinks, clock = runtime.sinks, runtime.clock

            def record(logged: Sequence[log.Logged]) -> Sequence[events.Entry]:
                return journal.write(logged, at=clock(), run=scope.run_id, sinks=sinks)

            scope.record = record
        if engine.tape is not None:
            engine.tape.run_id = lambda: scope.run_id
        if self.watch.any:
            scope.timed = True

    def flow(self) -> Flow:
        """The run as a flow of effects."""
        return run(self.engine, self.control, self.watch)

    def usage(self) -> events.Usage:
        """What the run's model calls used, those of an open superstep included."""
        engine = self.engine
        used = engine.usage or _NONE_USED
        for task in engine.tasks:
            if task.extra is not None and task.extra.usage is not None:
                used = used + task.extra.usage
        return used

    def ended(self, status: Any) -> RunResult[Any]:
        """Close the run, which did not fail."""
        result: RunResult[Any] = RunResult(self, status)
        self._close(status)
        return result

    def broke(self, error: BaseException) -> None:
        """Close the run, which failed or was cancelled."""
        self._close("failed" if isinstance(error, Exception) else "cancelled")

    def _close(self, status: Status) -> None:
        self.scope.close()
        engine, thread = self.engine, self._thread
        if engine.tape is not None:
            engine.tape.end()
        if thread is not None and self._store is not None:
            # What is kept shares nothing with what nodes and callers hold.
            thread.seed = self.scope.seed
            engine.keep()
            self.runtime._active.pop(thread.id, None)
            self._store.release(thread, status)


_NOBODY = Watch()
_NONE_USED = events.Usage()


def begin(runtime: Owner, given: Any, thread_id: str | None, *, listen: bool, watch: Watch | None) -> Run:
    """Open a run on an input.

    Raises:
        InputError: The input does not fit, there is no store for a thread, the thread wants another verb.
        ConflictError: The thread is being driven.
        RouteError: The entry router failed.
    """
    plan = runtime.graph.__graphrt_plan__
    store = runtime.store
    if thread_id is not None and store is None:
        raise InputError(
            f"thread={thread_id!r} was given, but there is no store to keep it in.",
            code="thread-without-store",
            where=plan.place(),
            fix='Give the runtime a store, for instance Runtime(graph, store="memory:").',
            thread=thread_id,
        )
    if store is None:
        engine = Engine(plan, runtime.limits, check_state=runtime.check_state)
        opened = Run(runtime, engine, None, None, listen=listen, watch=watch)
        values = plan.state.initial(given, where=plan.place(), only=plan.spec.input_names)
        return _started(opened, values)
    thread_id = thread_id if thread_id is not None else runtime.ids()
    _check_thread(thread_id)
    thread, before = store.claim(thread_id, create=True)
    old: dict[str, Any] | None = None
    try:
        if before == "new":
            values = plan.state.initial(given, where=plan.place(), only=plan.spec.input_names)
            engine = Engine(plan, runtime.limits, thread=thread_id, check_state=runtime.check_state)
        elif before == "completed":
            engine = _same_graph(runtime, thread)
            old = engine.values
            values = _updated(engine, given)
            engine.limit(runtime.limits)
        else:
            verb = "resume" if before == "interrupted" else "retry"
            raise InputError(
                f"Thread {thread_id!r} is {before}: it cannot take a new input.",
                code="wrong-verb",
                where=f"thread {thread_id!r}, graph {plan.name!r}",
                known=f"status {before}",
                fix=f"Use {verb}({thread_id!r}{', answers' if verb == 'resume' else ''}), or another thread.",
                thread=thread_id,
            )
        thread.seed = None
        opened = Run(runtime, engine, thread, store, listen=listen, watch=watch)
        started = _started(opened, values)
    except BaseException:
        if old is not None and thread.engine is not None:  # the thread stays as it was
            thread.engine.values = old
            thread.engine.due = []
            thread.engine.keep()
        store.release(thread, before)
        raise
    thread.engine = engine
    runtime._active[thread_id] = opened.control
    return started


def _started(opened: Run, values: dict[str, Any]) -> Run:
    engine, scope = opened.engine, opened.scope
    if opened.listening:
        log.note(
            engine,
            events.RunStarted(
                graph=engine.plan.name,
                fingerprint=opened.runtime.graph.fingerprint,
                thread=scope.thread,
                seed=scope.seed,
                input={name: own(value) for name, value in values.items() if name != EXTRA},
            ),
        )
    engine.usage = None
    engine.start(values)
    return opened


def _check_thread(thread_id: Any) -> None:
    if not isinstance(thread_id, str) or not thread_id:
        raise InputError(
            f"A thread is named by a non-empty string, not {thread_id!r}.",
            code="bad-thread",
            fix="Pass a string.",
        )


def _same_graph(runtime: Owner, thread: Thread) -> Engine:
    engine = thread.engine
    assert engine is not None  # noqa: S101 - only a thread that never ran has none
    plan = runtime.graph.__graphrt_plan__
    if engine.plan is not plan:
        raise InputError(
            f"Thread {thread.id!r} belongs to another graph than this runtime drives.",
            code="other-graph",
            where=f"thread {thread.id!r}",
            known=f"the thread's graph is {engine.plan.name!r}, this one {plan.name!r}",
            fix="Use the runtime of the graph that started the thread.",
            thread=thread.id,
        )
    return engine


def _updated(engine: Engine, given: Any) -> dict[str, Any]:
    """The values of a finished thread with an input folded in as an update."""
    plan = engine.plan
    entries: Any = given
    if plan.state.kind != "typeddict" and isinstance(given, plan.state.cls):
        written = getattr(given, "model_fields_set", None)
        entries = {name: getattr(given, name) for name in plan.state.fields if written is None or name in written}
    if not is_mapping(entries):
        raise InputError(
            f"The input of a finished thread is an update: a mapping or a {plan.state.cls.__name__}, "
            f"not {type(given).__name__}.",
            code="bad-input",
            where=engine.where(),
            fix="Pass a mapping of the fields to update.",
        )
    unknown = [key for key in entries if key not in plan.state.fields]
    if unknown:
        raise InputError(
            f"The input has a key that is no field of the state: {names(unknown)}.",
            code="unknown-key",
            where=engine.where(),
            known=f"fields {names(plan.state.fields)}",
            fix="Remove it, or declare the field.",
        )
    task = Task(plan.start, 0, engine.superstep, None, None, engine)
    checked = {}
    for name, value in entries.items():
        try:
            value = Replacement(own(value.value)) if isinstance(value, Replacement) else own(value)
            checked[name] = plan.update._check_one(plan.state.fields[name], value, "START", engine.where())
        except ValueError as error:
            raise InputError(
                f"The input does not fit {plan.state.cls.__name__}: {name}: {error}",
                code="bad-input",
                where=engine.where(),
                fix="Pass values of the declared types.",
                field=name,
            ) from None
    task.updates = (checked,)
    task.status = DONE
    try:
        folded = fold(engine.fields, engine.values, [task], ephemeral=engine.ephemeral, where=engine.where)
    except FoldError as error:
        raise error.error from error.error.__cause__
    engine.values = dict(engine.values)  # a list is not ours alone while the old values hold it
    return applied(engine.values, engine.fields, folded)[0]


def continued(
    runtime: Owner,
    thread_id: str,
    verb: Literal["resume", "retry"],
    prepare: Callable[[Engine], Mapping[str, Any]],
) -> Run:
    """Open a run that goes on with a paused, failed or cancelled thread.

    Args:
        prepare: Checks what is wanted and returns the answers by interrupt id; changes nothing.

    Raises:
        InputError: No store, no such thread, or it wants another verb.
        ConflictError: The thread is being driven.
    """
    store = runtime.store
    if store is None:
        raise InputError(
            f"{verb}({thread_id!r}) needs a store that keeps the thread.",
            code="thread-without-store",
            fix='Give the runtime a store, for instance Runtime(graph, store="memory:").',
        )
    _check_thread(thread_id)
    thread, before = store.claim(thread_id, create=False)
    try:
        right = {"interrupted": "resume", "failed": "retry", "cancelled": "retry", "completed": "run"}[before]
        if right != verb:
            raise InputError(
                f"Thread {thread_id!r} is {before}: it cannot be {'resumed' if verb == 'resume' else 'retried'}.",
                code="wrong-verb",
                where=f"thread {thread_id!r}",
                known=f"status {before}",
                fix=f"Use {right}(...).",
                thread=thread_id,
            )
        engine = _same_graph(runtime, thread)
        answers = prepare(engine)
        engine.limit(runtime.limits)
        opened = Run(runtime, engine, thread, store, listen=False, watch=None)
    except BaseException:
        store.release(thread, before)
        raise
    log.note(engine, events.RunResumed(verb=verb, thread=thread_id))
    for id_, answer in answers.items():
        log.note(engine, events.InterruptAnswered(id=id_, answer=own(answer)))
    engine.answer(answers)
    engine.retry()
    runtime._active[thread_id] = opened.control
    return opened


def system_clock() -> float:
    """Seconds since the epoch."""
    return time.time()
