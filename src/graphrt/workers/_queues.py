"""Checks of the queues that a worker serves, and the names of the queues in its graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.limits import Queue
from graphrt.runtime import Runtime

_PAIR: Final = ("tasks", "seconds")
"""The limits of a limiter."""


def checked_queues(option: str, queues: Any, runtimes: Iterable[Runtime[Any, Any]]) -> dict[str, Queue]:
    """Return queues by name from *queues*: names, or a mapping of names to their limits.

    Raises:
        InputError: No node names one of them, or a limit is not one (`input`).
    """
    named = _named(queues)
    known = sorted({name for runtime in runtimes for name in runtime.graph.queues})
    for name, queue in named.items():
        if name not in known:
            raise UNKNOWN_NAME_IN_ARGUMENT(
                argument=option,
                name=name,
                what="queue that a node of the graphs names",
                known_names=known,
                fix=f"Name one of these queues, or give a node queue={name!r}.",
            )
        _check(name, queue)
    return dict(named)


def _named(queues: Any) -> Mapping[Any, Any]:
    """Return the argument as a mapping of names to limits; plain names have none."""
    if isinstance(queues, str):
        return {queues: Queue()}
    return queues if _is_mapping(queues) else dict.fromkeys(queues, Queue())


def _is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether *value* is a mapping."""
    return isinstance(value, Mapping)


def _check(name: str, queue: Any) -> None:
    if not isinstance(queue, Queue):
        raise INVALID_ARGUMENT(
            argument=f"limits of queue {name!r}",
            value=queue,
            wanted="a Queue of graphrt.limits, or leave it out for no limit",
        )
    for option in ("worker_concurrency", "concurrency"):
        if getattr(queue, option) is not None and not _is_count(getattr(queue, option)):
            raise INVALID_ARGUMENT(
                argument=f"{option} of queue {name!r}",
                value=getattr(queue, option),
                wanted="a whole number from 1, or leave it out for no limit",
            )
    limiter: Any = queue.limiter
    if limiter is None:
        return
    pair: list[Any] = [*limiter] if type(limiter) in (tuple, list) else []
    if len(pair) != len(_PAIR) or not _is_count(pair[0]) or not _is_period(pair[1]):
        wanted = "a number of tasks from 1 and seconds above 0, such as (100, 60.0)"
        raise INVALID_ARGUMENT(
            argument=f"limiter of queue {name!r}", value=limiter, wanted=f"{wanted}, or leave it out for no limit"
        )


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_period(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < float("inf")
