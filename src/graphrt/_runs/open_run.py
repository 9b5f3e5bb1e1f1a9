"""Opening a run: on an input, or on a thread that paused, failed or was cancelled. What may be opened is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphrt import events
from graphrt._codec import NotStorable
from graphrt._engine import emit_events
from graphrt._engine.abandoning import give_up_superstep
from graphrt._engine.edit import folded_in
from graphrt._engine.engine import Engine
from graphrt._engine.spending import budget_field
from graphrt._engine.storability import storable, tracked
from graphrt._flows.run import Watch
from graphrt._journal import batch, leases
from graphrt._plan.fields import is_mapping, own
from graphrt._plan.state import explain
from graphrt._runs import loading, run_once
from graphrt._runs.active_run import ActiveRun, Owner
from graphrt.errors import InputError, names
from graphrt.reducers import TOKEN_BUDGET
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Claim, Store

if TYPE_CHECKING:
    from graphrt._journal.thread_fold import Fold
    from graphrt._plan.tables import Plan


def begin(
    runtime: Owner,
    given: Any,
    thread_id: str | None,
    *,
    listen: bool,
    watch: Watch | None,
    only_if_new: bool = False,
    abandon: bool = False,
) -> ActiveRun:
    """Open a run on an input.

    Args:
        abandon: Give up what the thread left undone (rule R10).
        only_if_new: Raise `once.Present` instead where the thread exists.

    Raises:
        once.Present: The thread exists, and *only_if_new*.
        InputError: The input does not fit, there is no store for a thread, the thread wants another verb.
        ConflictError: The thread is being driven.
        StoreError: The store failed.
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
        if plan.pausing is not None:
            raise _needs_thread(plan, plan.pausing)
        engine = Engine(plan, runtime.limits, check_state=runtime.check_state)
        opened = ActiveRun(runtime, engine, None, listen=listen, watch=watch)
        values = plan.state.initial(given, where=plan.place(), only=plan.spec.input_names)
        return _started(opened, values, values, fresh=True)
    thread_id = check_id(thread_id if thread_id is not None else runtime.ids())
    at = runtime.clock()  # read once for the thread that may be made here and for the first commit
    if at - at:  # it is infinite or no number
        raise batch.no_time(at)
    claim = leases.take(store, thread_id, create=True, lease_s=runtime.lease_s, at=at)
    opened_run: ActiveRun | None = None
    try:
        if claim.head.seq == 0:
            values = plan.state.initial(given, where=plan.place(), only=plan.spec.input_names)
            engine = Engine(plan, runtime.limits, thread=thread_id, check_state=runtime.check_state)
            opened_run = ActiveRun(runtime, engine, claim, at=at, listen=listen, watch=watch)
            started = _started(opened_run, values, values, fresh=True)
        else:
            if not (abandon or (only_if_new and claim.head.status in run_once.ENDED)):
                want(claim, "run", runtime, watch)
            fold = loading.folded(runtime, store.load(thread_id))
            if only_if_new:
                raise run_once.Present(run_once.present(runtime, claim, fold))
            engine = fold.engine
            update = checked_update(engine, given)
            values = folded_in(engine, update, reset=True)
            engine.limit(runtime.limits)
            opened_run = ActiveRun(runtime, engine, claim, fold=fold, at=at, listen=listen, watch=watch)
            adopted(engine, fold)
            if claim.head.status != "completed":
                give_up_superstep(engine)
            started = _started(opened_run, values, update, fresh=False)
    except BaseException as error:
        give_up(store, claim, opened_run, error)
        raise
    runtime._active[thread_id] = started.control
    return started


def _needs_thread(plan: Plan, node: str) -> InputError:
    return InputError(
        f"Node {node!r} has interrupt_before or interrupt_after, but this run has no thread that could wait.",
        code="interrupt-needs-thread",
        where=plan.place(),
        known="nothing has run",
        fix='Run it on a thread: Runtime(graph, store="memory:").run(input, thread="t").',
        node=node,
    )


def give_up(store: Store, claim: Claim, opened: ActiveRun | None, error: BaseException) -> None:
    if opened is not None:
        opened.broke(error)
    leases.give_back(store, claim)


def _started(opened: ActiveRun, values: dict[str, Any], given: Mapping[str, Any], *, fresh: bool) -> ActiveRun:
    engine, services = opened.engine, opened.services
    if TOKEN_BUDGET in given:
        _check_budget(engine, values)
    if opened.listening:
        kept = tracked(engine, given)
        try:
            kept = storable(engine, kept)
        except NotStorable as error:
            raise not_storable(engine, error, "The input holds a value") from error
        if not engine.stamps:
            kept = engine.plan.state.own_all(kept)
        emit_events.note(
            engine,
            events.RunStarted(
                graph=engine.plan.name,
                fingerprint=opened.runtime.graph.fingerprint,
                thread=services.thread,
                seed=opened.seeded(),
                input=kept,
                fresh=fresh,
            ),
        )
    engine.usage = engine.granted = None
    engine.start(values)
    return opened


def _check_budget(engine: Engine, values: Mapping[str, Any]) -> None:
    """Refuse an input that leaves less than nothing: only a call that took more than it might leads there.

    Raises:
        InputError: The field that is a budget is below 0.
    """
    left = budget_field(engine, values)
    if left is not None and left < 0:
        raise InputError(
            f"With this input field {TOKEN_BUDGET!r} is {left}: a budget of tokens is 0 or more.",
            code="bad-input",
            where=engine.where(),
            fix="Give the tokens that the run may spend.",
            field=TOKEN_BUDGET,
        )


def not_storable(engine: Engine, error: NotStorable, what: str) -> InputError:
    return InputError(
        f"{what} that cannot be stored{f' at {error.path}' if error.path else ''}: it {error.why}",
        code="not-storable",
        where=engine.where(),
        known="nothing was stored",
        fix=f"{error.fix}.",
        path=error.path,
        thread=engine.thread,
    )


def adopted(engine: Engine, fold: Fold) -> None:
    """Journal that the thread goes over to a changed graph."""
    if fold.migrated is not None:
        emit_events.note(engine, fold.migrated)


_RIGHT: dict[str, str] = {"interrupted": "resume", "failed": "retry", "cancelled": "retry", "completed": "run"}


def want(claim: Claim, verb: str, runtime: Owner, watch: Watch | None) -> None:
    """Refuse a verb that is wrong for the status of the claimed thread.

    A thread whose owner died while it ran takes `resume` and `retry`.
    """
    status, thread = claim.head.status, claim.thread
    right = _RIGHT.get(status, "retry")
    if right == verb or (status == "running" and verb != "run"):
        return
    doing = {"run": "take a new input", "resume": "be resumed", "retry": "be retried"}[verb]
    how = {"resume": f"resume({thread!r}, answers)", "retry": f"retry({thread!r})"}
    here = {"resume": f"thread={thread!r} with answers=", "retry": f"thread={thread!r} alone"}
    raise InputError(
        f"Thread {thread!r} is {status}: it cannot {doing}.",
        code="wrong-verb",
        where=f"thread {thread!r}, graph {runtime.graph.name!r}",
        known=f"status {status}, {claim.head.seq} entries",
        fix=f"Use {how.get(right, f'run(input, thread={thread!r})')}"
        + (f", or {here.get(right, f'an input with thread={thread!r}')} to watch it" if watch is not None else "")
        + (
            f", run(input, thread={thread!r}, abandon=True) to give up what is left, or another thread."
            if verb == "run"
            else "."
        ),
        thread=thread,
    )


def checked_update(engine: Engine, given: Any, *, what: str = "The input of a finished thread") -> dict[str, Any]:
    """What comes from outside as a checked update.

    Raises:
        InputError: It is no mapping of fields, or a value does not fit.
    """
    plan = engine.plan
    entries: Any = given
    if plan.state.kind != "typeddict" and isinstance(given, plan.state.cls):
        written = getattr(given, "model_fields_set", None)
        entries = {name: getattr(given, name) for name in plan.state.fields if written is None or name in written}
    if not is_mapping(entries):
        raise InputError(
            f"{what} must be an update: a mapping or a {plan.state.cls.__name__}, not {type(given).__name__}.",
            code="bad-input",
            where=engine.where(),
            fix="Pass a mapping of the fields to update.",
        )
    unknown = [key for key in entries if key not in plan.state.fields]
    if unknown:
        raise InputError(
            f"{what} has a key that is not a field of the state: {names(unknown)}.",
            code="unknown-key",
            where=engine.where(),
            known=f"fields {names(plan.state.fields)}",
            fix="Remove it, or declare the field.",
        )
    checked: dict[str, Any] = {}
    for name, value in entries.items():
        try:
            checked[name] = plan.update._check_one(plan.state.fields[name], own(value), "START", engine.where())
        except ValueError as error:
            raise InputError(
                f"{what} does not fit {plan.state.cls.__name__}: {explain(error, name, plan.state.untracked)}",
                code="bad-input",
                where=engine.where(),
                fix="Pass values of the declared types.",
                field=name,
            ) from None
    return checked
