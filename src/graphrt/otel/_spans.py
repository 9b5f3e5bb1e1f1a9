"""Finished spans as data, and their conversion to spans of a tracer.

A span is created when it is over, with known ids and times. While it runs, only its id is passed on, so a run never
waits for a tracer. Other modules decide which spans exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from graphrt.otel import _names
from graphrt.otel._ids import DerivedIds, with_ids

__all__ = ["Emitter", "LateSpan", "SpanData", "SpanLink", "context_of"]

Value = str | bool | int | float | Sequence[str]


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to a related span."""

    trace: int
    span: int
    kind: str
    """Value of the attribute `graphrt.link`."""


@dataclass(slots=True, kw_only=True)
class SpanData:
    """A span that has ended."""

    name: str
    trace: int
    span: int
    parent: int
    """Id of the parent span; 0 for the first span of a trace."""
    start_ns: int
    """Nanoseconds since the epoch, as is *end_ns*."""
    end_ns: int
    attributes: dict[str, Value]
    client: bool = False
    """Whether it is a call to another system."""
    links: list[SpanLink] = field(default_factory=list[SpanLink])
    events: list[tuple[str, int, dict[str, Value]]] = field(default_factory=list[tuple[str, int, dict[str, Value]]])
    """0..n events: name, nanoseconds since the epoch, attributes."""
    error: str | None = None
    """Class of the error with which it ended; None if it succeeded."""
    flags: int = 1
    """Trace flags of the parent: 1 if the trace is sampled."""


class Emitter:
    """Makes spans of one tracer provider, from any worker thread.

    Args:
        provider: The provider.
    """

    def __init__(self, provider: trace.TracerProvider) -> None:
        tracer: Any = provider.get_tracer(_names.SCOPE)
        own = getattr(tracer, "id_generator", None)
        if own is not None and not isinstance(own, DerivedIds):
            tracer.id_generator = DerivedIds(own)  # set on this tracer only: the SDK keeps one tracer per scope
        self._tracer: Final[trace.Tracer] = tracer
        self._sampler: Final = getattr(tracer, "sampler", None)
        self._derives: Final = own is not None or isinstance(getattr(provider, "id_generator", None), DerivedIds)

    def samples(self, trace_id: int, name: str) -> bool:
        """Return whether to record the trace. All its processes decide alike, before its first span."""
        if self._sampler is None:
            return True
        decided: Any = self._sampler.should_sample(Context(), trace_id, name, SpanKind.INTERNAL, {}, ())
        sampled: bool = decided.decision.is_sampled()
        return sampled

    def emit(self, data: SpanData) -> None:
        """Create the span of *data* and end it, which passes it to the provider's processors."""
        if not data.flags & TraceFlags.SAMPLED:
            return
        if data.parent:
            above = context_of(data.trace, data.parent, data.flags)
        elif self._derives:
            above = Context()
        else:  # a parent that is never recorded: the only way to choose the trace without choosing ids
            above = context_of(data.trace, data.span, data.flags)
        links = [
            Link(
                SpanContext(link.trace, link.span, is_remote=True, trace_flags=TraceFlags(1)), {_names.LINK: link.kind}
            )
            for link in data.links
        ]
        with with_ids(data.trace, data.span):
            span = self._tracer.start_span(
                data.name,
                context=above,
                kind=SpanKind.CLIENT if data.client else SpanKind.INTERNAL,
                attributes=data.attributes,
                links=links,
                start_time=data.start_ns,
            )
        for name, at_ns, attributes in data.events:
            span.add_event(name, attributes, timestamp=at_ns)
        if data.error is not None:
            span.set_attribute(_names.ERROR_TYPE, data.error)
            span.set_status(Status(StatusCode.ERROR))  # without the error's text, because it may quote values
        span.end(max(data.end_ns, data.start_ns))


class LateSpan(NonRecordingSpan):
    """The current span while a node runs. Its id is derived on demand, since few nodes need it.

    Args:
        trace_id: Id of the trace.
        flags: Flags of the trace.
        span_id: Derives the id of the span.
    """

    def __init__(self, trace_id: int, flags: int, span_id: Callable[[], int]) -> None:
        self._trace: Final = trace_id
        self._flags: Final = flags
        self._span_id: Final = span_id
        self._known: SpanContext | None = None

    def get_span_context(self) -> SpanContext:
        """Return the ids of the span."""
        known = self._known
        if known is None:
            known = SpanContext(self._trace, self._span_id(), is_remote=False, trace_flags=TraceFlags(self._flags))
            self._known = known
        return known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_span_context()!r})"


def context_of(trace_id: int, span_id: int, flags: int, base: Context | None = None) -> Context:
    """Return *base* with a span of these ids as the current one; None is an empty context."""
    span_context = SpanContext(trace_id, span_id, is_remote=base is None, trace_flags=TraceFlags(flags))
    return trace.set_span_in_context(NonRecordingSpan(span_context), base if base is not None else Context())


def usage_attributes(usage: Any) -> Mapping[str, Value]:
    """Return the attributes of a `Usage`; empty for None."""
    if usage is None:
        return {}
    attributes: dict[str, Value] = {}
    if usage.unreported_calls < usage.calls or usage.total_tokens:
        attributes = {_names.INPUT_TOKENS: usage.input_tokens, _names.OUTPUT_TOKENS: usage.output_tokens}
    if usage.unreported_calls:
        attributes[_names.UNREPORTED_CALLS] = usage.unreported_calls
    if usage.cached_tokens:
        attributes[_names.CACHED_TOKENS] = usage.cached_tokens
    if usage.reasoning_tokens:
        attributes[_names.REASONING_TOKENS] = usage.reasoning_tokens
    if usage.cost_usd is not None:
        attributes[_names.COST_USD] = usage.cost_usd
    return attributes
