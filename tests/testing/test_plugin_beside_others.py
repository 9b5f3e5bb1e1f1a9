"""The pytest plugin together with other plugins, and its figures next to those of coverage.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path
pytestmark = pytest.mark.needs("pytest_asyncio", "anyio", "coverage", "xdist", "pytest_randomly")

FLOW = """
from typing import Annotated, TypedDict
from graphrt import END, START, Command, GraphBuilder
from graphrt.reducers import append

class State(TypedDict, total=False):
    kind: str
    log: Annotated[list[str], append]

def first(state):
    return {"log": ["first"]}

async def second(state):
    return {"log": ["second"]}

def third(state):
    if "jump" in state["log"]:
        return Command(goto=END)
    return Command(goto="second")

def rescue(state):
    return {"log": ["rescued"]}

def route(state):
    if state["kind"] == "two":
        return "two"
    if state["kind"] == "three":
        return "three"
    return "end"

g = GraphBuilder(State, name="flow")
g.add_node("first", first, on_error="rescue")
g.add_node("second", second)
g.add_node("third", third, goto=["second", END])
g.add_node("rescue", rescue)
g.add_edge(START, "first")
g.add_conditional_edges("first", route, {"two": "second", "three": "third", "end": END})
g.add_edge("second", END)
g.add_edge("rescue", END)
graph = g.compile()
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with the module `flow`, to write tests into."""
    (tmp_path / "flow.py").write_text(FLOW)
    return tmp_path


def python(folder: Path, *words: str, **more: str) -> tuple[int, str]:
    """Run Python in *folder*, with *more* in its environment; return its exit code and its output."""
    dropped = ("GRAPHRT_", "PYTEST_", "COVERAGE_", "COV_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


MANY = """
import asyncio
import pytest
from flow import graph
from graphrt.testing import arecord, assert_run

@pytest.mark.asyncio
async def test_asyncio():
    assert_run(await arecord(graph, {"kind": "two"})).visited("first", "second")

@pytest.mark.anyio
async def test_anyio():
    assert_run(await arecord(graph, {"kind": "three"})).visited("first", "third", "second")

@pytest.mark.asyncio
async def test_that_leaves_a_task_running():
    left = asyncio.ensure_future(graph.arun({"kind": "end"}))
    await asyncio.sleep(0)
    assert not left.done()

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.asyncio
async def test_with_fixtures(graphrt_runtime, graphrt_clock):
    runtime = graphrt_runtime(graph)
    assert (await runtime.arun({"kind": "end"})).status == "completed"

@pytest.mark.routes(graph, "first", [({"kind": "two"}, "second"), ({"kind": "three"}, "third"), ({"kind": "?"}, "END")])
def test_routes(): ...
"""


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.full), "2"])
def test_plugin_works_with_asyncio_anyio_randomly_and_xdist(suite: Path, workers: str) -> None:
    (suite / "test_many.py").write_text(MANY)
    code, text = python(
        suite,
        *("pytest", "-q", "-p", "no:cacheprovider", "-n", workers, "--graphrt-cov=flow"),
    )
    assert code == 0, text
    assert "7 passed" in text
    missed = text.partition("cover\n")[2]
    assert "first -[two]" not in missed
    assert "first -> rescue, on error" in missed


def write_kinds(suite: Path, kinds: list[str]) -> None:
    tests = [f'def test_{kind}():\n    graph.run({{"kind": "{kind}"}})\n' for kind in kinds]
    (suite / "test_kinds.py").write_text("from flow import graph\n" + "\n".join(tests))


def covered(suite: Path, *options: str) -> tuple[int, str]:
    """Run the suite under coverage.py, without unneeded plugins: they triple the time."""
    command = ("coverage", "run", "--branch", "--include=flow.py", "-m", "pytest", "-q", "-p", "pytest_graphrt")
    return python(suite, *command, *options, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def test_coverage_is_the_same_with_and_without_the_plugin(suite: Path) -> None:
    write_kinds(suite, ["two", "end"])
    lines = []
    for options in ([], ["--graphrt-cov=flow"]):
        code, text = covered(suite, *options)
        assert code == 0, text
        code, text = python(suite, "coverage", "json", "-q", "-o", "lines.json")
        assert code == 0, text
        lines.append(json.loads((suite / "lines.json").read_text())["files"]["flow.py"])
    assert lines[0] == lines[1]
    assert lines[0]["missing_lines"] != []


@pytest.mark.parametrize(
    "kinds",
    [["three"], *(pytest.param(kinds, marks=pytest.mark.full) for kinds in (["two", "end"], ["two", "three", "end"]))],
    ids="+".join,
)
def test_arcs_agree_with_the_lines_of_coverage(suite: Path, kinds: list[str]) -> None:
    """A node's function has its own lines, and each label is returned on its own line: both can be compared."""
    write_kinds(suite, kinds)
    code, text = covered(suite, "--graphrt-cov=flow", "--graphrt-cov-report=json")
    assert code == 0, text
    python(suite, "coverage", "json", "-q", "-o", "lines.json")
    executed = set(json.loads((suite / "lines.json").read_text())["files"]["flow.py"]["executed_lines"])
    arcs = json.loads((suite / "route_coverage.json").read_text())["graphs"][0]["arcs"]
    lines = dict(enumerate((text.strip() for text in FLOW.splitlines()), 1))
    bodies = {text.split()[-1].removesuffix("(state):"): at + 1 for at, text in lines.items() if "def " in text}
    nodes = {f"node:{name}" for name in ("first", "second", "third", "rescue") if bodies[name] in executed}
    labels = {text.split('"')[1] for at, text in lines.items() if text.startswith('return "') and at in executed}

    assert nodes == {arc["id"] for arc in arcs if arc["id"].startswith("node:") and arc["tests"]}
    assert labels == set(kinds)
    assert labels == {arc["label"] for arc in arcs if arc.get("label") and arc["tests"]}
