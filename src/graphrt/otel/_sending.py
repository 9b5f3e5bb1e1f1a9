"""`Sending`: where the watchers of a `Tracing` send what they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from graphrt.otel._delivery import Delivery
from graphrt.otel._metrics import Metrics
from graphrt.otel._spans import Emitter

__all__ = ["Redact", "Sending"]

Redact: TypeAlias = Callable[[str, Any], Any]
"""Function of an attribute's name and its value, as plain data. It returns what to record: data, a text, or None to
record nothing."""


class Sending:
    """Where the watchers of a `Tracing` send what they have."""

    def __init__(
        self, *, emitter: Emitter, metrics: Metrics, delivery: Delivery, namespace: str, content: Redact | None
    ) -> None:
        self.emitter: Final = emitter
        self.metrics: Final = metrics
        self.namespace: Final = namespace
        self.content: Final = content
        self.put: Final = delivery.put
        self.warn: Final = delivery.warn
