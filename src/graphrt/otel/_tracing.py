"""`Tracing`: the sink that turns runs into traces and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from opentelemetry import metrics, trace

from graphrt.events import Entry, RunResumed, RunStarted
from graphrt.otel._delivery import Delivery
from graphrt.otel._ids import trace_id_of
from graphrt.otel._live import Redact, RunWatch, Sending
from graphrt.otel._metrics import Metrics
from graphrt.otel._projection import Projection
from graphrt.otel._spans import Emitter

if TYPE_CHECKING:
    from graphrt.runtime import Runtime

__all__ = ["Tracing"]


@final
class Tracing:
    """A sink of a `Runtime` that makes a trace of each thread, and metrics. Use one for all runtimes of a process.

    ```
    tracing = Tracing()
    runtime = Runtime(graph, store="sqlite:///runs.db", sinks=[tracing])
    ```

    All runs of a thread form one trace, in whichever processes: its id is derived from the thread's id. Spans are
    made on a worker thread, so an exporter that hangs or raises causes lost spans and a warning, but never harms a run.

    Args:
        tracer_provider: Makes the spans; None uses the global provider when the first run begins.
        meter_provider: Makes the metrics; None uses the global provider.
        content: Filters prompts, replies, arguments and tool results before they are recorded: `lambda name, value:
            value` records them unchanged. None records none of them.
        namespace: Distinguishes threads with the same id, if several stores send to one backend. All processes of a
            store must use the same.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        content: Redact | None = None,
        namespace: str = "",
    ) -> None:
        self._provider = tracer_provider
        self._metrics: Final = Metrics(meter_provider)
        self._delivery: Final = Delivery()
        self._content: Final = content
        self._namespace: Final = namespace
        self._sending: Sending | None = None

    def __call__(self, entry: Entry, /) -> None:
        """Process an entry, as a sink. `Runtime` passes entries of edits to `__graphrt_edited__` instead."""
        self.__graphrt_edited__(entry, entry.thread)

    def __graphrt_edited__(self, entry: Entry, thread: str | None) -> None:
        """Process an entry of an edit or a fork, outside any run. Only those that begin a thread become spans.

        Args:
            thread: Id of the thread, with its tenant.
        """
        sending = self._resolved()
        if sending is not None and entry.seq == 1 and thread is not None:
            self._delivery.start()
            sending.put(_begun, sending, entry, thread)

    def __graphrt_watch__(self, opened: Any) -> Any:
        """Return the watcher of a run for `Runtime`; None while no provider is configured."""
        try:
            sending = self._resolved()
            if sending is None:
                return None
            self._delivery.start()
            return RunWatch(opened, sending)
        except Exception as error:  # noqa: BLE001 - a sampler or a provider of the application must not fail a run
            self._delivery.warn(f"runs are not traced: {type(error).__name__}: {error}")
            return None

    def __graphrt_conflict__(self, graph: str) -> None:
        """Count a thread that could not be claimed, as `Runtime` reports it."""
        self._metrics.conflicted(graph)

    def observe(self, runtime: Runtime[Any, Any]) -> None:
        """Measure the threads of *runtime*'s graph at each collection of metrics: total, orphaned, open questions.

        Each collection lists the threads and loads the paused ones, so call it in one process of a deployment.
        """
        self._metrics.observe(runtime)

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all reports of runs so far have been handed to the tracer provider.

        Process exit does this automatically, and so does `force_flush` of an SDK tracer provider, which also sends the
        spans. Call this for metrics, and for other kinds of providers.

        Returns:
            False if it takes longer than *timeout_s*.
        """
        return self._delivery.flush(timeout_s)

    def _resolved(self) -> Sending | None:
        """Return the receiver of the data; None while the application has configured no provider."""
        if self._sending is None:
            provider = self._provider if self._provider is not None else trace.get_tracer_provider()
            if isinstance(provider, trace.ProxyTracerProvider):  # nothing is configured yet
                return None
            self._delivery.flush_with(provider)
            self._sending = Sending(
                emitter=Emitter(provider),
                metrics=self._metrics,
                delivery=self._delivery,
                namespace=self._namespace,
                content=self._content,
            )
        return self._sending


def _begun(sending: Sending, entry: Entry, thread: str) -> None:
    if isinstance(entry.event, (RunStarted, RunResumed)):
        return
    trace_id = trace_id_of(thread, namespace=sending.namespace)
    for span in Projection(trace_id, thread=thread, namespace=sending.namespace).feed(entry):
        span.flags = int(sending.emitter.samples(trace_id, span.name))
        sending.emitter.emit(span)
