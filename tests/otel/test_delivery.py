"""Telemetry does not disturb a run: an exporter may hang, raise or be slow, which is logged once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
import warnings
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder
from graphrt.otel import Tracing, _delivery
from graphrt.otel._delivery import Delivery


class State(BaseModel):
    count: int = 0


def graph(steps: int = 3):
    g = GraphBuilder(State, name="traced")
    g.add_node("work", lambda state: {"count": state.count + 1}, max_visits=10_000)
    g.add_edge(START, "work")
    g.add_conditional_edges("work", lambda state: state.count < steps, {True: "work", False: END})
    return g.compile()


def tracing_with(processor: SpanProcessor) -> Tracing:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return Tracing(tracer_provider=provider)


class Hanging(SpanProcessor):
    """Hangs until it is released."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.reached = threading.Event()

    def on_end(self, span: Any) -> None:
        self.reached.set()
        self.go.wait(30)


class Raising(SpanProcessor):
    def on_end(self, span: Any) -> None:
        raise ConnectionError("no collector")


def test_exporter_that_hangs_delays_no_run_and_the_loss_is_logged_once(monkeypatch):
    monkeypatch.setattr(_delivery, "MOST_WAITING", 100)
    hanging = Hanging()
    tracing = tracing_with(hanging)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        graph().run({}, sinks=[tracing])
        assert hanging.reached.wait(10)
        started = time.monotonic()
        for _ in range(20):
            assert graph().run({}, sinks=[tracing]).state.count == 3
        took = time.monotonic() - started
        assert tracing.flush(0.05) is False
    hanging.go.set()

    assert took < 10
    assert tracing.flush(20)
    assert [str(one.message) for one in told if one.category is RuntimeWarning] == [
        "graphrt.otel: more than 100 pieces of telemetry wait and later ones are dropped. Runs are not affected; this is said once."
    ]


def test_exporter_that_raises_fails_no_run_and_is_logged_once():
    tracing = tracing_with(Raising())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            assert graph().run({}, sinks=[tracing]).state.count == 3
        assert tracing.flush(20)

    assert [str(one.message) for one in told if one.category is RuntimeWarning] == [
        "graphrt.otel: telemetry is lost: ConnectionError: no collector. Runs are not affected; this is said once."
    ]


def test_warning_is_printed_where_warnings_are_errors(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Delivery().warn("nothing arrives")

    assert "graphrt.otel: nothing arrives." in capsys.readouterr().err


def test_redaction_that_raises_loses_only_its_span():
    def redact(name: str, value: Any) -> Any:
        raise KeyError(name)

    from tests.otel.support import World

    from graphrt import MockHarness

    world = World(content=redact)
    g = GraphBuilder(State, name="traced")

    @g.node
    async def ask(state, ctx):
        await ctx.harness.run("hello")

    g.add_sequence([START, ask, END])

    def traced() -> None:
        g.compile().run({}, harness=MockHarness(["hi"]), sinks=[world.tracing])
        assert world.tracing.flush(20)

    with pytest.warns(RuntimeWarning, match="telemetry is lost: KeyError"):
        traced()
    names = [span.name for span in world.spans()]
    world.close()

    assert names == ["graphrt.node ask", "invoke_workflow traced"]


def test_flush_waits_for_spans_in_progress():
    hanging = Hanging()
    tracing = tracing_with(hanging)
    graph(1).run({}, sinks=[tracing])
    assert hanging.reached.wait(10)

    assert tracing.flush(0.05) is False
    hanging.go.set()
    assert tracing.flush(20)


@pytest.mark.slow
@pytest.mark.parametrize("hang", [False, True], ids=["well", "hangs"])
def test_exit_of_the_process_delivers_queued_spans_and_does_not_hang(hang: bool):
    program = f"""
        import threading
        from pydantic import BaseModel
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
        from graphrt import END, START, GraphBuilder
        from graphrt.otel import Tracing, _delivery

        class State(BaseModel):
            count: int = 0

        class Printing(SpanProcessor):
            def on_end(self, span):
                if {hang}:
                    threading.Event().wait()
                print(span.name, flush=True)

        _delivery.AT_EXIT_S = 0.3 if {hang} else 20
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(Printing())
        g = GraphBuilder(State, name="traced")
        g.add_node("work", lambda state: None)
        g.add_sequence([START, "work", END])
        g.compile().run({{}}, sinks=[Tracing(tracer_provider=provider)])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=60
    )

    if hang:
        assert done.stdout == ""
        assert "telemetry undelivered" in done.stderr
    else:
        assert (done.stdout, done.stderr) == ("graphrt.node work\ninvoke_workflow traced\n", "")


@pytest.mark.slow
def test_child_of_a_fork_has_its_own_worker_thread():
    program = """
        import os, sys
        from pydantic import BaseModel
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
        from graphrt import END, START, GraphBuilder
        from graphrt.otel import Tracing

        class State(BaseModel):
            count: int = 0

        class Printing(SpanProcessor):
            def on_end(self, span):
                os.write(1, f"{os.getpid() == parent} {span.name}\\n".encode())

        parent = os.getpid()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(Printing())
        tracing = Tracing(tracer_provider=provider)
        g = GraphBuilder(State, name="traced")
        g.add_node("work", lambda state: None)
        g.add_sequence([START, "work", END])
        graph = g.compile()
        graph.run({}, sinks=[tracing])
        assert tracing.flush(20)
        child = os.fork()
        if not child:
            graph.run({}, sinks=[tracing])
            os._exit(0 if tracing.flush(20) else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.split("\n")[:-1] == [
        "True graphrt.node work",
        "True invoke_workflow traced",
        "False graphrt.node work",
        "False invoke_workflow traced",
    ]


def test_force_flush_of_the_provider_sends_all_spans():
    """The exporter's own queue too, in whichever order the processors were added."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=60_000))
    graph().run({}, sinks=[Tracing(tracer_provider=provider)])
    assert provider.force_flush()
    sent = [span.name for span in exporter.get_finished_spans()]
    provider.shutdown()

    assert sent.count("graphrt.node work") == 3
    assert "invoke_workflow traced" in sent
