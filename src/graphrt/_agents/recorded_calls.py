"""Store what is recorded of a task's model calls while the task runs, beside the journal.

The events are staged (decision 0020). What is staged under an existing key replaces the older value. Each kind of value
has a key of its own.

A call is identified inside its task by the number of failed attempts before it and by a digest of the request.
`task.more().model_calls()` is the record in memory; each function stores one event that is made of it. For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.model_calls import ModelCall, ModelEvent
    from graphrt._engine.task import Task


def keep_reply(services: RunServices, task: Task, call: ModelCall) -> None:
    """Store the reply to *call*.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, f"model/{_name(call)}", task.more().model_calls().reply_event(task.id, call))


def keep_usage(services: RunServices, task: Task, call: ModelCall, nth: int) -> None:
    """Store the *nth* usage of *call*, from 1, whose reply is not recorded.

    Each execution of the task makes such a call again, so one call may have several usages.

    Raises:
        StoreError: It could not be stored.
    """
    event = task.more().model_calls().usage_event(task.id, call, nth)
    _keep(services, task, f"model/{_name(call)}/spent/{nth}", event)


def keep_hold(services: RunServices, task: Task, call: ModelCall) -> None:
    """Store the reservations of *call*: amounts that it may use, reserved before it is made.

    They are durable when this returns (rule R11), so that after a crash the call counts as paid.

    Raises:
        StoreError: They could not be stored.
    """
    _keep(services, task, f"held/{_name(call)}", task.more().model_calls().hold_event(task.id, call))


def keep_grant(services: RunServices, task: Task, question: str) -> None:
    """Store the grant, an amount beyond the limit of a budget, with which a person answered *question*.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, f"granted/{question}", task.more().model_calls().grant_event(task.id, question))


def keep_discarded(services: RunServices, task: Task) -> None:
    """Store that an attempt failed after model calls, so that the replies recorded so far are not used again.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, "harness/failed", task.more().model_calls().discarded_event(task.id))


def _name(call: ModelCall) -> str:
    """Return the part of a staged key that identifies *call* within its task."""
    return f"{call.failed_attempts}/{call.key}"


def _keep(services: RunServices, task: Task, name: str, event: ModelEvent) -> None:
    """Stage *event* of *task* under the key `task#name`. Without a store, nothing happens.

    The path says which nested graph the event belongs to; it is empty for the graph of the run.
    """
    services.keep([(f"{task.id}#{name}", [(task.engine.path, event)])])
