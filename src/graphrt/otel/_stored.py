"""`trace_thread`: makes the trace of a thread from its stored journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from pydantic import BaseModel

from graphrt.graph import GraphBuilder
from graphrt.otel._ids import trace_id_of
from graphrt.otel._projection import Projection
from graphrt.otel._spans import Emitter
from graphrt.runtime import Runtime
from graphrt.stores.ids import shared_id

if TYPE_CHECKING:
    from graphrt.stores import Store

__all__ = ["trace_thread"]


class _NoState(BaseModel):
    """State of the placeholder for the thread's own graph."""


def trace_thread(
    source: Runtime[Any, Any] | Store | str,
    thread: str,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    namespace: str = "",
) -> str:
    """Make the trace of a stored thread, with the same ids and times as `Tracing`.

    The journal has one time for each commit. So model calls, parallel tasks, and tasks of nested graphs have the times
    of their superstep, and the attribute `graphrt.times` with the value `bounded`. Tool calls and commits are missing,
    because only a live trace measures them.

    Args:
        source: A runtime whose graph knows the classes of the thread's values, such as the thread's own graph. Or a
            store or its URL, if all values are plain or of registered classes.
        thread: Id of the thread.
        tracer_provider: Makes the spans; None uses the global provider.
        namespace: The `namespace` of the `Tracing` of the live runs.

    Returns:
        The id of the trace, as 32 hexadecimal digits.

    Raises:
        InputError: There is no such thread.
        StoreError: An entry is missing or damaged. Earlier supersteps are shown.
    """
    emitter = Emitter(tracer_provider if tracer_provider is not None else trace.get_tracer_provider())
    if isinstance(source, Runtime):
        return _emit(source, thread, namespace, emitter)
    with Runtime(_any_graph(), store=source) as runtime:
        return _emit(runtime, thread, namespace, emitter)


def _emit(runtime: Runtime[Any, Any], thread: str, namespace: str, emitter: Emitter) -> str:
    known_as = shared_id(runtime.store, thread)
    trace_id = trace_id_of(known_as, namespace=namespace)
    projection = Projection(trace_id, thread=known_as, namespace=namespace)
    for entry in runtime.entries(thread):
        for span in projection.feed(entry):
            emitter.emit(span)
    running = [info for info in runtime.threads(prefix=thread) if info.thread == thread and info.owned]
    if not running:  # a run without an end has lost its owner, unless it is still in progress
        for span in projection.end(projection.last_ns, "lost", "OwnerDied"):
            emitter.emit(span)
    return f"{trace_id:032x}"


def _any_graph() -> Any:
    builder = GraphBuilder(_NoState, name="trace")
    builder.add_node("none", lambda _state: None)
    return builder.set_entry("none").compile()
