"""A cache of model responses by request, for any number of agents; concurrent equal requests make one call."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from dataclasses import replace
from typing import final

from graphrt._arguments import number_problem
from graphrt._forks import FreshLock, process
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS
from graphrt.events import Usage
from graphrt.harness.protocol import ModelResponse

__all__ = ["ResponseCache"]


class ResponseCache:
    """An LRU cache of model responses in memory, for use from several tasks, event loops and worker threads at once.

    A cached response is free: its usage is zero, and no budget is checked. Failures are never cached.
    Responses belong to one model object. Models with the same text in an attribute `cache_identity` share them.

    Args:
        max_entries: Maximum number of responses kept, 1 or more.

    Raises:
        InputError: *max_entries* is not such a number.
    """

    def __init__(self, max_entries: int = 1_024) -> None:
        problem = number_problem("max_entries", max_entries, optional=False, least=1)
        if problem is not None:
            raise ARGUMENT_OUT_OF_BOUNDS(problem=problem, wanted="how many responses are kept", value=max_entries)
        self._most = max_entries
        self._lock = FreshLock()
        self._known: OrderedDict[Hashable, ModelResponse] = OrderedDict()
        self._flying: dict[Hashable, Future[ModelResponse]] = {}
        """Calls in progress, by the key of the response and the id of the process that makes them."""

    async def get(self, key: Hashable, call: Callable[[], Awaitable[ModelResponse]]) -> tuple[ModelResponse, bool]:
        """Return the response of *key*, from *call* if it is not cached, and whether it was.

        A caller that arrives while another caller is making the call waits for its response. If that call fails, a
        waiting caller repeats it.
        """
        while True:
            with self._lock:
                known = self._known.get(key)
                if known is not None:
                    self._known.move_to_end(key)
                    return _free(known), True
                in_flight = self._flying.get((process.id, key))
                future: Future[ModelResponse] | None = None
                if in_flight is None:
                    future = self._flying[process.id, key] = Future()
            if future is not None or in_flight is None:
                return await self._fly(key, future or Future(), call), False
            task = asyncio.current_task()
            cancelled = 0 if task is None else task.cancelling()
            try:
                return _free(await asyncio.shield(asyncio.wrap_future(in_flight))), True
            except asyncio.CancelledError:
                if not in_flight.cancelled() or (task is not None and task.cancelling() > cancelled):
                    raise  # this caller was cancelled; otherwise only the one that makes the call was, so try again
            except Exception:  # noqa: BLE001, S110 - raised to the caller that made the call; this one tries again
                pass

    async def _fly(
        self, key: Hashable, future: Future[ModelResponse], call: Callable[[], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        try:
            response = await call()
        except BaseException as error:
            with self._lock:
                del self._flying[process.id, key]
            if isinstance(error, Exception):
                future.set_exception(error)
                future.exception()  # mark it as retrieved: perhaps no other caller waits for it
            else:
                future.cancel()
            raise
        with self._lock:
            del self._flying[process.id, key]
            self._known[key] = response
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        future.set_result(response)
        return response

    def clear(self) -> None:
        """Forget all responses."""
        with self._lock:
            self._known.clear()

    def __len__(self) -> int:
        return len(self._known)


@final
class _Same:
    """A key that compares equal only for the same object. It keeps the object alive, so that its id is not reused."""

    __slots__ = ("_thing",)

    def __init__(self, value: object) -> None:
        self._thing = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._thing is other._thing

    def __hash__(self) -> int:
        return id(self._thing)


def asked_of(model: object) -> Hashable:
    """Return the part of a cache key that identifies *model*."""
    identity: object = getattr(model, "cache_identity", None)
    return identity if isinstance(identity, str) else _Same(model)


def _free(response: ModelResponse) -> ModelResponse:
    return replace(response, usage=Usage())
