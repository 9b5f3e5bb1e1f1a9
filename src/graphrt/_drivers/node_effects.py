"""`ctx.effect`: run a function once per task and record its result (rules R9, R10; kinds: decision 0023).

What is known of an effect stands on the task (`task.more()`), by its key (`name#n`, or `name#key=...` for a call with
`key=`): the event of its end in `effects`, and that of its last start in `intents` (kind "once" only). Which key a repeated call has is decided in `remembered_calls`. Both are stored as staged events. A node
that paused, failed or crashed runs again from its start, and its effects then return the recorded results. `own` copies
a value: node and record share nothing (R15). `services.recorded` is set when a run is executed again from its log: the
log then has the results, and nothing is called.

The process may die, or the function raise, between the effect and the record of its result. The kind says what follows:

| Kind | Stored before it runs | Stored after it ran |
|---|---|---|
| "pure" | nothing | its result, with the task's outcome |
| "idempotent" | nothing | its result, at once |
| "once" | its start | its result, at once |

"pure" and "idempotent" effects run again. A "once" effect is not repeated silently: a person is asked for its outcome.
A person is asked, too, where the node repeats a call with other arguments than those that are recorded.
Tools of agents are effects too (`_agents`), with keys that begin with `tool/`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from graphrt._ambient import inside
from graphrt._drivers.remembered_calls import Arguments, Call, RememberedCalls, shown
from graphrt._drivers.run_services import RunServices
from graphrt._drivers.written_memory import again, effect_writes
from graphrt._engine.emit_events import Logged
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Task
from graphrt._plan.fields import own
from graphrt.errors import NodeError
from graphrt.errors._codes.arguments import UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.nodes import EFFECT_CHANGED, EFFECT_UNKNOWN
from graphrt.events import MemoryWritten

EffectKind: TypeAlias = Literal["pure", "idempotent", "once"]
# `Any`, because they are types of answers and not of anything here.
_UNKNOWN_ANSWERS: Final[Any] = Literal["run", "fail"] | dict[Literal["result"], Any]
"""Answers to the question about an effect whose outcome is unknown."""
_CHILD_ANSWERS: Final[Any] = Literal["recorded", "run", "fail"]
"""Answers to the question about a child thread that was started with other arguments."""
_CHANGED_ANSWERS: Final[Any] = Literal["recorded", "run", "fail"] | dict[Literal["result"], Any]
"""Answers to the question about an effect that was recorded with other arguments."""


class Asking(Protocol):
    """The part of a Context that effects need: to ask a person about an unknown outcome."""

    @property
    def idempotency_key(self) -> str:
        """Key for outside services, the same at every execution of the task."""
        ...

    @property
    def _execution(self) -> int:
        """Number of the execution of the task (`Task.execution`)."""
        ...

    def _check(self) -> None:
        """Raise NodeError if the attempt must not act any more (`attempt-over`)."""
        ...

    def _check_kept(self) -> None:
        """Raise NodeError if what the attempt has done is not recorded any more."""
        ...

    def _ask(self, name: str, payload: Any, answer_type: Any, *, keyed: bool = True, kind: str) -> Any:
        """Return the answer to the question *name* of the task; if there is none yet, pause the node by `Suspended`.

        Args:
            payload: What to show to the person.
            answer_type: Type that the answer must have.
            keyed: Whether *name* alone identifies the question, whatever its payload.
            kind: Kind of the question, here `effect`.
        """
        ...


def runs_once(services: RunServices, task: Task) -> bool:
    """Return whether nothing makes *task* run again: it has no store, no retries, and no graph around it that has."""
    return (
        services.stage is None and services.recorded is None and task.node.policy.retry is None and not task.engine.path
    )


def find_effect(
    calls: RememberedCalls, services: RunServices, task: Task, name: str, args: tuple[Any, ...], kind: EffectKind
) -> Call:
    """Return the call `ctx.effect(name, fn, *args)` as the task records it.

    It *differs* from a record only if a person is to be asked for it. None is asked where the order of the calls says
    nothing, or where no answer could arrive: there the effect runs for its arguments, unless it is a "once" effect.
    """
    call = calls.find(f"{name}#", args, partial(_recorded, services, task))
    if call.differs is None or kind == "once" or (task.engine.thread is not None and calls.in_order()):
        return call
    return call._replace(differs=None)


def _recorded(
    services: RunServices, task: Task, prefix: str
) -> tuple[Mapping[str, Arguments], Mapping[str, Arguments]]:
    """Return the arguments of the effects whose keys are *prefix* and an ordinal, by key: those of task and log."""
    extra, log = task.extra, services.recorded
    found: dict[str, Arguments] = {}
    if extra is not None:
        found = {key: effect.arguments for key, effect in extra.intents.items()}
        found |= {key: effect.arguments for key, effect in extra.effects.items()}
    logged: Mapping[str, Arguments] = {}
    if log is not None:
        logged = {key: value for key, value in log.arguments(task).items() if log.knows(task, key)}
    return _in_order(found, prefix), _in_order(logged, prefix)


def _in_order(found: Mapping[str, Arguments], prefix: str) -> dict[str, Arguments]:
    """Return the items whose keys are *prefix* and an ordinal, by their ordinals."""
    keys = [key for key in found if key.startswith(prefix) and key[len(prefix) :].isdecimal()]
    return {key: found[key] for key in sorted(keys, key=lambda key: int(key[len(prefix) :]))}


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
        services: Those of the run; they store what is known of the effect.
        task: Task that the effect belongs to.
        call: The effect as the task records it.
        fn: Performs the effect.
        args: Tuple of the arguments of *fn*.
        kind: See the table at the top of the module.

    Raises:
        InputError: *kind* is not known (`input`).
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
    if _is_async(fn):
        return perform_async(context, services, task, call, fn, args, kind)
    key = call.key
    known, result = _known(context, services, task, call, kind)
    if known:
        return result
    writes = None if services.memory is None else effect_writes(task, context._execution)
    if kind == "once":  # its start is counted and stored before it runs
        task.start_effect(call.key, call.arguments)
        services.former_owner.begun.add((task.id, key))
        _keep(services, task, key)
    if known is None:  # only now: the answer "fail" counts as a start, which had to be stored
        raise _unknown(task, key)
    wrote: tuple[MemoryWritten, ...] = ()
    if services.recorded is not None:
        result, wrote = services.recorded.effect(task, key), services.recorded.wrote(task, key)
        again(task, context._execution, wrote)
    elif writes is None:
        with inside(recording=context):  # as in `perform_async`
            result = fn(*args)
    else:
        with inside(recording=context, memory=writes):
            result = fn(*args)
        wrote = tuple(writes.items.values())
    context._check_kept()
    result = _take(task, call, result, wrote)  # the node goes on with what is recorded
    if kind != "pure":
        _keep(services, task, key)
    return own(result)


def _is_async(fn: Callable[..., Any]) -> bool:
    """Return whether *fn* is async; of a plain function by its flags, as inspect took a tenth of a cheap effect."""
    if fn.__class__ is not FunctionType or fn.__dict__:  # a wrapper, or a function that may be marked
        return inspect.iscoroutinefunction(fn)
    return bool(fn.__code__.co_flags & inspect.CO_COROUTINE)


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
    """Do what `perform` does, for an async *fn*.

    Args:
        about: Added to the payload of the question about an unknown outcome, so that a person knows what it is about.
            Agents pass it for their tools; None adds nothing.
    """
    from graphrt._drivers.blocking_calls import call_store

    context._check()
    key = call.key
    known, result = _known(context, services, task, call, kind, about)
    if known:
        return result
    writes = effect_writes(task, context._execution)  # before anything is awaited: its place among those side by side
    if kind == "once":
        task.start_effect(call.key, call.arguments)
        services.former_owner.begun.add((task.id, key))
        await call_store(services, _keep, services, task, key)
    if known is None:
        raise _unknown(task, key)
    recorded = services.recorded
    # A call of the node: agents in it cannot write to the state, since it is recorded as a whole.
    around = {"recording": context} if recorded is None and about is None else {}
    with inside(memory=writes, **around):
        result = await (fn(*args) if recorded is None else recorded.aeffect(task, key, fn))
    wrote = tuple(writes.items.values())
    if recorded is not None and not wrote:  # its function did not run
        wrote = recorded.wrote(task, key)
        again(task, context._execution, wrote)
    context._check_kept()
    result = _take(task, call, result, wrote)
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
    """Look up an effect's recorded result; if a "once" effect has started and has none, ask a person.

    Returns:
        (True, result) if it is known, (False, None) if the effect is to run, (None, None) if the node is to fail.
    """
    extra, key = task.more(), call.key
    if call.differs is not None:
        answer = _decision(context, services, task, call)
        if answer == "recorded":
            return True, _given(context, task, call.differs)
        if isinstance(answer, Mapping):  # as below
            extra.request(key)
            return True, own(_take(task, call, answer["result"]))
        # "run" is left, or the log is to say that it has no such call.
    # Note the order of the calls in this execution. Results arrive in any order, which the journal must not show (R13).
    extra.request(key)
    if key in extra.effects:
        return True, _given(context, task, key)
    # Executed again from a log in which the process died after the start: ask the same question as then.
    if services.recorded is not None and key not in extra.intents and services.recorded.started(task, key):
        task.start_effect(call.key, call.arguments)
    if kind != "once" or key not in extra.intents:
        return False, None
    if task.engine.thread is None:  # such a run cannot pause for an answer
        raise _unknown(task, key)
    name = key.rsplit("#", 1)[0]
    payload: dict[str, Any] = {
        "effect": name,
        "problem": "outcome unknown",
        "idempotency_key": context.idempotency_key,
        **services.former_owner.doubts(task, key),
        **(about or {}),
    }
    # Each start has a question of its own: an answer about an earlier start says nothing about this one.
    starts = extra.intents[key].starts
    question = f"effect={key}" if starts == 1 else f"effect={key}:{starts}"
    # A copied thread has another idempotency key. The effect was started with the one in the question that was copied.
    # `base` is the key of a question without the number of its wording.
    payload = next((asked.payload for asked in extra.interrupts if asked.base == question), payload)
    if services.recorded is not None:  # who owned the thread is not repeated
        payload = services.recorded.asked(task, question) or payload
    answer = context._ask(question, payload, _UNKNOWN_ANSWERS, kind="effect")
    if isinstance(answer, Mapping) and "result" in answer:  # not stored by itself: the answer is, and gives it again
        return True, own(_take(task, call, answer["result"]))
    # "fail" is counted like a start by the caller, so that it holds for this execution and the next one asks anew.
    return (False if answer == "run" else None), None


def _given(context: Asking, task: Task, key: str) -> Any:
    """Return the recorded result of the effect *key*; the task writes to the memory again what the effect wrote."""
    extra = task.more()
    extra.request(key)
    known = extra.effects[key]
    if known.memory:
        again(task, context._execution, known.memory)
    return own(known.result)


def _decision(context: Asking, services: RunServices, task: Task, call: Call) -> Any:
    """Return what a person wants for an effect in whose place a record has other arguments.

    Returns:
        "recorded", "run" or {"result": value}; None if a log has to answer, which has no such question.

    Raises:
        NodeError: The answer was "fail", or no answer can arrive (`effect-changed`).
    """
    extra, log, differs = task.more(), services.recorded, call.differs
    assert differs is not None  # noqa: S101 - the caller looked
    if log is not None and differs not in extra.effects and differs not in extra.intents:
        # The process died after the effect in the first execution, so that only the second one asked.
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
    """Return the answer of a person about *call*, in whose place a record has other arguments.

    Args:
        name: What is called, for the person.
        recorded: Arguments of the record.
        known: Its result as `result`. Without one, its outcome is unknown, and `former_owner` may say whether another
            process is still at work on it; a child thread has neither.

    Returns:
        "recorded" or "run"; of an effect also {"result": value}.

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
    # Not keyed: an answer about these arguments says nothing about others.
    answer = context._ask(f"changed={call.differs}", payload, answers, keyed=False, kind="effect")
    if answer == "fail":
        raise EFFECT_CHANGED(effect=name, node=task.node.name, where=task.engine.where(task))
    return answer


def _unknown(task: Task, key: str) -> NodeError:
    """Return the error for a "once" effect whose outcome is unknown. It has the name alone, without `#` and number."""
    return EFFECT_UNKNOWN(effect=key.rsplit("#", 1)[0], node=task.node.name, where=task.engine.where(task))


def _take(task: Task, call: Call, result: Any, wrote: tuple[MemoryWritten, ...] = ()) -> Any:
    """Put the result of an effect on the task, redacted and as a copy, and what it wrote to the memory; return it.

    Raises:
        UpdateError: It is not a storable value.
        AuditError: It could not be redacted.
    """
    key = call.key
    result = check_storable(task.engine, task, result, f"has the effect {key.rsplit('#', 1)[0]!r} with a result")
    task.end_effect(key, own(result), call.arguments, wrote)
    return result


def _keep(services: RunServices, task: Task, key: str) -> None:
    """Stage the start and the result of an effect, as far as they are known.

    The key of the staged events is that of the task, `#`, and that of the effect, so that effects of one task that run
    at the same time do not replace each other's events. Called before a "once" effect and after it: the second call
    replaces what the first one staged.
    """
    extra, path = task.more(), task.engine.path
    known: list[Logged] = [
        (path, effect) for effect in (extra.intents.get(key), extra.effects.get(key)) if effect is not None
    ]
    services.keep([(f"{task.id}#{key}", known)])
