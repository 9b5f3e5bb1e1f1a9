"""Events about model calls and budgets of a task: replies, usage, reservations and grants (decision 0080).

A call is identified by `task`, `failed_attempts` and `key`. The key is a digest of the request, so that the same
request finds its reply after a pause or a crash. After a failed attempt it does not, because the replies may have
caused the failure; `failed_attempts` counts those attempts.
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
    """A model, or a harness as a whole, replied. If the task repeats the request, it gets *reply* without paying again.

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
    """Usage of the call; None if the provider did not report it, which counts as one unreported call."""
    model: str | None = None
    """Name of the model, as the provider reports it; None if it does not."""
    answers: int = 0
    """Answers that its task had received by then."""
    agent: str | None = None
    """Name of the agent that called the model to continue a conversation: a list of messages that the node gave it.
    None for other calls, such as those of sub-agents."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ReplyStopped(Word):
    """A model's reply was cut off while it was streamed, because its run was cancelled or its attempt abandoned.

    If the task runs again, the model is called again. If a new input abandons the task, the text becomes a partial
    message (`SuperstepAbandoned.said`).
    """

    task: str
    """Id of the task."""
    key: str
    """Key of the call inside its task."""
    failed_attempts: int = 0
    """Failed attempts of the task, after model calls, before this call."""
    text: Any
    """The text that had been streamed, a str; `Erased()` after an erasure."""
    model: str | None = None
    """Name of the model."""
    attempt: int = 1
    """Number of the attempt of the task, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UsageRecorded(Word):
    """A task used models in a way that leaves no reply to record.

    Either the call failed but was billed, because the provider answered with status 200 or began a stream, or an agent
    used a graph as a tool. If the task runs again, it repeats the call. The usage replaces the reservation of the call.
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
    """Usage of the call."""
    model: str | None = None
    """Name of the model, or of the graph; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RepliesDiscarded(Word):
    """An attempt of a task failed after model calls, so the next one finds no replies and calls its models again."""

    task: str
    """Id of the task."""
    failed_attempts: int
    """Number of such attempts so far, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BudgetHeld(Word):
    """Amounts were reserved for a model call before it was made.

    A reply settles the newest reservation of its call. A call that ends without a reply removes it; the next event of
    the call has the others. The remaining ones belong to executions that a crash cut off. Those calls may have been
    billed, so their amounts count as used (rule R11).
    """

    task: str
    """Id of the task."""
    key: str
    """Key of the call inside its task."""
    failed_attempts: int = 0
    """Failed attempts of the task, after model calls, before this call."""
    reservations: tuple[Amounts, ...]
    """Reservations of the call, 1 or more, oldest first: one for each time it was started without failing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BudgetReleased(Word):
    """No reservation of a model call is left, because it failed or was cancelled.

    Either it used nothing, or its usage is in a `UsageRecorded`.
    """

    task: str
    """Id of the task."""
    key: str
    """Key of the call inside its task."""
    failed_attempts: int = 0
    """Failed attempts of the task, after model calls, before this call."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BudgetGranted(Word):
    """A person raised a budget above its limit by answering a question of the kind `budget`."""

    task: str
    """Id of the task that records the grant: the one whose budget it is."""
    question: str
    """Key of the answered question inside the task that asked it."""
    of: str
    """Name of the budget: `run`, or `node 'name'`, or the name of an agent's."""
    amounts: Amounts
    """The additional amounts that may be used."""
