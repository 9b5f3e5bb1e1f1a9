"""Responses kept by what was asked, for any number of agents; the same question at the same time is asked once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from dataclasses import replace
from typing import final

from graphrt._forks import Emptied, FreshLock
from graphrt.errors import InputError
from graphrt.events import Usage
from graphrt.harness.protocol import ModelResponse
from graphrt.limits import limit_problem

__all__ = ["ResponseCache"]


class ResponseCache:
    """Keeps responses in memory, the least used ones go first. Safe in several tasks, event loops and worker threads.

    A response from here is free: its usage is zero, and no budget is asked. Failures are never kept.
    Only the same model object answers for itself, unless models say by a text `cache_identity` that they are alike.

    Args:
        max_entries: How many responses are kept, 1 or more.

    Raises:
        InputError: *max_entries* is no such number.
    """

    def __init__(self, max_entries: int = 1_024) -> None:
        problem = limit_problem("max_entries", max_entries, optional=False, least=1)
        if problem is not None:
            raise InputError(f"{problem}.", fix="Say how many responses are kept.", value=max_entries)
        self._most = max_entries
        self._lock = FreshLock()
        self._known: OrderedDict[Hashable, ModelResponse] = OrderedDict()
        self._flying: dict[Hashable, Future[ModelResponse]] = {}
        self._forks = Emptied(self._flying)  # in the child of a fork nobody answers them

    async def get(self, key: Hashable, call: Callable[[], Awaitable[ModelResponse]]) -> tuple[ModelResponse, bool]:
        """The response of *key*, from *call* if it is not known; and whether it was."""
        while True:
            with self._lock:
                known = self._known.get(key)
                if known is not None:
                    self._known.move_to_end(key)
                    return _free(known), True
                flying = self._flying.get(key)
                mine: Future[ModelResponse] | None = None
                if flying is None:
                    mine = self._flying[key] = Future()
            if mine is not None or flying is None:
                return await self._fly(key, mine or Future(), call), False
            task = asyncio.current_task()
            cancelled = 0 if task is None else task.cancelling()
            try:
                return _free(await asyncio.shield(asyncio.wrap_future(flying))), True
            except asyncio.CancelledError:
                if not flying.cancelled() or (task is not None and task.cancelling() > cancelled):
                    raise  # the caller was cancelled, not only the one that asks
            except Exception:  # noqa: BLE001, S110 - whoever asked has the error; this one asks again
                pass

    async def _fly(
        self, key: Hashable, mine: Future[ModelResponse], call: Callable[[], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        try:
            response = await call()
        except BaseException as error:
            with self._lock:
                del self._flying[key]
            if isinstance(error, Exception):
                mine.set_exception(error)
                mine.exception()  # seen: nobody may be waiting
            else:
                mine.cancel()
            raise
        with self._lock:
            del self._flying[key]
            self._known[key] = response
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        mine.set_result(response)
        return response

    def clear(self) -> None:
        """Forget all responses."""
        with self._lock:
            self._known.clear()

    def __len__(self) -> int:
        return len(self._known)


@final
class _Same:
    """Equal only for one and the same object, which it keeps alive."""

    __slots__ = ("_thing",)

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._thing is other._thing

    def __hash__(self) -> int:
        return id(self._thing)


def asked_of(model: object) -> Hashable:
    """What tells the responses of *model* apart from those of others."""
    identity: object = getattr(model, "cache_identity", None)
    return identity if isinstance(identity, str) else _Same(model)


def _free(response: ModelResponse) -> ModelResponse:
    return replace(response, usage=Usage())
