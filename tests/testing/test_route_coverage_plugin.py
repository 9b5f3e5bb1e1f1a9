"""Route coverage in real runs of pytest: with and without xdist, in subprocesses, and with invalid options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.testing.support import run_pytest as run

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


TWO = """
from flow import graph

def test_again():
    graph.run({"kind": "again"})

def test_end():
    graph.run({"kind": "end"})
"""


@pytest.mark.parametrize("target", ["", "=flow", "=flow.py", "=flow:graph"])
def test_coverage_of_a_target_is_reported(suite: Path, target: str) -> None:
    code, text = run(suite, f"--graphrt-cov{target}", "--graphrt-cov-fail-under=100", test_two=TWO)
    assert code == 0, text
    assert "flow       6      6       0   100%" in text


def test_insufficient_coverage_fails_the_run(suite: Path) -> None:
    code, text = run(suite, "-k", "end", "--graphrt-cov", "--graphrt-cov-fail-under=90", test_two=TWO)
    assert code == 1, text
    assert "a -[again]-> b" in text
    assert "ERROR: Route coverage is 50.00%, and 90% is required." in text
    assert "1 passed" in text


def test_runs_add_up_on_request(suite: Path) -> None:
    run(suite, "-k", "end", "--graphrt-cov", test_two=TWO)
    code, text = run(suite, "-k", "again", "--graphrt-cov", "--graphrt-cov-append", "--graphrt-cov-fail-under=100")
    assert code == 0, text
    code, text = run(suite, "-k", "again", "--graphrt-cov", "--graphrt-cov-fail-under=100")
    assert code == 1, text


@pytest.mark.needs("xdist")
def test_coverage_of_xdist_workers_is_merged(suite: Path) -> None:
    code, text = run(
        suite,
        *("-p", "xdist", "-n", "2", "--dist=each", "--graphrt-cov", "--graphrt-cov-fail-under=100"),
        "--graphrt-cov-report=json",
        test_two=TWO,
    )
    assert code == 0, text
    data = json.loads((suite / "route_coverage.json").read_text())
    tests = {arc["id"]: arc["tests"] for arc in data["graphs"][0]["arcs"]}
    assert tests["node:b"] == ["test_two.py::test_again"]
    assert tests["node:a"] == ["test_two.py::test_again", "test_two.py::test_end"]


@pytest.mark.needs("xdist")
def test_worker_that_dies_loses_no_route(suite: Path) -> None:
    dies = "\ndef test_dies():\n    import os, signal\n    graph.run({'kind': 'again'})\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    code, text = run(suite, "-p", "xdist", "-n", "1", "-k", "end or dies", "--graphrt-cov", test_two=TWO + dies)
    assert code == 1, text
    assert "crashed" in text
    assert "flow       6      6       0   100%" in text


@pytest.mark.needs("xdist")
def test_worker_that_dies_loses_no_answer_of_a_router(suite: Path) -> None:
    dies = "from flow import graph\nimport os, signal\n"
    dies += "def test_asks():\n    assert graph.route('a', {'kind': 'end'})\n"
    dies += "def test_dies():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    code, text = run(suite, "-p", "xdist", "-n", "1", "--graphrt-cov", test_dies=dies)

    assert code == 1, text
    assert "a -[again]-> b" in text
    assert "a -[end]-> END" not in text


def test_coverage_of_a_subprocess_is_merged(suite: Path) -> None:
    (suite / "worker.py").write_text("from flow import graph\ngraph.run({'kind': 'again'})\n")
    test = "import subprocess, sys\ndef test_it(): subprocess.run([sys.executable, 'worker.py'], check=True)"
    code, text = run(suite, "--graphrt-cov=flow", "--graphrt-cov-report=json", test_two=test)
    assert code == 0, text
    data = json.loads((suite / "route_coverage.json").read_text())
    assert {arc["id"]: arc["tests"] for arc in data["graphs"][0]["arcs"]}["node:b"] == ["test_two.py::test_it"]


def test_coverage_of_a_graph_from_a_fixture_is_measured(suite: Path) -> None:
    test = "import pytest\n@pytest.fixture\ndef graph():\n    import flow\n    return flow.g.compile()\n" + TWO.replace(
        "from flow import graph", ""
    ).replace("():", "(graph):")
    code, text = run(suite, "--graphrt-cov=flow", "--graphrt-cov-fail-under=100", test_two=test)
    assert code == 0, text


def test_module_that_no_test_imports_is_named(suite: Path) -> None:
    package = suite / "flows"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text(FLOW)
    (package / "two.py").write_text(FLOW)
    code, text = run(suite, "--graphrt-cov=flows", test_two=TWO.replace("flow ", "flows.one "))
    assert code == 0, text
    assert "no test imported flows/two.py, so the graphs that it makes are not counted" in text


def test_every_report_is_written(suite: Path) -> None:
    kinds = ("term", "json", "lcov", "cobertura:out/routes.xml")
    for _ in range(2):  # earlier reports are replaced
        code, text = run(suite, "--graphrt-cov", *(f"--graphrt-cov-report={kind}" for kind in kinds), test_two=TWO)
        assert code == 0, text
    for name in ("route_coverage.json", "route_coverage.lcov", "out/routes.xml"):
        assert (suite / name).read_text()


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--graphrt-cov-fail-under=90"], 4, "--graphrt-cov-fail-under needs --graphrt-cov"),
        (["--graphrt-cov-report=json"], 4, "--graphrt-cov-report needs --graphrt-cov"),
        (["--graphrt-cov-append"], 4, "--graphrt-cov-append needs --graphrt-cov"),
        (["--graphrt-cov", "test_two.py"], 1, "Tests to run are named before --graphrt-cov"),
        (["--graphrt-cov", "--graphrt-cov-report=json:."], 1, "The json report of route coverage cannot be written"),
        (["--graphrt-cov", "--graphrt-cov-report=json:flow.py"], 1, "already, which is not a report of the kind json"),
        (["--graphrt-cov", "--graphrt-cov-report=pdf"], 4, "has no kind 'pdf'; known: term"),
        (["--graphrt-cov", "--graphrt-cov-fail-under=101"], 4, "cannot be required to be 101"),
        (["--graphrt-cov=folw"], 1, "Did you mean 'flow'?"),
        (["--graphrt-cov", "-k", "nothing"], 5, "flow       6      0       6     0%"),
    ],
)
def test_invalid_options_are_refused(suite: Path, options: list[str], code: int, told: str) -> None:
    found, text = run(suite, *options, test_two=TWO)
    assert told in text
    assert found == code, text
    assert "Traceback" not in text


def test_data_of_another_version_is_refused(suite: Path) -> None:
    (suite / ".graphrt_coverage.json").write_text('{"format": 0}')
    code, text = run(suite, "--graphrt-cov", "--graphrt-cov-append", test_two=TWO)
    assert code == 1, text
    assert ".graphrt_coverage.json' cannot be used: ValueError: its format is not 1" in text
    assert "Traceback" not in text


def test_data_of_a_changed_graph_is_dropped(suite: Path) -> None:
    run(suite, "-k", "end", "--graphrt-cov", test_two=TWO)
    (suite / "flow.py").write_text(FLOW.replace('"end": END', '"end": END, "stop": END'))
    code, text = run(suite, "-k", "again", "--graphrt-cov", "--graphrt-cov-append", test_two=TWO)

    assert code == 0, text
    assert "flow.py has changed, so what earlier runs took of its graph 'flow' (line 10) is left out" in text
    assert "flow       7      5       2    71%" in text


def test_nothing_is_measured_if_tests_are_only_collected(suite: Path) -> None:
    code, text = run(suite, "--collect-only", "--graphrt-cov", "--graphrt-cov-fail-under=90", test_two=TWO)

    assert code == 0, text
    assert "route coverage" not in text
    assert not (suite / ".graphrt_coverage.json").exists()


def test_reports_are_written_although_the_data_cannot_be_saved(suite: Path) -> None:
    (suite / ".graphrt_coverage.json").mkdir()  # like in a read-only folder
    code, text = run(suite, "--graphrt-cov", "--graphrt-cov-fail-under=100", test_two=TWO)

    assert code == 0, text
    assert "route coverage: the data of this run cannot be kept: " in text
    assert "flow       6      6       0   100%" in text


def test_packages_with_the_same_graph_are_distinguished(suite: Path) -> None:
    for package in ("one", "two"):
        (suite / package).mkdir()
        (suite / package / "flow.py").write_text(FLOW)
    test = TWO.replace("from flow import graph", "from one.flow import graph\nimport two.flow")
    code, text = run(suite, "--graphrt-cov=one.flow:graph", "--graphrt-cov-fail-under=100", test_two=test)

    assert code == 0, text
    assert "two" not in text.partition("cover\n")[2]


def test_settings_are_read_from_the_configuration(suite: Path) -> None:
    (suite / "pytest.ini").write_text(
        "[pytest]\ngraphrt_cov = flow\ngraphrt_cov_fail_under = 90\ngraphrt_cov_report = term\n"
    )
    code, text = run(suite, "--graphrt-cov", "-k", "end", test_two=TWO)
    assert code == 1, text
    assert "90% is required" in text
    assert "node b" not in text
