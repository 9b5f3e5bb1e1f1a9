"""Events about model calls and budgets of a task: replies, usage, reservations and grants (decision 0080).

A call is identified by `task`, `failed_attempts` and `key`. The key is a digest of the request, so that the same request
finds its reply after a pause or a crash. After a failed attempt it does not, because the replies may be what made the
attempt fail: `failed_attempts` counts those attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphrt._usage.amounts import Amounts
from graphrt._usage.usage import Usage
from graphrt.events._word import Word

__all__ = [
    "BudgetGranted",
    "BudgetHeld",
    "BudgetReleased",
    "ModelReplied",
    "RepliesDiscarded",
    "ReplyStopped",
    "UsageRecorded",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ModelReplied(Word):
    """A model, or a harness as a whole, replied. If the task asks the same again, it gets *reply* and nothing is paid.

    The reply settles the newest reservation of its call.
    """

    task: str
    """Id of the task."""
    key: str
    """Key of the call inside its task."""
    failed_attempts: int = 0
    """Failed attempts of the task, after model calls, before this call."""
    reply: Mapping[str, Any]
    """The reply as plain data, without its usage and the name of the model."""
    usage: Usage | None = None
    """What the call used; None if the provider did not report it, which counts as one unreported call."""
    model: str | None = None
    """Name of the model, as the provider reports it; None if it does not."""
    answers: int = 0
    """Answers that its task had been given by then."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ReplyStopped(Word):
    """A model's reply was cut off while it was streamed, because its run was cancelled or its attempt given up.

    If the task runs again, the model is asked again. If a new input abandons the task, the text becomes a partial message
    (`SuperstepAbandoned.said`).
    """

    task: str
    """Id of the task."""
    key: str
    """Key of the call inside its task."""
    failed_attempts: int = 0
    """Failed attempts of the task, after model calls, before this call."""
    text: Any
    """What had been streamed, a str; `Erased()` after an erasure."""
    model: str | None = None
    """Name of the model."""
    attempt: int = 1
    """Number of the attempt of the task, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UsageRecorded(Word):
    """A task used models in a way that leaves no reply to record.

    The call failed and was billed: the provider answered with status 200, or began a stream. Or an agent has a graph as a
    tool. If the task runs again, it makes the call again. The usage takes the place of the reservation of its call.
    """

    task: str
    """Id of the task."""
    key: str
    """Key of the call inside its task."""
    failed_attempts: int = 0
    """Failed attempts of the task, after model calls, before this call."""
    nth: int = 1
    """Number of the call among those with the same key, from 1."""
    usage: Usage
    """What the call used."""
    model: str | None = None
    """Name of the model, or of the graph; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RepliesDiscarded(Word):
    """An attempt of a task failed after model calls: the next one finds no replies, and asks its models anew."""

    task: str
    """Id of the task."""
    failed_attempts: int
    """Number of such attempts so far, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BudgetHeld(Word):
    """Amounts were reserved for a model call before it was made.

    A reply settles the newest reservation of its call. A call that ends without one takes it out: the next event of the
    call has the others. What is left belongs to executions that a crash cut off: those calls may have been paid, so their
    amounts count as used (rule R11).
    """

    task: str
    """Id of the task."""
    key: str
    """Key of the call inside its task."""
    failed_attempts: int = 0
    """Failed attempts of the task, after model calls, before this call."""
    reservations: tuple[Amounts, ...]
    """Reservations of the call, 1 or more, oldest first: one for each time that it was begun and did not fail."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BudgetReleased(Word):
    """No reservation of a model call is left: it failed or was cancelled.

    Either it used nothing, or what it used is in a `UsageRecorded`.
    """

    task: str
    """Id of the task."""
    key: str
    """Key of the call inside its task."""
    failed_attempts: int = 0
    """Failed attempts of the task, after model calls, before this call."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BudgetGranted(Word):
    """A person allowed a budget more than its limit, with the answer to a question of the kind `budget`."""

    task: str
    """Id of the task that records the grant: the one whose budget it is."""
    question: str
    """Key of the answered question inside the task that asked it."""
    of: str
    """Name of the budget: `run`, or `node 'name'`, or the name of an agent's."""
    amounts: Amounts
    """What may be used in addition."""
