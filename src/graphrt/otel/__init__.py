"""OpenTelemetry for graphrt: traces and metrics of runs, live or from a stored journal. Needs `graphrt[otel]`.

Experimental: names may change in a minor version (docs/reference/versions.md).

`import graphrt` does not import it. Only the API of OpenTelemetry is used. The SDK that the application configures
decides which spans are kept and where they go.
"""

from __future__ import annotations

from importlib import import_module

from graphrt.errors._codes.arguments import MISSING_PACKAGE

try:
    import_module("opentelemetry.trace")  # imported here, so that a missing package is reported once and clearly
except ModuleNotFoundError as _missing:
    raise MISSING_PACKAGE(user="graphrt.otel", package=_missing.name, extra="otel", value=_missing.name) from _missing

from graphrt.otel._ids import DerivedIds, trace_id_of
from graphrt.otel._live import Redact
from graphrt.otel._stored import trace_thread
from graphrt.otel._tracing import Tracing

__all__ = ["DerivedIds", "Redact", "Tracing", "trace_id_of", "trace_thread"]
