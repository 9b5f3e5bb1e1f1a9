"""The pytest plugin, in real runs of pytest: routing tables, fixtures and requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.testing.support import run_pytest as run

from graphrt._observers import ENVIRONMENT
from graphrt.testing.route_coverage import collecting
from pytest_graphrt import _coverage

FLOW = """
from typing import Annotated, TypedDict
from graphrt import END, START, GraphBuilder
from graphrt.reducers import append

class State(TypedDict, total=False):
    kind: str
    log: Annotated[list[str], append]

g = GraphBuilder(State, name="flow")
g.add_node("a", lambda state: {"log": ["a"]})
g.add_node("b", lambda state: {"log": ["b"]})
g.add_edge(START, "a")
g.add_conditional_edges("a", lambda state: state["kind"], {"again": "b", "end": END})
g.add_edge("b", END)
graph = g.compile()
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with the module `flow`, to write tests into."""
    (tmp_path / "flow.py").write_text(FLOW)
    return tmp_path


def test_environment_names_are_those_that_graphrt_reads() -> None:
    assert (_coverage._OBSERVER, _coverage._FOLDER) == (ENVIRONMENT, collecting.FOLDER)
    assert f"{collecting.__name__}:{collecting.start.__name__}" == _coverage._START


def test_plugin_imports_nothing_until_it_is_used(suite: Path) -> None:
    code, text = run(
        suite,
        "-q",
        warm=False,
        test_nothing="import sys\ndef test(): assert not [n for n in sys.modules if n in ('graphrt', 'pydantic')]",
    )
    assert code == 0, text


def test_routing_table_needs_no_module_of_the_other_reports(suite: Path) -> None:
    told = "def pytest_unconfigure():\n    import sys\n    print('imported', 'urllib.request' in sys.modules)"
    test = "from flow import graph\ndef test(): graph.run({'kind': 'end'})"
    code, text = run(suite, "-q", "--graphrt-cov=flow", warm=False, conftest=told, test_run=test)
    assert code == 0, text
    assert "imported False" in text


def test_plugin_is_an_entry_point() -> None:
    from importlib.metadata import entry_points

    (found,) = [point for point in entry_points(group="pytest11") if point.name == "graphrt"]
    assert found.value == "pytest_graphrt"


# -- routing tables ----------------------------------------------------------------------------------------------

TABLE = """
import pytest
from flow import graph
from graphrt import END, START

@pytest.mark.routes(graph, "a", [({"kind": "again"}, "b"), ({"kind": "end"}, END)])
@pytest.mark.routes(graph, {START: [({"kind": "end"}, "a")]})
def test_all(): ...

@pytest.mark.routes(graph, {"b": [({"kind": "x"}, "END")]})
def test_row(graphrt_route):
    assert graphrt_route.node == "b"
"""


def test_each_row_is_a_test(suite: Path) -> None:
    code, text = run(suite, "-v", test_table=TABLE)
    assert code == 0, text
    assert "test_all[a-b] PASSED" in text
    assert "test_all[a-END] PASSED" in text
    assert "test_all[START-a] PASSED" in text
    assert "4 passed" in text


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ('graph, "a", [({"kind": "again"}, END)]', "a leads to b, not to END."),
        ('graph, "a", [({"kind": "again"}, [])]', "a leads to b, not to END."),
        ('graph, "aa", [({"kind": "again"}, "b")]', "route() names 'aa', which is not a node."),
        ('graph, "a", [({"kinds": "again"}, "b")]', "'kinds'"),
        ('graph, "a", [({"kind": "no"}, "b")]', "returned 'no', which has no route."),
        ('graph, "a", None', "the routing table of a is not a list of (state, target): None"),
        ('graph, {"a": 5}', "the routing table of a is not a list of (state, target): 5"),
        ('graph, "a", "b"', "the routing table of a is not a list of (state, target): 'b'"),
        ('type(graph), "a", [({"kind": "again"}, "b")]', "@pytest.mark.routes needs a compiled graph"),
        ('graph, "a", [({}, "b")]', "raised KeyError: 'kind'"),
        ('graph, "a", []', "the routing table of a is empty"),
        ('graph, "a", ["b"]', "a row of the routing table of a is not (state, target): 'b'"),
        ("graph", "@pytest.mark.routes needs"),
        ('"flow", {}', "@pytest.mark.routes needs a compiled graph"),
        ("graph, {}", "the mapping of routing tables is empty"),
    ],
)
def test_invalid_table_fails_its_test_with_a_reason(suite: Path, marker: str, told: str) -> None:
    head = "import pytest\nfrom flow import graph\nfrom graphrt import END\n"
    code, text = run(suite, "-q", test_table=f"{head}@pytest.mark.routes({marker})\ndef test(): ...")
    assert code == 1, text
    assert told in text
    assert "pytest_graphrt" not in text.replace("-p pytest_graphrt", ""), "a traceback from inside the plugin"
    assert "another exception" not in text


HANDLES = """
import pytest
from typing import TypedDict
from graphrt import END, START, GraphBuilder, Send

g = GraphBuilder(TypedDict("State", {"n": int}, total=False), name="handles")

@g.node
def a(state): ...

@g.node
def b(state, ctx): ...

g.add_edge(START, a)
g.add_conditional_edges(a, lambda state: [Send(b, 1)] if state["n"] else "b", [b])
g.add_edge(b, END)
graph = g.compile()

@pytest.mark.routes(graph, {START: [({"n": 0}, a)], a: [({"n": 0}, b), ({"n": 0}, [b]), ({"n": 1}, Send(b, 1))]})
def test(): ...
"""


def test_table_may_name_nodes_by_their_handles(suite: Path) -> None:
    code, text = run(suite, "-v", test_table=HANDLES)
    assert code == 0, text
    assert "test[START-a] PASSED" in text
    assert "test[a-b-1] PASSED" in text


@pytest.mark.parametrize("place", ["class", "test"])
def test_table_of_a_test_that_pytest_cannot_repeat_fails_it(suite: Path, place: str) -> None:
    mark = "@pytest.mark.routes(graph, 'b', [({'kind': 'x'}, 'a')])"
    one, other = (f"{mark}\n", "") if place == "class" else ("", f"    {mark}\n")
    body = f"{one}class Test(unittest.TestCase):\n{other}    def test(self): ..."
    code, text = run(suite, "-q", test_table=f"import pytest, unittest\nfrom flow import graph\n{body}")
    assert code == 1, text
    assert "pytest calls a test of a unittest.TestCase once, and not for each row" in text


@pytest.mark.parametrize("verb", ["graph.run({'kind': 'no'})", "Runtime(graph, store='memory:').run({'kind': 'no'})"])
def test_failure_of_a_run_shows_no_source_of_graphrt(suite: Path, verb: str) -> None:
    code, text = run(suite, "-q", test_run=f"from flow import graph\nfrom graphrt import Runtime\ndef test(): {verb}")
    assert code == 1, text
    assert "returned 'no', which has no route." in text
    assert "_runs" not in text
    assert "runtime.py" not in text


# -- fixtures and requests ---------------------------------------------------------------------------------------

FIXTURES = """
import pytest
from flow import graph
from graphrt import RetryPolicy, START, END, GraphBuilder
from graphrt.harness import Agent
from flow import State
from graphrt.testing import failing

def test_runtime(graphrt_runtime, graphrt_clock):
    g = GraphBuilder(State)
    g.add_node("a", failing(1), retry=RetryPolicy(attempts=2, wait_initial_s=20, jitter=False))
    g.add_sequence([START, "a", END])
    runtime = graphrt_runtime(g.compile())
    assert runtime.run({}, thread="t").run_id == "id-1"
    assert graphrt_clock.slept == [20]

def test_each(graphrt_runtime, graphrt_each_store):
    assert graphrt_runtime(graph, store=graphrt_each_store).run({"kind": "end"}, thread="t").status == "completed"

def test_one(graphrt_store):
    assert graphrt_store.durable

async def _ask(model):
    return (await Agent(model).run("tea?")).text

def test_model(graphrt_model):
    import asyncio
    assert asyncio.run(_ask(graphrt_model(["tea"]))) == "tea"
"""


def test_fixtures_are_available(suite: Path) -> None:
    code, text = run(suite, "-q", "-rs", test_fixtures_are_available=FIXTURES)
    assert code == 0, text
    assert "5 passed, 1 skipped" in text
    assert "GRAPHRT_TEST_POSTGRES does not have the URL" in text


def test_unused_script_is_an_error(suite: Path) -> None:
    code, text = run(suite, "-q", test_model="def test(graphrt_model): graphrt_model(['tea'])")
    assert code == 1, text
    assert "1 passed, 1 error" in text
    assert "ScriptError" in text


REQUESTS = """
import asyncio, pytest
from graphrt.harness import Agent
from graphrt.errors import ModelRequestForbiddenError

def test_forbidden():
    with pytest.raises(ModelRequestForbiddenError):
        asyncio.run(Agent("openai/gpt-4o-mini").run("tea"))

@pytest.mark.graphrt_real_requests
def test_allowed():
    import os
    assert os.environ["GRAPHRT_ALLOW_MODEL_REQUESTS"] == "1"

def test_forbidden_again():
    test_forbidden()
"""


def test_real_requests_are_forbidden_unless_a_test_requests_them(suite: Path) -> None:
    code, text = run(suite, "-q", test_requests=REQUESTS)
    assert code == 0, text
    code, text = run(
        suite,
        "-q",
        "--graphrt-real-requests",
        test_requests="import os\ndef test(): assert 'GRAPHRT_ALLOW_MODEL_REQUESTS' not in os.environ",
    )
    assert code == 0, text
