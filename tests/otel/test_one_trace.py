"""One thread is one trace, for any number of processes, live or from its journal."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from examples.support_triage.graph import graph
from tests.otel.support import World, collector, tree
from tests.testing.warm_python import warm_python

from graphrt import Runtime

ROOT = Path(__file__).parents[2]
DESK = [
    "invoke_workflow support",
    "  graphrt.node classify",
    "    chat function",
    "  graphrt.node look_up",
    "  invoke_workflow support",
    "    graphrt.node write",
    "      chat function",
    "    graphrt.node approve",
    "  invoke_workflow support",
    "    graphrt.node approve",
]


def live(url: str, collected: str, verb: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(__file__).with_name("triage_life.py"))
    return warm_python().run([program, url, collected, verb], cwd=ROOT, timeout_s=60)


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory):
    """The spans that a collector received from two processes, the first of which was killed; and the database."""
    url = f"sqlite:///{tmp_path_factory.mktemp('desk') / 'desk.db'}"
    with collector() as collected:
        died = live(url, collected.url, "die")
        ended = live(url, collected.url, "go-on")
        assert (died.returncode, died.stderr) == (-signal.SIGKILL, "")
        assert (ended.stdout, ended.stderr) == ("interrupted\ncompleted\n", "")
        return collected.spans(), url


@pytest.mark.slow
def test_triage_that_was_killed_and_resumed_is_one_trace_in_the_format_of_a_collector(lives):
    spans, _ = lives

    assert len({span.trace for span in spans}) == 1
    assert tree(spans) == DESK
    assert len({span.span for span in spans}) == len(spans)
    assert [span.parent for span in spans].count("") == 1


def test_run_of_a_killed_process_is_reported_by_its_successor(lives):
    spans, _ = lives
    runs = sorted((span for span in spans if span.name.startswith("invoke_workflow")), key=lambda one: one.start_ns)

    assert [run.attributes["graphrt.run.status"] for run in runs] == ["lost", "interrupted", "completed"]
    assert [run.attributes["graphrt.run.verb"] for run in runs] == ["run", "retry", "resume"]
    assert [run.failed for run in runs] == [True, False, False]
    assert runs[0].attributes["error.type"] == "OwnerDied"
    assert [run.attributes.get("graphrt.run.taken_over") for run in runs] == [None, True, None]
    assert [run.links for run in runs] == [
        (),
        ((runs[0].trace, runs[0].span, "previous-run"),),
        ((runs[0].trace, runs[1].span, "previous-run"),),
    ]


def test_stored_journal_gives_the_same_spans_with_the_same_ids_and_times(lives):
    from graphrt.otel import trace_thread

    spans, url = lives
    world = World()
    with Runtime(graph, store=url) as runtime:
        trace = trace_thread(runtime, "ticket-7", tracer_provider=world.provider)
    stored = world.spans()
    world.close()

    assert {trace} == {span.trace for span in spans}
    measured = ("graphrt.commit", "execute_tool")
    expected = {one.span: one for one in spans if not one.name.startswith(measured)}
    assert {one.span: (one.name, one.parent) for one in stored} == {
        one.span: (one.name, one.parent) for one in expected.values()
    }
    for one in stored:
        if one.attributes.get("graphrt.times") == "bounded":
            assert one.start_ns <= expected[one.span].start_ns <= expected[one.span].end_ns <= one.end_ns, one
        else:
            assert (one.start_ns, one.end_ns) == (expected[one.span].start_ns, expected[one.span].end_ns), one
            assert one.links == expected[one.span].links
