"""The plugin's summary of unused test data: replies of doubles, recordings of cassettes, rows of routing tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphrt.harness._doubles import unused

from .support import run_pytest

SUITE = """
import asyncio
from pathlib import Path

import pytest

from graphrt import MockHarness
from graphrt.harness import FunctionModel, ScriptedModel
from graphrt.harness.cassette import Cassette
from graphrt.testing import scripted

SHARED = ScriptedModel(["shared"])
PATH = Path(__file__).with_name("asked.cassette")



def ask(prompt):
    cassette = Cassette(PATH)
    asyncio.run(cassette.harness().run(prompt))


def test_of_doubles():
    MockHarness(["never asked"])
    FunctionModel(lambda request: "never")
    scripted("used", "left")


def test_that_uses_or_checks_what_it_has():
    asyncio.run(MockHarness(["asked"]).run("?"))
    with pytest.raises(Exception):
        MockHarness(["left over"]).assert_done()
    ScriptedModel()


def test_one_recording():
    ask("one")


def test_the_other_recording():
    ask("two")
"""
TABLES = '''
import pytest
from typing import TypedDict
from graphrt import END, START, GraphBuilder

class State(TypedDict, total=False):
    go: bool

graph = (GraphBuilder(State).add_node("a", lambda state: None).set_entry("a")
    .add_conditional_edges("a", lambda state: state["go"], {True: "a", False: END}).compile())
TABLE = [({"go": True}, "a"), ({"go": False}, END)]

@pytest.mark.routes(graph, "a", TABLE)
def check_routes():
    """No test: its name does not begin with test."""

@pytest.mark.routes(graph, "a", TABLE)
def test_routes():
    pass

@pytest.mark.skip
@pytest.mark.routes(graph, "a", TABLE)
def test_skipped():
    pass
'''


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with a cassette of three recordings."""
    import asyncio

    from graphrt import MockHarness
    from graphrt.harness.cassette import Cassette

    async def go() -> None:
        with Cassette(tmp_path / "asked.cassette", mode="record") as cassette:
            harness = cassette.harness(MockHarness({"": "yes"}))
            for prompt in ("one", "two", "three"):
                await harness.run(prompt)

    asyncio.run(go())
    return tmp_path


def summary(output: str) -> list[str]:
    lines = output.partition("= unused by any test =")[2].splitlines()[1:]
    return [line for line in lines if not line.startswith("=") and " passed" not in line]


def test_unused_replies_and_recordings_are_listed(recorded: Path) -> None:
    code, output = run_pytest(recorded, "-q", test_it=SUITE)

    assert code == 0
    told = "\n".join(summary(output))
    assert "ScriptedModel at test_it.py:12: item 1: reply 'shared'" in told
    assert "MockHarness at test_it.py:23, made in test_it.py::test_of_doubles: item 1: reply 'never asked'" in told
    assert "FunctionModel at test_it.py:24, made in test_it.py::test_of_doubles: it was never called" in told
    assert "scripted(...) at test_it.py:25, made in test_it.py::test_of_doubles: 'used'; 'left'" in told
    assert "asked.cassette, line " in told
    assert "the recording of 'three'" in told
    assert len(summary(output)) == 5


def test_kept_doubles_are_looked_at_once_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the time after each test would grow with the doubles that earlier tests have left."""
    monkeypatch.setenv(unused.ENVIRONMENT, "1")
    monkeypatch.setattr(unused, "NOTED", [])
    looks: list[str] = []

    def left(name: str, *items: str) -> list[str]:
        looks.append(name)
        return [*items]

    unused.note("kept", lambda: left("kept", "item"))
    unused.note("used", lambda: left("used"))
    start = unused.forget_used()
    unused.note("later", lambda: left("later", "item"))
    unused.forget_used(start)

    assert [noted.name for noted in unused.NOTED] == ["kept", "later"]
    assert looks == ["kept", "used", "later"]


@pytest.mark.parametrize(
    ("selected", "change"),
    [
        (["test_it.py::test_one_recording"], ""),
        (["-k", "one_recording"], ""),
        ([], "def test_that_fails(): assert 0"),
        ([], "def test_that_stops(): raise KeyboardInterrupt"),
        ([], "@pytest.mark.skip\ndef test_skipped(): pass"),
        ([], "import pytest; pytest.skip(allow_module_level=True)"),
    ],
    ids=["named", "deselected", "failed", "stopped", "skipped", "module-skipped"],
)
def test_recordings_and_shared_doubles_are_not_listed_unless_all_tests_passed(
    recorded: Path, selected: list[str], change: str
) -> None:
    """Otherwise a user deletes recordings that another test uses."""
    other, more = (change, "") if change.startswith("import") else ("", change)
    _, output = run_pytest(recorded, "-q", *selected, test_it=SUITE + more, test_other=other)

    assert "asked.cassette" not in output
    assert "'shared'" not in output


def test_recordings_and_tables_are_not_listed_if_only_failed_tests_ran(recorded: Path) -> None:
    suite = SUITE + TABLES.replace("def check_routes", "def test_more_routes")
    options = ("-q", "-p", "cacheprovider")
    _, first = run_pytest(recorded, *options, test_it=suite.replace('ask("one")', 'ask("one"); assert 0'))
    code, output = run_pytest(recorded, *options, "--lf", test_it=suite)

    assert code == 0
    assert "1 failed" in first
    assert "1 passed" in output
    assert "unused by any test" not in output


def test_unchecked_rows_of_routing_tables_are_listed(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, "-q", test_rows=TABLES)

    assert code == 0
    assert "test_rows.py: the routing table at check_routes belongs to no test" in output
    assert "test_rows.py::test_skipped: 2 rows of its routing table were not checked" in output
    assert "test_routes" not in output


def test_tables_are_not_listed_when_only_some_tests_are_selected(tmp_path: Path) -> None:
    _, output = run_pytest(tmp_path, "-q", "test_rows.py::test_skipped", test_rows=TABLES)

    assert "belongs to no test" not in output
