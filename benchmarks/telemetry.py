"""What telemetry costs a step: CPU time of the run's own worker thread, and of the thread that makes the spans.

Run it with `python -m benchmarks.telemetry`. A traced step should cost at most 30 us more on the thread that runs it, and
one that is neither traced nor logged nothing that can be measured. CPU time counts, so that a busy machine does not.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Limits, Runtime
from graphrt.otel import Tracing

TARGET_US = 30.0


class State(BaseModel):
    count: int = 0


def loop(steps: int) -> Any:
    g = GraphBuilder(State, name="loop")
    g.add_node("work", lambda state: {"count": state.count + 1}, max_visits=10**6)
    g.add_edge(START, "work")
    g.add_conditional_edges("work", lambda state: state.count < steps, {True: "work", False: END})
    return g.compile(limits=Limits(max_steps=10**6))


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SpanProcessor())  # a span costs what it costs; where it is sent is not measured
    tracing = Tracing(tracer_provider=provider)
    log = logging.getLogger("graphrt.runs")
    log.propagate = False
    graph, steps = loop(given.steps), given.steps

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
    print("a step in memory       us of its thread   added   us of others")
    base = 0.0
    added = 0.0
    for name, (run, flush) in ways.items():
        run(), flush()
        own, others = (1e6 * one / steps for one in cost(run, flush, given.rounds))
        base = base or own
        added = own - base
        print(f"{name:22s} {own:16.1f} {added:7.1f} {others:14.1f}")
    verdict = "kept" if added <= TARGET_US else "MISSED"
    print(f"at most {TARGET_US:g} us added by tracing: {verdict}")

    print("\na durable step (SQLite)  us of its thread   added   us of others")
    base = 0.0
    with tempfile.TemporaryDirectory() as folder:
        short = loop(given.steps // 10)
        for name, sinks in (("off", []), ("traced", [tracing])):
            with Runtime(short, store=f"sqlite:///{Path(folder) / name}.db", sinks=sinks) as runtime:
                own, others = cost(lambda to=runtime: to.run({}), tracing.flush, given.rounds)
            own, others = (1e6 * one / (steps // 10) for one in (own, others))
            base = base or own
            print(f"{name:22s} {own:18.1f} {own - base:7.1f} {others:14.1f}")


if __name__ == "__main__":
    main()
