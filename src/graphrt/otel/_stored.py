"""`trace_thread`: the trace of a thread from its stored journal, after the fact."""

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
    """State of the graph that stands in for the thread's own."""


def trace_thread(
    source: Runtime[Any, Any] | Store | str,
    thread: str,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    namespace: str = "",
) -> str:
    """Make the trace of a stored thread, with the ids and times that `Tracing` gives it.

    The journal has one time for each commit. So a model call, a task beside others, and a task of a nested graph have
    the times of the superstep around them, and the attribute `graphrt.times` with the value `bounded`. Tool calls and
    commits are not shown: only a live trace has measured them.

    Args:
        source: A runtime of any graph that knows the classes of the thread's values, such as that of the thread's own;
            or a store or its URL, if all values are plain or of registered classes.
        thread: Id of the thread.
        tracer_provider: Makes the spans; None takes the global provider.
        namespace: The `namespace` of the `Tracing` of the live runs.

    Returns:
        The id of the trace, as 32 hexadecimal digits.

    Raises:
        InputError: There is no such thread.
        StoreError: An entry is missing or damaged. What comes before it is shown.
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
    running = [one for one in runtime.threads(prefix=thread) if one.thread == thread and one.owned]
    if not running:  # a run without an end has lost its owner; one that is under way is not over yet
        for span in projection.end(projection.last_ns, "lost", "OwnerDied"):
            emitter.emit(span)
    return f"{trace_id:032x}"


def _any_graph() -> Any:
    builder = GraphBuilder(_NoState, name="trace")
    builder.add_node("none", lambda _state: None)
    return builder.set_entry("none").compile()
