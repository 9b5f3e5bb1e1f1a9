"""Outcomes of tasks: a driver's reply is classified, checked at the node's boundary (rule R7) and staged on the task.

R7: unknown keys, wrong types and values that cannot be stored are rejected when the node returns. Nothing is folded
here: the commit of the superstep folds the data on its tasks. A report about an execution that is no longer open
changes nothing (the law *duplicate*).

Two flags accompany an error. `raise_as_is`: it is graphrt's own error about the task, and is raised to the caller
unchanged, not as the cause of a NodeError. `final`: it is passed neither to the retry policy nor to an `on_error` node,
for instance because a redaction rule failed (AuditError). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from graphrt import _retry_policy as retry
from graphrt._cancellations import failures
from graphrt._codec import NotStorable
from graphrt._engine import mutation_check, questions
from graphrt._engine.failures import mark
from graphrt._engine.open_interrupt import OpenInterrupt
from graphrt._engine.redacting import redacted_error
from graphrt._engine.route import Router
from graphrt._engine.spending import spending
from graphrt._engine.storability import check_storable, stamp, stamped
from graphrt._engine.task import (
    DONE,
    DUE,
    FAILED,
    HANDLED,
    RUNNING,
    Asked,
    Due,
    Failed,
    HandOver,
    Nested,
    Spent,
    Stopped,
    Task,
    TimedOut,
    Wrote,
)
from graphrt._plan.fields import ABSENT, Field, describe, own
from graphrt._plan.quoting import quoted, short
from graphrt._plan.state import explain
from graphrt._plan.views import HAS_MAPPING
from graphrt.commands import DELETE, UNSET, Command, Interrupt, Replacement, Send, Sentinel
from graphrt.errors import AuditError, GraphrtError, a_type
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.nodes import (
    BAD_ANSWER_TYPE,
    BAD_UPDATE,
    DIFFERENT_GOTOS,
    NO_GRAPH_ABOVE,
    RESULT_OF_A_NODE,
    UNDECLARED_WRITE,
)
from graphrt.errors._langgraph_names import has_class_of_langgraph
from graphrt.reducers import TOKEN_BUDGET

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


def report(engine: RunState, task: Task, execution: int, reply: Any) -> bool:
    """Stage the *reply* of execution number *execution* of *task*, and set `task.status`.

    Args:
        execution: The number that `task.execution` had when the driver started it.
        reply: What the node returned, or one of the report classes of `task`.

    Returns:
        False if the report is a duplicate or late, and changed nothing.
    """
    # Late, or neither DUE nor RUNNING because it has already ended.
    if task.execution != execution or task.status > RUNNING:
        return False
    if engine.staging:
        engine.dirty[task] = (
            None  # first, because every branch below changes the task, which is then staged (stored) again
        )
    kind = reply.__class__
    # `looks`: check for in-place changes of the state at each report, not only at the commit (R15). For a Spent or
    # Wrote, the recursive call below does this with the inner reply; a stopped task has no outcome.
    if engine.checks_reports and kind is not Spent and kind is not Wrote and kind is not Stopped:
        values, sizes, keeps = engine.values, engine.sizes, engine.keeps
        # CPython compares two dicts of the same objects by identity, in one call: about 3 % of the loop over a dict
        # (decision 0052). The view has no local variable, which would be another owner of its lists.
        try:
            same = task.state == values if not keeps else keeps == HAS_MAPPING and task.state.__dict__ == values
        except Exception:  # noqa: BLE001 - values that refuse to be compared; or the view has lost its own
            same = False
        for name in sizes:
            if len(values[name]) != sizes[name]:
                same = False
        if (not same or engine.check_state) and mutation_check.is_changed(engine, task, reply):
            # `is_changed` has failed the task: the outcome does not count, because a node changed the values in place.
            return True
    # The common case, without a call per field. In graphs whose nodes return values rather than fields, an empty dict
    # is also an update.
    if kind is dict and (reply or task.node.writable):
        fields = task.node.writable  # the fields that its update may write
        checked: dict[str, Any] = {}
        rejected = False
        try:
            for name in reply:
                field, value = fields[name], reply[name]
                # The check would return an instance of `exact` unchanged.
                checked[name] = value if value.__class__ is field.exact else field.check(value)
            if engine.codec is not None:
                checked = stamp(engine.codec, checked, engine.plan.state.untracked)
        except Exception:  # noqa: BLE001 - whatever it is, `check_reply` meets it again and reports it
            rejected = True
        # Outside the `except`: errors must not be chained to a validation error, which quotes values (R16).
        if rejected or engine.redactor is not None:
            check_reply(engine, task, reply)
        else:
            task.updates = (checked,)
            task.status = DONE
    elif reply is None:
        task.status = DONE
    elif kind is Failed:
        _fail(task, reply.error, reply.retry_after_s, raise_as_is=reply.raise_as_is, advice=reply.advice)
    elif kind is TimedOut:
        since = " of the last sign of life" if reply.idle else " of the superstep's begin" if reply.last else ""
        _fail(task, TimeoutError(f"no result within {reply.seconds:g} s{since}"), None, again=not reply.last)
    elif kind is Asked:
        pause(engine, task, reply.questions, reply.child)
    elif kind is Stopped:  # cancelled or never started: due at the next drive
        task.again()
    elif kind is Nested:  # a nested graph completed, with an update for each of its commits
        if _stamp(engine, task, reply.updates):
            task.status, task.goto = DONE, reply.goto
            _spent(engine, task, spending(engine, task))
    elif kind is Interrupt:
        _returned(engine, task, reply)
    elif kind is Wrote:
        report(engine, task, execution, reply.reply)
        _written(engine, task, reply)
    elif kind is Spent:  # the reply first, then the budget used by its model calls
        report(engine, task, execution, reply.reply)
        _spent(engine, task, spending(engine, task))
    else:
        check_reply(engine, task, reply)
    return True


MARKERS = frozenset({Sentinel, Replacement})
"""Classes of the markers that an update may contain: DELETE and Overwrite."""


def _written(engine: RunState, task: Task, writes: Wrote) -> None:
    """Add the writes of tools to the outcome of an ended task, and apply their target.

    Fail the task if the targets of tools differ from each other or from the node's own Command.
    """
    if task.status != DONE:  # it paused or failed: the next execution repeats the writes
        return
    try:
        goto = task.goto
        for targets in writes.gotos:
            checked_goto = _checked_goto(engine, task, targets)
            if goto is not None and (checked_goto != goto or goto.__class__ is HandOver):
                raise DIFFERENT_GOTOS(
                    who=f"Agents in node {task.node.name!r}, or one of them and the node itself,",
                    first=short(_names(goto)),
                    second=short(_names(checked_goto)),
                    node=task.node.name,
                    where=engine.where(task),
                )
            goto = checked_goto
        updates = tuple(stamped(engine, task, update) for update in writes.updates)
    except GraphrtError as error:
        _fail(task, error, None, raise_as_is=True, final=isinstance(error, AuditError))
        return
    task.goto = goto
    task.updates = (*updates, *task.updates)


def _checked_goto(engine: RunState, task: Task, goto: Any) -> tuple[Any, ...]:
    """Return the checked targets of a goto: NodePlan, END, or a Due for a Send.

    Raises:
        RouteError, UpdateError, AuditError: A target is invalid, or the argument of a Send cannot be stored or
            redacted.
    """
    targets = Router(engine.plan, partial(engine.where, task)).targets(goto, task.node)
    return tuple(_target(engine, task, target) for target in targets)


def _handed_over(engine: RunState, task: Task, goto: Any) -> HandOver:
    """Return the checked targets of a Command with `graph=PARENT`, in the graph that encloses the nested one.

    Raises:
        RouteError: There is no enclosing graph, or a target is unknown there or not declared with `hands_over_to=`.
        UpdateError, AuditError: The argument of a Send cannot be stored or redacted.
    """
    if engine.around is None:
        raise NO_GRAPH_ABOVE(node=task.node.name, graph=engine.plan.name, where=engine.where(task))
    parent, node = engine.around
    router = Router(parent.plan, partial(engine.where, task))
    return HandOver(_target(engine, task, target) for target in router.targets(goto, node, by=task.node.name))


def _names(targets: tuple[Any, ...]) -> list[str]:
    """Return checked targets as names, for an error."""
    return [target.node.name if target.__class__ is Due else str(getattr(target, "name", target)) for target in targets]


def _spent(engine: RunState, task: Task, spending: tuple[dict[str, Any], ...]) -> None:
    """Subtract the usage of an ended task from the field `token_budget`, unless its node set the field itself.

    Args:
        spending: 0 or 1 updates that subtract the tokens from that field.
    """
    tokens_left = engine.values.get(TOKEN_BUDGET)
    if (
        task.status != DONE
        or not spending
        or any(update.get(TOKEN_BUDGET, tokens_left) != tokens_left for update in task.updates)
    ):
        return
    # A node that returned the field unchanged did not set it: nodes that return whole states return every field.
    other_updates = [{name: update[name] for name in update if name != TOKEN_BUDGET} for update in task.updates]
    task.updates = (*other_updates, *(stamped(engine, task, update) for update in spending))


def _stamp(engine: RunState, task: Task, updates: Sequence[dict[str, Any]]) -> bool:
    """Stage the *updates* of a nested graph, redacted and with their encoded values if there is a store (`Stamped`).

    If one cannot be stored, or writes what the node does not declare, fail the task and return False.
    """
    try:
        updates = [_declared(engine, task, update) for update in updates]
        task.updates = tuple(stamped(engine, task, update) for update in updates)
    except GraphrtError as error:
        _fail(task, error, None, raise_as_is=True, final=isinstance(error, AuditError))
        return False
    return True


def _returned(engine: RunState, task: Task, reply: Interrupt) -> None:
    """Pause *task* for an Interrupt that its node returned.

    The key of the question, `returned0` and so on, contains the number of earlier answers: a node that returns another
    Interrupt after an answer asks a new question. If a question was withdrawn unanswered, the next one has the same
    base key and a higher version.
    """
    interrupts = [question for question in task.more().interrupts if question.base.startswith("returned")]
    base = f"returned{sum(question.answered for question in interrupts)}"
    version = 1 + sum(question.base == base for question in interrupts)
    key = base if version == 1 else f"{base}:{version}"
    question = questions.new(engine, task, key, reply.payload, version=version)
    question.expires_at = reply.expires_at
    try:
        question.answer_type = answer_type(engine, task, reply.answer_type)
        question.payload = check_storable(engine, task, reply.payload, "asks with a payload")
        question.default = checked_default(engine, task, reply.default, question.answer_type)
    except GraphrtError as error:
        _fail(task, error, None, raise_as_is=True, final=isinstance(error, AuditError))
        return
    pause(engine, task, [question])


def answer_type(engine: RunState, task: Task, annotation: Any) -> Any:
    """Return the required type of an answer, *annotation*, as plain data; None for any answer.

    The data is stored with the question, so that another process can check an answer against it.

    Raises:
        InputError: The type cannot be stored.
    """
    if annotation is None:
        return None
    try:
        return engine.plan.codec.describe(annotation)
    except NotStorable as error:
        raise BAD_ANSWER_TYPE(node=task.node.name, why=error.why, where=engine.where(task)) from error


def checked_default(engine: RunState, task: Task, default: Any, described: Any) -> Any:
    """Return the *default* of a question, which answers it at its expiry, checked and redacted; UNSET if it has none.

    Args:
        described: The type of the answer as plain data; None for any answer.

    Raises:
        InputError: The default does not fit that type.
        UpdateError, AuditError: The default cannot be stored or redacted.
    """
    if default is UNSET:
        return UNSET
    if described is not None:
        try:
            default = engine.plan.codec.adapter(described).validate_python(default)
        except ValidationError as error:
            raise INVALID_ARGUMENT(
                argument="default= of a question",
                value=default,
                known=explain(error, "default"),
                wanted=f"a value of its answer_type, {short(described)}",
                where=engine.where(task),
                boundary=True,
            ) from error
    return own(check_storable(engine, task, default, "asks with a default"))


def check_reply(engine: RunState, task: Task, reply: Any) -> None:
    """Validate an update or a Command completely and stage it, or fail the task with an explanatory error.

    The slow path of `report`, for outcomes that its quick checks did not accept.
    """
    try:
        goto: Any = None
        update: Any = reply
        if reply.__class__ is Command:
            goto = reply.goto
            update = reply.update
            if reply.result is not None:
                raise RESULT_OF_A_NODE(node=task.node.name, quoted=short(reply.result), where=engine.where(task))
        if engine.plan.update.takes_several and issubclass(type(update), (list, tuple)):
            task.updates = tuple(stamped(engine, task, _checked(engine, task, item, update)) for item in update)
            task.more()  # not a plain superstep, whose commit considers only one update
        elif update is not None:
            task.updates = (stamped(engine, task, _checked(engine, task, update)),)
        if reply.__class__ is Command and reply.graph is not None:
            task.goto = _handed_over(engine, task, goto)
        else:
            task.goto = None if goto is None else _checked_goto(engine, task, goto)
    except GraphrtError as error:
        _fail(task, error, None, raise_as_is=True, final=isinstance(error, AuditError))
        return
    task.status = DONE


def _target(engine: RunState, task: Task, target: Any) -> Any:
    """Return a Command's target (NodePlan, END, or a Due for a Send), with a Send's argument checked and redacted.

    Raises:
        UpdateError, AuditError: The argument cannot be stored or redacted.
    """
    if target.__class__ is not Due or not target.is_send:
        return target
    arg = check_storable(engine, task, target.arg, "sends a value")
    return target if arg is target.arg else target._replace(arg=arg)


def _checked(engine: RunState, task: Task, returned: Any, several: Any = None) -> dict[str, Any]:
    """Return the validated update in *returned*.

    Args:
        several: The list of updates that contains it; None for a single one.

    Raises:
        UpdateError: It is not an update, or has an unknown key or a wrong type.
    """
    update = engine.plan.update  # the schema of updates: what a node may return
    node = task.node.name
    entries = update.entries(returned)
    if entries is None:
        # `unquoted` has the fields whose values no error may quote (R16).
        shown = quoted(returned if several is None else several, engine.plan.state.unquoted)
        raise BAD_UPDATE(
            who=f"Node {node!r}",
            form=f"{_what(returned) if several is None else f'a list with {_what(returned)}'}, {shown}",
            node=node,
            wanted="an update (a mapping of fields)" if update.whole is None else f"an update ({_type(update.whole)})",
            fields=engine.fields,
            where=engine.where(task),
            fix=_how(engine, returned),
        )
    return _declared(engine, task, update.checked(entries, node=node, where=engine.where(task)))


def _declared(engine: RunState, task: Task, update: dict[str, Any]) -> dict[str, Any]:
    """Return a validated *update*, reduced to the fields that the node declares to write, if it declares any.

    A node that returns whole states returns every field. Fields that it does not declare must have their current
    values, and are left out.

    Raises:
        UpdateError: It writes another field (`undeclared-write`).
    """
    writes = task.node.policy.writes
    if writes is None or engine.reducer is not None:
        return update
    whole = engine.plan.update.kind == "overwrite"
    for name, value in update.items():
        keeps = name == task.node.policy.stateful  # the field that keeps the state of the nested graph
        if name not in writes and not keeps and not (whole and _is_present(engine, name, value)):
            raise UNDECLARED_WRITE(
                who=f"Node {task.node.name!r}",
                node=task.node.name,
                field=name,
                declared=writes,
                where=engine.where(task),
            )
    return {name: value for name, value in update.items() if name in writes} if whole else update


def _is_present(engine: RunState, name: str, value: Any) -> bool:
    """Return whether *value*, an Overwrite or DELETE of the field *name*, leaves it unchanged."""
    new = engine.fields[name].default() if value is DELETE else value.value
    old = engine.values.get(name, ABSENT)
    try:
        return new is old or bool(new == old)
    except Exception:  # noqa: BLE001 - values that refuse to be compared
        return False


def _what(returned: Any) -> str:
    """Describe *returned*, for an error."""
    if inspect.isawaitable(returned):
        return "a coroutine that was never awaited"
    kind: Any = returned.__class__
    return a_type(returned) if kind.__module__ == "builtins" else f"an instance of {kind.__name__}"


def _how(engine: RunState, returned: Any) -> str:
    """Return the expected form instead of *returned*, for an error."""
    if inspect.isawaitable(returned):
        return "Define the node with async def, or await inside it."
    if has_class_of_langgraph(returned):
        return "It is an object of LangGraph: return a Command of graphrt (from graphrt import Command)."
    if returned.__class__ is Send:
        return "Return Command(goto=[Send(...), ...]), or return the Sends from a router."
    if returned.__class__ is Command:  # in a list
        return "Return one Command(update=[...], goto=[...]) for all of them."
    if engine.plan.state.kind != "typeddict" and isinstance(returned, engine.plan.state.cls):
        return "Return only what changes, as a mapping; a graph made by GraphBuilder.overwrite() takes whole states."
    if engine.plan.update.kind == "overwrite":
        return "Return the full next state: this graph was made by GraphBuilder.overwrite()."
    whole = engine.plan.update.whole
    what = "a mapping of fields" if whole is None else f"an update of the type {_type(whole)}"
    return f"Return {what}, None, a Command or an Interrupt."


def _type(whole: Field) -> str:
    """Return the declared type of the updates of a graph with a reducer of the whole state."""
    return describe(whole.annotation)


def pause(engine: RunState, task: Task, interrupts: list[OpenInterrupt], child: Any = None) -> None:
    """Make *task* wait for the answers to the questions that it *interrupts*; without a thread it fails (R10).

    See `questions.pause`.
    """
    if engine.thread is None:  # final: neither a retry nor an `on_error` node could get an answer
        _fail(task, questions.no_thread(engine, task), None, raise_as_is=True, final=True)
    else:
        questions.pause(task, interrupts, child)


def _fail(
    task: Task,
    error: BaseException,
    hint_s: float | None,
    *,
    raise_as_is: bool = False,
    final: bool = False,
    again: bool = True,
    advice: str = "",
) -> None:
    """Handle a failed attempt: make *task* due for another attempt, or mark it as handled or failed.

    Args:
        hint_s: Seconds that the error asks to wait before another attempt, as by Retry-After; None if it does not say.
        raise_as_is: Raise *error* itself to the caller, not as the cause of a NodeError (decision 0055).
        final: Neither retry nor pass to an `on_error` node.
        again: Whether a retry policy may allow another attempt.
        advice: How to fix it, if more is known than the error says.
    """
    node = task.node
    extra = task.more()
    # The next attempt asks the open questions again. The questions of a nested graph (`child`) belong to its tasks and
    # are kept.
    if extra.child is None:
        questions.drop_open(task)
    mark(task.engine, task, error, raise_as_is=raise_as_is)
    policy = node.policy.retry
    if policy is not None and again and not final and task.attempt < policy.attempts:
        try:
            again = retry.wants_retry(policy, error)
        except failures() as broken:  # the predicate is user code
            error.add_note(f"retry_on of node {node.name!r} raised {type(broken).__name__}: {broken}")
            again = False
        error = redacted_error(task.engine, error)  # the predicate has seen the exception as it was raised
        # Also None if the hint is longer than the policy waits.
        wait_s = retry.delay(policy, task.id, task.attempt, hint_s) if again else None
        if wait_s is not None:
            extra.delay_s = wait_s
            extra.retries.append((task.attempt, extra.delay_s, error))
            task.attempt += 1
            task.execution += 1  # a late report of the failed attempt no longer counts
            task.status = DUE
            return
    extra.failure, extra.advice = redacted_error(task.engine, error), advice
    extra.raise_as_is = raise_as_is
    task.goto = None
    task.status = HANDLED if node.on_error is not None and not final else FAILED
    task.updates = spending(task.engine, task) if task.status == HANDLED else ()  # its model calls are billed


def failed_with(engine: RunState, error: BaseException) -> bool:
    """Return whether a task of the open superstep failed with *error* because it could not store an effect.

    Such an error is an outcome, and the run ends with it as with any failure. Any other StoreError means that the store
    does not accept writes, so the run loop does not record the failure of the run.
    """
    failed = engine.failed()
    return failed is not None and failed.extra is not None and failed.extra.failure is error
