"""The fast path: supersteps of one plain task, one after another, over the same tables as the general path.

It changes nothing before the first odd thing (an unknown key, a Command, a list of labels, an error): then it hands
the reply to the general path, which meets the same thing again and names it. Only `engine` and the run flow call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrt._engine import emit_events
from graphrt._engine.fold import CONTAINERS, Prefix
from graphrt._engine.ownership import SOLE, getrefcount
from graphrt._engine.route import Due, Routed
from graphrt._engine.spending import count
from graphrt._engine.storability import kept, stamped
from graphrt._engine.task import DONE, DUE, Task
from graphrt._plan.fields import ABSENT, ADD, APPEND, LAST
from graphrt._plan.views import HAS_MAPPING

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._plan.tables import NodePlan


def begin(engine: Engine) -> Task | None:
    """The one plain task that is due, counted and ready to call; None if this is not the fast path's shape."""
    due = engine.due
    if len(due) != 1 or not engine.fast or engine.tasks:
        return None
    node, _, error, is_send = due[0]
    if is_send or error is not None or not node.on_fast_path:
        return None
    at = node.index
    if engine.visits[at] >= engine.visit_limits[at] or engine.steps >= engine.max_steps:
        return None
    engine.visits[at] += 1
    engine.steps += 1
    engine.superstep += 1
    engine.due = []
    call = engine.call = Task(node, 0, engine.superstep, None, engine.take_view(), engine)
    return call


def advance(engine: Engine, reply: Any) -> Task | None:
    """Fold and route what the called node returned, and make the next call ready.

    Returns:
        The next call. None if the run goes on by the general path: with the open task in `engine.tasks`, whose
        outcome is *reply*, or with what is in `engine.due`.
    """
    call: Task = engine.call  # type: ignore[assignment]  # begin() or this function set it
    values = engine.values
    sizes = engine.sizes
    for name in sizes:
        if len(values[name]) != sizes[name]:
            _leave(engine, call)
            return None
    # Rule R15. Comparing two dicts of the same objects is one call: about 3 % of the loop over a dict.
    keeps = engine.keeps  # no name for the view: it would count as an owner of the lists
    try:
        same = call.state == values if not keeps else keeps == HAS_MAPPING and call.state.__dict__ == values
    except Exception:  # noqa: BLE001 - the general path meets it again and names it
        same = False
    node = call.node
    if (not same and engine.plan.state.assigned(call.state, values)) or node.arrives:
        _leave(engine, call)
        return None
    out: dict[str, Any] = {}
    grown: list[tuple[str, list[Any], list[Any]]] | None = None
    boxed = False
    checked: dict[str, Any] | None = None
    undo: dict[str, Any] | None = None
    if reply.__class__ is dict:
        call.state = None  # our own view must not count as another owner
        if engine.watched:
            checked = {}
            if engine.recorder is not None:
                undo = {}
        fields = engine.writable
        try:
            for name in reply:
                value = reply[name]
                field = fields[name]
                if value.__class__ is not field.exact:
                    value = field.check(value)
                kind = field.kind
                if checked is not None:
                    checked[name] = value
                    if undo is not None:
                        undo[name] = _before(values, name, kind)
                if kind == LAST:
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
                else:
                    current = values[name]
                    made = field.reduce(current.copy() if current.__class__ in CONTAINERS else current, value)
                    if made is None and not field.nullable:
                        _leave(engine, call)
                        return None
                    out[name] = made
                if field.boxed:
                    boxed = True
            if checked and engine.codec is not None:
                checked = stamped(engine, call, checked) if engine.stamps else kept(engine, call, checked)
        except Exception:  # noqa: BLE001 - whatever it is, the general path meets it again and names it
            _leave(engine, call)
            return None
        if grown is not None:
            for _, owned, items in grown:
                owned.extend(items)
        new = {**values, **out}
        view = engine.make_view(new)
    elif reply is None:
        new, view = values, engine.make_view(values)
    else:
        _leave(engine, call)
        return None

    routed: Routed | None = None
    target: NodePlan | None = None
    said: Any = engine  # stands for: the router said nothing
    try:
        if not node.simple:
            routed = engine.router().ask(node, view)
        elif node.router is None:
            target = node.next
        else:
            said = node.router(view)
            if said.__class__ is list:
                routed = engine.router().read(node, node.branches[0], said)
            else:
                target = node.table[said]
        if routed is not None and routed.emptied and engine.joins:
            raise LookupError  # joins hear of it on the general path
    except Exception:  # noqa: BLE001 - an error or an odd label: the general path says which
        for name, owned, _ in grown or ():  # what looked at the longer list keeps it; the state goes back
            values[name] = owned[: sizes[name]]
        if said is not engine:
            engine.asked = (node.branches[0], said)
        _leave(engine, call)
        return None

    # Nothing can fail any more: commit.
    if boxed:
        _measure(sizes, out, grown)
    engine.values = new
    if engine.watched:
        if engine.quick is not None and routed is None and call.extra is None:
            engine.quick(call, checked, target)
        else:
            _note(engine, call, checked, undo, target, routed)
    if call.extra is not None:
        count(engine, call)
    if target is not None:
        at = target.index
        visits = engine.visits[at]
        if target.on_fast_path and visits < engine.visit_limits[at] and engine.steps < engine.max_steps:
            engine.visits[at] = visits + 1
            engine.steps += 1
            engine.superstep += 1
            if target.plain == 0 or call.plain == 0:  # a context, a step may keep this one
                call = engine.call = Task(target, 0, engine.superstep, None, view, engine)
            else:  # nobody keeps a plain call: use it again
                call.node, call.plain, call.state = target, target.plain, view
                call.superstep = engine.superstep
            return call
        engine.due = [Due(target)]
    elif routed is not None:
        engine.due = routed.due()
    engine.call = None
    engine.view = view
    return None


def tell(call: Task, update: dict[str, Any] | None, target: NodePlan | None) -> None:
    """Note a commit for a journal that writes it before anything goes on, and needs no events for that."""
    engine = call.engine
    engine.told = (engine.superstep, call.node, update, target)


def _measure(sizes: dict[str, int], out: dict[str, Any], grown: list[tuple[str, Any, Any]] | None) -> None:
    """Note the lengths of the containers that were written."""
    for name, value in out.items():
        if value.__class__ in CONTAINERS:
            sizes[name] = len(value)
        elif name in sizes:
            del sizes[name]
    for name, owned, _ in grown or ():
        sizes[name] = len(owned)


def _leave(engine: Engine, call: Task) -> None:
    """Hand the call over to the general path, as the open superstep."""
    call.superstep = engine.superstep
    if call.state is None:
        call.state = engine.make_view(engine.values)
    engine.call = None
    engine.tasks, engine.looks = [call], True


def _note(
    engine: Engine,
    call: Task,
    checked: dict[str, Any] | None,
    undo: dict[str, Any] | None,
    target: NodePlan | None,
    routed: Routed | None,
) -> None:
    """Tell the parent's trail, the tape and the log what this superstep did, and what is due after it."""
    if checked:
        engine.follow(checked)
    if engine.log is not None:
        call.superstep = engine.superstep
        engine.due = [Due(target)] if target is not None else routed.due() if routed is not None else []
        emit_events.fast_step(engine, call, checked)
        engine.due = []
    if engine.recorder is not None:
        call.state = None
        call.status = DONE
        call.updates = () if checked is None else (checked,)
        plain = call.plain != 0
        engine.recorder.record(call, undo or {}, plain=plain)
        if plain:  # the object is used again
            call.status, call.updates = DUE, ()


def _before(values: dict[str, Any], name: str, kind: int) -> Any:
    value = values.get(name, ABSENT)
    if kind == APPEND and value.__class__ in (list, tuple):
        return Prefix(len(value))  # the new value starts with the old one
    return value


def take_back(engine: Engine) -> None:
    """Take the next call back, which nobody made: its task is due."""
    call = engine.call
    if call is not None:
        engine.call = None
        engine.due = [Due(call.node)]
        engine.visits[call.node.index] -= 1
        engine.steps -= 1
        engine.superstep -= 1
        engine.forget_view()


def park(engine: Engine) -> None:
    """Leave the fast path before the next call was made: its task is the open superstep."""
    call = engine.call
    if call is not None:
        call.superstep = engine.superstep
        engine.call = None
        engine.tasks, engine.looks = [call], True
