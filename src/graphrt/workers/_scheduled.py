"""Starts threads of due schedules, for workers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from graphrt.errors import GraphrtError, StoreError
from graphrt.runtime import Runtime


def start_scheduled(runtimes: Mapping[str, Runtime[Any, Any]], say: Callable[..., None]) -> None:
    """Start the threads of due schedules of these graphs.

    Args:
        runtimes: Graph name to its runtime.
        say: Logs once per key; takes a key, a level, a text and its arguments.

    Raises:
        StoreError: Schedules of a graph could not be read or stored; those of the other graphs were still handled.
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
            description = "\n".join([str(error), *getattr(error, "__notes__", ())])
            say(f"{name} {description}", logging.ERROR, "A schedule of graph %r: %s", name, description)
    if broken is not None:
        raise broken
