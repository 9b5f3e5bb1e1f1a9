"""The wait between two attempts of a model call, by the runtime's `sleep=` if there is one (decision 0040)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from graphrt._ambient import SLEEP
from graphrt.harness.tools._invoke import invoke

__all__ = ["rest", "slept"]


async def rest(seconds: float) -> None:
    """Wait *seconds*: by the `sleep=` of the runtime that drives this run, else in real time."""
    sleep = SLEEP.get()
    if sleep is None:
        await asyncio.sleep(seconds)
    else:
        await slept(sleep, seconds)


async def slept(sleep: Callable[[float], Any], seconds: float) -> None:
    """Call *sleep* and await its result if it is awaitable; a sync *sleep* runs on a worker thread."""
    await invoke(sleep, (seconds,), {})
