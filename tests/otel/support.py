"""A provider that records its spans, and the spans as a tree; a collector that records its requests."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder
from graphrt.otel import Tracing
from graphrt.reducers import append


@dataclass(frozen=True)
class Seen:
    """A span in the form of a backend."""

    name: str
    trace: str
    span: str
    parent: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: tuple[tuple[str, str, str], ...]
    """Trace, span and kind of each link."""
    events: tuple[str, ...]
    failed: bool

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.name, self.trace, self.span, self.parent


class World:
    """The telemetry of an application: a tracer provider and a meter provider in memory, and a `Tracing` for them."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**{name: options.pop(name) for name in ("sampler",) if name in options})
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.tracing = Tracing(tracer_provider=self.provider, meter_provider=self.meters, **options)
        self.user = self.provider.get_tracer("user")

    def spans(self) -> list[Seen]:
        """The spans that have ended so far."""
        assert self.tracing.flush(20)
        return [of_sdk(span) for span in self.exporter.get_finished_spans()]

    def named(self, prefix: str) -> list[Seen]:
        return [span for span in self.spans() if span.name.startswith(prefix)]

    def metric(self, name: str) -> list[Any]:
        """The data points of a metric."""
        assert self.tracing.flush(20)
        data: Any = self.reader.get_metrics_data()
        found = [] if data is None else [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        return [point for metric in found if metric.name == name for point in metric.data.data_points]

    def close(self) -> None:
        self.provider.shutdown()
        self.meters.shutdown()


def of_sdk(span: Any) -> Seen:
    return Seen(
        name=span.name,
        trace=f"{span.context.trace_id:032x}",
        span=f"{span.context.span_id:016x}",
        parent=f"{span.parent.span_id:016x}" if span.parent is not None else "",
        start_ns=span.start_time,
        end_ns=span.end_time,
        attributes=dict(span.attributes),
        links=tuple(
            (f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}", one.attributes["graphrt.link"])
            for one in span.links
        ),
        events=tuple(event.name for event in span.events),
        failed=span.status.status_code.name == "ERROR",
    )


def tree(spans: Sequence[Seen], skip: str = "graphrt.commit") -> list[str]:
    """The spans as indented names, siblings by start time; spans without a known parent are roots."""
    known = {span.span for span in spans}
    lines: list[str] = []

    def walk(parent: Callable[[Seen], bool], depth: int) -> None:
        for span in sorted(filter(parent, spans), key=lambda one: (one.start_ns, one.end_ns, one.name)):
            if not span.name.startswith(skip):
                lines.append("  " * depth + span.name)
                walk(lambda one, above=span.span: one.parent == above, depth + 1)

    walk(lambda one: one.parent not in known, 0)
    return lines


class Collector:
    """An OTLP/HTTP collector: records the bodies of its requests."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        kept = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kept.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def spans(self) -> list[Seen]:
        """The posted spans, parsed from their wire format."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        found: list[Seen] = []
        for body in self.bodies:
            request = ExportTraceServiceRequest.FromString(body)
            found += [_of_wire(s) for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
        return found


def _of_wire(span: Any) -> Seen:
    return Seen(
        name=span.name,
        trace=span.trace_id.hex(),
        span=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes={one.key: _value(one.value) for one in span.attributes},
        links=tuple(
            (one.trace_id.hex(), one.span_id.hex(), one.attributes[0].value.string_value) for one in span.links
        ),
        events=tuple(event.name for event in span.events),
        failed=span.status.code == 2,
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return tuple(_value(one) for one in found.values) if kind == "array_value" else found


@contextmanager
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made._server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made._server.shutdown()
        made._server.server_close()
        thread.join()


class State(BaseModel):
    notes: Annotated[list[str], append] = []


def chain(*nodes: Any, name: str = "traced", **policies: Any):
    g = GraphBuilder(State, name=name)
    for node in nodes:
        g.add_node(node.__name__, node, **policies.get(node.__name__, {}))
    g.add_sequence([START, *(node.__name__ for node in nodes), END])
    return g.compile()


def only(spans: list[Seen]) -> Seen:
    (span,) = spans
    return span


def one(state):
    return {"notes": ["x"]}
