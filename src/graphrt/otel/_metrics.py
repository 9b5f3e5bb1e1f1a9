"""The metrics, from the same data as the trace. Recorded on the worker thread of the delivery."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from graphrt.otel import _names

if TYPE_CHECKING:
    from graphrt.events import Usage
    from graphrt.runtime import Runtime

__all__ = ["Metrics"]

MOST_PAUSED: Final = 1000
"""Maximum number of paused threads whose questions are counted per collection, since each has to be loaded."""


class Metrics:
    """The instruments of one meter provider.

    Args:
        provider: The provider; None is the global one, which may be set later.
    """

    def __init__(self, provider: metrics.MeterProvider | None) -> None:
        meter = (provider if provider is not None else metrics.get_meter_provider()).get_meter(_names.SCOPE)

        def histogram(declared: tuple[str, str, str]) -> metrics.Histogram:
            name, unit, description = declared
            return meter.create_histogram(name, unit=unit, description=description)

        def counter(declared: tuple[str, str, str]) -> metrics.Counter:
            name, unit, description = declared
            return meter.create_counter(name, unit=unit, description=description)

        self._meter: Final = meter
        self._model: Final = histogram(_names.INFERENCE_DURATION)
        self._call_input: Final = histogram(_names.CALL_INPUT)
        self._call_output: Final = histogram(_names.CALL_OUTPUT)
        self._input: Final = counter(_names.USED_INPUT)
        self._output: Final = counter(_names.USED_OUTPUT)
        self._cached: Final = counter(_names.USED_CACHED)
        self._reasoning: Final = counter(_names.USED_REASONING)
        self._runs: Final = histogram(_names.INVOKE_DURATION)
        self._tools: Final = histogram(_names.TOOL_DURATION)
        self._nodes: Final = histogram(_names.NODE_DURATION)
        self._commits: Final = histogram(_names.COMMIT_DURATION)
        self._written: Final = histogram(_names.THREAD_WRITTEN)
        self._cost: Final = counter(_names.COST)
        self._retries: Final = counter(_names.RETRIES)
        self._conflicts: Final = counter(_names.CONFLICTS)
        self._takeovers: Final = counter(_names.TAKEOVERS)

    def run_ended(self, graph: str, status: str, seconds: float) -> None:
        """Count a run."""
        workflow = {_names.OPERATION_NAME: _names.INVOKE_WORKFLOW, _names.AGENT_NAME: graph}
        self._runs.record(seconds, {**workflow, _names.RUN_STATUS: status})

    def attempt_ended(self, graph: str, node: str, outcome: str, seconds: float) -> None:
        """Count an attempt at a task."""
        self._nodes.record(seconds, {_names.GRAPH: graph, _names.NODE_NAME: node, _names.OUTCOME: outcome})

    def retried(self, graph: str, node: str, error: str) -> None:
        """Count a retry of a task."""
        self._retries.add(1, {_names.GRAPH: graph, _names.NODE_NAME: node, _names.ERROR_TYPE: error})

    def model_ended(self, model: str, usage: Usage | None, error: str | None, seconds: float) -> None:
        """Count a model call, with its tokens and cost."""
        common = {
            _names.OPERATION_NAME: _names.CHAT,
            _names.PROVIDER_NAME: _names.provider_of(model),
            **({_names.REQUEST_MODEL: model} if model else {}),
        }
        self._model.record(seconds, {**common, **({_names.ERROR_TYPE: error} if error else {})})
        if usage is None or usage.unreported_calls >= usage.calls > 0:
            return  # no zeros, because nothing was reported
        self._call_input.record(usage.input_tokens, common)
        self._call_output.record(usage.output_tokens, common)
        counted = {**common, _names.TOKEN_MODALITY: "unknown"}
        self._input.add(usage.input_tokens, counted)
        self._output.add(usage.output_tokens, counted)
        if usage.cached_tokens:
            self._cached.add(usage.cached_tokens, counted)
        if usage.reasoning_tokens:
            self._reasoning.add(usage.reasoning_tokens, counted)
        if usage.cost_usd is not None:
            self._cost.add(usage.cost_usd, common)

    def tool_ended(self, tool: str, error: str | None, seconds: float) -> None:
        """Count a tool call."""
        self._tools.record(seconds, {_names.TOOL_NAME: tool, **({_names.ERROR_TYPE: error} if error else {})})

    def committed(self, graph: str, seconds: float) -> None:
        """Count a commit."""
        self._commits.record(seconds, {_names.GRAPH: graph})

    def written(self, graph: str, size: int) -> None:
        """Count the bytes that a run wrote to its thread."""
        self._written.record(size, {_names.GRAPH: graph})

    def conflicted(self, graph: str) -> None:
        """Count a conflict with another owner."""
        self._conflicts.add(1, {_names.GRAPH: graph})

    def taken_over(self, graph: str) -> None:
        """Count a takeover of a thread."""
        self._takeovers.add(1, {_names.GRAPH: graph})

    def observe(self, runtime: Runtime[Any, Any]) -> None:
        """Read the threads of *runtime*'s graph whenever metrics are collected."""
        graph = runtime.graph.name
        common = {_names.GRAPH: graph}

        def threads(_: CallbackOptions) -> Iterable[Observation]:
            counts: dict[str, int] = {}
            for thread in runtime.threads(graph=graph):
                counts[thread.status] = counts.get(thread.status, 0) + 1
            return [Observation(count, {**common, _names.STATUS: status}) for status, count in counts.items()]

        def orphaned(_: CallbackOptions) -> Iterable[Observation]:
            running = runtime.threads(graph=graph, status="running")
            return [Observation(sum(not thread.owned for thread in running), common)]

        def questions(_: CallbackOptions) -> Iterable[Observation]:
            paused = runtime.threads(graph=graph, status="interrupted", limit=MOST_PAUSED)
            return [Observation(sum(len(runtime.state(thread.thread).interrupts) for thread in paused), common)]

        gauges: dict[tuple[str, str, str], Callable[[CallbackOptions], Iterable[Observation]]] = {
            _names.THREADS: threads,
            _names.ORPHANED: orphaned,
            _names.OPEN_QUESTIONS: questions,
        }
        for (name, unit, description), callback in gauges.items():
            self._meter.create_observable_gauge(name, [callback], unit=unit, description=description)
