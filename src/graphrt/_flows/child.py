"""Nested graphs: a compiled graph as the body of one task (rule R17, decision 0015).

The child has no separate thread. It starts with its parent's values of the shared fields. Its updates, and not its
final values, become the updates of the task. Its engine stays on the task (`Extra.child`), so that a resume or a retry
continues it from its last commit.

*Parent* is the engine of the enclosing graph. *Shared* fields have the same name in both graphs; the node's options
`input=` and `output=` map other names, or are functions. `parent.where(task)` is the location for errors. A failure
with `raise_as_is` is raised to the caller of the run unchanged, not as the cause of a NodeError. `quoted` shows a value
in an error, but only its type if its graph has *unquoted* fields (untracked or redacted, and so never shown). For the
terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final

from graphrt._arguments import MappingError, is_mapping
from graphrt._cancellations import failures
from graphrt._codec import NotStorable
from graphrt._engine.edit import folded_in
from graphrt._engine.engine import Engine
from graphrt._engine.erased_values import erased_in
from graphrt._engine.redacting import redacted_update
from graphrt._engine.run_state import RunState
from graphrt._engine.spending import used
from graphrt._engine.storability import with_untracked
from graphrt._engine.task import STOPPED, Asked, Failed, Nested, Task, TimedOut
from graphrt._flows.effects import NOW, Control, Flow, Stage
from graphrt._flows.run import CANCELLED, HANDED_OVER, INTERRUPTED, run
from graphrt._plan.callables import node_shape
from graphrt._plan.fields import ABSENT, own
from graphrt._plan.quoting import quoted, short
from graphrt._plan.tables import Plan
from graphrt.commands import ERASED
from graphrt.errors import DeadlineError, GraphrtError, StoreError
from graphrt.errors._codes.arguments import INPUT_OF_WRONG_KIND
from graphrt.errors._codes.nodes import (
    BAD_MAPPING,
    DEPTH_LIMIT,
    NESTED_OUTPUT_NOT_AN_UPDATE,
    UNKNOWN_KEY_OF_NODE,
)
from graphrt.limits import Limits
from graphrt.reducers import TOKEN_BUDGET

DEFAULTS: Final = "graph/defaults"
"""Key of the effect that records the defaults with which a nested graph began, if functions of users made them."""


def nested(task: Task, control: Control) -> Flow:
    """Drive the nested graph of *task*, and return the reply for the parent's engine.

    A driver runs this flow as the body of the task, instead of calling a function.

    Args:
        control: The control object of the whole run, with requests such as a halt; shared by parent and child.

    Returns:
        `Nested` if it completed, `Asked` if it paused, `STOPPED` if it was cancelled, else `Failed` or `TimedOut`.

    Raises:
        StoreError: An outcome inside the nested graph could not be stored, so the whole run cannot continue.
    """
    parent: RunState = task.engine
    plan = task.node.child
    assert plan is not None  # noqa: S101 - only tasks of nested graphs come here
    extra = task.more()  # the part of a task that only some tasks have
    engine: Engine | None = extra.child
    left_s = inf if task.ends_s is None else max(0.0, task.ends_s - (yield NOW))
    is_cut = left_s < (inf if task.timeout_s is None else task.timeout_s)
    timeout_s = left_s if is_cut else task.timeout_s
    try:
        limits = _limits(plan, timeout_s)
        if engine is None:
            is_known = DEFAULTS in extra.effects
            engine = _begin(task, parent, plan, limits)
            extra.child = engine
            if DEFAULTS in extra.effects and not is_known:  # before anything inside depends on them
                yield Stage([(f"{task.id}#{DEFAULTS}", [(parent.path, extra.effects[DEFAULTS])])])
        else:  # resumed or retried: a failed task inside is due again
            engine.limit(limits)
            engine.retry()
        try:
            status = yield from run(engine, control)  # the parent's commit writes the entries of the nested graph
        finally:
            extra.usage = used(engine)  # tokens of its model calls; also after an error, because they are billed
    except DeadlineError as error:
        own_s = plan.limits.deadline_s
        # The node's timeout was the child's deadline (see `_limits`), so this is a timeout of the node.
        if timeout_s is not None and (own_s is None or timeout_s <= own_s):
            return TimedOut(timeout_s, cut=is_cut)
        return Failed(error, raise_as_is=True)
    except StoreError:
        raise  # not a failure of this node: its retry policy and `on_error` do not apply
    except GraphrtError as error:
        # Data of these errors lives in `__dict__`; an attribute that was not given reads as None.
        if error.node is None:  # the error is about the nested graph as a whole, for instance a limit
            error.__dict__["node"] = task.node.name
        known = parent.where(task).known
        if "arg" in known:  # an error of a plain inner task has no argument; this task's argument started the graph
            error.__dict__.setdefault("arg", known["arg"])
        return Failed(error, raise_as_is=True)
    if status in (CANCELLED, HANDED_OVER):  # handed over: another process continues the thread
        return STOPPED  # the task stays due, and the next drive continues the nested graph
    if status == INTERRUPTED:
        # Its questions become the task's; the engine is kept on the task.
        return Asked(engine.open_interrupts(), engine)
    try:
        goto = None if engine.handed is None else tuple(engine.handed)
        return Nested((*_output(task, parent, engine), *_state_kept(task, parent, engine)), goto)
    except GraphrtError as error:
        return Failed(error, raise_as_is=True)


def child_of(task: Task) -> Engine:
    """Return a new engine for the nested graph of *task*, without values.

    `_begin` sets its input. `restore` needs an engine without input, to hold the staged events of an ended nested
    graph.
    """
    plan = task.node.child
    assert plan is not None  # noqa: S101 - only tasks of nested graphs come here
    parent: RunState = task.engine
    # `path` begins the ids of its tasks. `check_state`: look for changes inside of values, as the parent does (R15).
    engine = Engine(plan, plan.limits, thread=parent.thread, path=f"{task.id}/", check_state=parent.check_state)
    # It gets run id, depth and redaction from the parent, and the data that a fork kept for its tasks (`_flows.kept`).
    engine.nest_in(parent, task.node, task.more().kept, designed=task.node.choose)
    return engine


def child_again(task: Task) -> Engine:
    """Return the engine of the nested graph of *task* as it was before its first superstep.

    Called by `restore` when a thread is loaded, which then applies the staged commits of the nested graph to it.

    Raises:
        GraphrtError: The graph's input cannot be computed again, for instance because its `input=` mapping has changed.
    """
    plan = task.node.child
    assert plan is not None  # noqa: S101 - only tasks of nested graphs come here
    parent: RunState = task.engine
    parent.snapshot_for(task)  # sets `task.state`, which an `input=` function gets
    return _begin(task, parent, plan, _limits(plan, task.timeout_s), repeated=True)


def _limits(plan: Plan, timeout_s: float | None) -> Limits:
    """Return the child's limits; its deadline is at most the time *timeout_s* of the task that runs it."""
    if timeout_s is None:
        return plan.limits
    own_s = plan.limits.deadline_s
    # `over`: all other limits are those of the plan.
    return Limits(deadline_s=timeout_s if own_s is None else min(own_s, timeout_s)).over(plan.limits)


def _begin(task: Task, parent: RunState, plan: Plan, limits: Limits, *, repeated: bool = False) -> Engine:
    """Return an engine for the nested graph that has its input and is ready to run.

    Args:
        limits: Limits of the nested graph, from `_limits`.
        repeated: Whether a nested graph that has already begun is restored. Its input was checked then. Values of it
            may have been erased since, that is, replaced by ERASED, which fits no type.

    Raises:
        LimitError: The graphs are nested deeper than `max_depth`.
        InputError: The input cannot be computed, or does not fit the nested graph's state.
    """
    if parent.depth + 1 > parent.limits.max_depth:
        raise DEPTH_LIMIT(
            node=task.node.name,
            nested=plan.name,
            depth=parent.depth + 1,
            limit=parent.limits.max_depth,
            where=parent.where(task),
        )
    engine = child_of(task)
    what = f"the input of nested graph {plan.name!r}"
    previous = _kept(task, parent, plan)
    if repeated and task.arg is ERASED:  # the argument of the Send may have set any field of the input
        values = plan.state.unchecked(dict.fromkeys(plan.state.fields, ERASED))
    elif previous is not None:
        values = _later(task, parent, engine, previous, what)
    else:
        inputs = _input(task, parent, plan)
        if repeated and any(map(erased_in, inputs.values())):
            values = plan.state.unchecked(inputs)  # with defaults, and not validated
        else:  # validated; `given_as`: by the graph's input schema first, if it has one
            values = plan.state.initial(inputs, where=parent.where(task), given_as=plan.spec.input_schema)
        # `whole`: an input has complete values, while an update may have operands of reducers.
        values = dict(redacted_update(engine, values, what, whole=True))
        if plan.state.varying:
            values |= _defaults(task, parent, {n: values[n] for n in plan.state.varying if n not in inputs})
    # Limits of supersteps and visits apply to each graph separately (R17); these two come from the parent.
    inherited = Limits(max_depth=parent.limits.max_depth, grace_s=parent.limits.grace_s)
    engine.limit(inherited.over(limits))
    if parent.log is not None:  # the events of the run are read, so log them here as the parent does
        engine.listen(parent.codec, staging=parent.staging)
    # The engine collects the updates of its commits for `_output`: its *trail*. A field that takes the last value on
    # both sides needs only its newest write there, so that a long loop keeps no history.
    shared = {
        name
        for name, field in plan.state.fields.items()
        if not field.aggregates and name in parent.fields and not parent.fields[name].aggregates
    }
    if task.node.policy.update_of is not None:  # it must receive each update
        shared = set[str]()
    engine.leave_trail(frozenset(shared))
    engine.start(values)
    return engine


def _defaults(task: Task, parent: RunState, made: dict[str, Any]) -> Mapping[str, Any]:
    """Return the defaults of fields that the input lacks, as the nested graph had them when it began first.

    They may differ at each call, so they are recorded like an effect of the task. A restart finds them there.

    Args:
        made: Defaults that were made just now. Those that cannot be stored are made anew at each restart.
    """
    known = task.more().effects.get(DEFAULTS)
    if known is not None and known.result is not ERASED:
        recorded: Mapping[str, Any] = known.result
        return {name: own(value) for name, value in recorded.items() if name in made}
    if parent.codec is not None and parent.staging:
        stored: dict[str, Any] = {}
        for name, value in made.items():
            with suppress(NotStorable):
                parent.codec.dump(value, name, {})
                stored[name] = own(value)
        if stored:
            task.end_effect(DEFAULTS, stored, None)
    return made


def _kept(task: Task, parent: RunState, plan: Plan) -> dict[str, Any] | None:
    """Return the final values of an earlier task of a stateful node; None if there was none, or if they were erased.

    Ephemeral and untracked fields, which are not kept, are left out.
    """
    name = task.node.policy.stateful
    stored: Any = None if name is None else parent.values.get(name)
    if stored is None or stored is ERASED:
        return None
    fields = [field for field in plan.state.fields.values() if not (field.ephemeral or field.untracked)]
    if is_mapping(stored):
        return {field.name: stored[field.name] for field in fields if field.name in stored}
    return {field.name: getattr(stored, field.name) for field in fields if hasattr(stored, field.name)}


def _later(task: Task, parent: RunState, engine: Engine, previous: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the initial values of a later task of a stateful node.

    Shared fields, or those of an `input=` mapping, have the parent's values. The result of an `input=` function, and
    the argument of a Send, is an update, as the input of a finished thread is.

    Args:
        previous: The final values of the previous task.
        what: Noun for the values, for errors of redaction.

    Raises:
        InputError, UpdateError: As for `_input`, or an update does not fit.
    """
    plan, where = engine.plan, parent.where(task)
    inputs, arg = _parts(task, parent, plan)
    is_made = callable(task.node.policy.input) and not is_mapping(task.node.policy.input)
    if plan.update.kind == "overwrite":  # no field has a reducer
        inputs, arg, is_made = {**inputs, **arg}, {}, False
    replaced = plan.state.by_names({} if is_made else inputs)
    values = plan.state.initial({**previous, **redacted_update(engine, replaced, what, whole=True)}, where=where)
    engine.start(values)
    for update in (inputs if is_made else None, arg):
        if update:
            checked = plan.update.entered(update, node=task.node.name, where=where)
            values = folded_in(engine, redacted_update(engine, checked, what), reset=False)
            engine.take(values, engine.fields)
    return values


def _state_kept(task: Task, parent: RunState, engine: Engine) -> tuple[dict[str, Any], ...]:
    """Return the update that keeps the last state of the nested graph of a stateful node: 0 or 1.

    It is a state of the nested graph, in which ephemeral and untracked fields have their defaults.
    """
    name = task.node.policy.stateful
    if name is None:
        return ()
    values = with_untracked(engine, own(dict(engine.values)))
    for field in engine.ephemeral:
        default = field.reset()
        if default is ABSENT:
            values.pop(field.name, None)
        else:
            values[field.name] = default
    return ({name: parent.fields[name].check_whole(engine.make_view(values))},)


def _input(task: Task, parent: RunState, plan: Plan) -> Mapping[str, Any]:
    """Return the child's input: the shared fields or the result of `input=`, overlaid with the argument of a Send.

    The result may share containers with the parent's values; `_begin` copies and validates it.

    Raises:
        InputError: A mapping function raised or returned no mapping, or the argument of the Send is not a mapping.
    """
    inputs, arg = _parts(task, parent, plan)
    return {**inputs, **plan.state.by_names(arg)}


def _parts(task: Task, parent: RunState, plan: Plan) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the shared fields or the result of `input=`, and the argument of a Send that overlays them.

    An `input=` function of the state and the argument produces the whole input, without an overlay.

    Raises:
        InputError: As for `_input`.
    """
    option: Any = task.node.policy.input  # None, a mapping of child's to parent's field, or a function
    takes_arg = False  # whether it is a function of the state and the argument
    values = parent.values
    inputs: dict[str, Any]
    if option is None:
        # `input_names`: fields of the child's input schema; None without one.
        names = plan.spec.input_names if plan.spec.input_names is not None else plan.state.fields
        inputs = {name: values[name] for name in names if name in values}
    elif is_mapping(option):
        inputs = {
            child_field: values[parent_field] for child_field, parent_field in option.items() if parent_field in values
        }
    else:
        takes_arg = node_shape(option).wants_context  # its second parameter is the argument
        given_to = partial(option, task.state) if takes_arg else option
        returned = _call(given_to, own(task.arg) if takes_arg else task.state, "input", task, parent)
        if not is_mapping(returned):  # computed from the parent's values, so the parent's unquoted fields apply
            raise INPUT_OF_WRONG_KIND(
                who=f"What input= of nested graph {task.node.name!r} returns",
                wanted="a mapping of the nested graph's fields",
                given=quoted(returned, parent.plan.state.unquoted),
                where=parent.where(task),
            )
        inputs = dict(returned)
    if task.arg is None or takes_arg or task.node.choose:  # for `chosen_graph`, the argument only chose the graph
        return inputs, {}
    if is_mapping(task.arg):
        return inputs, task.arg
    raise INPUT_OF_WRONG_KIND(
        who=f"The argument of a Send to nested graph {task.node.name!r}",
        wanted="a mapping of the nested graph's fields",
        given=short(task.arg),
        where=parent.where(task),
    )


def _output(task: Task, parent: RunState, engine: Engine) -> tuple[dict[str, Any], ...]:
    """Return the updates for the parent: one for each commit of the child that wrote a mapped field, in commit order.

    Commits that wrote only fields that take the last value in both graphs are merged, see `_begin`.
    An `output=` function gets the child's final state, and returns one update or None. An `update_of=` function gets each
    update of the child, and returns one of the parent or None. Without them, graphs with reducers of the whole state have
    updates of one type.

    Raises:
        InputError: A function raised, or did not return an update.
        UpdateError: An update does not fit the parent's fields, or writes a field that the parent's Update lacks.
    """
    option: Any = task.node.policy.output  # None, a mapping of parent's to child's field, or a function
    node, where = task.node.name, parent.where(task)
    update = (
        parent.plan.update
    )  # checks updates: `entries` takes one apart (None if it is not one), `checked` validates
    if callable(option) and not isinstance(option, Mapping):
        returned = _call(option, engine.make_view(engine.values), "output", task, parent)
        if returned is None:
            return ()
        entries = update.entries(returned)
        if entries is None:  # computed from the child's values, so the child's unquoted fields apply
            shown = quoted(returned, engine.plan.state.unquoted)
            raise NESTED_OUTPUT_NOT_AN_UPDATE(option="output", node=node, quoted=shown, where=where)
        return (update.checked(entries, node=node, where=where),)
    updates: list[dict[str, Any]] = []
    inner = engine.plan.update
    translate = task.node.policy.update_of
    if translate is not None or inner.whole is not None or update.whole is not None:
        for committed in engine.trail or ():
            if committed.keys() == {TOKEN_BUDGET}:  # the cost of model calls, which the parent counts itself
                continue
            returned = inner.returned(committed)
            if translate is not None:
                returned = _call(translate, own(returned), "update_of", task, parent)
            if returned is None:
                continue
            entries = update.entries(returned) if translate is not None or inner.cls == update.cls else None
            if entries is None:
                shown = quoted(returned, engine.plan.state.unquoted)
                raise NESTED_OUTPUT_NOT_AN_UPDATE(option="update_of", node=node, quoted=shown, where=where)
            updates.append(update.checked(entries, node=node, where=where))
        return tuple(updates)
    pairs = _output_names(option, parent, engine.plan)
    for committed in engine.trail or ():  # committed updates of the child
        mapped = {
            parent_field: committed[child_field] for parent_field, child_field in pairs if child_field in committed
        }
        if mapped:
            updates.append(_checked(mapped, task, parent))
    return tuple(updates)


def _checked(mapped: dict[str, Any], task: Task, parent: RunState) -> dict[str, Any]:
    """Return *mapped*, what a commit of the child wrote by field of the parent, validated.

    Raises:
        UpdateError: A value does not fit, or the parent's Update lacks a field. The write would be lost silently.
    """
    update, node, where = parent.plan.update, task.node.name, parent.where(task)
    unknown = [name for name in mapped if name not in update.names]
    if unknown:
        raise UNKNOWN_KEY_OF_NODE(
            node=node,
            name=repr(unknown[0]),
            fields=[name for name in parent.fields if name in update.names],
            field=unknown[0],
            where=where,
            fix="Declare the field in the Update, or name the fields that the nested graph returns with output=.",
        )
    return update.checked(mapped, node=node, where=where)


def _output_names(option: Any, parent: RunState, plan: Plan) -> list[tuple[str, str]]:
    """Return pairs of (parent's field, child's field): the `output=` mapping, else the fields of the same name.

    Args:
        option: The `output=` option of the node; a mapping or None here.
    """
    if is_mapping(option):
        return list(option.items())
    # `output_names`: fields of the child's output schema, None without one. `update.names`: what nodes may write.
    names = plan.spec.output_names if plan.spec.output_names is not None else plan.state.fields
    # A child that returns whole states writes each field, whether it changes or not. The token budget is not written by
    # a node.
    whole = plan.update.kind == "overwrite"
    writable = parent.plan.update.names
    return [
        (name, name)
        for name in plan.state.fields
        if name in names and (name in writable or (name in parent.fields and not whole and name != TOKEN_BUDGET))
    ]


def _call(fn: Callable[[Any], Any], state: Any, option: str, task: Task, parent: RunState) -> Any:
    """Return `fn(state)`, where *fn* is the function that the user passed as *option*.

    *state* is a view of the parent's state for `input`, of the child's final one for `output`, and an update of the child
    for `update_of`.

    Raises:
        InputError: The function raised.
    """
    mapping = f"{option}= of nested graph {task.node.name!r}"
    try:
        return fn(state)
    except MappingError as error:
        mapping, cause = error.mapping, error.cause
    except failures() as error:
        cause = error
    raise BAD_MAPPING(mapping=mapping, error=cause, where=parent.where(task)) from cause
