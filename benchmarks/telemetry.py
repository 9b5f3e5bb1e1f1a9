"""The cost of telemetry for a step, in CPU time of the thread that runs it, and of the thread that builds the spans.

    python -m benchmarks.telemetry

A traced step should cost at most 30 us more on the thread that runs it; for a step that is neither traced nor logged,
the overhead should not be measurable. CPU time is measured, because a busy machine affects it little. Durable steps
alternate, one untraced and one traced, in one process, because the speed of a disk changes within seconds. The SDK's
own cost of a span is measured as well, because it is a lower bound for any library.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Limits, Runtime
from graphrt.otel import Tracing

TARGET_US = 30.0
WARM = 50
"""Initial steps of a run that are not counted."""


MEMORY = Path("/dev/shm")


class State(BaseModel):
    count: int = 0


def loop(steps: int, work: Callable[[Any], Any] | None = None) -> Any:
    g = GraphBuilder(State, name="loop")
    g.add_node("work", work or (lambda state: {"count": state.count + 1}), max_visits=10**6)
    g.add_edge(START, "work")
    g.add_conditional_edges("work", lambda state: state.count < steps, {True: "work", False: END})
    return g.compile(limits=Limits(max_steps=10**6))


def provider_without_exporter() -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SpanProcessor())  # the cost of a span does not include its export
    return provider


def cost(run: Callable[[], object], flush: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Least CPU seconds of the calling thread, and of all others until *flush* has returned."""
    own, others = [], []
    for _ in range(rounds):
        before, before_all = time.thread_time(), time.process_time()
        run()
        own.append(time.thread_time() - before)
        flush()
        others.append(time.process_time() - before_all - own[-1])
    return min(own), min(others)


def low(values: list[float]) -> float:
    """The tenth percentile."""
    return statistics.quantiles(values, n=10)[0]


def of_sdk(spans: int = 3_000, rounds: int = 9) -> None:
    """Print the cost of a bare SDK span with the attributes of a task."""
    attributes: dict[str, Any] = {
        "graphrt.node.name": "work",
        "graphrt.task.id": "12.0:work",
        "graphrt.superstep": 12,
        "graphrt.attempt": 1,
        "gen_ai.conversation.id": "thread",
        "graphrt.busy_s": 0.001,
        "graphrt.outcome": "success",
        "graphrt.route.taken": ("work",),
    }
    above = trace.set_span_in_context(
        trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False, trace_flags=trace.TraceFlags(1)))
    )
    print("a bare span                 us")
    for name, provider in (("SDK", provider_without_exporter()), ("no-op provider", trace.NoOpTracerProvider())):
        tracer = provider.get_tracer("benchmark")

        def make(tracer: Any = tracer) -> None:
            for _ in range(spans):
                tracer.start_span("graphrt.node work", context=above, attributes=attributes, start_time=1).end(2)

        print(f"{name:22s} {1e6 * cost(make, lambda: None, rounds)[0] / spans:7.1f}")


def in_memory(steps: int, rounds: int) -> float:
    """Print the cost of steps without a store; return the overhead of tracing for one, in microseconds."""
    tracing = Tracing(tracer_provider=provider_without_exporter())
    log = logging.getLogger("graphrt.runs")
    log.propagate = False
    graph = loop(steps)

    def level(value: int) -> Callable[[], object]:
        def run() -> None:
            log.setLevel(value)
            graph.run({})
            log.setLevel(logging.WARNING)

        return run

    def nothing() -> None:
        pass

    ways: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "off": (lambda: graph.run({}), nothing),
        "log at INFO": (level(logging.INFO), nothing),
        "log at DEBUG": (level(logging.DEBUG), nothing),
        "traced": (lambda: graph.run({}, sinks=[tracing]), tracing.flush),
    }
    print("\na step in memory       us of its thread   added   us of others")
    base = added = 0.0
    for name, (run, flush) in ways.items():
        run(), flush()
        own, others = (1e6 * one / steps for one in cost(run, flush, rounds))
        base = base or own
        added = own - base
        print(f"{name:22s} {own:16.1f} {added:7.1f} {others:14.1f}")
    return added


class Turns:
    """A run of durable steps, which waits in its node for permission to make the next step."""

    def __init__(self, store: str, sinks: list[Any], steps: int) -> None:
        self.cpu: list[float] = []
        """CPU seconds of the run's thread from the end of a node's call to the beginning of the next one."""
        self.total = 0.0
        """Total CPU seconds of that thread."""
        self._go, self._ready = threading.Semaphore(0), threading.Semaphore(0)
        self._since: float | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(store, sinks, steps), daemon=True)
        self._thread.start()

    def _run(self, store: str, sinks: list[Any], steps: int) -> None:
        try:
            with Runtime(loop(steps, self._node), store=store, sinks=sinks) as runtime:
                runtime.run({}, thread=f"t{time.time_ns()}")
        except BaseException as error:  # noqa: BLE001 - reported at the end
            self._failure = error
        finally:
            self.total = time.thread_time()
            self._ready.release()

    def _node(self, state: Any) -> Any:
        if self._since is not None:
            self.cpu.append(time.thread_time() - self._since)
        self._ready.release()
        self._go.acquire()
        self._since = time.thread_time()
        return {"count": state.count + 1}

    def wait(self) -> None:
        self._ready.acquire()

    def step(self) -> None:
        self._go.release()
        self._ready.acquire()

    def end(self) -> None:
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure


def durable(steps: int) -> float:
    """Print the cost of steps in SQLite, untraced and traced alternately; return the overhead of tracing for one."""
    sdk_metrics = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    sinks = {
        "off": [],
        "traced": [Tracing(tracer_provider=provider_without_exporter())],
        "traced, no-op SDK": [Tracing(tracer_provider=trace.NoOpTracerProvider())],
        "traced, with metrics": [Tracing(tracer_provider=provider_without_exporter(), meter_provider=sdk_metrics)],
    }
    print("\na durable step (SQLite)  us of its thread   added   median   us of others    (steps in turns)")
    worst = 0.0
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for number, (name, to) in enumerate(sinks.items()):
            if not to:
                continue
            began, here = time.process_time(), time.thread_time()
            pair = [Turns(f"sqlite:///{folder}/{number}{n}.db", one, steps) for n, one in enumerate(([], to))]
            for run in pair:
                run.wait()
            for turn in range(steps):
                for run in pair if turn % 2 else reversed(pair):  # the second one finds the caches cold
                    run.step()
            for run in pair:
                run.end()
            to[0].flush()
            mine = time.thread_time() - here
            others = time.process_time() - began - mine - sum(run.total for run in pair)
            off, on = (run.cpu[WARM:] for run in pair)
            # The cost of a step itself. The difference to the median comes from cache effects of other programs on the
            # machine.
            least, middle = (1e6 * (at(on) - at(off)) for at in (low, statistics.median))
            worst = max(worst, least)
            if number == 1:
                print(f"{'off':22s} {1e6 * low(off):18.1f}")
            print(f"{name:22s} {1e6 * low(on):18.1f} {least:7.1f} {middle:8.1f} {1e6 * others / steps:14.1f}")
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    of_sdk()
    added = max(in_memory(given.steps, given.rounds), durable(given.steps))
    verdict = "kept" if added <= TARGET_US else "MISSED"
    print(f"\nat most {TARGET_US:g} us added to the thread of the run: {verdict} ({added:.1f})")


if __name__ == "__main__":
    main()
