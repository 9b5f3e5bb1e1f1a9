"""The waits between two attempts of a model call: as the run waits in which they are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from graphrt._ambient import SLEEP
from graphrt.harness.tools._invoke import invoke

__all__ = ["rest", "slept"]


async def rest(seconds: float) -> None:
    """Wait: by the `sleep=` of the runtime whose run this is a part of, else in real time."""
    sleep = SLEEP.get()
    if sleep is None:
        await asyncio.sleep(seconds)
    else:
        await slept(sleep, seconds)


async def slept(sleep: Callable[[float], Any], seconds: float) -> None:
    """Call *sleep*, and await what it returns if that can be awaited; a sync one runs on a worker thread."""
    await invoke(sleep, (seconds,), {})
