"""What a driver reported about a task: named, checked at the node's boundary (rule R7) and staged on the task.

Nothing is folded here. A report about an attempt that is not open any more changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphrt import _retry_policy as retry
from graphrt._codec import NotStorable
from graphrt._engine import mutation_check, pausing
from graphrt._engine.failures import mark
from graphrt._engine.questions import OpenInterrupt
from graphrt._engine.route import Due
from graphrt._engine.spending import spending
from graphrt._engine.storability import check_storable, is_simple, stamped
from graphrt._engine.task import (
    DONE,
    DUE,
    FAILED,
    HANDLED,
    PAUSED,
    RUNNING,
    Asked,
    Failed,
    Nested,
    Spent,
    Stopped,
    Task,
    TimedOut,
)
from graphrt._plan.fields import own
from graphrt._plan.quoting import quoted
from graphrt.commands import Command, Interrupt, Replacement, Send, Sentinel
from graphrt.errors import GraphrtError, InputError, UpdateError, a_type
from graphrt.reducers import TOKEN_BUDGET

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine


def report(engine: Engine, task: Task, execution: int, reply: Any) -> bool:
    """Stage what execution number *execution* of *task* came to; `task.status` says what follows.

    Returns:
        False if the report is a duplicate or late: it changed nothing.
    """
    if task.execution != execution or task.status > RUNNING:
        return False
    if engine.staging:
        engine.dirty[task] = None
    kind = reply.__class__
    if engine.looks and kind is not Spent and kind is not Stopped and mutation_check.is_changed(engine, task, reply):
        return True  # what it came to does not count: it ran on, or made, values that nobody knows
    if kind is dict:
        fields = engine.writable
        checked: dict[str, Any] = {}
        odd = False
        try:
            for name in reply:
                field, value = fields[name], reply[name]
                checked[name] = value if value.__class__ is field.exact else field.check(value)
        except Exception:  # noqa: BLE001 - whatever it is, the long way meets it again and names it
            odd = True
        if odd:  # after the `except`, else the error would be chained to what pydantic says of the value
            check_reply(engine, task, reply)
        else:
            if engine.codec is None or (not engine.stamps and is_simple(checked.values())):
                task.updates = (checked,)
            elif not _stamp(engine, task, (checked,)):
                return True
            task.status = DONE
    elif reply is None:
        task.status = DONE
    elif kind is Failed:
        _fail(task, reply.error, reply.retry_after_s, raise_as_is=reply.raise_as_is, advice=reply.advice)
    elif kind is TimedOut:
        _fail(task, TimeoutError(f"no result within {reply.seconds:g} s"), None)
    elif kind is Asked:
        pause(engine, task, reply.questions, reply.child)
    elif kind is Stopped:
        again(task)
    elif kind is Nested:
        if _stamp(engine, task, reply.updates):
            task.status = DONE
            _spent(engine, task, spending(engine, task))
    elif kind is Interrupt:
        _returned(engine, task, reply)
    elif kind is Spent:
        report(engine, task, execution, reply.reply)
        _spent(engine, task, spending(engine, task))
    else:
        check_reply(engine, task, reply)
    return True


MARKERS = frozenset({Sentinel, Replacement})
"""Classes of the markers that may stand in an update."""


def _spent(engine: Engine, task: Task, spending: tuple[dict[str, Any], ...]) -> None:
    """Lower the state's budget by what an ended task took, unless its node set the budget itself."""
    ended = task.status == DONE or (task.extra is not None and task.extra.ended)
    left = engine.values.get(TOKEN_BUDGET)
    if not ended or not spending or any(update.get(TOKEN_BUDGET, left) != left for update in task.updates):
        return
    # The value that it has already says nothing: nodes that return whole states return it too.
    rest = [{name: update[name] for name in update if name != TOKEN_BUDGET} for update in task.updates]
    task.updates = (*rest, *(stamped(engine, task, update) for update in spending))


def _stamp(engine: Engine, task: Task, updates: Sequence[dict[str, Any]]) -> bool:
    """Stage *updates*; False if one cannot be stored, and the task has failed."""
    try:
        task.updates = tuple(stamped(engine, task, update) for update in updates)
    except GraphrtError as error:
        _fail(task, error, None, raise_as_is=True)
        return False
    return True


def _returned(engine: Engine, task: Task, reply: Interrupt) -> None:
    """Pause for a returned Interrupt."""
    asked = [question for question in task.more().interrupts if question.base.startswith("returned")]
    base = f"returned{sum(question.answered for question in asked)}"
    version = 1 + sum(question.base == base for question in asked)
    key = base if version == 1 else f"{base}:{version}"
    question = OpenInterrupt(
        f"{engine.interrupt_prefix(task)}{key}", key, task.node.name, reply.payload, version=version
    )
    question.expires_at = reply.expires_at
    try:
        question.answer_type = answer_type(engine, task, reply.answer_type)
        check_storable(engine, task, reply.payload, "asks with a payload")
    except GraphrtError as error:
        _fail(task, error, None, raise_as_is=True)
        return
    pause(engine, task, [question])


def answer_type(engine: Engine, task: Task, annotation: Any) -> Any:
    """The type that an answer must have, as plain data.

    Raises:
        InputError: It is none that an answer may be asked to have.
    """
    if annotation is None:
        return None
    try:
        return engine.plan.codec.describe(annotation)
    except NotStorable as error:
        raise InputError(
            f"Node {task.node.name!r} asks for an answer of a type that cannot be kept: it {error.why}",
            code="bad-answer-type",
            where=engine.where(task),
            fix="Use plain types, Literal, unions and containers of them, or a class that the state declares or that "
            "was registered with graphrt.stores.register_type().",
            node=task.node.name,
            boundary=True,
        ) from error


def check_reply(engine: Engine, task: Task, reply: Any) -> None:
    try:
        goto: Any = None
        update: Any = reply
        if reply.__class__ is Command:
            goto = reply.goto
            update = reply.update
        if update is not None:
            task.updates = (stamped(engine, task, _checked(engine, task, update)),)
        task.goto = None if goto is None else engine.router(task).targets(goto, task.node)
        for target in task.goto or ():
            if target.__class__ is Due and target.is_send:
                check_storable(engine, task, target.arg, "sends a value")
    except GraphrtError as error:
        _fail(task, error, None, raise_as_is=True)
        return
    task.status = DONE


def _checked(engine: Engine, task: Task, returned: Any) -> dict[str, Any]:
    update = engine.plan.update
    node = task.node.name
    entries = update.entries(returned)
    if entries is None:
        raise UpdateError(
            f"Node {node!r} returned {_what(returned)}, {quoted(returned, engine.plan.state.untracked)}; "
            "expected an update (a mapping of fields).",
            code="bad-update",
            where=engine.where(task),
            known=f"fields {', '.join(map(repr, engine.fields))}",
            fix=_how(engine, returned),
            node=node,
        )
    return update.checked(entries, node=node, where=engine.where(task))


def _what(returned: Any) -> str:
    if inspect.isawaitable(returned):
        return "a coroutine that was never awaited"
    kind: Any = returned.__class__
    return a_type(returned) if kind.__module__ == "builtins" else f"an instance of {kind.__name__}"


def _how(engine: Engine, returned: Any) -> str:
    if inspect.isawaitable(returned):
        return "Define the node with async def, or await inside it."
    first: Any = returned[0] if issubclass(type(returned), list) and returned else returned
    if first.__class__ is Send:
        return "Return Command(goto=[Send(...), ...]), or return the Sends from a router."
    if engine.plan.state.kind != "typeddict" and isinstance(returned, engine.plan.state.cls):
        return "Return only what changes, as a mapping; a graph made by GraphBuilder.overwrite() takes whole states."
    if engine.plan.update.kind == "overwrite":
        return "Return the full next state: this graph was made by GraphBuilder.overwrite()."
    return "Return a mapping of fields, None, a Command or an Interrupt."


def pause(engine: Engine, task: Task, questions: list[OpenInterrupt], child: Any = None) -> None:
    if engine.thread is None:
        _fail(task, pausing.no_thread(engine, task), None, raise_as_is=True, final=True)
        return
    extra = task.more()
    known = {question.id: question for question in extra.interrupts}
    if child is None:
        extra.interrupts += [question for question in questions if question.id not in known]
        task.status = PAUSED
        return
    for question in questions:
        before = known.get(question.id)
        if before is not None:
            question.told |= before.told
        if question.id in extra.answers_ahead:  # in a fork, whose nested graph began anew
            question.answered, question.answer = True, own(extra.answers_ahead[question.id])
    extra.child, extra.interrupts = child, list(questions)
    task.status = PAUSED
    if any(question.answered for question in questions):
        pausing.unpause(task)


def again(task: Task) -> None:
    """Make *task* due once more: what an earlier execution of it still reports counts no longer."""
    task.status = DUE
    task.execution += 1


def _fail(
    task: Task,
    error: BaseException,
    hint_s: float | None,
    *,
    raise_as_is: bool = False,
    final: bool = False,
    advice: str = "",
) -> None:
    node = task.node
    extra = task.more()
    if extra.child is None:  # what the attempt asked before it failed, the next one asks again
        extra.interrupts = [question for question in extra.interrupts if not question.open]
    mark(task.engine, task, error, raise_as_is=raise_as_is)
    policy = node.policy.retry
    if policy is not None and not final and task.attempt < policy.attempts:
        try:
            again = retry.wants_retry(policy, error)
        except Exception as broken:  # noqa: BLE001 - the predicate is user code
            error.add_note(f"retry_on of node {node.name!r} raised {type(broken).__name__}: {broken}")
            again = False
        wait_s = retry.delay(policy, task.id, task.attempt, hint_s) if again else None
        if wait_s is not None:
            extra.delay_s = wait_s
            extra.retries.append((task.attempt, extra.delay_s, error))
            task.attempt += 1
            task.execution += 1
            task.status = DUE
            return
    extra.failure, extra.advice = error, advice
    extra.raise_as_is = raise_as_is
    task.goto = None
    task.status = HANDLED if node.on_error is not None and not final else FAILED
    task.updates = spending(task.engine, task) if task.status == HANDLED else ()


def fail_all(tasks: Sequence[Task], error: BaseException) -> None:
    """Fail *tasks* for good with graphrt's own word about them; a retry runs them again."""
    for task in tasks:
        if task.engine.staging:
            task.engine.dirty[task] = None  # the outcome that was staged counts no more
        task.updates, task.goto, task.status = (), None, FAILED
        extra = task.more()
        extra.failure, extra.raise_as_is, extra.ended = error, True, False


def failed_with(engine: Engine, error: BaseException) -> bool:
    """Whether a task failed with *error*: it could not keep an effect. That it did is stored, with what the effect did."""
    failed = engine.failed()
    return failed is not None and failed.extra is not None and failed.extra.failure is error
