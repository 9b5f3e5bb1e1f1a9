"""OpenTelemetry for graphrt: traces and metrics of runs, live or from a stored journal. Needs `graphrt[otel]`.

`import graphrt` does not import it. Only the API of OpenTelemetry is used: which spans are kept, and where they go, is
decided by the SDK that the application configures.
"""

from __future__ import annotations

from importlib import import_module

from graphrt.errors._codes.arguments import MISSING_PACKAGE

try:
    import_module("opentelemetry.trace")  # asked for here, so that its absence is told once and clearly
except ModuleNotFoundError as _missing:
    raise MISSING_PACKAGE(user="graphrt.otel", package=_missing.name, extra="otel", value=_missing.name) from _missing

from graphrt.otel._ids import DerivedIds, trace_id_of
from graphrt.otel._live import Redact
from graphrt.otel._stored import trace_thread
from graphrt.otel._tracing import Tracing

__all__ = ["DerivedIds", "Redact", "Tracing", "trace_id_of", "trace_thread"]
