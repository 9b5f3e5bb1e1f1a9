"""The record of one task's model calls: the events about its replies, usage, reservations and grants.

A task that runs again after a pause or a crash gets the recorded replies without calling a model (decision 0033).

The record consists of the events of `events.model_calls` themselves, by call. A live run creates and keeps them, and
`apply` keeps events that were read. Only reservations and failed attempts change, so they are kept as values from which
events are created. The usage of the calls is computed from the record and not kept anywhere else. `_agents` makes the
calls, stores each event while the task runs, and decides which budget a call must fit. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, final

from graphrt import events
from graphrt._usage.amounts import usage_of, used_amounts
from graphrt._usage.usage import UNREPORTED
from graphrt.commands import ERASED
from graphrt.events import Amounts, Usage

ModelEvent: TypeAlias = (
    events.ModelReplied
    | events.UsageRecorded
    | events.RepliesDiscarded
    | events.ReplyStopped
    | events.BudgetHeld
    | events.BudgetReleased
    | events.BudgetGranted
)
"""Events that belong to the model calls of a task."""
RUN = "run"
"""Name of the run's budget in grants. The budget of a node is named `node 'name'`."""


class ModelCall(NamedTuple):
    """Identifies a model call within its task."""

    failed_attempts: int
    """Number of earlier failed attempts of the task; after each, its models are called again."""
    key: str
    """Key within the task. It contains a digest of the request, so that the same request finds the recorded reply."""


@final
class ModelCalls:
    """All that is recorded of the model calls of one task.

    Other threads may read while the task's thread adds records, so readers iterate over copies. It is `Extra.models` of
    the task.
    """

    __slots__ = ("failed_attempts", "grants", "holds", "replies", "stopped", "usages")

    def __init__(self) -> None:
        self.failed_attempts: int = 0
        """Number of attempts that failed after calling a model; replies recorded before then are not used again."""
        self.replies: dict[ModelCall, events.ModelReplied] = {}
        self.stopped: dict[ModelCall, events.ReplyStopped] = {}
        """Replies that were cut off, by call; only the latest for each call."""
        self.usages: dict[ModelCall, dict[int, events.UsageRecorded]] = {}
        """By call and number of the usage, from 1."""
        self.holds: dict[ModelCall, tuple[Amounts, ...]] = {}
        """Reservations by call, oldest first: a call interrupted by a crash is made again, and reserves again. If its
        reply is recorded, the latest reservation is kept; otherwise a call that ends removes its reservation. May be
        empty."""
        self.grants: dict[str, events.BudgetGranted] = {}
        """By key of the answered question, `<call>/budget/<of>/<unit>/<n>`."""

    def call(self, key: str) -> ModelCall:
        """Return the identity of the call *key* in the current attempt."""
        return ModelCall(self.failed_attempts, key)

    # -- changes -------------------------------------------------------------------------------------------------

    def hold(self, call: ModelCall, amounts: Amounts) -> None:
        """Reserve *amounts* for *call*, which is about to be made."""
        self.holds[call] = (*self.holds.get(call, ()), amounts)

    def release(self, call: ModelCall) -> bool:
        """Remove the latest reservation of *call*, which has ended. Returns False if there is none."""
        reservations = self.holds.get(call)
        if reservations:
            self.holds[call] = reservations[:-1]
        return bool(reservations)

    def count(self, task: str, call: ModelCall, usage: Usage, model: str | None) -> events.UsageRecorded:
        """Record the usage of *call*, whose reply is not recorded, on the task with id *task*.

        Returns the event. The usage replaces the reservation, if there is one.
        """
        self.release(call)
        nth = len(self.usages.get(call, ())) + 1
        event = events.UsageRecorded(**_of(task, call), nth=nth, usage=usage, model=model)
        self.apply(event)
        return event

    def reply(
        self,
        task: str,
        call: ModelCall,
        data: Mapping[str, Any],
        usage: Usage | None,
        model: str | None,
        answers: int,
        agent: str | None,
    ) -> events.ModelReplied:
        """Record the reply to *call* of the task with id *task*. Returns the event, a `ModelReplied`."""
        event = events.ModelReplied(
            **_of(task, call), reply=data, usage=usage, model=model, answers=answers, agent=agent
        )
        self.apply(event)
        return event

    def stop(self, task: str, call: ModelCall, text: str, model: str | None, attempt: int) -> events.ReplyStopped:
        """Record that the reply to *call* of the task with id *task* was cut off after *text*. Returns the event."""
        event = events.ReplyStopped(**_of(task, call), text=text, model=model, attempt=attempt)
        self.apply(event)
        return event

    def grant(self, task: str, question: str, of: str, amounts: Amounts) -> None:
        """Record that the answer to *question* granted *amounts* to the budget *of*, on the task with id *task*."""
        self.apply(events.BudgetGranted(task=task, question=question, of=of, amounts=amounts))

    def discard_replies(self) -> bool:
        """Make the next attempt call its models again.

        Returns False if no model was called yet. Called when an attempt failed, because the recorded replies may have
        caused the failure.
        """
        if not self.replies and not self.usages:
            return False
        self.failed_attempts += 1
        return True

    def apply(self, event: ModelEvent) -> None:
        """Fold *event* into the values.

        Args:
            event: An event of the task, from the journal or as it was stored while the task ran.
        """
        match event:
            case events.RepliesDiscarded():
                # The journal and the staged data may both have a count: the larger one is newer.
                self.failed_attempts = max(event.failed_attempts, self.failed_attempts)
                return
            case events.BudgetGranted():
                self.grants[event.question] = event
                return
            case _:
                call = ModelCall(event.failed_attempts, event.key)
        match event:
            case events.BudgetHeld():
                self.holds[call] = event.reservations
            case events.BudgetReleased():  # all reservations were released
                self.holds[call] = ()
            case events.UsageRecorded():
                self.usages.setdefault(call, {})[event.nth] = event
            case events.ReplyStopped():
                self.stopped[call] = event
            case events.ModelReplied():
                known = self.replies.get(call)
                reply: Any = None if known is None else known.reply
                if reply is None or reply is ERASED:  # a model whose reply was erased may have been asked again
                    self.replies[call] = event

    # -- what follows from the values ----------------------------------------------------------------------------

    def answered(self) -> list[str]:
        """Return the keys of the calls with recorded replies for the current attempt."""
        return [call.key for call in list(self.replies) if call.failed_attempts == self.failed_attempts]

    def said(self) -> list[str]:
        """Return the texts of replies cut off in the last attempt and not completed since, in that order."""
        partial_replies = {
            call: reply for call, reply in self.stopped.items() if call not in self.replies and type(reply.text) is str
        }
        last = max((reply.attempt for reply in partial_replies.values()), default=0)
        return [
            reply.text
            for call, reply in partial_replies.items()
            if reply.attempt == last and call.failed_attempts == self.failed_attempts
        ]

    def recorded_replies(self) -> list[events.ModelReplied]:
        """Return the recorded replies of all attempts that were not erased, in order."""
        erased: Any = ERASED
        return [reply for reply in self.replies.values() if reply.reply is not erased]

    def used(self) -> Usage | None:
        """Return the usage of all calls, including those of failed attempts; None if there were none.

        Calls interrupted by a crash are included as unreported ones, with their reservations, because they may have
        been billed (rule R11).
        """
        usages = [reply.usage or UNREPORTED for reply in list(self.replies.values())]
        for counted in list(self.usages.values()):
            usages += [event.usage for event in list(counted.values())]
        for call in list(self.holds):
            usages += map(usage_of, self.lost(call))
        total: Usage | None = None
        for usage in usages:
            total = usage if total is None else total + usage
        return total

    def lost(self, call: ModelCall) -> tuple[Amounts, ...]:
        """Return the reservations of executions of *call* that a crash interrupted.

        If there is a reply, the latest reservation is not one of them.
        """
        reservations = self.holds.get(call, ())
        return reservations[:-1] if call in self.replies else reservations

    def failed(self, call: ModelCall) -> list[Usage]:
        """Return the usage of each execution of *call* without a recorded reply, in order."""
        return [event.usage for event in list(self.usages.get(call, {}).values())]

    def charged(self, call: ModelCall) -> Amounts:
        """Return the usage of all executions of *call* for budgets, including those interrupted by a crash."""
        total = Amounts()
        reply = self.replies.get(call)
        usages = [] if reply is None else [reply.usage or UNREPORTED]
        for usage in (*usages, *self.failed(call), *map(usage_of, self.lost(call))):
            total = total.plus(used_amounts(usage))
        return total

    def granted(self, of: str) -> Amounts | None:
        """Return the sum of the grants to the budget named *of*; None if there are none."""
        total: Amounts | None = None
        for grant in list(self.grants.values()):
            if grant.of == of:
                total = added(total, grant.amounts)
        return total

    def granted_for(self, key: str) -> dict[str, Amounts]:
        """Return the grants to questions that the call *key* asked, by name of the budget.

        For budgets that start over with each execution of the node, as those of agents do.
        """
        totals: dict[str, Amounts] = {}
        for question, grant in list(self.grants.items()):
            if question.rpartition("/budget/")[0] == key:  # the part before it identifies the call, see `grants`
                totals[grant.of] = totals.get(grant.of, Amounts()).plus(grant.amounts)
        return totals

    # -- events --------------------------------------------------------------------------------------------------

    def calls(self) -> list[ModelCall]:
        """Return all calls with records, each once."""
        return list(dict.fromkeys((*self.holds, *self.usages, *self.stopped, *self.replies)))

    def general(self, task: str) -> Iterator[ModelEvent]:
        """Yield the events of the task with id *task* that do not belong to a single call."""
        if self.failed_attempts:
            yield self.discarded_event(task)
        yield from list(self.grants.values())

    def about(self, task: str, call: ModelCall) -> Iterator[ModelEvent]:
        """Yield the events of one call of the task with id *task*, in the order in which they became true."""
        if call in self.holds:
            yield self.hold_event(task, call)
        yield from list(self.usages.get(call, {}).values())
        if call in self.stopped:
            yield self.stopped[call]
        if call in self.replies:
            yield self.replies[call]

    def discarded_event(self, task: str) -> events.RepliesDiscarded:
        """Return the event of the failed attempts so far."""
        return events.RepliesDiscarded(task=task, failed_attempts=self.failed_attempts)

    def hold_event(self, task: str, call: ModelCall) -> events.BudgetHeld | events.BudgetReleased:
        """Return the event of the reservations of *call*."""
        if not self.holds[call]:
            return events.BudgetReleased(**_of(task, call))
        return events.BudgetHeld(**_of(task, call), reservations=self.holds[call])


def _of(task: str, call: ModelCall) -> dict[str, Any]:
    """Return the fields by which an event names *call* of the task with id *task*."""
    return {"task": task, "key": call.key, "failed_attempts": call.failed_attempts}


def added(total: Amounts | None, more: Amounts | None) -> Amounts | None:
    """Return the sum of *total* and *more*, where None counts as zero."""
    if total is None or more is None:
        return more if total is None else total
    return total.plus(more)
