"""Checks of a worker's arguments."""

from __future__ import annotations

from typing import Any, TypeGuard

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.threads import THREAD_WITHOUT_STORE
from graphrt.errors._codes.workers import TWO_RUNTIMES_OF_ONE_GRAPH, TWO_STORES_OF_A_WORKER
from graphrt.runtime import Runtime
from graphrt.stores import MemoryStore, Store


def checked_runtimes(runtimes: tuple[Any, ...]) -> dict[str, Runtime[Any, Any]]:
    """Return the runtimes by graph name.

    Raises:
        InputError: There is none, one is not a runtime or has no store, two have graphs of one name, or two have
            different stores.
    """
    if not runtimes:
        raise INVALID_ARGUMENT(
            argument="What a worker drives with",
            value=(),
            wanted='runtimes with a graph and a store: Worker(Runtime(graph, store="sqlite:///runs.db"))',
        )
    by_name: dict[str, Runtime[Any, Any]] = {}
    for runtime in runtimes:
        if not _is_runtime(runtime):
            raise INVALID_ARGUMENT(
                argument="What a worker drives with",
                value=runtime,
                wanted='runtimes with a graph and a store: Worker(Runtime(graph, store="sqlite:///runs.db"))',
            )
        name = runtime.graph.name
        if runtime.store is None:
            raise THREAD_WITHOUT_STORE(what=f"the runtime of graph {name!r} needs that of the worker")
        if name in by_name:
            raise TWO_RUNTIMES_OF_ONE_GRAPH(name=name)
        by_name[name] = runtime
    first = next(iter(by_name.values()))
    for name, runtime in by_name.items():
        if not _may_be_one(first.store, runtime.store):
            raise TWO_STORES_OF_A_WORKER(name=name, store=runtime.store, other=first.graph.name, first=first.store)
    return by_name


def check_runtime(value: Any) -> None:
    """Check that *value* is a runtime.

    Raises:
        InputError: It is not.
    """
    if not _is_runtime(value):
        raise INVALID_ARGUMENT(
            argument="What a worker drives with",
            value=value,
            wanted='runtimes with a graph and a store: Worker(Runtime(graph, store="sqlite:///runs.db"))',
        )


def _may_be_one(first: Store | None, second: Store | None) -> bool:
    """Return False if the stores are known to have different databases, which is unknown for stores not from graphrt.

    Two stores that a process opened for one database count as equal, because the `repr` of graphrt's stores names the
    database.
    """
    own = all(type(store).__module__.startswith("graphrt.stores.") for store in (first, second))
    if first is second or not own:
        return True
    return not isinstance(first, MemoryStore) and repr(first) == repr(second)


def _is_runtime(value: Any) -> TypeGuard[Runtime[Any, Any]]:
    return isinstance(value, Runtime)


def checked_pause(option: str, value: Any) -> float:
    """Check and return *value*, the seconds between two polls; 0 would use up a whole processor.

    Raises:
        InputError: It is not a number above 0.
    """
    seconds: float = checked_number(option, value, whole=False)
    if seconds == 0:
        raise INVALID_ARGUMENT(argument=f"{option}=", value=value, wanted="seconds above 0")
    return seconds


def checked_number(option: str, value: Any, *, whole: bool) -> Any:
    """Check and return *value*, a whole number from 1, or a number from 0 if not *whole*.

    Raises:
        InputError: It is not.
    """
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not fits or not (1 if whole else 0) <= value < float("inf"):
        raise INVALID_ARGUMENT(
            argument=f"{option}=", value=value, wanted="a whole number from 1" if whole else "seconds from 0"
        )
    return value
