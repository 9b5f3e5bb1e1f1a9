"""Nested graphs: a compiled graph as the body of one task (rule R17, decision 0015).

The child has no thread of its own. It starts with its parent's values of the shared fields. Its updates, and not its
final values, become the updates of the task. Its engine stays on the task (`Extra.child`), so that a resume or a retry
continues it from its last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphrt._engine.engine import Engine
from graphrt._engine.erased_values import erased_in
from graphrt._engine.redacting import redacted_update
from graphrt._engine.run_state import RunState
from graphrt._engine.spending import used
from graphrt._engine.task import STOPPED, Asked, Failed, Nested, Task, TimedOut
from graphrt._flows.effects import Control, Flow
from graphrt._flows.run import CANCELLED, HANDED_OVER, INTERRUPTED, Watch, run
from graphrt._plan.fields import is_mapping
from graphrt._plan.quoting import quoted, short
from graphrt._plan.tables import Plan
from graphrt.commands import ERASED
from graphrt.errors import DeadlineError, GraphrtError, StoreError
from graphrt.errors._codes.arguments import NESTED_INPUT_NOT_A_MAPPING, SEND_NOT_A_MAPPING
from graphrt.errors._codes.nodes import BAD_MAPPING, DEPTH_LIMIT, NESTED_OUTPUT_NOT_AN_UPDATE
from graphrt.limits import Limits


def nested(task: Task, control: Control) -> Flow:
    """Drive the nested graph of *task*, and return the reply for the parent's engine.

    Returns:
        `Nested` if it completed, `Asked` if it paused, `STOPPED` if it was cancelled, else `Failed` or `TimedOut`.

    Raises:
        StoreError: An outcome inside it could not be stored, so that the whole run cannot continue.
    """
    parent: RunState = task.engine
    plan = task.node.child
    assert plan is not None  # noqa: S101 - only tasks of nested graphs come here
    extra = task.more()
    engine: Engine | None = extra.child
    try:
        limits = _limits(plan, task)
        if engine is None:
            engine = _begin(task, parent, plan, limits)
            extra.child = engine
        else:  # resumed or retried: a failed task inside is due again
            engine.limit(limits)
            engine.retry()
        try:
            status = yield from run(engine, control, Watch(records=False))
        finally:
            extra.usage = used(engine)  # also after an error: those model calls are paid
    except DeadlineError as error:
        own_s = plan.limits.deadline_s
        # The node's timeout was the child's deadline, see `_limits`: then it is a timeout of the node.
        if task.timeout_s is not None and (own_s is None or task.timeout_s <= own_s):
            return TimedOut(task.timeout_s)
        return Failed(error, raise_as_is=True)
    except StoreError:
        raise  # no failure of this node: its retry policy and `on_error` do not apply
    except GraphrtError as error:
        if error.node is None:
            error.__dict__["node"] = task.node.name
        given = parent.where(task).known
        if "arg" in given:  # an error of a plain task inside has no argument of its own: this one started the graph
            error.__dict__.setdefault("arg", given["arg"])
        return Failed(error, raise_as_is=True)
    if status in (CANCELLED, HANDED_OVER):
        return STOPPED
    if status == INTERRUPTED:
        return Asked(engine.open_interrupts(), engine)
    try:
        return Nested(_output(task, parent, engine))
    except GraphrtError as error:
        return Failed(error, raise_as_is=True)


def child_of(task: Task) -> Engine:
    """Return a new engine for the nested graph of *task*, without values."""
    plan = task.node.child
    assert plan is not None  # noqa: S101 - only tasks of nested graphs come here
    parent: RunState = task.engine
    engine = Engine(plan, plan.limits, thread=parent.thread, path=f"{task.id}/", check_state=parent.check_state)
    engine.nest_in(parent, task.more().kept)
    return engine


def child_again(task: Task) -> Engine:
    """Return the engine of the nested graph of *task* as it was before its first superstep.

    Raises:
        GraphrtError: The graph's input cannot be made again, for instance because its `input=` mapping has changed.
    """
    plan = task.node.child
    assert plan is not None  # noqa: S101 - only tasks of nested graphs come here
    parent: RunState = task.engine
    parent.snapshot_for(task)
    return _begin(task, parent, plan, _limits(plan, task), past=True)


def _limits(plan: Plan, task: Task) -> Limits:
    """Return the child's limits, where the timeout of its node is an upper bound of its deadline."""
    if task.timeout_s is None:
        return plan.limits
    own_s = plan.limits.deadline_s
    return Limits(deadline_s=task.timeout_s if own_s is None else min(own_s, task.timeout_s)).over(plan.limits)


def _begin(task: Task, parent: RunState, plan: Plan, limits: Limits, *, past: bool = False) -> Engine:
    """Return an engine for the nested graph that has its input and is ready to run.

    Args:
        past: The nested graph began before. Its input was checked then, and may have lost values since.

    Raises:
        LimitError: The graphs are nested deeper than `max_depth`.
        InputError: The input cannot be made, or does not fit the nested graph's state.
    """
    if parent.depth + 1 > parent.limits.max_depth:
        raise DEPTH_LIMIT(
            node=task.node.name,
            nested=plan.name,
            depth=parent.depth + 1,
            limit=parent.limits.max_depth,
            where=parent.where(task),
        )
    if past and task.arg is ERASED:  # it may have written any field
        given: Mapping[str, Any] = dict.fromkeys(plan.state.fields, ERASED)
    else:
        given = _input(task, parent, plan)
    if past and any(map(erased_in, given.values())):
        values = plan.state.unchecked(given)
    else:
        values = plan.state.initial(given, where=parent.where(task), only=plan.spec.input_names)
    engine = child_of(task)
    values = dict(redacted_update(engine, values, f"the input of nested graph {plan.name!r}", whole=True))
    inherited = Limits(max_depth=parent.limits.max_depth, grace_s=parent.limits.grace_s)  # not steps and visits (R17)
    engine.limit(inherited.over(limits))
    if parent.log is not None:
        engine.listen(parent.codec, staging=parent.staging, stamps=parent.stamps)
    # A field that takes the last value on both sides needs only its newest write: a long loop keeps no history.
    shared = {
        name
        for name, field in plan.state.fields.items()
        if not field.aggregates and name in parent.fields and not parent.fields[name].aggregates
    }
    engine.leave_trail(frozenset(shared))
    engine.start(values)
    return engine


def _input(task: Task, parent: RunState, plan: Plan) -> Mapping[str, Any]:
    """Return the child's input: shared fields or the `input=` mapping, overlaid with the argument of a Send.

    Raises:
        InputError: A mapping function raised or returned no mapping, or the argument of the Send is not a mapping.
    """
    wanted: Any = task.node.policy.input
    values = parent.values
    given: dict[str, Any]
    if wanted is None:
        names = plan.spec.input_names if plan.spec.input_names is not None else plan.state.fields
        given = {name: values[name] for name in names if name in values}
    elif is_mapping(wanted):
        given = {mine: values[theirs] for mine, theirs in wanted.items() if theirs in values}
    else:
        made = _call(wanted, task.state, "input", task, parent)
        if not is_mapping(made):
            raise NESTED_INPUT_NOT_A_MAPPING(
                node=task.node.name, quoted=quoted(made, parent.plan.state.unquoted), where=parent.where(task)
            )
        given = dict(made)
    if task.arg is None or task.node.choose:  # of a chosen graph, the argument has chosen it
        return given
    if is_mapping(task.arg):
        return {**given, **task.arg}
    raise SEND_NOT_A_MAPPING(node=task.node.name, argument=short(task.arg), where=parent.where(task))


def _output(task: Task, parent: RunState, engine: Engine) -> tuple[dict[str, Any], ...]:
    """Return the updates for the parent: one for each commit of the child that wrote a mapped field, in commit order.

    An `output=` function gets the child's final state, and returns one update or None.

    Raises:
        InputError: The function raised, or returned something else than an update.
        UpdateError: An update does not fit the parent's fields.
    """
    wanted: Any = task.node.policy.output
    node, where = task.node.name, parent.where(task)
    update = parent.plan.update
    if callable(wanted) and not isinstance(wanted, Mapping):
        made = _call(wanted, engine.make_view(engine.values), "output", task, parent)
        if made is None:
            return ()
        entries = update.entries(made)
        if entries is None:
            raise NESTED_OUTPUT_NOT_AN_UPDATE(node=node, quoted=quoted(made, engine.plan.state.unquoted), where=where)
        return (update.checked(entries, node=node, where=where),)
    pairs = _output_names(wanted, parent, engine.plan)
    found: list[dict[str, Any]] = []
    for wrote in engine.trail or ():
        mine = {theirs: wrote[name] for theirs, name in pairs if name in wrote}
        if mine:
            found.append(update.checked(mine, node=node, where=where))
    return tuple(found)


def _output_names(wanted: Any, parent: RunState, plan: Plan) -> list[tuple[str, str]]:
    """Return pairs of (parent's field, child's field): the `output=` mapping, else the fields of the same name."""
    if is_mapping(wanted):
        return list(wanted.items())
    names = plan.spec.output_names if plan.spec.output_names is not None else plan.state.fields
    return [(name, name) for name in plan.state.fields if name in names and name in parent.plan.update.names]


def _call(fn: Callable[[Any], Any], state: Any, option: str, task: Task, parent: RunState) -> Any:
    """Return `fn(state)`; *option* is `input` or `output`, for the error.

    Raises:
        InputError: The function raised.
    """
    try:
        return fn(state)
    except Exception as error:
        raise BAD_MAPPING(option=option, node=task.node.name, error=error, where=parent.where(task)) from error
