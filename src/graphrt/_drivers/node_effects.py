"""`ctx.effect`: run a function once per task and record its result (rules R9, R10; kinds: decision 0023).

What is known of an effect stands on the task (`task.more()`), by its key (`name#n` for the n-th call of a name): its
result in `effects`, the number of its starts in `intents` (kind "once" only). Both are stored as staged events. A node
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
Tools of agents are effects too (`_agents`), with keys that begin with `tool/`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, get_args

from graphrt._drivers.run_services import RunServices
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Task
from graphrt._plan.fields import own
from graphrt.errors import NodeError
from graphrt.errors._codes.nodes import EFFECT_UNKNOWN, UNKNOWN_KIND_OF_EFFECT
from graphrt.events import EffectRecorded, EffectStarted, Event

EffectKind: TypeAlias = Literal["pure", "idempotent", "once"]


class Asking(Protocol):
    """The part of a Context that effects need: to ask a person about an unknown outcome."""

    @property
    def idempotency_key(self) -> str:
        """Key for outside services, the same at every execution of the task."""
        ...

    def _ask(self, name: str, payload: Any, answer_type: Any, *, kind: str) -> Any:
        """Return the answer to the question *name* of the task; if there is none yet, pause the node by `Suspended`.

        Args:
            payload: What to show to the person.
            answer_type: Type that the answer must have.
            kind: Kind of the question, here `effect`.
        """
        ...


def perform(
    context: Asking,
    services: RunServices,
    task: Task,
    key: str,
    fn: Callable[..., Any],
    args: Any,
    kind: EffectKind,
) -> Any:
    """Return the recorded result of an effect, or run *fn* and record its result; awaitable if *fn* is async.

    Args:
        context: Context of the attempt.
        services: Those of the run; they store what is known of the effect.
        task: Task that the effect belongs to.
        key: Key of the effect on the task.
        fn: Performs the effect.
        args: Tuple of the arguments of *fn*.
        kind: See the table at the top of the module.

    Raises:
        InputError: *kind* is not known (`bad-effect`).
        NodeError: The outcome of a "once" effect is unknown, and it is not to run again (`effect-unknown`).
        UpdateError: The result is not a storable value.
        StoreError: The store failed.
        BaseException: What *fn* raises.
    """
    if kind not in ("pure", "idempotent", "once"):
        kinds = get_args(EffectKind)
        raise UNKNOWN_KIND_OF_EFFECT(kind=kind, kinds=kinds, node=task.node.name, where=task.engine.where(task))
    if inspect.iscoroutinefunction(fn):
        return perform_async(context, services, task, key, fn, args, kind)
    known, result = _known(context, services, task, key, kind)
    if known:
        return result
    if kind == "once":  # its start is counted and stored before it runs
        _intend(task, key)
        _keep(services, task, key)
    if known is None:  # only now: the answer "fail" counts as a start, which had to be stored
        raise _unknown(task, key)
    result = fn(*args) if services.recorded is None else services.recorded.effect(task, key)
    result = _take(task, key, result)  # the node goes on with what is recorded
    if kind != "pure":
        _keep(services, task, key)
    return own(result)


async def perform_async(
    context: Asking,
    services: RunServices,
    task: Task,
    key: str,
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

    known, result = _known(context, services, task, key, kind, about)
    if known:
        return result
    if kind == "once":
        _intend(task, key)
        await call_store(services, _keep, services, task, key)
    if known is None:
        raise _unknown(task, key)
    recorded = services.recorded
    result = _take(task, key, await (fn(*args) if recorded is None else recorded.aeffect(task, key, fn)))
    if kind != "pure":
        await call_store(services, _keep, services, task, key)
    return own(result)


def _known(
    context: Asking,
    services: RunServices,
    task: Task,
    key: str,
    kind: EffectKind,
    about: Mapping[str, Any] | None = None,
) -> tuple[bool | None, Any]:
    """Look up an effect's recorded result; if a "once" effect has started and has none, ask a person.

    Returns:
        (True, result) if it is known, (False, None) if the effect is to run, (None, None) if the node is to fail.
    """
    extra = task.more()
    # Note the order of the calls in this execution. Results arrive in any order, which the journal must not show (R13).
    extra.request(key)
    if key in extra.effects:
        return True, own(extra.effects[key])
    # Executed again from a log in which the process died after the start: ask the same question as then.
    if services.recorded is not None and key not in extra.intents and services.recorded.started(task, key):
        _intend(task, key)
    if kind != "once" or key not in extra.intents:
        return False, None
    if task.engine.thread is None:  # such a run cannot pause for an answer
        raise _unknown(task, key)
    name = key.rsplit("#", 1)[0]
    payload: dict[str, Any] = {
        "effect": name,
        "problem": "outcome unknown",
        "idempotency_key": context.idempotency_key,
        **(about or {}),
    }
    # Each start has a question of its own: an answer about an earlier start says nothing about this one.
    starts = extra.intents[key]
    question = f"effect={key}" if starts == 1 else f"effect={key}:{starts}"
    # A copied thread has another idempotency key. The effect was started with the one in the question that was copied.
    # `base` is the key of a question without the number of its wording.
    payload = next((asked.payload for asked in extra.interrupts if asked.base == question), payload)
    decision: Any = Literal["run", "fail"] | dict[Literal["result"], Any]
    answer = context._ask(question, payload, decision, kind="effect")
    if isinstance(answer, Mapping) and "result" in answer:  # not stored by itself: the answer is, and gives it again
        return True, own(_take(task, key, answer["result"]))
    # "fail" is counted like a start by the caller, so that it holds for this execution and the next one asks anew.
    return (False if answer == "run" else None), None


def _unknown(task: Task, key: str) -> NodeError:
    """Return the error for a "once" effect whose outcome is unknown. It has the name alone, without `#` and number."""
    return EFFECT_UNKNOWN(effect=key.rsplit("#", 1)[0], node=task.node.name, where=task.engine.where(task))


def _intend(task: Task, key: str) -> None:
    """Count a start of a "once" effect, with the number of answers that the task had been given by then.

    The number of answers tells later whether the effect may stand on an answer, which then cannot be replaced (R10). It
    is set first: if the node was given up, another thread may write what it has recorded at any moment.
    """
    extra = task.more()
    extra.effect_answers[key] = extra.answers
    extra.intents[key] = extra.intents.get(key, 0) + 1


def _take(task: Task, key: str, result: Any) -> Any:
    """Put the result of an effect on the task, redacted and as a copy; return it.

    Raises:
        UpdateError: It is not a storable value.
        AuditError: It could not be redacted.
    """
    result = check_storable(task.engine, task, result, f"has the effect {key.rsplit('#', 1)[0]!r} with a result")
    extra = task.more()
    # The node may have chosen this effect by an answer. Such an answer cannot be replaced any more (R10). Set first, as
    # in `_intend`.
    extra.effect_answers[key] = extra.answers
    extra.effects[key] = own(result)
    return result


def _keep(services: RunServices, task: Task, key: str) -> None:
    """Stage the start and the result of an effect, as far as they are known.

    The key of the staged events is that of the task, `#`, and that of the effect, so that effects of one task that run
    at the same time do not replace each other's events. Called before a "once" effect and after it: the second call
    replaces what the first one staged.
    """
    extra, path = task.more(), task.engine.path
    known: list[tuple[str, Event]] = []
    if key in extra.intents:
        known.append(
            (
                path,
                EffectStarted(task=task.id, key=key, starts=extra.intents[key], answers=extra.effect_answers[key]),
            )
        )
    if key in extra.effects:
        recorded = EffectRecorded(task=task.id, key=key, result=extra.effects[key], answers=extra.effect_answers[key])
        known.append((path, recorded))
    services.keep([(f"{task.id}#{key}", known)])
