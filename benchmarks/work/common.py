"""Parts shared by all libraries: the messages that nodes append, one event loop, and the comparison of final states."""

from __future__ import annotations

import asyncio
import json
import os
import random
from base64 import b64encode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Run = Callable[[], Any]

SLEEP_S = 0.010
_TEXT = "The quick brown fox jumps over the lazy dog and then considers what it has learnt from that. " * 2
PRAGMAS, POSTGRES = "GRAPHRT_BENCH_PRAGMAS", "GRAPHRT_BENCH_POSTGRES"
"""Environment variables by which `compare.py` configures its children."""
_loop: list[asyncio.AbstractEventLoop] = []


def message(i: int) -> dict[str, str]:
    """The i-th message of a growing conversation, about 220 bytes."""
    return {"id": f"m{i}", "role": "assistant" if i % 2 else "user", "content": f"{_TEXT} (step {i})"}


LETTER_BYTES = 420
_LETTER = len(json.dumps({"id": "", "role": "", "content": ""}))


def letter(i: int) -> dict[str, str]:
    """The i-th message of a stored conversation: 420 bytes of JSON."""
    id_, role = f"m{i}", "assistant" if i % 2 else "user"
    content = f"(step {i}) {_TEXT}{_TEXT}"
    return {"id": id_, "role": role, "content": content[: LETTER_BYTES - _LETTER - len(id_) - len(role)]}


def noise(i: int) -> str:
    """1,024 random characters, the same for the same *i*."""
    return b64encode(random.Random(i).randbytes(768)).decode()


def pragmas() -> dict[str, Any]:
    """SQLite settings for every library: those of graphrt, determined by `compare.py`."""
    found: dict[str, Any] = json.loads(
        os.environ.get(PRAGMAS, '{"page_size": 4096, "journal_mode": "wal", "synchronous": 2}')
    )
    return found


def postgres() -> str:
    """The server that `compare.py` started or was given."""
    return os.environ[POSTGRES]


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run *coroutine* on the process's one event loop, so that no library pays for starting one."""
    if not _loop:
        _loop.append(asyncio.new_event_loop())
    return _loop[0].run_until_complete(coroutine)


def plain(state: Any) -> dict[str, Any]:
    """The fields of a final state of any type."""
    if isinstance(state, Mapping):
        return dict(state)
    return dict(vars(state))


def grown(state: Any) -> dict[str, Any]:
    """A final state with messages, reduced for comparison: their number, and whether all are present and in order."""
    fields = plain(state)
    messages: Sequence[Mapping[str, str]] = fields["messages"]
    ordered = all(item["id"] == f"m{i}" for i, item in enumerate(messages))
    return {"count": fields["count"], "messages": len(messages), "ordered": ordered}


def fanned(state: Any) -> dict[str, Any]:
    """A final state with results, reduced for comparison. The order is ignored, because not all libraries keep it."""
    fields = plain(state)
    return {"rounds": fields["rounds"], "results": len(fields["results"]), "total": sum(fields["results"])}


OBSERVE: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "grow": grown,
    "store_memory": grown,
    "store_sqlite": grown,
    "store_sqlite_plain": grown,
    "store_postgres": grown,
    "store_postgres_plain": grown,
    "store_async": grown,
    "store_fan": fanned,
    "load": grown,
    "load_plain": grown,
    "load_step": grown,
    "fan_sync": fanned,
    "fan_async": fanned,
    "sleeps_async": fanned,
    "sleeps_sync": fanned,
}
"""Maps a workload to the reduction of its final state; others are compared unchanged."""
