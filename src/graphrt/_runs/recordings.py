"""`Recordings`: the answers of models, tools and effects in a log, for a run that is executed again from it.

An answer is found by its task and key, as after a crash. What the log does not have is what failed: a call without a
reply, an effect that raised. Then the failure that the log has of the attempt is raised again. An attempt that made
got recorded answers and failed after them fails at the last of them, since the log does not say where it failed; a node
that raises by itself does so before.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

from graphrt import errors, events
from graphrt._engine.model_calls import ModelCall
from graphrt._engine.task import Task
from graphrt._plan.fields import own
from graphrt.audit._reexecution import UnansweredCall
from graphrt.errors import GraphrtError
from graphrt.errors._codes.threads import NOT_IN_THE_LOG
from graphrt.events import Entry
from graphrt.harness._reply_data import reply_from
from graphrt.harness.agent._services import INSTEAD, Composed

_PENDING_S: Final = 2.0
"""Seconds for which a call waits to be cancelled that the log has no end of."""


class _Told:
    """What the log has of one task."""

    def __init__(self) -> None:
        self.effects: dict[str, events.EffectRecorded] = {}
        self.replies: dict[ModelCall, events.ModelReplied] = {}
        self.held: set[ModelCall] = set()
        self.usages: list[events.UsageRecorded] = []
        self.failures: list[tuple[int, events.TaskRetried | events.TaskFailed]] = []
        """Places in the log, and how an attempt failed."""
        self.unknown: dict[str, int] = {}
        """Effects that a person was asked about, and the places of those questions."""
        self.ended = False
        self.places: dict[str | ModelCall, int] = {}
        """Keys of effects and calls of models, in the order of the log, and where each was recorded first."""


@final
class Recordings:
    """The answers of one log. Implements `_drivers.recorded.Recorded`.

    Args:
        entries: The entries of the log.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.at = 0
        """Number of entries that the second execution has repeated so far."""
        self.unanswered: list[UnansweredCall] = []
        self._tasks: dict[str, _Told] = {}
        for place, entry in enumerate(entries):
            self._read(place, entry.event)

    def _read(self, place: int, event: events.Event) -> None:
        task: str | None = getattr(event, "task", None)
        if task is None:
            return
        told = self._tasks.setdefault(task, _Told())
        match event:
            case events.EffectRecorded():
                told.effects[event.key] = event
                told.places.setdefault(event.key, place)
            case events.ModelReplied():
                call = ModelCall(event.failed_attempts, event.key)
                told.replies[call] = event
                told.places.setdefault(call, place)
            case events.BudgetHeld():
                told.held.add(ModelCall(event.failed_attempts, event.key))
            case events.UsageRecorded():
                told.usages.append(event)
            case events.TaskRetried() | events.TaskFailed():
                told.failures.append((place, event))
                told.ended = told.ended or isinstance(event, events.TaskFailed)
            case events.InterruptRaised() if event.kind == "effect":
                told.unknown[event.key.removeprefix("key=").removeprefix("effect=").rpartition(":")[0]] = place
                told.unknown[event.key.removeprefix("key=").removeprefix("effect=")] = place
            case events.TaskSucceeded():
                told.ended = True
            case _:
                pass

    def _told(self, task: Task) -> _Told:
        return self._tasks.get(task.id) or _Told()

    def started(self, task: Task, key: str) -> bool:
        return self._told(task).unknown.get(key, -1) >= self.at

    def knows(self, task: Task, key: str) -> bool:
        told = self._told(task)
        known = told.effects.get(key)
        return known is not None and self._was_known(told, task, key, known.answers)

    def effect(self, task: Task, key: str) -> Any:
        told = self._told(task)
        known = told.effects.get(key)
        if known is None or not self._was_known(told, task, key, known.answers):
            raise self._failure(told, task) or self._unanswered(
                task, "effect", key, unused=set(told.effects) - task.more().effects.keys()
            )
        models = task.more().model_calls()
        for usage in told.usages:  # what a graph used that was the tool
            if usage.failed_attempts == models.failed_attempts and not usage.key.startswith("graph/"):
                models.apply(usage, own)
        return own(known.result)

    async def aeffect(self, task: Task, key: str, fn: Callable[..., Awaitable[Any]]) -> Any:
        if isinstance(fn, Composed):
            return await fn()
        await self._cancelled_if_pending(task, key in self._told(task).effects)
        return self.effect(task, key)

    async def reply(self, task: Task, call: ModelCall, make: Callable[[], Awaitable[Any]]) -> Any:
        told = self._told(task)
        known = told.replies.get(call)
        if known is not None and not self._was_known(told, task, call, known.answers):
            known = None
        if known is not None and call not in told.held:
            return _reply(known)  # no budget bounded it, or a cache of the agent's had it

        async def instead() -> Any:
            if known is not None:
                return _reply(known)
            await self._cancelled_if_pending(task, answered=False)
            asked = {one.key for one in told.replies.values()} - {one.key for one in task.more().model_calls().replies}
            raise self._failure(told, task) or self._unanswered(task, "model", call.key, unused=asked)

        token = INSTEAD.set(instead)
        try:
            return await make()
        finally:
            INSTEAD.reset(token)

    async def _cancelled_if_pending(self, task: Task, answered: bool) -> None:  # noqa: FBT001 - private, and both calls name it
        """Wait to be cancelled, if the log has no end of *task*: then a failure beside it had cancelled it."""
        told = self._tasks.get(task.id)
        if not answered and told is not None and not told.ended and not told.failures and not task.more().interrupts:
            await asyncio.sleep(_PENDING_S)

    def _failed(self, told: _Told, task: Task) -> tuple[int, events.TaskRetried | events.TaskFailed] | None:
        """Return how the present attempt of *task* failed in the log, and where that stands; None if it did not fail."""
        for place, event in told.failures:
            if place >= self.at and (isinstance(event, events.TaskFailed) or event.attempt == task.attempt):
                return place, event
        return None

    def _failure(self, told: _Told, task: Task) -> Exception | None:
        """Return what the present attempt of *task* failed with in the log; None if it did not fail."""
        found = self._failed(told, task)
        if found is None:
            return None
        _, event = found
        if isinstance(event, events.TaskFailed) and isinstance(event.exception, Exception):
            return event.exception
        return made(event.error, event.message, task)

    def _was_known(self, told: _Told, task: Task, key: str | ModelCall, answers: int | None) -> bool:
        """Return whether an answer in the log was there in the present attempt of *task*.

        Of an attempt that failed for good the log says it. Of one that was followed by another it does not: then the
        last answer counts as one of a later attempt.
        """
        if answers is not None and answers > task.more().answers:
            return False  # it came after an answer of a person
        found = self._failed(told, task)
        if found is None:
            return True
        place, event = found
        if isinstance(event, events.TaskFailed):
            return told.places[key] < place
        return key != next(reversed(told.places))

    def _unanswered(self, task: Task, kind: str, key: str, unused: Iterable[str]) -> GraphrtError:
        call = UnansweredCall(node=task.node.name, task_id=task.id, kind=kind, key=key, unused=tuple(sorted(unused)))
        self.unanswered.append(call)
        return NOT_IN_THE_LOG(node=task.node.name, task_id=task.id, asked=call.asked, instead=call.known)


def _reply(event: events.ModelReplied) -> Any:
    return reply_from(own(event.reply), event.usage, event.model)


def made(name: str, message: str, task: Task) -> Exception:
    """Return an error of the class *name*: one that the retry policy of *task* names, graphrt's, Python's, or a new one."""
    policy = task.node.policy.retry
    on: Any = policy.retry_on if policy is not None else None
    given: tuple[Any, ...] = on if on.__class__ is tuple else (on,)
    bases: list[Any] = [one for one in given if isinstance(one, type)]
    classes: Mapping[str, Any] = {
        **{cls.__name__: cls for base in bases for cls in (*_below(base), base)},
        **{key: getattr(place, key) for place in (builtins, errors) for key in [name] if hasattr(place, key)},
    }
    known: Any = classes.get(name)
    if not (isinstance(known, type) and issubclass(known, Exception)):
        known = type(name, (Exception,), {})
    try:
        error: Exception = known(message)
    except TypeError:  # it takes other arguments
        other: Any = type(name, (known,), {"__init__": Exception.__init__})
        error = other(message)
    return error


def _below(base: Any) -> list[Any]:
    return [one for cls in base.__subclasses__() for one in (cls, *_below(cls))]
