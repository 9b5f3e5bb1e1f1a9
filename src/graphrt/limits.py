"""Limits of a run, and the retry policy of a node: plain values.

Building one checks nothing: `problems()` describes invalid values, and `compile()` or the runtime raises the error.
The engine decides whether a limit is reached, and `_retry_policy` whether an error is retried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Final

from graphrt._arguments import number_problem

__all__ = ["Limits", "Queue", "RetryPolicy"]

_DEFAULTS: Final[Mapping[str, Any]] = {
    "max_steps": 1_000,
    "max_visits": 50,
    "max_tasks": 10_000,
    "max_concurrency": None,
    "max_depth": 16,
    "timeout_s": None,
    "step_timeout_s": None,
    "deadline_s": None,
    "grace_s": 5.0,
    "max_input_bytes": 16 * 1024**2,
}
_OPTIONAL: Final = frozenset(
    {"max_visits", "max_concurrency", "timeout_s", "step_timeout_s", "deadline_s", "max_input_bytes"}
)
"""Limits that can be disabled with None."""
_SECONDS: Final = frozenset({"timeout_s", "step_timeout_s", "deadline_s", "grace_s"})
_UNSET: Final[Any] = object()
BACKOFF_MAX_S: Final = 30.0
"""Longest backoff in seconds of a policy without `wait_max_s`."""
HINT_MAX_S: Final = 120.0
"""Longest wait in seconds that a policy without `wait_max_s` accepts from an error, for instance by a Retry-After.

Two minutes are enough for most per-minute rate limits (decision 0048).
"""


class Limits:
    """Limits of one run. Immutable, and comparable by value.

    A limit that is not given has its default, or the value from the underlying limits (see `over`).

    Args:
        max_steps: Supersteps of one run. The run fails only if more work remains after them. Default 1,000.
        max_visits: Supersteps in which one node may be active (node fatigue). Default 50; None switches it off.
        max_tasks: Tasks of one superstep. Default 10,000.
        max_concurrency: Tasks that run at the same time, nested graphs included. A worker thread that was abandoned
            after a timeout no longer counts. Default None: unlimited.
        max_depth: Levels of nested graphs. Default 16.
        timeout_s: Seconds for one attempt of any node that has no timeout. Default None: unlimited.
        step_timeout_s: Seconds of driving time for the tasks of one superstep, retries included. Attempts that have not
            ended by then have timed out. Tasks that workers of queues run are not counted. Default None: unlimited.
        deadline_s: Seconds of driving time for the whole run. Default None: unlimited.
        grace_s: Seconds that a failed or cancelled run waits for sync tasks that have started. Default 5.
        max_input_bytes: Bytes of one input, answer, signal or edit of a thread, as they are stored. Default 16 MiB;
            None keeps only the bound for any stored value, 256 MiB.
    """

    __slots__ = (
        "_given",
        "deadline_s",
        "grace_s",
        "max_concurrency",
        "max_depth",
        "max_input_bytes",
        "max_steps",
        "max_tasks",
        "max_visits",
        "step_timeout_s",
        "timeout_s",
    )
    fields: ClassVar[tuple[str, ...]] = tuple(_DEFAULTS)
    """Names of all limits."""
    _given: dict[str, Any]
    """Only the values that were passed, so that `over` can distinguish them from defaults."""
    max_steps: int
    max_visits: int | None
    max_tasks: int
    max_concurrency: int | None
    max_depth: int
    timeout_s: float | None
    step_timeout_s: float | None
    deadline_s: float | None
    grace_s: float
    max_input_bytes: int | None

    def __init__(
        self,
        *,
        max_steps: int = _UNSET,
        max_visits: int | None = _UNSET,
        max_tasks: int = _UNSET,
        max_concurrency: int | None = _UNSET,
        max_depth: int = _UNSET,
        timeout_s: float | None = _UNSET,
        step_timeout_s: float | None = _UNSET,
        deadline_s: float | None = _UNSET,
        grace_s: float = _UNSET,
        max_input_bytes: int | None = _UNSET,
    ) -> None:
        options = {
            "max_steps": max_steps,
            "max_visits": max_visits,
            "max_tasks": max_tasks,
            "max_concurrency": max_concurrency,
            "max_depth": max_depth,
            "timeout_s": timeout_s,
            "step_timeout_s": step_timeout_s,
            "deadline_s": deadline_s,
            "grace_s": grace_s,
            "max_input_bytes": max_input_bytes,
        }
        self._take({name: value for name, value in options.items() if value is not _UNSET})

    def _take(self, options: dict[str, Any]) -> None:
        object.__setattr__(self, "_given", options)  # __setattr__ of this class raises
        for name, default in _DEFAULTS.items():
            object.__setattr__(self, name, options.get(name, default))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Limits are immutable: cannot set {name!r}; make new ones, or use over()")

    def __reduce__(self) -> Any:
        return _again, (self._given,)  # unpickling an object with slots calls __setattr__, which raises

    def over(self, base: Limits) -> Limits:
        """Return new limits with the values given here, and those of *base* for all others."""
        if not self._given:
            return base
        return Limits(**{**base._given, **self._given})

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each given value that is not valid."""
        for name, value in self._given.items():
            seconds = name in _SECONDS
            problem = number_problem(
                name, value, optional=name in _OPTIONAL, seconds=seconds, least=0 if seconds else 1
            )
            if problem:
                yield problem

    def to_dict(self) -> dict[str, Any]:
        """Return all limits by name, defaults included."""
        return {**_DEFAULTS, **self._given}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_dict().items()))

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"


def _again(options: dict[str, Any]) -> Limits:
    return Limits(**options)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry policy of a node: which errors are retried, how often, and after what delay.

    The wait before attempt n + 1 is drawn between 0 and `min(wait_max_s, wait_initial_s * growth ** (n - 1))`.
    The draw is a hash of task id and attempt, so a replay waits the same. A `retry_after_s` on the exception, or a
    Retry-After header of its response, is honoured: the wait is never shorter. If it is longer than `wait_max_s`, the
    node fails at once, and the error reports the requested seconds.

    Args:
        attempts: Attempts in all, the first one included; 1 or more.
        wait_initial_s: Upper bound of the first wait, in seconds.
        wait_max_s: Upper bound of any wait, in seconds. None, the default, means 30 for the backoff and 120 for a wait
            that an error asks for.
        growth: Factor between successive upper bounds, 1 or more.
        jitter: True draws each wait at random; False always waits for the upper bound.
        retry_on: Exception types, or a predicate on the exception. None, the default, retries transient errors, and
            not programming errors or HTTP statuses such as 400, 401 and 404. A failed model call with the code
            `no-credit` or `unreadable-answer` is only retried if a predicate asks for it.

    Source:
        Exponential backoff with full jitter, decision 0012; the bound of hints, decision 0048.
    """

    attempts: int = 3
    _: KW_ONLY
    wait_initial_s: float = 0.5
    wait_max_s: float | None = None
    growth: float = 2.0
    jitter: bool = True
    retry_on: Callable[[Exception], bool] | type[Exception] | tuple[type[Exception], ...] | None = None

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each value that is not valid."""
        checks = (
            number_problem("attempts", self.attempts, optional=False, least=1),
            number_problem("wait_initial_s", self.wait_initial_s, optional=False, seconds=True),
            None
            if self.wait_max_s is None
            else number_problem("wait_max_s", self.wait_max_s, optional=False, seconds=True),
            number_problem("growth", self.growth, optional=False, factor=True, least=1),
        )
        yield from (problem for problem in checks if problem)
        jitter: Any = self.jitter
        if not isinstance(jitter, bool):
            yield f"jitter must be True or False, not {jitter!r}"
        yield from _retry_on_problems(self.retry_on)

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain data for the fingerprint. A predicate is represented by its name."""
        return {
            "attempts": self.attempts,
            "wait_initial_s": self.wait_initial_s,
            # The default was 30 before it became None: the fingerprints of older threads must not change (decision 0048).
            "wait_max_s": BACKOFF_MAX_S if self.wait_max_s is None else self.wait_max_s,
            "growth": self.growth,
            "jitter": self.jitter,
            "retry_on": _names_of(self.retry_on),
        }


def _retry_on_problems(on: Any) -> Iterator[str]:
    is_tuple = issubclass(type(on), tuple)
    if is_tuple and not on:
        yield "retry_on is empty: nothing would be retried"
    elif on is not None and not is_tuple and not callable(on):
        yield f"retry_on must be exception types or a predicate, not {on!r}"
    kinds: Any = on if is_tuple else (on,) if isinstance(on, type) else ()
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            yield f"retry_on has {kind!r}, which is not a type of Exception"


def _names_of(on: Any) -> Any:
    """Return the names of exception types and predicates. A `repr` would contain an address, which changes."""
    if issubclass(type(on), tuple):
        return [_names_of(kind) for kind in on]
    return None if on is None else str(getattr(on, "__qualname__", None) or type(on).__qualname__)


_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}").fullmatch


def is_queue_name(name: Any) -> bool:
    """Return whether *name* can be the name of a queue."""
    return type(name) is str and _QUEUE_NAME(name) is not None


@dataclass(frozen=True, slots=True)
class Queue:
    """How many tasks of a queue run at once, and how many may start per period.

    The names are those of DBOS. The worker of the queue checks the values.
    """

    worker_concurrency: int | None = None
    """Tasks that one worker runs at once; None applies only the worker's limit for all queues."""
    concurrency: int | None = None
    """Tasks that all workers run at once; None for any number."""
    limiter: tuple[int, float] | None = None
    """Number of tasks that may start in a period, and its length in seconds, over all workers; None for no limit."""
