"""`ctx.effect`: running something once for a task, and what is stored about it before and after (rules R9, R10).

The three kinds are those of retries in the field (at least once, safe to repeat, never repeated silently): decision 0023.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from graphrt._drivers.run_services import RunServices
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Task
from graphrt._plan.fields import own
from graphrt.errors import InputError, NodeError
from graphrt.events import EffectRecorded, EffectStarted, Event

if TYPE_CHECKING:
    from graphrt._drivers.context import Context

EffectKind: TypeAlias = Literal["pure", "idempotent", "once"]


def perform(
    context: Context[Any],
    services: RunServices,
    task: Task,
    key: str,
    fn: Callable[..., Any],
    args: Any,
    kind: EffectKind,
) -> Any:
    """Run *fn* unless its result is known; awaitable if it is async."""
    if kind not in ("pure", "idempotent", "once"):
        raise InputError(
            f"There is no kind of effect {kind!r}.",
            code="bad-effect",
            where=task.engine.where(task),
            known="'pure', 'idempotent', 'once'",
            fix="Use one of them.",
            node=task.node.name,
            boundary=True,
        )
    if inspect.iscoroutinefunction(fn):
        return perform_async(context, services, task, key, fn, args, kind)
    known, result = _known(context, task, key, kind)
    if known:
        return result
    if kind == "once":
        _intend(task, key)
        _keep(services, task, key, kind)
    if known is None:
        raise _unknown(task, key)
    result = fn(*args)
    _take(task, key, result)
    if kind != "pure":
        _keep(services, task, key, kind)
    return own(result)


async def perform_async(
    context: Context[Any],
    services: RunServices,
    task: Task,
    key: str,
    fn: Callable[..., Any],
    args: Any,
    kind: EffectKind,
    about: Mapping[str, Any] | None = None,
) -> Any:
    """As `perform`, of an async *fn*; *about* tells a person who decides what is done."""
    from graphrt._drivers.blocking_calls import call_store

    known, result = _known(context, task, key, kind, about)
    if known:
        return result
    if kind == "once":
        _intend(task, key)
        await call_store(services, _keep, services, task, key, kind)
    if known is None:
        raise _unknown(task, key)
    result = await fn(*args)
    _take(task, key, result)
    if kind != "pure":
        await call_store(services, _keep, services, task, key, kind)
    return own(result)


def _known(
    context: Context[Any], task: Task, key: str, kind: EffectKind, about: Mapping[str, Any] | None = None
) -> tuple[bool | None, Any]:
    """Whether the result is known (None: it is to fail), and it; asks for a decision where a "once" effect began and no result is known."""
    extra = task.more()
    if key in extra.calls:
        extra.calls.remove(key)
    extra.calls.append(key)
    if key in extra.effects:
        return True, own(extra.effects[key])
    if kind != "once" or key not in extra.intents:
        return False, None
    if task.engine.thread is None:
        raise _unknown(task, key)
    name = key.rsplit("#", 1)[0]
    payload: dict[str, Any] = {
        "effect": name,
        "problem": "outcome unknown",
        "idempotency_key": context.idempotency_key,
        **(about or {}),
    }
    starts = extra.intents[key]
    question = f"effect={key}" if starts == 1 else f"effect={key}:{starts}"
    # In a copy of the thread the question stands with the key under which the effect was started: that one counts.
    payload = next((asked.payload for asked in extra.interrupts if asked.base == question), payload)
    # Each start has a question of its own: what was answered about the one before says nothing of this one.
    decision: Any = Literal["run", "fail"] | dict[Literal["result"], Any]
    answer = context._ask(question, payload, decision, kind="effect")
    if isinstance(answer, Mapping) and "result" in answer:
        _take(task, key, answer["result"])
        return True, own(answer["result"])
    # "fail" is for this execution, as "run" is: it counts like a start, so that the next one asks anew.
    return (False if answer == "run" else None), None


def _unknown(task: Task, key: str) -> NodeError:
    name = key.rsplit("#", 1)[0]
    return NodeError(
        f"Effect {name!r} of node {task.node.name!r} was started before, and its outcome is unknown.",
        code="effect-unknown",
        where=task.engine.where(task),
        known="effects of the kind 'once' are never repeated silently",
        fix='Find out whether it happened. On a thread, answer the interrupt with "run" or {"result": ...}.',
        node=task.node.name,
        boundary=True,
    )


def _intend(task: Task, key: str) -> None:
    extra = task.more()
    extra.intents[key] = extra.intents.get(key, 0) + 1
    extra.effect_answers[key] = extra.answers


def _take(task: Task, key: str, result: Any) -> None:
    check_storable(task.engine, task, result, f"has the effect {key.rsplit('#', 1)[0]!r} with a result")
    extra = task.more()
    extra.effects[key] = own(result)
    extra.effect_answers[key] = extra.answers


def keep_effect(services: RunServices, task: Task, key: str, now: bool = False) -> None:  # noqa: FBT001, FBT002 - passed on by place
    """Store what is known of the effect *key*, which is on the task; *now* whatever the durability is."""
    _keep(services, task, key, "once" if now else "idempotent")


def _keep(services: RunServices, task: Task, key: str, kind: EffectKind) -> None:
    """Store what is known of the effect; of one of the kind "once" before anything else happens."""
    extra, path = task.more(), task.engine.path
    known: list[tuple[str, Event]] = []
    if key in extra.intents:
        known.append(
            (
                path,
                EffectStarted(task=task.id, key=key, starts=extra.intents[key], answers=extra.effect_answers.get(key)),
            )
        )
    if key in extra.effects:
        recorded = EffectRecorded(
            task=task.id, key=key, result=extra.effects[key], answers=extra.effect_answers.get(key)
        )
        known.append((path, recorded))
    services.keep([(f"{task.id}#{key}", known)], now=kind == "once")
