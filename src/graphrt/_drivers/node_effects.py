"""`ctx.effect`: run a function once per task and record its result (rules R9, R10; kinds: decision 0023).

The known data of an effect is on the task (`task.more()`), by its key (`name#n`, or `name#key=...` for a call with
`key=`): the event of its end in `effects`, and that of its last start in `intents` (kind "once" only).
`remembered_calls` determines the key of a repeated call. Both are stored as staged events. A node that paused, failed
or crashed runs again from its start, and its effects then return the recorded results. `own` copies a value, so that
node and record share nothing (R15). `services.recorded` is set when a run is executed again from its log: the results
then come from the log, and no function is called.

The process may die, or the function may raise, between the effect and the record of its result. The kind determines the
consequences:

| Kind | Stored before it runs | Stored after it ran |
|---|---|---|
| "pure" | nothing | its result, with the task's outcome |
| "idempotent" | nothing | its result, at once |
| "once" | its start | its result, at once |

"pure" and "idempotent" effects run again. A "once" effect is not repeated silently: a person is asked for its outcome.
A person is also asked if the node repeats a call with different arguments than those on record. Tools of agents are
effects too (`_agents`), with keys that begin with `tool/`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from graphrt._ambient import inside
from graphrt._arguments import is_async
from graphrt._drivers.remembered_calls import Arguments, Call, RememberedCalls, shown
from graphrt._drivers.run_services import RunServices
from graphrt._drivers.written_memory import again, effect_writes
from graphrt._engine.emit_events import Logged
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Task
from graphrt._plan.fields import own
from graphrt.errors import InputError, NodeError, brief
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.nodes import EFFECT_CHANGED, EFFECT_UNKNOWN
from graphrt.events import MemoryWritten

EffectKind: TypeAlias = Literal["pure", "idempotent", "once"]
# `Any`, because they are used as answer types, which have no common static type.
_UNKNOWN_ANSWERS: Final[Any] = Literal["run", "fail"] | dict[Literal["result"], Any]
"""Answers to the question about an effect whose outcome is unknown."""
_CHILD_ANSWERS: Final[Any] = Literal["recorded", "run", "fail"]
"""Answers to the question about a child thread that was started with different arguments."""
_CHANGED_ANSWERS: Final[Any] = Literal["recorded", "run", "fail"] | dict[Literal["result"], Any]
"""Answers to the question about an effect that was recorded with different arguments."""


class Asking(Protocol):
    """The part of a Context that effects need to ask a person about an unknown outcome."""

    @property
    def idempotency_key(self) -> str:
        """Key for outside services, the same at every execution of the task."""
        ...

    @property
    def _execution(self) -> int:
        """Number of the execution of the task (`Task.execution`)."""
        ...

    def _check(self) -> None:
        """Raise NodeError if the attempt must no longer act (`attempt-over`)."""
        ...

    def _check_kept(self) -> None:
        """Raise NodeError if the attempt's work is no longer recorded."""
        ...

    def _ask(self, name: str, payload: Any, answer_type: Any, *, keyed: bool = True, kind: str) -> Any:
        """Return the answer to the question *name* of the task. If there is none yet, pause the node with `Suspended`.

        Args:
            payload: Shown to the person.
            answer_type: Required type of the answer.
            keyed: Whether *name* alone identifies the question, whatever its payload.
            kind: Kind of the question, here `effect`.
        """
        ...


def runs_once(services: RunServices, task: Task) -> bool:
    """Return whether *task* can never run again: neither it nor an enclosing graph has a store or retries."""
    return (
        services.stage is None and services.recorded is None and task.node.policy.retry is None and not task.engine.path
    )


def find_effect(
    calls: RememberedCalls, services: RunServices, task: Task, name: str, args: tuple[Any, ...], kind: EffectKind
) -> Call:
    """Return the call `ctx.effect(name, fn, *args)` as the task records it.

    It *differs* from a record only if a person must be asked about it. No question is asked if the order of the calls
    is not conclusive, or if an answer could never arrive. The effect then runs with its arguments, unless it is a
    "once" effect.
    """
    call = calls.find(f"{name}#", args, partial(_recorded, services, task))
    if call.differs is None or kind == "once" or (task.engine.thread is not None and calls.in_order()):
        return call
    return call._replace(differs=None)


def _recorded(
    services: RunServices, task: Task, prefix: str
) -> tuple[Mapping[str, Arguments], Mapping[str, Arguments]]:
    """Return the arguments, by key, of the effects of task and log whose keys are *prefix* and an ordinal."""
    extra, log = task.extra, services.recorded
    arguments: dict[str, Arguments] = {}
    if extra is not None:
        arguments = {key: effect.arguments for key, effect in extra.intents.items()}
        arguments |= {key: effect.arguments for key, effect in extra.effects.items()}
    logged: Mapping[str, Arguments] = {}
    if log is not None:
        logged = {key: value for key, value in log.arguments(task).items() if log.knows(task, key)}
    return _in_order(arguments, prefix), _in_order(logged, prefix)


def _in_order(arguments: Mapping[str, Arguments], prefix: str) -> dict[str, Arguments]:
    """Return the items whose keys are *prefix* and an ordinal, by their ordinals."""
    keys = [key for key in arguments if key.startswith(prefix) and key[len(prefix) :].isdecimal()]
    return {key: arguments[key] for key in sorted(keys, key=lambda key: int(key[len(prefix) :]))}


def perform(
    context: Asking,
    services: RunServices,
    task: Task,
    call: Call,
    fn: Callable[..., Any],
    args: Any,
    kind: EffectKind,
) -> Any:
    """Return the recorded result of an effect, or run *fn* and record its result; awaitable if *fn* is async.

    Args:
        context: Context of the attempt.
        services: Services of the run, which store the recorded data of the effect.
        task: Task that the effect belongs to.
        call: The effect as the task records it.
        fn: Performs the effect.
        args: Tuple of the arguments of *fn*.
        kind: See the table at the top of the module.

    Raises:
        InputError: *kind* is not known, or *fn* is not async and returned an awaitable (`input`).
        NodeError: The outcome of a "once" effect is unknown, and it is not to run again (`effect-unknown`); or its
            arguments changed, and a person wants the node to fail (`effect-changed`).
        UpdateError: The result is not a storable value.
        StoreError: The store failed.
        BaseException: What *fn* raises.
    """
    if kind not in ("pure", "idempotent", "once"):
        raise UNKNOWN_NAME_IN_ARGUMENT(
            argument="kind= of an effect",
            name=kind,
            what="kind of effect",
            known_names=get_args(EffectKind),
            node=task.node.name,
            where=task.engine.where(task),
            boundary=True,
        )
    if is_async(fn):
        return perform_async(context, services, task, call, fn, args, kind)
    key = call.key
    known, result = _known(context, services, task, call, kind)
    if known:
        return result
    writes = None if services.memory is None else effect_writes(task, context._execution)
    if kind == "once":  # counts and stores its start before it runs
        task.start_effect(call.key, call.arguments)
        services.former_owner.begun.add((task.id, key))
        _keep(services, task, key)
    if known is None:  # raised only now: the answer "fail" counts as a start, which has to be stored first
        raise _unknown(task, key)
    memory_writes: tuple[MemoryWritten, ...] = ()
    if services.recorded is not None:
        result, memory_writes = services.recorded.effect(task, key), services.recorded.wrote(task, key)
        again(task, context._execution, memory_writes)
    elif writes is None:
        with inside(recording=context):  # as in `perform_async`
            result = fn(*args)
    else:
        with inside(recording=context, memory=writes):
            result = fn(*args)
        memory_writes = tuple(writes.items.values())
    if hasattr(result.__class__, "__await__"):
        raise _awaitable(task, call, result)
    context._check_kept()
    result = _take(task, call, result, memory_writes)  # the node continues with the record
    if kind != "pure":
        _keep(services, task, key)
    return own(result)


def _awaitable(task: Task, call: Call, result: Any) -> InputError:
    """Return the error for *result*, which has to be awaited, of a function that is not async.

    It is not awaited here: a later execution returns the recorded result without calling the function, and could not
    know whether the node awaits it.
    """
    name = call.key.rsplit("#", 1)[0]
    inner, how = "send", f"returned {brief(result)}"
    if inspect.iscoroutine(result):
        result.close()  # else Python warns that it was never awaited
        inner, how = result.__name__, "returned a coroutine"
    verb = "await ctx.effect(" if task.node.is_async else "ctx.call(ctx.effect, "
    return ARGUMENT_OUT_OF_BOUNDS(
        problem=f"The function of ctx.effect({name!r}, ...) is not async, but {how}",
        known=f"only an async function makes ctx.effect() awaitable, not one such as `lambda: {inner}()`",
        wanted=f"an async function and its arguments: {verb}{name!r}, {inner}, ...)",
        where=task.engine.where(task),
        boundary=True,
    )


async def perform_async(
    context: Asking,
    services: RunServices,
    task: Task,
    call: Call,
    fn: Callable[..., Any],
    args: Any,
    kind: EffectKind,
    about: Mapping[str, Any] | None = None,
) -> Any:
    """Like `perform`, for an async *fn*.

    Args:
        about: Added to the payload of the question about an unknown outcome, as context for the person. Agents pass it
            for their tools; None adds nothing.
    """
    from graphrt._drivers.blocking_calls import call_store

    context._check()
    key = call.key
    known, result = _known(context, services, task, call, kind, about)
    if known:
        return result
    # Before the first await, to fix its order among concurrent effects.
    writes = effect_writes(task, context._execution)
    if kind == "once":
        task.start_effect(call.key, call.arguments)
        services.former_owner.begun.add((task.id, key))
        await call_store(services, _keep, services, task, key)
    if known is None:
        raise _unknown(task, key)
    recorded = services.recorded
    # A call of the node: agents inside it cannot write to the state, because it is recorded as a whole.
    recording = {"recording": context} if recorded is None and about is None else {}
    with inside(memory=writes, **recording):
        result = await (fn(*args) if recorded is None else recorded.aeffect(task, key, fn))
    memory_writes = tuple(writes.items.values())
    if recorded is not None and not memory_writes:  # the function did not run
        memory_writes = recorded.wrote(task, key)
        again(task, context._execution, memory_writes)
    context._check_kept()
    result = _take(task, call, result, memory_writes, is_form=call.is_tool)
    if kind != "pure":
        await call_store(services, _keep, services, task, key)
    return own(result)


def _known(
    context: Asking,
    services: RunServices,
    task: Task,
    call: Call,
    kind: EffectKind,
    about: Mapping[str, Any] | None = None,
) -> tuple[bool | None, Any]:
    """Look up an effect's recorded result. If a "once" effect was started but has no result, ask a person.

    Returns:
        (True, result) if it is known, (False, None) if the effect must run, (None, None) if the node must fail.
    """
    extra, key = task.more(), call.key
    if call.differs is not None:
        answer = _decision(context, services, task, call)
        if answer == "recorded":
            return True, _given(context, task, call.differs)
        if isinstance(answer, Mapping):  # as below
            extra.request(key)
            return True, own(_take(task, call, answer["result"]))
        # The remaining case is "run", or the log will report that it has no such call.
    # Record the order of the calls in this execution. Results arrive in any order, which must not affect the journal
    # (R13).
    extra.request(key)
    if key in extra.effects:
        return True, _given(context, task, key)
    # Executed again from a log in which the process died after the start: ask the same question again.
    if services.recorded is not None and key not in extra.intents and services.recorded.started(task, key):
        task.start_effect(call.key, call.arguments)
    if kind != "once" or key not in extra.intents:
        return False, None
    if task.engine.thread is None:  # this run cannot pause for an answer
        raise _unknown(task, key)
    name = key.rsplit("#", 1)[0]
    payload: dict[str, Any] = {
        "effect": name,
        "problem": "outcome unknown",
        "idempotency_key": context.idempotency_key,
        **services.former_owner.doubts(task, key),
        **(about or {}),
    }
    # Each start has its own question, because an answer about an earlier start says nothing about this one.
    starts = extra.intents[key].starts
    question = f"effect={key}" if starts == 1 else f"effect={key}:{starts}"
    # A copied thread has a different idempotency key. The effect was started with the key in the copied question.
    # `base` is the key of a question without its version.
    payload = next((interrupt.payload for interrupt in extra.interrupts if interrupt.base == question), payload)
    if services.recorded is not None:  # the former owner of the thread is not repeated
        payload = services.recorded.asked(task, question) or payload
    answer = context._ask(question, payload, _UNKNOWN_ANSWERS, kind="effect")
    # Not stored separately, because the stored answer contains it.
    if isinstance(answer, Mapping) and "result" in answer:
        return True, own(_take(task, call, answer["result"]))
    # The caller counts "fail" like a start, so that it applies to this execution only and the next one asks again.
    return (False if answer == "run" else None), None


def _given(context: Asking, task: Task, key: str) -> Any:
    """Return the recorded result of the effect *key*, and repeat the effect's memory writes."""
    extra = task.more()
    extra.request(key)
    known = extra.effects[key]
    if known.memory:
        again(task, context._execution, known.memory)
    return own(known.result)


def _decision(context: Asking, services: RunServices, task: Task, call: Call) -> Any:
    """Return a person's decision about an effect whose record has different arguments.

    Returns:
        "recorded", "run" or {"result": value}; None if the log must answer and does not contain the question.

    Raises:
        NodeError: The answer was "fail", or no answer can arrive (`effect-changed`).
    """
    extra, log, differs = task.more(), services.recorded, call.differs
    assert differs is not None  # noqa: S101 - the caller looked
    if log is not None and differs not in extra.effects and differs not in extra.intents:
        # The process died after the effect in the first execution, so only the second one asked.
        if not log.asks(task, f"changed={differs}"):
            return None
        _take(task, Call(differs, log.arguments(task)[differs]), log.effect(task, differs))
    known: dict[str, Any] = services.former_owner.doubts(task, differs)
    if differs in extra.effects:
        known = {"result": extra.effects[differs].result}
    recorded = extra.effect(differs)
    arguments = recorded.arguments if recorded is not None else None
    return decide(context, task, call, differs.rsplit("#", 1)[0], arguments, **known)


def decide(context: Asking, task: Task, call: Call, name: str, recorded: Arguments, **known: Any) -> Any:
    """Return a person's answer about *call*, whose record has different arguments.

    Args:
        name: Name of the called function, for the person.
        recorded: Arguments of the record.
        known: The recorded result as `result`. Without it, the outcome is unknown, and `former_owner` may show whether
            another process is still working on it. A child thread has neither.

    Returns:
        "recorded" or "run"; for an effect also {"result": value}.

    Raises:
        NodeError: The answer was "fail", or no answer can arrive (`effect-changed`).
    """
    if task.engine.thread is None:
        raise EFFECT_CHANGED(effect=name, node=task.node.name, where=task.engine.where(task))
    payload: dict[str, Any] = {
        "effect": name,
        "problem": "arguments changed",
        "recorded": shown(recorded),
        "present": shown(call.arguments),
        **known,
    }
    answers: Any = _CHILD_ANSWERS
    if "#" in str(call.differs):
        answers = _CHANGED_ANSWERS if "result" in known else _UNKNOWN_ANSWERS
    # Not keyed, because an answer about these arguments says nothing about others.
    answer = context._ask(f"changed={call.differs}", payload, answers, keyed=False, kind="effect")
    if answer == "fail":
        raise EFFECT_CHANGED(effect=name, node=task.node.name, where=task.engine.where(task))
    return answer


def _unknown(task: Task, key: str) -> NodeError:
    """Return the error for a "once" effect whose outcome is unknown. It shows the name without `#` and number."""
    return EFFECT_UNKNOWN(effect=key.rsplit("#", 1)[0], node=task.node.name, where=task.engine.where(task))


def _take(
    task: Task, call: Call, result: Any, memory_writes: tuple[MemoryWritten, ...] = (), *, is_form: bool = False
) -> Any:
    """Record the result of an effect on the task, as a redacted copy, with the effect's memory writes.

    Returns the copy.

    Args:
        is_form: Whether the result is a form of graphrt's own; see `redacted_form`.

    Raises:
        UpdateError: The result is not a storable value.
        AuditError: The result could not be redacted.
    """
    key = call.key
    what = f"has the effect {key.rsplit('#', 1)[0]!r} with a result"
    result = check_storable(task.engine, task, result, what, is_form=is_form)
    task.end_effect(key, own(result), call.arguments, memory_writes)
    return result


def _keep(services: RunServices, task: Task, key: str) -> None:
    """Stage the start and the result of an effect, as far as they are known.

    The key of the staged events consists of the task's key, `#`, and the effect's key. So concurrent effects of one
    task do not replace each other's events. Called before a "once" effect and after it: the second call replaces the
    events of the first.
    """
    extra, path = task.more(), task.engine.path
    known: list[Logged] = [
        (path, effect) for effect in (extra.intents.get(key), extra.effects.get(key)) if effect is not None
    ]
    services.keep([(f"{task.id}#{key}", known)])
