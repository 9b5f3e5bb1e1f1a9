"""Ids of traces and spans, derived from names that every process knows (decision 0140).

A process that continues a thread computes the same ids as the previous process: a trace id is derived from its thread,
and a span id from its trace and its subject. Nothing is stored or shared.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from random import getrandbits
from typing import Any, Final

__all__ = [
    "DerivedIds",
    "model_span",
    "root_span",
    "run_span",
    "superstep_span",
    "task_span",
    "trace_id_of",
    "with_ids",
]


class _Next(threading.local):
    """The ids of the span that this worker thread starts next."""

    trace: int = 0
    span: int = 0


_next: Final = _Next()


class DerivedIds:
    """An id generator for a `TracerProvider` of the SDK. Spans of graphrt get their derived ids, others random ones.

    `Tracing` installs it in graphrt's tracer. Pass one yourself only to a provider that wraps its tracers, as logfire's
    does.

    Args:
        others: Makes the ids of all other spans; None makes random ones.
    """

    def __init__(self, others: Any = None) -> None:
        self._others: Final = others

    def generate_span_id(self) -> int:
        """Return the id of the next span."""
        next_id, _next.span = _next.span, 0
        if next_id:
            return next_id
        span_id: int = getrandbits(64) or 1 if self._others is None else self._others.generate_span_id()
        return span_id

    def generate_trace_id(self) -> int:
        """Return the id of the next trace."""
        next_id, _next.trace = _next.trace, 0
        if next_id:
            return next_id
        trace_id: int = getrandbits(128) or 1 if self._others is None else self._others.generate_trace_id()
        return trace_id

    def is_trace_id_random(self) -> bool:
        """Return True: the bits of a digest are as evenly distributed as random ones, which samplers rely on."""
        return True


@contextmanager
def with_ids(trace: int, span: int) -> Generator[None, None, None]:
    """Give the span that is started inside the `with` block these ids, if its tracer has `DerivedIds`."""
    _next.trace, _next.span = trace, span
    try:
        yield
    finally:
        _next.trace = _next.span = 0


def trace_id_of(thread: str, *, namespace: str = "") -> int:
    """Return the trace id of a thread.

    Args:
        thread: Id of the thread, with its tenant and `~` if it has one; of a run without a thread, the run's id.
        namespace: The `namespace` of the `Tracing`.
    """
    return int.from_bytes(_digest(16, namespace, thread), "big") or 1


def root_span(trace: int) -> int:
    """Return the id of the trace's first span: that of the thread's first run, fork or edit."""
    return _span(trace, "root")


def run_span(trace: int, run: str) -> int:
    """Return the id of a later run of the thread."""
    return _span(trace, "run", run)


def superstep_span(trace: int, run: str, path: str, superstep: str) -> int:
    """Return the id of a run's part of a superstep, at the top (*path* is empty) or in a nested graph."""
    return _span(trace, "superstep", run, path, superstep)


def task_span(trace: int, run: str, task: str) -> int:
    """Return the id of a run's part of a task."""
    return _span(trace, "task", run, task)


def model_span(trace: int, run: str, task: str, failed_attempts: int, key: str) -> int:
    """Return the id of a model call of a task."""
    return _span(trace, "model", run, task, str(failed_attempts), key)


def commit_span(trace: int, run: str, seq: int) -> int:
    """Return the id of the commit that ended with entry *seq*."""
    return _span(trace, "commit", run, str(seq))


def _span(trace: int, *parts: str) -> int:
    return int.from_bytes(_digest(8, f"{trace:032x}", *parts), "big") or 1


def _digest(size: int, *parts: str) -> bytes:
    # Lengths come before the texts, so that different lists of parts give different bytes. A key may contain lone
    # surrogates.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size, person=b"graphrt.otel").digest()
