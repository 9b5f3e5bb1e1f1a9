"""`Recordings`: the answers of models, tools and effects in a log, for a run that is executed again from it.

`reexecute` repeats the runs of a thread and compares the entries with its *log*, the list of entries from the first
execution. A *place* is an index in this list. Nodes run again; models, tools and effects do not.

An answer is found by its task and key, as after a crash. The log has no answer for a failed call, such as a model that
did not reply or an effect that raised. The attempt's failure in the log is then raised again. An attempt that failed
after recorded answers fails at the last of them, since the log does not say where it failed. A node that raises on its
own does so earlier. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

from graphrt import errors, events
from graphrt._agents.task_host import asks_anew
from graphrt._engine.emit_events import Logged
from graphrt._engine.model_calls import ModelCall
from graphrt._engine.task import Task
from graphrt._flows.child import DEFAULTS
from graphrt._plan.fields import own
from graphrt.audit._reexecution import UnansweredCall
from graphrt.errors import GraphrtError
from graphrt.errors._codes.threads import NOT_IN_THE_LOG
from graphrt.events import Entry
from graphrt.harness._reply_data import reply_from
from graphrt.harness.agent._host import Composed, StoredReply
from graphrt.harness.protocol import ModelResponse

_PENDING_S: Final = 2.0
"""Seconds that a call waits to be cancelled if the log does not have the end of its task."""


_STAGED: Final = (
    events.EffectRecorded, events.ModelReplied, events.UsageRecorded, events.BudgetHeld, events.RepliesDiscarded,
    events.TaskSucceeded,
)  # fmt: skip
"""Events that are read from staged data: answers received by a task of the open superstep, and its end."""


class _LogOfTask:
    """The log of one task."""

    def __init__(self) -> None:
        self.effects: dict[str, events.EffectRecorded] = {}
        """Results of effects and tools, by the key of the call within the task."""
        self.replies: dict[ModelCall, events.ModelReplied] = {}
        self.held: set[ModelCall] = set()
        """Model calls for which a budget reserved an amount."""
        self.usages: list[events.UsageRecorded] = []
        """Usage of calls without a reply: failed calls that were billed, and graphs used as an agent's tools."""
        self.failures: list[tuple[int, events.TaskRetried | events.TaskFailed]] = []
        """Places in the log, and how an attempt failed."""
        self.payloads: dict[str, tuple[int, Any]] = {}
        """Questions about effects, by key: place and payload of the last one."""
        self.unknown: dict[str, int] = {}
        """Effects whose outcome a crash left unknown, so that a person was asked; places of the questions."""
        self.changed: dict[str, int] = {}
        """Keys and places of the questions about effects whose arguments had changed."""
        self.signals: dict[str, int] = {}
        """Keys and places of the questions through which the task receives signals."""
        self.discards = 0
        """Number of the last failed attempt whose replies were discarded, as counted in `ModelCall`."""
        self.ended = False
        """Whether the task succeeded or failed for good."""
        self.places: dict[str | ModelCall, int] = {}
        """Keys of effects and model calls in log order, with the place where each was first recorded."""


@final
class Recordings:
    """The answers of one log. Implements `_drivers.recorded.Recorded`.

    Args:
        entries: The entries of the log.
        staged: The data staged beside the log for the tasks of the superstep open at its end. Their answers enter the
            log only when the superstep ends.
    """

    def __init__(self, entries: Sequence[Entry], staged: Iterable[events.Event] = ()) -> None:
        self.at = 0
        """Number of entries that the second execution has repeated so far; `reexecution` sets it."""
        self.post: Callable[[events.SignalReceived], Any] | None = None
        """Sends a signal to the thread of the second execution; `reexecution` sets it."""
        self._posted: set[str] = set()
        """Ids of the signals that `post` was called with."""
        self._entries = entries
        self.requests: dict[tuple[str, int, str], Any] = {}
        """Model requests, by task, failed attempts and key."""
        self.unanswered: list[UnansweredCall] = []
        """Calls for which the log has neither an answer nor a failure."""
        self._tasks: dict[str, _LogOfTask] = {}
        """By task id, which is the same in both executions."""
        self._given_up: dict[int, events.SuperstepAbandoned] = {}
        """Abandoned work, by the place of the entry."""
        for place, entry in enumerate(entries):
            self._read(place, entry.event)
            if isinstance(entry.event, events.SuperstepAbandoned):
                self._given_up[place] = entry.event
        for event in staged:
            if isinstance(event, _STAGED):
                self._read(len(entries), event)

    def _read(self, place: int, event: events.Event) -> None:
        """Record the task data from the entry at *place*."""
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
            case events.UsageRecorded() if event not in log.usages:
                log.usages.append(event)
            case events.RepliesDiscarded():
                log.discards = max(log.discards, event.failed_attempts)
            case events.TaskRetried() | events.TaskFailed():
                log.failures.append((place, event))
                log.ended = log.ended or isinstance(event, events.TaskFailed)
            case events.InterruptRaised() if event.kind == "effect" and event.key.startswith("changed="):
                # The second wording of a question ends with `:2`, and so on; the first one is recorded too.
                log.changed[event.key] = log.changed[event.key.rpartition(":")[0]] = place
            case events.InterruptRaised() if event.kind == "effect":
                log.payloads[event.key.removeprefix("key=")] = place, event.payload
                # The question's key is `effect=<key>`, or `effect=<key>:<n>` for the n-th start of the effect. An
                # effect's key may itself contain a colon, so both readings are recorded; one of them is never looked
                # up.
                log.unknown[event.key.removeprefix("key=").removeprefix("effect=").rpartition(":")[0]] = place
                log.unknown[event.key.removeprefix("key=").removeprefix("effect=")] = place
            case events.InterruptRaised() if event.kind == "signal":
                log.signals.setdefault(event.key, place)
            case events.TaskSucceeded():
                log.ended = True
            case _:
                pass

    def _log_of(self, task: Task) -> _LogOfTask:
        """Return the log of *task*; an empty one if it is unknown."""
        return self._tasks.get(task.id) or _LogOfTask()

    def defaults(self) -> dict[str, Sequence[Logged]]:
        """Return the recorded defaults of nested graphs, by the task that runs the graph: one event each."""
        events_by_task: dict[str, Sequence[Logged]] = {}
        for task, log in self._tasks.items():
            path, slash, _ = task.rpartition("/")
            if DEFAULTS in log.effects:
                events_by_task[task] = [(path + slash, log.effects[DEFAULTS])]
        return events_by_task

    # The methods below implement `Recorded`: node contexts call them in place of effects and models.

    def started(self, task: Task, key: str) -> bool:
        """Return whether the log later asks a person if the "once" effect *key* had run before a crash.

        The second execution then asks the same question.
        """
        return self._log_of(task).unknown.get(key, -1) >= self.at

    def asks(self, task: Task, question: str) -> bool:
        """Return whether the log later asks a person *question*, about an effect with changed arguments."""
        return self._log_of(task).changed.get(question, -1) >= self.at

    def arguments(self, task: Task) -> Mapping[str, Any]:
        """Return the arguments of the effects of *task* by key."""
        return {key: event.arguments for key, event in self._log_of(task).effects.items()}

    def receives(self, task: Task, question: str) -> bool:
        """Return whether the logged task receives a signal through *question*; if so, post the signals sent by then."""
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
        """Return the payload with which the log later asks *question*; None if it does not."""
        place, payload = self._log_of(task).payloads.get(question, (-1, None))
        return payload if place >= self.at else None

    def abandoned(self) -> Mapping[str, Any] | None:
        """Return the partial messages of the attempts that the log abandons next.

        A run that was cancelled from outside is not cut off at the same point again.
        """
        return next((event.said for place, event in self._given_up.items() if place >= self.at), None)

    def knows(self, task: Task, key: str) -> bool:
        """Return whether `effect` has a result for *key* in the present attempt."""
        log = self._log_of(task)
        known = log.effects.get(key)
        return known is not None and self._was_known(log, task, key, known.answers)

    def effect(self, task: Task, key: str) -> Any:
        """Return the recorded result of the effect *key*; if there is none, raise the attempt's recorded failure.

        Raises:
            ReplayDivergedError: The log has neither (`not-in-the-log`): the node now makes a different call.
        """
        log = self._log_of(task)
        known = log.effects.get(key)
        if known is None or not self._was_known(log, task, key, known.answers):
            # The error names the results that no call has used yet, since a changed key is probably one of them.
            raise self._failure(log, task) or self._unanswered(
                task, "effect", key, unused=set(log.effects) - task.more().effects.keys()
            )
        models = task.more().model_calls()
        # The effect may be a graph used as a tool. It is not run again, but its usage still counts; usage applied twice
        # counts once. Keys with `graph/` belong to a graph used as the harness, whose run failed.
        for usage in log.usages:
            if usage.failed_attempts == models.failed_attempts and not usage.key.startswith("graph/"):
                models.apply(usage)
        return own(known.result)

    def wrote(self, task: Task, key: str) -> tuple[events.MemoryWritten, ...]:
        """Return the memory writes of the effect *key*; none if it is not in the log."""
        known = self._log_of(task).effects.get(key)
        return known.memory if known is not None else ()

    async def aeffect(self, task: Task, key: str, fn: Callable[..., Awaitable[Any]]) -> Any:
        """Return the recorded result of an effect of an async node; see `effect`.

        Args:
            fn: Performs the effect. It is called only if it is a `Composed`, a tool built from recorded calls.
        """
        # A graph used as a tool that asked a question has recorded the parts of its run.
        if isinstance(fn, Composed) or f"{key}/part/0" in self._log_of(task).effects:
            return await fn()
        await self._cancelled_if_pending(task, key in self._log_of(task).effects)
        return self.effect(task, key)

    def note(self, task: Task, call: ModelCall, request: Any) -> None:
        """Record a model request."""
        self.requests[task.id, *call] = request

    def reply(self, task: Task, call: ModelCall) -> tuple[StoredReply | None, Callable[[], Awaitable[ModelResponse]]]:
        """Return the recorded reply to a model call without a budget, else None, and the stand-in for the model.

        A call with a budget is made with the recorded reply in place of the model's, so that budgets are charged and
        refuse calls as they did before.
        """
        log = self._log_of(task)
        for usage in log.usages:
            if call == (usage.failed_attempts, usage.key):  # a failed but billed call is not repeated
                task.more().model_calls().apply(usage)
        known = log.replies.get(call)
        if known is not None and not self._was_known(log, task, call, known.answers):
            known = None

        async def instead() -> Any:
            """Answer in place of the model."""
            if known is not None:
                return reply_from(own(known.reply), known.usage, known.model)
            await self._cancelled_if_pending(task, answered=False)
            unused = {recorded.key for recorded in log.replies.values()} - {
                recorded.key for recorded in task.more().model_calls().replies
            }
            raise self._failure(log, task) or self._unanswered(task, "model", call.key, unused=unused)

        if known is not None and call not in log.held:
            # It had no budget, or the agent's cache answered it.
            return StoredReply(own(known.reply), known.usage, known.model), instead
        return None, instead

    async def _cancelled_if_pending(self, task: Task, answered: bool) -> None:  # noqa: FBT001 - for this class only
        """Wait to be cancelled if the log has no end of *task*, because the failure of a sibling task cancelled it.

        A task with questions does not wait, since it ended with a pause.

        Args:
            answered: The log has the answer, so there is nothing to wait for.
        """
        log = self._tasks.get(task.id)
        if not answered and log is not None and not log.ended and not log.failures and not task.more().interrupts:
            await asyncio.sleep(_PENDING_S)

    def _failed(self, log: _LogOfTask, task: Task) -> tuple[int, events.TaskRetried | events.TaskFailed] | None:
        """Return the place and the failure of the current attempt of *task* in the log; None if it did not fail."""
        for place, event in log.failures:  # those before `at` belong to attempts that were already repeated
            if place >= self.at and (isinstance(event, events.TaskFailed) or event.attempt == task.attempt):
                return place, event
        return None

    def _failure(self, log: _LogOfTask, task: Task) -> Exception | None:
        """Return the failure of the current attempt of *task* in the log; None if it did not fail."""
        failure = self._failed(log, task)
        if failure is None:
            return None
        _, event = failure
        if isinstance(event, events.TaskFailed) and isinstance(event.exception, Exception):
            return event.exception
        return made(event.error, event.message, task)

    def _was_known(self, log: _LogOfTask, task: Task, key: str | ModelCall, answers: int) -> bool:
        """Return whether an answer in the log belongs to the current attempt of *task*.

        If the attempt failed for good, the log shows this: an answer after the failure belongs to a later execution. If
        another attempt followed, the log does not show it, and the last answer of the task is attributed to a later
        attempt. Model replies discarded with the attempt belong to it; those of a later attempt have a different
        number.

        Args:
            answers: People's answers that the task had received when the result was recorded.
        """
        if answers > task.more().answers:
            return False  # it came after an answer of a person
        failure = self._failed(log, task)
        if failure is None:
            return True
        place, event = failure
        if isinstance(event, events.TaskFailed):
            return log.places[key] < place
        if not isinstance(key, ModelCall):
            return key != next(reversed(log.places))
        if self._discards(log, task, place, key.failed_attempts):
            return True
        same = [
            other_key
            for other_key in log.places
            if isinstance(other_key, ModelCall) and other_key.failed_attempts == key.failed_attempts
        ]
        return key != same[-1]

    def _discards(self, log: _LogOfTask, task: Task, place: int, before: int) -> bool:
        """Return whether the attempt that failed at *place*, after *before* discards, also discarded its replies.

        The journal has the number of discards and the classes of the errors. `bad-output` shares its class with errors
        that discard nothing; such an attempt counts as discarding if no later attempt can have done it.
        """
        sure = [at for at, event in log.failures if asks_anew(made(event.error, event.message, task))]
        return place in sure or log.discards - before > sum(at > place for at in sure)

    def _unanswered(self, task: Task, kind: str, key: str, unused: Iterable[str]) -> GraphrtError:
        """Record a call that is not in the log, and return the error for it.

        The arguments are those of `UnansweredCall`.
        """
        call = UnansweredCall(node=task.node.name, task_id=task.id, kind=kind, key=key, unused=tuple(sorted(unused)))
        self.unanswered.append(call)
        return NOT_IN_THE_LOG(node=task.node.name, task_id=task.id, asked=call.asked, instead=call.known)


def made(name: str, message: str, task: Task) -> Exception:
    """Return an error of the class *name*, taken from the retry policy of *task*, graphrt or Python, or newly created.

    The journal has only the name and message of an error, but the class matters to the retry policy and to handlers in
    nodes. If several classes have the name, graphrt's takes precedence over Python's.
    """
    policy = task.node.policy.retry
    on: Any = policy.retry_on if policy is not None else None  # a class, a tuple of classes, or a function
    conditions: tuple[Any, ...] = on if on.__class__ is tuple else (on,)
    bases: list[Any] = [condition for condition in conditions if isinstance(condition, type)]
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
    return [subclass for cls in base.__subclasses__() for subclass in (cls, *_below(cls))]
