"""The fast path: supersteps of one plain task, one after another, over the same tables as the general path.

When it meets something odd (an unknown key, a Command, an unknown label, an error), it leaves with everything as it
was. The open task and its reply go to the general path, which meets the same thing again and reports it. So the fast
path has no error texts and no rules of its own, and reducers, which are pure, may be called twice (decision 0004).

The Task of a plain node, which takes no Context, is reused from superstep to superstep, and a run without observers
builds no events. The run loop (`_flows.run`) calls these functions. The task that runs, or is ready to run, is
`Engine.call`; `Engine.tasks` stays empty meanwhile.

A view shares the lists of `Engine.values`. So while a view exists, it counts as an owner of these lists. A list grows
in place only if the dict of values is its only owner (R15).

Counters: `superstep` numbers the supersteps of the thread, `steps` and `visits` count for the limits of the run.
`CALL_WITH_CONTEXT`, 0, is the value of `Task.plain` for a node that takes a Context; plain nodes have others. For the
terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from graphrt._cancellations import failures
from graphrt._engine import emit_events
from graphrt._engine.fold import Prefix
from graphrt._engine.mutation_check import put_back
from graphrt._engine.ownership import CONTAINERS, SOLE, getrefcount
from graphrt._engine.route import Routed
from graphrt._engine.spending import count
from graphrt._engine.storability import stamped
from graphrt._engine.task import DONE, DUE, Asked, Due, Failed, Nested, Spent, Stopped, Task, TimedOut
from graphrt._plan.fields import ABSENT, ADD, APPEND, LAST
from graphrt._plan.state_reducer import WHOLE
from graphrt._plan.views import HAS_MAPPING
from graphrt.commands import Command, Interrupt, Send

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._plan.tables import NodePlan


_REPORTS: Final = frozenset({Asked, Command, Failed, Interrupt, Nested, Send, Spent, Stopped, TimedOut})
"""Classes of replies that are not updates, whatever the type of the updates is."""


def begin(engine: Engine) -> Task | None:
    """Open a superstep of one plain task, and return the task; None if the fast path does not apply.

    It applies if exactly one task is due. No Send may have started it, and it may not handle a failure as an `on_error`
    node. No limit may be reached, and the node must have no timeout, cache, pause, queue or nested graph
    (`on_fast_path`). The run must have no time limit, ephemeral field, redaction or `check_state`, and the values no
    erased one (`Engine.fast`).
    """
    due = engine.due
    if len(due) != 1 or not engine.fast or engine.tasks:
        return None
    node, _, error, is_send = due[0]  # _: the argument of a Send; *error*: failures that the task handles
    if is_send or error is not None or not node.on_fast_path:
        return None
    at = node.index
    if engine.visits[at] >= engine.visit_limits[at] or engine.steps >= engine.max_steps:
        return None  # the general path raises the error, or takes the `on_fatigue` route
    engine.visits[at] += 1
    engine.steps += 1
    engine.superstep += 1
    engine.due = []
    # It is alone in its superstep, at index 0, and has no argument of a Send.
    call = engine.call = Task(node, 0, engine.superstep, None, engine.take_view(), engine)
    return call


def advance(engine: Engine, reply: Any) -> Task | None:
    """Fold and route the *reply* of the node that was called, and open the next superstep.

    Args:
        reply: What the node of `engine.call` returned, or a report of the driver such as `Failed`. Only a dict and None
            are handled here.

    Returns:
        The task to call next. None if the run continues on the general path: either with the open task in
        `engine.tasks`, whose outcome is *reply*, or with what is in `engine.due`.
    """
    call: Task = engine.call  # type: ignore[assignment]  # begin() or this function set it
    engine.told = None  # the journal has written the last commit since
    values = engine.values
    sizes = engine.sizes  # field to the length that its list, dict or set had at the last commit
    # Rule R15: the node must not have changed a container's length, or assigned to its view. CPython compares two dicts
    # of the same objects by identity, in one call: about 3 % of the loop over a dict (decision 0052).
    for name in sizes:
        if len(values[name]) != sizes[name]:
            _leave(engine, call)
            return None
    keeps = engine.keeps  # where views keep their values: IS_MAPPING (0) in itself, HAS_MAPPING in `__dict__`
    # The view, `call.state`, gets no local name, because that would be one more owner of its lists.
    try:
        same = call.state == values if not keeps else keeps == HAS_MAPPING and call.state.__dict__ == values
    except Exception:  # noqa: BLE001 - the general path meets it again and reports it
        same = False
    node = call.node
    # `assigned` tells assignments from harmless differences, such as cached properties. Joins (`arrives`) are counted
    # on the general path.
    if (not same and engine.plan.state.assigned(call.state, values)) or node.arrives:
        _leave(engine, call)
        return None
    out: dict[str, Any] = {}  # new values, which become visible only after the last check
    grown: list[tuple[str, list[Any], list[Any]]] | None = None  # (field, list, items) to extend in place
    boxed = False  # whether a written field may hold a container
    checked: dict[str, Any] | None = None  # validated update, for observers
    undo: dict[str, Any] | None = None  # how to undo each write, for steps (see `_before`)
    reducer = engine.reducer  # of the whole state; None if fields have reducers
    if reply is None:
        new, view = values, engine.make_view(values)
    elif reducer is not None:
        call.state = None
        try:
            if reply.__class__ in _REPORTS:  # a type such as Any would accept them as updates
                raise LookupError
            update = engine.plan.update.check_any(reply)
            out = reducer.changes(values, update)
            if engine.watched:
                checked = stamped(engine, call, {WHOLE: update})
                undo = {name: values.get(name, ABSENT) for name in out}
        except failures():  # as below; first what the reducer changed in place, or the node is blamed
            put_back(engine)
            _leave(engine, call)
            return None
        boxed = True
        new = {**values, **out}
        if ABSENT in out.values():  # keys of a TypedDict that are gone
            new = {name: value for name, value in new.items() if value is not ABSENT}
        view = engine.make_view(new)
    elif reply.__class__ is dict and (reply or node.writable):  # an empty dict may stand for a whole state
        call.state = None  # the view would count as another owner of the lists
        if engine.watched:  # by a recorder, a trail or a log
            checked = {}
            if engine.recorder is not None and engine.recorder.undo:
                undo = {}
        fields = node.writable  # the fields that its update may write
        try:
            for name in reply:
                value = reply[name]
                field = fields[name]  # KeyError for a key that it may not write
                if value.__class__ is not field.exact:  # the check would return the value unchanged
                    value = field.check(value)
                kind = field.kind
                if checked is not None:
                    checked[name] = value
                    if undo is not None:
                        undo[name] = _before(values, name, kind)
                if kind == LAST:  # no reducer: the last value
                    out[name] = value
                elif kind == ADD:
                    out[name] = values[name] + value
                elif kind == APPEND:
                    if getrefcount(values[name]) == SOLE and values[name].__class__ is list:
                        if grown is None:
                            grown = []
                        grown.append((name, values[name], value))
                    else:
                        out[name] = field.reduce(values[name], value)
                else:  # a user's reducer, which gets a copy of a container because it might change it
                    current = values[name]
                    made = field.reduce(current.copy() if current.__class__ in CONTAINERS else current, value)
                    if made is None and not field.nullable:
                        raise LookupError
                    out[name] = made
                if field.boxed:
                    boxed = True
            if checked and engine.codec is not None:
                checked = stamped(engine, call, checked)  # encodes it, and refuses what cannot be stored
        except failures():  # whatever it is, the general path meets it again and reports it
            _leave(engine, call)
            return None
        if grown is not None:  # only now: an error in a later field must leave these lists as they were
            for _, owned, items in grown:
                owned.extend(items)
        new = {**values, **out}
        view = engine.make_view(new)
    else:
        _leave(engine, call)
        return None

    routed: Routed | None = None
    target: NodePlan | None = None
    said: Any = engine  # sentinel: the router returned nothing yet
    try:
        if not node.simple:  # several static edges or routers
            routed = engine.router().ask(node, view)
        elif node.router is None:
            target = node.next  # None if the branch ends
        else:
            said = node.router(view)
            if said.__class__ is list:  # of labels and Sends
                routed = engine.router().read(node, node.branches[0], said)
            else:
                target = node.table[said]  # None for END; an unknown label raises, also one for the default route
        if routed is not None and routed.emptied and engine.joins:
            # The router returned an empty list. A join behind it may then never fire, which the general path notes
            # (decision 0060).
            raise LookupError
    except failures():  # an error or an odd label: the general path reports which
        # The router may have kept the longer list: the state gets a copy of the old length instead.
        for name, owned, _ in grown or ():
            values[name] = owned[: sizes[name]]
        if said is not engine:  # the router has returned: the commit of the general path uses its label (`take_asked`)
            engine.asked = (node.branches[0], said)
        _leave(engine, call)
        return None

    # Nothing below can fail: this is the commit.
    if boxed:
        _measure(sizes, out, grown)
    engine.values = new
    # Plain steps are noted in `told`, and the journal writes the bytes that their events would have. What a task recorded
    # (`extra`), routes off the table, and the end of a run, which is written with its last step, need events.
    if engine.watched:
        if engine.eventless and target is not None and call.extra is None:
            engine.told = (engine.superstep, node, checked, target)
        else:
            _note(engine, call, checked, undo, out, target, routed)
    if call.extra is not None:
        count(engine, call)  # the usage of its model calls
    if target is not None:
        at = target.index
        visits = engine.visits[at]
        if target.on_fast_path and visits < engine.visit_limits[at] and engine.steps < engine.max_steps:
            engine.visits[at] = visits + 1
            engine.steps += 1
            engine.superstep += 1
            if target.plain == 0 or call.plain == 0:  # CALL_WITH_CONTEXT: the Context or a step may keep the Task
                call = engine.call = Task(target, 0, engine.superstep, None, view, engine)
            else:  # nothing refers to the Task of a plain node after its call: reuse it
                call.node, call.plain, call.state = target, target.plain, view
                call.superstep = engine.superstep
            return call
        engine.due = [Due(target)]  # the general path goes on, and meets the limit if one is reached
    elif routed is not None:
        engine.due = routed.due()
    engine.call = None
    engine.view = view
    return None


def _measure(sizes: dict[str, int], out: dict[str, Any], grown: list[tuple[str, Any, Any]] | None) -> None:
    """Update *sizes*, which is `Engine.sizes`, for the fields that were written.

    Args:
        out: New values by field.
        grown: (field, list, appended items) of lists that were extended in place.
    """
    for name, value in out.items():
        if value.__class__ in CONTAINERS:
            sizes[name] = len(value)
        elif name in sizes:
            del sizes[name]
    for name, owned, _ in grown or ():
        sizes[name] = len(owned)


def _leave(engine: Engine, call: Task) -> None:
    """Hand *call* over to the general path as the task of the open superstep; the run loop reports its reply there."""
    call.superstep = engine.superstep  # part of its id
    if call.state is None:  # was dropped for the reference counts; a task of the general path has a view
        call.state = engine.make_view(engine.values)
    engine.call = None
    engine.tasks, engine.looks = [call], True  # the report looks at once for changes of the state (R15)


def _note(
    engine: Engine,
    call: Task,
    checked: dict[str, Any] | None,
    undo: dict[str, Any] | None,
    wrote: Collection[str],
    target: NodePlan | None,
    routed: Routed | None,
) -> None:
    """Pass this superstep on to the trail, the log and the recorder of what is shown, as far as there are any.

    The trail of a nested graph lists its committed updates, which become the updates of its task in the parent graph.

    Args:
        call: The task that ended.
        checked: The validated update; None if the node returned None.
        undo: Previous values of the written fields; None if undo records are not kept.
        wrote: The fields whose values the reducer of the whole state made; not read without one.
        target: The only next node, if *routed* is None.
        routed: Where the edges lead, if the fast path's table did not decide it.
    """
    if checked and engine.trail is not None:
        engine.follow(checked)
    if engine.log is not None:
        call.superstep = engine.superstep  # part of its id, which the events have
        # `fast_step` reads the next tasks from `due`. It stays empty afterwards: the next call is opened directly.
        engine.due = [Due(target)] if target is not None else routed.due() if routed is not None else []
        emit_events.fast_step(engine, call, checked, checked or () if engine.reducer is None else wrote)
        engine.due = []
    if engine.recorder is not None:
        call.state = None  # a reader may keep the task, and its view would count as an owner of the lists
        call.status = DONE
        call.updates = () if checked is None else (checked,)
        plain = call.plain != 0  # not CALL_WITH_CONTEXT
        engine.recorder.record(call, undo or {}, plain=plain)
        if plain:  # the Task is reused
            call.status, call.updates = DUE, ()


def _before(values: dict[str, Any], name: str, kind: int) -> Any:
    """Return what undoes a write of the field, for the steps: its value, or the length of the list that is extended.

    Args:
        kind: How the field folds: LAST, APPEND, CALL or ADD of `_plan.fields`.
    """
    value = values.get(name, ABSENT)
    if kind == APPEND and value.__class__ in (list, tuple):
        return Prefix(len(value))  # the new value starts with the old one, so that no second list is kept
    return value


def take_back(engine: Engine) -> None:
    """Undo the opening of the next superstep, whose node was not called: its task is due again.

    A run that is cancelled between two supersteps then leaves no superstep open.
    """
    call = engine.call
    if call is not None:
        engine.call = None
        engine.due = [Due(call.node)]
        engine.visits[call.node.index] -= 1
        engine.steps -= 1
        engine.superstep -= 1
        engine.forget_view()  # the next drive makes a new one


def park(engine: Engine) -> None:
    """Leave the fast path after an exception such as KeyboardInterrupt: its task becomes the open superstep.

    Unlike `_leave`, this has no reply to report. The task runs again, and gets a view then if it has none.
    """
    call = engine.call
    if call is not None:
        call.superstep = engine.superstep  # part of its id
        engine.call = None
        engine.tasks, engine.looks = [call], True  # its report is checked at once for changes of the state (R15)
