"""Threads that schedules are due to start, as a worker starts them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from graphrt.errors import GraphrtError, StoreError
from graphrt.runtime import Runtime


def start_scheduled(runtimes: Mapping[str, Runtime[Any, Any]], say: Callable[..., None]) -> None:
    """Start the threads that schedules of these graphs are due to start.

    Args:
        runtimes: Graph name to its runtime.
        say: Logs once for each key: a key, a level, a text and its arguments.

    Raises:
        StoreError: Schedules of a graph could not be read or kept; those of the other graphs were looked at all the same.
    """
    broken: StoreError | None = None
    for name, runtime in runtimes.items():
        if runtime.store is None or "schedules" not in runtime.store.offers:
            continue
        try:
            runtime.schedules.start_due()
        except StoreError as error:
            broken = broken or error
        except GraphrtError as error:
            told = "\n".join([str(error), *getattr(error, "__notes__", ())])
            say(f"{name} {told}", logging.ERROR, "A schedule of graph %r: %s", name, told)
    if broken is not None:
        raise broken
