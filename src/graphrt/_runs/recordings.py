"""`Recordings`: the answers of models, tools and effects in a log, for a run that is executed again from it.

`reexecute` makes the runs of a thread again and compares the entries with its *log*, the list of the entries of the
first execution. A *place* is an index in this list. The nodes run again; models, tools and effects do not.

An answer is found by its task and key, as after a crash. The log has no answer of a call that failed: a model that gave
no reply, an effect that raised. The failure that the log has of the attempt is then raised again. An attempt that got
recorded answers and failed after them fails at the last of them, since the log does not say where it failed. A node
that raises by itself does so before. For the terms, see docs/glossary.md.
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
from graphrt.harness.agent._host import Composed, StoredReply
from graphrt.harness.protocol import ModelResponse

_PENDING_S: Final = 2.0
"""Seconds for which a call waits to be cancelled if the log has no end of its task."""


class _LogOfTask:
    """What the log has of one task."""

    def __init__(self) -> None:
        self.effects: dict[str, events.EffectRecorded] = {}
        """Results of effects and tools, by the key of the call inside the task."""
        self.replies: dict[ModelCall, events.ModelReplied] = {}
        self.held: set[ModelCall] = set()
        """Calls of models for which a budget reserved an amount."""
        self.usages: list[events.UsageRecorded] = []
        """What calls used that leave no reply: failed ones that were billed, and graphs that an agent has as tools."""
        self.failures: list[tuple[int, events.TaskRetried | events.TaskFailed]] = []
        """Places in the log, and how an attempt failed."""
        self.payloads: dict[str, tuple[int, Any]] = {}
        """Questions about effects, by key: place and payload of the last one."""
        self.unknown: dict[str, int] = {}
        """Effects that a person was asked about, as a crash had left their outcome unknown; places of the questions."""
        self.changed: dict[str, int] = {}
        """Keys of the questions about effects whose arguments had changed; places of the questions."""
        self.signals: dict[str, int] = {}
        """Keys of the questions by which the task receives signals, and the place of each."""
        self.ended = False
        """Whether the task succeeded or failed for good."""
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
        """Number of entries that the second execution has repeated so far; `reexecution` sets it."""
        self.post: Callable[[events.SignalReceived], Any] | None = None
        """Sends a signal to the thread of the second execution; `reexecution` sets it."""
        self._posted: set[str] = set()
        """Ids of the signals that `post` was called with."""
        self._entries = entries
        self.unanswered: list[UnansweredCall] = []
        """Calls that the log has neither an answer nor a failure for."""
        self._tasks: dict[str, _LogOfTask] = {}
        """By task id, which is the same in both executions."""
        self._given_up: dict[int, events.SuperstepAbandoned] = {}
        """What was abandoned, by the place of the entry."""
        for place, entry in enumerate(entries):
            self._read(place, entry.event)
            if isinstance(entry.event, events.SuperstepAbandoned):
                self._given_up[place] = entry.event

    def _read(self, place: int, event: events.Event) -> None:
        """Note what the entry at *place* says of a task."""
        task: str | None = getattr(event, "task", None)
        if task is None:
            return
        log = self._tasks.setdefault(task, _LogOfTask())
        match event:
            case events.EffectRecorded():
                log.effects[event.key] = event
                log.places.setdefault(event.key, place)
            case events.ModelReplied():
                call = ModelCall(event.failed_attempts, event.key)
                log.replies[call] = event
                log.places.setdefault(call, place)
            case events.BudgetHeld():
                log.held.add(ModelCall(event.failed_attempts, event.key))
            case events.UsageRecorded():
                log.usages.append(event)
            case events.TaskRetried() | events.TaskFailed():
                log.failures.append((place, event))
                log.ended = log.ended or isinstance(event, events.TaskFailed)
            case events.InterruptRaised() if event.kind == "effect" and event.key.startswith("changed="):
                # The second wording of a question has `:2` at its end, and so on: the first one is noted too.
                log.changed[event.key] = log.changed[event.key.rpartition(":")[0]] = place
            case events.InterruptRaised() if event.kind == "effect":
                log.payloads[event.key.removeprefix("key=")] = place, event.payload
                # The key of the question is `effect=<key>`, or `effect=<key>:<n>` for the n-th start of the effect. An
                # effect's key may have a colon itself, so both readings are noted; one of them is never asked for.
                log.unknown[event.key.removeprefix("key=").removeprefix("effect=").rpartition(":")[0]] = place
                log.unknown[event.key.removeprefix("key=").removeprefix("effect=")] = place
            case events.InterruptRaised() if event.kind == "signal":
                log.signals.setdefault(event.key, place)
            case events.TaskSucceeded():
                log.ended = True
            case _:
                pass

    def _log_of(self, task: Task) -> _LogOfTask:
        """Return what the log has of *task*; nothing, if it does not know it."""
        return self._tasks.get(task.id) or _LogOfTask()

    # What follows are the methods of `Recorded`, which the contexts of nodes call in place of effects and models.

    def started(self, task: Task, key: str) -> bool:
        """Return whether a person is asked, further on in the log, if the "once" effect *key* had run before a crash.

        The second execution then asks the same question.
        """
        return self._log_of(task).unknown.get(key, -1) >= self.at

    def asks(self, task: Task, question: str) -> bool:
        """Return whether a person is asked *question*, about an effect with other arguments, further on in the log."""
        return self._log_of(task).changed.get(question, -1) >= self.at

    def arguments(self, task: Task) -> Mapping[str, Any]:
        """Return the arguments of the effects of *task* by key."""
        return {key: event.arguments for key, event in self._log_of(task).effects.items()}

    def receives(self, task: Task, question: str) -> bool:
        """Return whether the task receives a signal by *question* in the log; then post the signals that came by then."""
        place = self._log_of(task).signals.get(question)
        if place is None:
            return False
        for entry in self._entries[place:]:
            event = entry.event
            if isinstance(event, (events.SignalTaken, events.RunInterrupted)):  # later ones are sent by the verbs
                break
            if isinstance(event, events.SignalReceived) and event.id not in self._posted and self.post is not None:
                self._posted.add(event.id)
                self.post(event)
        return True

    def asked(self, task: Task, question: str) -> Any:
        """Return the payload with which the log asks *question*, further on; None if it does not."""
        place, payload = self._log_of(task).payloads.get(question, (-1, None))
        return payload if place >= self.at else None

    def abandoned(self) -> tuple[int, Mapping[str, Any]] | None:
        """Return what the log abandons next: a run that the outside cancelled is not cut off at the same point again."""
        return next(
            ((event.superstep, event.said) for place, event in self._given_up.items() if place >= self.at), None
        )

    def knows(self, task: Task, key: str) -> bool:
        """Return whether `effect` has a result for *key* in the present attempt."""
        log = self._log_of(task)
        known = log.effects.get(key)
        return known is not None and self._was_known(log, task, key, known.answers)

    def effect(self, task: Task, key: str) -> Any:
        """Return the recorded result of the effect *key*; raise the recorded failure of the attempt if there is none.

        Raises:
            ReplayDivergedError: The log has neither (`not-in-the-log`): the node asks for something else than before.
        """
        log = self._log_of(task)
        known = log.effects.get(key)
        if known is None or not self._was_known(log, task, key, known.answers):
            # Results that no call has asked for yet are named in the error: a key that changed is likely one of them.
            raise self._failure(log, task) or self._unanswered(
                task, "effect", key, unused=set(log.effects) - task.more().effects.keys()
            )
        models = task.more().model_calls()
        # The effect may be a tool that is a graph, which is not run again. What it used counts all the same; a usage
        # that is applied twice counts once. Keys with `graph/` are of a graph as the harness, whose run failed.
        for usage in log.usages:
            if usage.failed_attempts == models.failed_attempts and not usage.key.startswith("graph/"):
                models.apply(usage)
        return own(known.result)

    def wrote(self, task: Task, key: str) -> tuple[events.MemoryWritten, ...]:
        """Return what the effect *key* wrote to the memory; nothing, if the log does not know it."""
        known = self._log_of(task).effects.get(key)
        return known.memory if known is not None else ()

    async def aeffect(self, task: Task, key: str, fn: Callable[..., Awaitable[Any]]) -> Any:
        """Return the recorded result of an effect of an async node; see `effect`.

        Args:
            fn: Performs the effect. It is called only if it is a `Composed`: a tool that is made of recorded calls.
        """
        # A graph as a tool that asked has recorded the parts of its run.
        if isinstance(fn, Composed) or f"{key}/part/0" in self._log_of(task).effects:
            return await fn()
        await self._cancelled_if_pending(task, key in self._log_of(task).effects)
        return self.effect(task, key)

    def reply(self, task: Task, call: ModelCall) -> tuple[StoredReply | None, Callable[[], Awaitable[ModelResponse]]]:
        """Return the recorded reply to a model call that no budget had bounded, else None, and what answers for the model.

        A call with a budget is made, with the recorded reply in place of the model's, so that budgets are charged, and
        refuse, as they did.
        """
        log = self._log_of(task)
        for usage in log.usages:
            if call == (usage.failed_attempts, usage.key):  # a failed call that was billed: it is not made again
                task.more().model_calls().apply(usage)
        known = log.replies.get(call)
        if known is not None and not self._was_known(log, task, call, known.answers):
            known = None

        async def instead() -> Any:
            """Answer in place of the model."""
            if known is not None:
                return reply_from(own(known.reply), known.usage, known.model)
            await self._cancelled_if_pending(task, answered=False)
            asked = {one.key for one in log.replies.values()} - {one.key for one in task.more().model_calls().replies}
            raise self._failure(log, task) or self._unanswered(task, "model", call.key, unused=asked)

        if known is not None and call not in log.held:
            # No budget bounded it, or a cache of the agent's had it.
            return StoredReply(own(known.reply), known.usage, known.model), instead
        return None, instead

    async def _cancelled_if_pending(self, task: Task, answered: bool) -> None:  # noqa: FBT001 - for this class only
        """Wait to be cancelled, if the log has no end of *task*: then the failure of a task beside it had cancelled it.

        A task with questions is not waited for, as it ended with a pause.

        Args:
            answered: The log has the answer, so there is nothing to wait for.
        """
        log = self._tasks.get(task.id)
        if not answered and log is not None and not log.ended and not log.failures and not task.more().interrupts:
            await asyncio.sleep(_PENDING_S)

    def _failed(self, log: _LogOfTask, task: Task) -> tuple[int, events.TaskRetried | events.TaskFailed] | None:
        """Return how the present attempt of *task* failed in the log, after the place; None if it did not fail."""
        for place, event in log.failures:  # those before `at` belong to attempts that were repeated already
            if place >= self.at and (isinstance(event, events.TaskFailed) or event.attempt == task.attempt):
                return place, event
        return None

    def _failure(self, log: _LogOfTask, task: Task) -> Exception | None:
        """Return what the present attempt of *task* failed with in the log; None if it did not fail."""
        found = self._failed(log, task)
        if found is None:
            return None
        _, event = found
        if isinstance(event, events.TaskFailed) and isinstance(event.exception, Exception):
            return event.exception
        return made(event.error, event.message, task)

    def _was_known(self, log: _LogOfTask, task: Task, key: str | ModelCall, answers: int) -> bool:
        """Return whether an answer in the log was there in the present attempt of *task*.

        If the attempt failed for good, the log shows it: an answer that comes after the failure belongs to a later
        execution. If another attempt followed, the log does not show it: the last answer of the task then counts as one
        of a later attempt.

        Args:
            answers: Answers of persons that the task had been given when the result was recorded.
        """
        if answers > task.more().answers:
            return False  # it came after an answer of a person
        found = self._failed(log, task)
        if found is None:
            return True
        place, event = found
        if isinstance(event, events.TaskFailed):
            return log.places[key] < place
        return key != next(reversed(log.places))

    def _unanswered(self, task: Task, kind: str, key: str, unused: Iterable[str]) -> GraphrtError:
        """Note a call that the log does not know, and return the error for it. Arguments are as in `UnansweredCall`."""
        call = UnansweredCall(node=task.node.name, task_id=task.id, kind=kind, key=key, unused=tuple(sorted(unused)))
        self.unanswered.append(call)
        return NOT_IN_THE_LOG(node=task.node.name, task_id=task.id, asked=call.asked, instead=call.known)


def made(name: str, message: str, task: Task) -> Exception:
    """Return an error of the class *name*: one of the retry policy of *task*, of graphrt, of Python, or a new one.

    The journal has only name and message of an error. The class matters to the retry policy, and to handlers in nodes.
    If several classes have the name, that of graphrt counts first, then that of Python.
    """
    policy = task.node.policy.retry
    on: Any = policy.retry_on if policy is not None else None  # a class, a tuple of classes, or a function
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
    except TypeError:  # the class takes other arguments: a subclass of the same name takes the message
        other: Any = type(name, (known,), {"__init__": Exception.__init__})
        error = other(message)
    return error


def _below(base: Any) -> list[Any]:
    """Return all subclasses of *base* that are loaded, since a retry policy covers them too."""
    return [one for cls in base.__subclasses__() for one in (cls, *_below(cls))]
