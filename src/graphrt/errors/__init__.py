"""Every exception that graphrt raises, grouped by who can fix it.

    GraphrtError
    ├── DefinitionError          the graph: compile() found problems (`.problems`)
    ├── InputError               the call: wrong argument, wrong verb for the thread's status
    │   ├── MissingExtraError    the installation: an optional dependency is not there
    │   └── ModelRequestForbiddenError    the process: it forbids real model requests
    ├── NodeError                the node: it raised, timed out or swallowed a pause
    ├── RouteError               the router, or the goto of a Command
    ├── UpdateError              what a node returned, or a reducer that raised
    │   └── ConcurrentUpdateError
    ├── LimitError               a limit of the run
    │   ├── StepLimitError
    │   ├── NodeFatigueError
    │   ├── DeadlineError
    │   ├── AgentLimitError      an agent's loop reached a limit of its own
    │   └── BudgetExceededError
    ├── StarvedJoinError         a join whose sources did not all run
    ├── HarnessError             the model provider, or the script of a mock
    │   ├── AuthenticationError, RateLimitError, ContextOverflowError, RefusalError,
    │   ├── TransientModelError, BadResponseError, BadRequestError
    │   ├── ToolError            a tool failed, and the model is not to be told
    │   │   └── ToolArgumentsError
    │   └── ScriptError
    ├── StoreError               the world: disk, database
    │   └── ConflictError        another writer owns the thread
    ├── AuditError
    └── ReplayDivergedError      the same node did something else on re-execution

Only exceptions live here, and the text template they share; no logic that decides when to raise.
Control flow that is not an error (a node that pauses) is a private `BaseException` of the drivers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from graphrt.errors import _words
from graphrt.errors._values import Problem as Problem
from graphrt.errors._values import TaskFailure as TaskFailure
from graphrt.errors._words import Place as Place
from graphrt.errors._words import a as a
from graphrt.errors._words import a_type as a_type
from graphrt.errors._words import brief as brief
from graphrt.errors._words import closest as closest
from graphrt.errors._words import count as count
from graphrt.errors._words import names as names
from graphrt.errors._words import said as said

__all__ = [
    "AgentLimitError",
    "AuditError",
    "AuthenticationError",
    "BadRequestError",
    "BadResponseError",
    "BudgetExceededError",
    "ConcurrentUpdateError",
    "ConflictError",
    "ContextOverflowError",
    "DeadlineError",
    "DefinitionError",
    "GraphrtError",
    "HarnessError",
    "InputError",
    "LimitError",
    "MissingExtraError",
    "ModelRequestForbiddenError",
    "NodeError",
    "NodeFatigueError",
    "Problem",
    "RateLimitError",
    "RefusalError",
    "ReplayDivergedError",
    "RouteError",
    "ScriptError",
    "StarvedJoinError",
    "StepLimitError",
    "StoreError",
    "TaskFailure",
    "ToolArgumentsError",
    "ToolError",
    "TransientModelError",
    "UpdateError",
]


class GraphrtError(Exception):
    """Base of all graphrt errors; survives copying and pickling with all its attributes.

    The text is made of the attributes, up to five lines: what happened, where, what was known, what to do, and the
    command that prints the documentation of its code.
    """

    default_code: ClassVar[str] = "graphrt-error"

    def __init__(
        self,
        what: str,
        *,
        code: str | None = None,
        where: str | Place = "",
        known: str = "",
        fix: str = "",
        **data: Any,
    ) -> None:
        super().__init__(what)
        if isinstance(where, Place):
            self.__dict__.update(where.known)
            where = ""
        self.what = what
        """What happened, with the value: the first line."""
        self.code: str = code or self.default_code
        """Stable slug; `python -m graphrt.errors CODE` prints what it means."""
        self.where = where
        self.known = known
        self.fix = fix
        self.__dict__.update((name, value) for name, value in data.items() if value is not None)

    @property
    def where(self) -> str:
        """Where it happened, as text: made of `graph`, `node`, `task_id` and the other attributes that are known."""
        known = self.__dict__
        return _words.line(known.get("where", ""), known, self.what)

    @where.setter
    def where(self, text: str) -> None:
        self.__dict__["where"] = text

    def locate(self, place: Place) -> None:
        """Take *place* as where this error happened, unless it knows that already."""
        if "graph" not in self.__dict__:
            self.__dict__.update({**place.known, **self.__dict__})

    def __str__(self) -> str:
        lines = [self.what]
        lines += [
            f"  {label}: {text}"
            for label, text in (("Where", self.where), ("Known", self.known), ("Fix", self.fix))
            if text
        ]
        lines.append(f"  See: python -m graphrt.errors {self.code}")
        return "\n".join(lines)

    def __getattr__(self, name: str) -> Any:
        # Data attributes that this instance was not given read as None, so that handlers need no hasattr().
        if name.startswith("_") or name not in _DATA:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return None


_DATA = frozenset(
    {"graph", "node", "nodes", "superstep", "thread", "run_id", "task_id", "field", "path", "limit", "target"}
    | {"seq", "values", "value", "status_code", "retry_after_s", "model", "provider", "expected", "got", "join"}
    | {"interrupts", "state", "messages", "tool", "request_id", "arg", "declared_at"}
)
"""Names of data attributes: what an error may know about where it happened."""


def told(error: BaseException) -> str:
    """*error* in the middle of another message: its class and what happened, without Where, Fix and See of its own."""
    name = getattr(error, "type_name", None) or type(error).__name__  # of one that a journal kept
    return f"{name}: {error.what if isinstance(error, GraphrtError) else said(error)}"


class DefinitionError(GraphrtError):
    """The graph is wrong: fix its definition. Raised by `compile()` with every problem at once."""

    default_code = "definition"

    def __init__(self, what: str, problems: Iterable[Problem] = (), **data: Any) -> None:
        super().__init__(what, **data)
        self.problems: tuple[Problem, ...] = tuple(problems)
        """All findings, in declaration order."""

    def __str__(self) -> str:
        if not self.problems:
            return super().__str__()
        lines = [self.what]
        if self.where:
            lines.append(f"  Where: {self.where}")
        lines += [f"  {n}. {problem}" for n, problem in enumerate(self.problems, 1)]
        lines.append("  See: python -m graphrt.errors CODE, for each code in brackets")
        return "\n".join(lines)


class InputError(GraphrtError):
    """The call is wrong: an argument, or the wrong verb for the thread's status."""

    default_code = "input"


class MissingExtraError(InputError):
    """An optional dependency is needed and not installed."""

    default_code = "missing-extra"


class ModelRequestForbiddenError(InputError):
    """A real model request was to be made in a process that forbids them: see `allow_model_requests`."""

    default_code = "model-request-forbidden"


class NodeError(GraphrtError):
    """A node failed; `__cause__` is what it raised."""

    default_code = "node-failed"


class RouteError(GraphrtError):
    """A router or a `Command.goto` named no possible target, or the router raised (`__cause__`)."""

    default_code = "route"


class UpdateError(GraphrtError):
    """What a node returned cannot become part of the state, or a reducer refused it."""

    default_code = "bad-update"


class ConcurrentUpdateError(UpdateError):
    """Two tasks of one superstep wrote a field that has no aggregating reducer."""

    default_code = "concurrent-update"


class LimitError(GraphrtError):
    """The run reached a limit. The thread stays resumable."""

    default_code = "limit"


class StepLimitError(LimitError):
    """More supersteps were needed than `max_steps` allows."""

    default_code = "step-limit"


class NodeFatigueError(LimitError):
    """A node was to run more often than `max_visits` allows."""

    default_code = "node-fatigue"


class DeadlineError(LimitError):
    """The run took longer than `deadline_s`."""

    default_code = "deadline"


class BudgetExceededError(LimitError):
    """A call would have spent more than the budget has left."""

    default_code = "budget-exceeded"


class AgentLimitError(LimitError):
    """An agent needed more model calls, tool calls, depth or time than its limits allow; `messages` is what was said."""

    default_code = "agent-limit"


class StarvedJoinError(GraphrtError):
    """Nothing is due, and a join still waits for sources that did not run."""

    default_code = "starved-join"


class HarnessError(GraphrtError):
    """A model call failed. `status_code`, `retry_after_s`, `provider`, `model` and `request_id` are set where known."""

    default_code = "harness"


class AuthenticationError(HarnessError):
    """The provider refused the credentials (401, 403). Not worth retrying."""

    default_code = "authentication"


class BadRequestError(HarnessError):
    """The provider refused the request (400, 404, 422). Not worth retrying."""

    default_code = "bad-request"


class RateLimitError(HarnessError):
    """Too many requests (429); `retry_after_s` is the provider's hint."""

    default_code = "rate-limit"


class ContextOverflowError(HarnessError):
    """The request is longer than the model's context."""

    default_code = "context-overflow"


class RefusalError(HarnessError):
    """The provider's content filter or the model refused to answer."""

    default_code = "refusal"


class TransientModelError(HarnessError):
    """The provider failed in a way that may pass: 5xx, a timeout, a lost connection."""

    default_code = "transient-model"


class BadResponseError(HarnessError):
    """The provider answered with something that is not an answer: malformed JSON, no choices."""

    default_code = "bad-response"


class ScriptError(HarnessError):
    """A mock got a call that its script does not expect, or its script was not used up."""

    default_code = "script"


class ToolError(HarnessError):
    """A tool failed whose failures the model is not to see; `__cause__` is what it raised."""

    default_code = "tool-failed"


class ToolArgumentsError(ToolError):
    """The arguments of a tool call do not fit the tool; the text is written for the model."""

    default_code = "tool-arguments"


class StoreError(GraphrtError):
    """The store failed: disk, database, network."""

    default_code = "store"


class ConflictError(StoreError):
    """Another living writer owns the thread. Nothing was lost, nothing was forked."""

    default_code = "conflict"


class AuditError(GraphrtError):
    """The audit log does not verify."""

    default_code = "audit"


class ReplayDivergedError(GraphrtError):
    """A re-executed node or a replayed journal did something else than before."""

    default_code = "replay-diverged"
