"""Store what is recorded of a task's model calls while the task runs, beside the journal (decision 0020).

Each kind of value has a key of its own, which journals of 0.1 use too. So what a newer process stores replaces what an
older one stored of the same call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.model_calls import ModelCall, ModelEvent
    from graphrt._engine.task import Task


def keep_reply(services: RunServices, task: Task, call: ModelCall) -> None:
    """Store the reply to *call*, as the run's durability has it.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, f"model/{_name(call)}", task.more().model_calls().reply_event(task.id, call))


def keep_usage(services: RunServices, task: Task, call: ModelCall, nth: int) -> None:
    """Store the *nth* usage of *call*, from 1, whose reply is not recorded.

    Raises:
        StoreError: It could not be stored.
    """
    event = task.more().model_calls().usage_event(task.id, call, nth)
    _keep(services, task, f"model/{_name(call)}/spent/{nth - 1}", event)


def keep_hold(services: RunServices, task: Task, call: ModelCall, *, now: bool) -> None:
    """Store the reservations of *call*.

    Args:
        services: Stores them.
        task: Task that makes the call.
        call: The call.
        now: Store them before returning, whatever the run's durability (rule R11).

    Raises:
        StoreError: They could not be stored.
    """
    _keep(services, task, f"held/{_name(call)}", task.more().model_calls().hold_event(task.id, call), now=now)


def keep_grant(services: RunServices, task: Task, question: str) -> None:
    """Store the grant with which *question* was answered.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, f"granted/{question}", task.more().model_calls().grant_event(task.id, question))


def keep_discarded(services: RunServices, task: Task) -> None:
    """Store that the replies recorded so far are not used again.

    Raises:
        StoreError: It could not be stored.
    """
    _keep(services, task, "harness/failed", task.more().model_calls().discarded_event(task.id))


def _name(call: ModelCall) -> str:
    return f"{call.failed_attempts}/{call.key}"


def _keep(services: RunServices, task: Task, name: str, event: ModelEvent, *, now: bool = False) -> None:
    services.keep([(f"{task.id}#{name}", [(task.engine.path, event)])], now=now)
