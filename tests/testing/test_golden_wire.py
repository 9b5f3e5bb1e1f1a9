"""Golden wires: the messages of a recorded run to a front end, as a file beside the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.testing.support import run_pytest
from tests.wires import chats
from tests.wires.chats import GIVEN, desk

from graphrt.errors import InputError
from graphrt.harness import FunctionModel
from graphrt.testing import golden_wire, record
from graphrt.testing.golden.wire import wire_divergence


def recorded() -> Any:
    models: dict[str, Any] = {
        "clerk": FunctionModel(chats.rules),
        "expert": FunctionModel(lambda _: "The blue one."),
        "painter": FunctionModel(lambda _: "Red and blue."),
    }
    return record(desk(), GIVEN, models=models).resume(answer=True).resume(answer="red")


def test_equal_runs_give_equal_wires_in_both_protocols() -> None:
    one, other = recorded(), recorded()

    assert golden_wire(one, "ai-sdk") == golden_wire(other.entries, "ai-sdk")
    shown = golden_wire(one, "ag-ui", shows={"notes"})
    assert shown == golden_wire(other, "ag-ui", shows={"notes"})
    assert '{"op":"add","path":"/notes/-","value":"talked"}' in shown
    assert shown.count("\n") == len(shown.splitlines())


def test_first_event_that_differs_is_named() -> None:
    assert wire_divergence("a\nb\n", "a\nb\n") is None
    assert wire_divergence("a\nb\n", "a\nc\n") == "Event 2 differs.\n  expected: b\n  found: c"
    assert wire_divergence("a\nb\n", "a\n") == "Event 2 differs.\n  expected: b\n  found: nothing"


@pytest.mark.parametrize(("protocol", "shows"), [("ai-sdk", {"notes"}), ("other", ())])
def test_wire_without_its_required_arguments_is_refused(protocol: Any, shows: Any) -> None:
    with pytest.raises(InputError):
        golden_wire(recorded(), protocol, shows=shows)


TEST = """
from typing import TypedDict

from graphrt import END, START, GraphBuilder
from graphrt.testing import record

class State(TypedDict):
    topic: str

graph = GraphBuilder(State, name="one").add_node("work", lambda _: {"topic": "TOPIC"}).add_sequence([START, "work", END])

def test_wire(graphrt_golden):
    graphrt_golden(record(graph.compile(), {"topic": ""}), wire="ag-ui", shows=["topic"])
"""


def test_fixture_stores_a_file_of_the_wire_and_detects_a_difference(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    run_pytest(tmp_path, "--graphrt-update")
    kept = (tmp_path / "goldens" / "test_it" / "test_wire.txt").read_text(encoding="utf-8")
    _, same = run_pytest(tmp_path)

    (tmp_path / "test_it.py").write_text(TEST.replace("TOPIC", "tea"), encoding="utf-8")
    _, changed = run_pytest(tmp_path)

    assert kept.startswith('data: {"type":"RUN_STARTED"')
    assert "1 passed" in same
    assert "differs." in changed
    assert '"value":"tea"' in changed
