"""Every exception that graphrt raises, grouped by who can fix it.

    GraphrtError
    ├── DefinitionError          the graph: compile() found problems (`.problems`)
    ├── InputError               the call: wrong argument, or wrong verb for the thread's status
    │   ├── MissingExtraError    the installation: an optional dependency is missing
    │   └── ModelRequestForbiddenError    the process: it forbids real model requests
    ├── NodeError                the node: it raised, timed out or swallowed a pause
    ├── QuestionExpiredError, ChildThreadError    what a node waited for; it may catch them
    ├── RouteError               the router, or the goto of a Command
    ├── UpdateError              the node's update, or a reducer that raised
    │   └── ConcurrentUpdateError
    ├── LimitError               a limit of the run
    │   ├── StepLimitError, NodeFatigueError, DeadlineError
    │   └── AgentLimitError      a limit of an agent's own loop; BudgetExceededError
    ├── StarvedJoinError         a join whose sources did not all run
    ├── HarnessError             the model provider, or the script of a mock
    │   ├── AuthenticationError, RateLimitError, ContextOverflowError, RefusalError,
    │   ├── TransientModelError, BadResponseError, BadRequestError
    │   ├── ToolError            a tool whose failure must not be shown to the model
    │   │   └── ToolArgumentsError, ToolStateError
    │   ├── CheckError           a check of an agent refused its input
    │   └── ScriptError
    ├── StoreError               the world: disk, database
    │   └── ConflictError        another writer owns the thread
    ├── AuditError
    └── ReplayDivergedError      a re-execution or replay that differs from the journal

Only exceptions live here, with the text template they share. A node that pauses raises a private `BaseException`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

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

if TYPE_CHECKING:
    from graphrt._usage.usage import Usage

__all__ = [
    "AgentLimitError",
    "AuditError",
    "AuthenticationError",
    "BadRequestError",
    "BadResponseError",
    "BudgetExceededError",
    "CheckError",
    "ChildThreadError",
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
    "QuestionExpiredError",
    "RateLimitError",
    "RefusalError",
    "ReplayDivergedError",
    "RouteError",
    "RunFailedError",
    "ScriptError",
    "StarvedJoinError",
    "StepLimitError",
    "StoreError",
    "TaskFailure",
    "ToolArgumentsError",
    "ToolError",
    "ToolStateError",
    "TransientModelError",
    "UpdateError",
    "WaitTimeoutError",
]


ATTRIBUTES = frozenset(
    {"graph", "node", "nodes", "superstep", "thread", "run_id", "task_id", "field", "path", "limit", "target"}
    | {"seq", "values", "value", "status_code", "retry_after_s", "model", "provider", "expected", "got", "join"}
    | {"interrupts", "state", "messages", "tool", "request_id", "arg", "declared_at", "status"}
    | {"inner_codes"}
)
"""Names of the data attributes that an error may have; an attribute that was not set is None."""


class GraphrtError(Exception):
    """Base of all graphrt errors. It survives copying and pickling with all its attributes.

    The text is built from the attributes, in up to five lines: what happened, where, what was known, what to do, and
        the
    command that prints the documentation of its code, and of `inner_codes`: those of the graphrt errors that caused it.

    Args:
        what: What happened, with the value: the first line.
        code: Stable slug of the error; None takes the `default_code` of the class.
        where: Where it happened: a text, or a `Place` whose parts become attributes.
        known: What was known, such as the valid names.
        fix: What to do.
        **data: More attributes; None values are left out.
    """

    default_code: ClassVar[str] = "graphrt-error"
    """Code of an error that is raised without one."""
    _data_attributes: ClassVar[frozenset[str]] = ATTRIBUTES  # a declaration makes attributes of fields with these names

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
        """What was known, such as the valid names; may be empty."""
        self.fix = fix
        """What to do; may be empty."""
        # Attributes live in `__dict__`, so that copying and pickling keep them.
        self.__dict__.update((name, value) for name, value in data.items() if value is not None)

    @property
    def where(self) -> str:
        """Where it happened, as text: made of `graph`, `node`, `task_id` and the other attributes that are set."""
        known = self.__dict__
        return _words.line(known.get("where", ""), known, self.what)

    @where.setter
    def where(self, text: str) -> None:
        self.__dict__["where"] = text

    def locate(self, place: Place) -> None:
        """Set *place* as where this error happened, unless the error knows its graph already."""
        if "graph" not in self.__dict__:
            self.__dict__.update({**place.known, **self.__dict__})

    def __str__(self) -> str:
        lines = [self.what]
        lines += [
            f"  {label}: {text}"
            for label, text in (("Where", self.where), ("Known", self.known), ("Fix", self.fix))
            if text
        ]
        codes = dict.fromkeys((self.code, *(self.inner_codes or ())))
        lines.append(f"  See: python -m graphrt.errors {' '.join(map(str, codes))}")
        return "\n".join(lines)

    def __getattr__(self, name: str) -> Any:
        # Data attributes that this instance was not given read as None, so that handlers need no hasattr().
        if name.startswith("_") or name not in ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return None


def describe_error(error: BaseException) -> str:
    """Return *error* for use inside another message: its class and what happened.

    Where, Fix and See of a graphrt error are left out; the outer message has its own.
    """
    name = getattr(error, "type_name", None) or type(error).__name__  # `type_name`: of an error that a journal kept
    return f"{name}: {error.what if isinstance(error, GraphrtError) else said(error)}"


class DefinitionError(GraphrtError):
    """The graph is wrong: fix its definition. `compile()` raises it once, with every problem."""

    default_code = "definition"
    _data_attributes = ATTRIBUTES | {"problems"}

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
    _data_attributes = ATTRIBUTES | {"effects", "index"}


class MissingExtraError(InputError):
    """An optional dependency is needed and is not installed."""

    default_code = "missing-extra"


class ModelRequestForbiddenError(InputError):
    """The process forbids real model requests, and one was about to be made: see `allow_model_requests`."""

    default_code = "model-request-forbidden"


class NodeError(GraphrtError):
    """A node failed; `__cause__` is what it raised."""

    default_code = "node-failed"


class RouteError(GraphrtError):
    """A router or a `Command.goto` named an impossible target, or the router raised (`__cause__`)."""

    default_code = "route"


class UpdateError(GraphrtError):
    """An update that a node returned cannot become part of the state, or a reducer raised."""

    default_code = "bad-update"


class ConcurrentUpdateError(UpdateError):
    """Two tasks of one superstep wrote a field that has no aggregating reducer."""

    default_code = "concurrent-update"


class LimitError(GraphrtError):
    """The run reached a limit. The thread stays resumable."""

    default_code = "limit"


class StepLimitError(LimitError):
    """The run needed more supersteps than `max_steps` allows."""

    default_code = "step-limit"


class NodeFatigueError(LimitError):
    """A node was due more often than `max_visits` allows."""

    default_code = "node-fatigue"


class DeadlineError(LimitError):
    """The run took longer than `deadline_s`."""

    default_code = "deadline"


class BudgetExceededError(LimitError):
    """A model call would have spent more than the budget has left."""

    default_code = "budget-exceeded"


class AgentLimitError(LimitError):
    """An agent needed more calls, depth or time than its limits allow. `messages` is the conversation so far."""

    default_code = "agent-limit"


class RunFailedError(GraphrtError):
    """The run of a thread failed in another process, or was parked. The text names the error; `node` is the node, if any."""

    default_code = "run-failed"


class QuestionExpiredError(GraphrtError):
    """Nobody answered a question in time, and it has no default. Raised in the node that asked."""

    default_code = "question-expired"
    _data_attributes = ATTRIBUTES | {"interrupt"}


class ChildThreadError(GraphrtError):
    """A child thread did not complete: `thread` is its id, `status` how it ended. Raised in the node."""

    default_code = "child-ended"


class WaitTimeoutError(GraphrtError):
    """A run had not ended when the time of a `wait` was over. The run continues."""

    default_code = "wait-timeout"


class StarvedJoinError(GraphrtError):
    """Nothing is due, and a join still waits for sources that did not run."""

    default_code = "starved-join"


class HarnessError(GraphrtError):
    """A model call failed. `status_code`, `retry_after_s` (seconds), `provider`, `model` and `request_id` may be known."""

    default_code = "harness"
    _data_attributes = ATTRIBUTES | {"billed", "usage"}
    billed: bool = False
    """Whether the provider answered with status 200, or began a stream, before the failure. Providers charge such calls:
    trackers and budgets count them, and an unknown `usage` counts against budgets as all that the call reserved."""
    usage: Usage | None = None
    """Usage that the provider reported for the failed call; None if it reported nothing. Only billed calls have one."""


class AuthenticationError(HarnessError):
    """The provider refused the credentials (401, 403). A retry would not help."""

    default_code = "authentication"


class BadRequestError(HarnessError):
    """The provider refused the request (400, 404, 422), or litellm did before it was sent. A retry would not help."""

    default_code = "bad-request"


class RateLimitError(HarnessError):
    """The provider received too many requests (429). `retry_after_s` is its hint, in seconds.

    With the code `no-credit`, the account's quota is used up, and a retry would not help.
    """

    default_code = "rate-limit"


class ContextOverflowError(HarnessError):
    """The request is longer than the model's context."""

    default_code = "context-overflow"


class RefusalError(HarnessError):
    """The provider's content filter, or the model, refused to answer."""

    default_code = "refusal"


class TransientModelError(HarnessError):
    """The provider failed with a transient error: 5xx, a timeout, a lost connection."""

    default_code = "transient-model"


class BadResponseError(HarnessError):
    """The provider's response is not a valid answer, such as malformed JSON or no choices."""

    default_code = "bad-response"


class ScriptError(HarnessError):
    """A mock got a call that its script does not expect, or its script was not used up."""

    default_code = "script"


class ToolError(HarnessError):
    """A tool failed, and its policy hides the error from the model; `__cause__` is the tool's exception."""

    default_code = "tool-failed"


class ToolArgumentsError(ToolError):
    """The arguments of a tool call do not fit the tool. The text is written for the model."""

    default_code = "tool-arguments"


class ToolStateError(ToolError):
    """A tool does not fit the state of its graph, or read what it does not declare. The model cannot correct that."""

    default_code = "tool-state"


class CheckError(HarnessError):
    """A check of an agent refused its input, before the first call. `messages` is the conversation so far."""

    default_code = "check-failed"


class StoreError(GraphrtError):
    """The store failed: disk, database, network."""

    default_code = "store"


class ConflictError(StoreError):
    """Another living writer owns the thread. No data was lost, and no thread was forked."""

    default_code = "conflict"


class AuditError(GraphrtError):
    """The audit log is damaged, belongs to another thread, or cannot be written as asked; see the code."""

    default_code = "audit"
    _data_attributes = ATTRIBUTES | {"rule"}


class ReplayDivergedError(GraphrtError):
    """A node that ran again, or a journal that was replayed, behaved differently from before."""

    default_code = "replay-diverged"
