"""The fixture `graphrt_golden` and `--graphrt-update`, in real runs of pytest."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest
from tests.testing.support import run_pytest

FLOW = """
from typing import Annotated, TypedDict
from graphrt import END, START, GraphBuilder
from graphrt.reducers import append

class State(TypedDict, total=False):
    kind: str
    log: Annotated[list[str], append]

g = GraphBuilder(State, name="flow")
g.add_node("a", lambda state: {"log": ["did a"]})
g.add_node("b", lambda state: {"log": ["did b"]})
g.add_edge(START, "a")
g.add_conditional_edges("a", lambda state: state["kind"], {"again": "b", "end": END})
g.add_edge("b", END)
graph = g.compile()
"""

TESTS = """
import pytest
from flow import graph
from graphrt.testing import record

@pytest.mark.parametrize("kind", ["again", "end"])
def test_kind(graphrt_golden, kind):
    graphrt_golden(record(graph, {"kind": kind}))

class TestNames:
    def test_two(self, graphrt_golden):
        graphrt_golden(record(graph, {"kind": "again"}), "first")
        graphrt_golden(record(graph, {"kind": "end"}), "second")
"""
FILES = ["TestNames.test_two-first", "TestNames.test_two-second", "test_kind[again]", "test_kind[end]"]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with a graph and its tests, whose golden traces are not written yet."""
    (tmp_path / "flow.py").write_text(FLOW)
    (tmp_path / "test_flow.py").write_text(TESTS)
    return tmp_path


@functools.cache
def written_goldens() -> dict[str, str]:
    """The golden traces of the unchanged suite, by path: one run of pytest writes them for all tests here."""
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder)
        (suite / "flow.py").write_text(FLOW)
        code, text = run_pytest(suite, "-q", "--graphrt-update", test_flow=TESTS)
        assert code == 0, text
        files = sorted((suite / "goldens").rglob("*.json"))
        return {path.relative_to(suite).as_posix(): path.read_text(encoding="utf-8") for path in files}


@pytest.fixture
def up_to_date(suite: Path) -> Path:
    """The suite with up-to-date golden traces."""
    for name, text in written_goldens().items():
        path = suite / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return suite


def goldens(suite: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(suite.glob("goldens/test_flow/*"))}


def change(suite: Path, old: str, new: str) -> None:
    text = (suite / "flow.py").read_text()
    assert old in text
    assert len(old) != len(new), "or Python may take the cached bytecode of the same second"
    (suite / "flow.py").write_text(text.replace(old, new))


def test_missing_golden_trace_fails_and_no_file_is_written(suite: Path) -> None:
    code, text = run_pytest(suite, "-q")
    assert code == 1, text
    assert "There is no golden trace goldens/test_flow/test_kind[again].json." in text
    assert "pytest 'test_flow.py::test_kind[again]' --graphrt-update" in text
    assert "3 failed" in text
    assert not (suite / "goldens").exists()
    assert "FileNotFoundError" not in text
    assert "_golden.py" not in text, "a traceback from inside the plugin"


def test_update_writes_the_files_and_lists_them(suite: Path) -> None:
    code, text = run_pytest(suite, "-q", "--graphrt-update")
    assert code == 0, text
    assert list(goldens(suite)) == FILES
    assert all(f"written: goldens/test_flow/{name}.json" in text for name in FILES)
    assert "4 written, 0 unchanged" in text

    assert run_pytest(suite, "-q")[0] == 0
    before = [path.stat().st_mtime_ns for path in sorted(suite.glob("goldens/test_flow/*"))]
    code, text = run_pytest(suite, "-q", "--graphrt-update")
    assert "0 written, 4 unchanged" in text
    assert [path.stat().st_mtime_ns for path in sorted(suite.glob("goldens/test_flow/*"))] == before


def test_different_run_fails_with_the_first_difference_only(up_to_date: Path) -> None:
    suite = up_to_date
    change(suite, "did b", "did more")
    code, text = run_pytest(suite, "-q")
    assert code == 1, text
    assert "2 failed, 1 passed" in text
    said = [line[1:].strip() for line in text.splitlines() if line.startswith("E  ")]
    for test, file in (
        ("'test_flow.py::test_kind[again]'", "test_kind[again]"),
        ("test_flow.py::TestNames::test_two", "TestNames.test_two-first"),
    ):
        at = said.index(f"If this is intended: pytest {test} --graphrt-update")
        assert said[at - 5 : at] == [
            "AssertionError: The run differs from its golden trace.",
            "First difference: superstep 2, task-succeeded of 'b' (task 2.0:b).",
            "update.log[0]",
            "expected  'did b'",
            "found     'did more'",
        ]
        assert said[at + 1] == f"Review the change of goldens/test_flow/{file}.json before you commit it."
    assert "run-started" not in text
    assert "_golden.py" not in text, "a traceback from inside the plugin"

    code, text = run_pytest(suite, "-q", "--graphrt-update")
    assert code == 0, text
    assert "2 written, 2 unchanged" in text


@pytest.mark.parametrize("dist", ["load", pytest.param("each", marks=pytest.mark.full)])
def test_xdist_writes_each_file_once_and_lists_it_at_the_end(suite: Path, dist: str) -> None:
    many = TESTS.replace('["again", "end"]', '["again", "end"] * 6')
    options = ("-q", "-p", "xdist", *(("-n", "2") if dist == "load" else ("--dist=each", "--tx=2*popen")))
    code, text = run_pytest(suite, *options, "--graphrt-update", test_flow=many)
    assert code == 0, text
    assert len(goldens(suite)) == 14
    assert "14 written, 0 unchanged" in text

    code, text = run_pytest(suite, *options, test_flow=many)
    assert code == 0, text


def test_the_order_of_tests_does_not_matter(up_to_date: Path) -> None:
    suite = up_to_date
    code, text = run_pytest(suite, "-q", "-p", "pytest_randomly", "-p", "xdist", "-n", "2")
    assert code == 0, text


def test_unused_files_are_listed_but_not_deleted(up_to_date: Path) -> None:
    suite = up_to_date
    fewer = TESTS.replace('["again", "end"]', '["again"]')
    (suite / "goldens/test_flow/test_wire.txt").write_text("data: {}\n")
    for options in (("-k", "kind"), ("-k", "kind", "-p", "xdist", "-n", "2"), ("test_flow.py::TestNames",), ()):
        code, text = run_pytest(suite, "-q", "--graphrt-update", *options, test_flow=fewer)
        assert code == 0, text
        assert ("no test asked for" in text) is (options == ())
    assert "no test asked for goldens/test_flow/test_kind[end].json: delete it if it is not needed" in text
    assert "no test asked for goldens/test_flow/test_wire.txt: " in text
    assert list(goldens(suite)) == [*FILES, "test_wire"]


def test_files_are_not_listed_if_only_failed_tests_ran(up_to_date: Path) -> None:
    suite = up_to_date
    cache = ("-q", "-p", "cacheprovider")
    failing = TESTS + "\ndef test_fails(): assert 0\n"
    assert run_pytest(suite, *cache, test_flow=failing)[0] == 1
    code, text = run_pytest(suite, *cache, "--lf", "--graphrt-update", test_flow=failing.replace("assert 0", "pass"))
    assert code == 0, text
    assert "1 passed" in text
    assert "no test asked for" not in text


def test_files_are_not_listed_if_the_session_was_interrupted(up_to_date: Path) -> None:
    stops = TESTS.replace("class TestNames", "def test_stops():\n    raise KeyboardInterrupt\n\nclass TestNames")
    _, text = run_pytest(up_to_date, "-q", "--graphrt-update", test_flow=stops)
    assert "0 written, 2 unchanged" in text
    assert "no test asked for" not in text


def test_files_of_a_module_with_a_skipped_test_are_not_listed(up_to_date: Path) -> None:
    suite = up_to_date
    skipped = TESTS.replace("def test_kind(graphrt_golden, kind):\n", "def test_kind(kind):\n    pytest.skip()\n")
    code, text = run_pytest(suite, "-q", "--graphrt-update", test_flow=skipped)
    assert code == 0, text
    assert "no test asked for" not in text


@pytest.mark.parametrize(
    "unusable",
    [
        {
            "test_kind[again]": (b"{", "it is not valid JSON"),
            "test_kind[end]": (b"<<<<<<< ours\n", "marks of a merge conflict"),
        },
        {
            "test_kind[again]": (b'{"format": "graphrt golden trace", "version": 99}', "its version is 99"),
            "test_kind[end]": (b"\xff", "cannot be read"),
        },
    ],
)
def test_unusable_files_fail_with_the_reason_and_can_be_rewritten(
    up_to_date: Path, unusable: dict[str, tuple[bytes, str]]
) -> None:
    suite = up_to_date
    for name, (content, _) in unusable.items():
        (suite / f"goldens/test_flow/{name}.json").write_bytes(content)
    code, text = run_pytest(suite, "-q")
    assert code == 1, text
    assert "2 failed, 1 passed" in text
    for name, (_, reason) in unusable.items():
        _, found, rest = text.partition(f"The golden trace goldens/test_flow/{name}.json")
        assert found, text
        assert reason in rest.partition("The golden trace ")[0], text
    assert "_golden.py" not in text, "a traceback from inside the plugin"
    assert run_pytest(suite, "-q", "--graphrt-update")[0] == 0
    assert run_pytest(suite, "-q")[0] == 0


def test_unwritable_file_fails_with_the_reason(suite: Path) -> None:
    (suite / "goldens").write_text("a file where the folder should be")
    code, text = run_pytest(suite, "-q", "--graphrt-update")

    assert code == 1, text
    assert "The golden trace goldens/test_flow/test_kind[end].json cannot be written: " in text
    assert "_golden.py" not in text, "a traceback from inside the plugin"
    assert "unchanged" not in text


INVALID_NAMES = {
    "graphrt_golden(run); graphrt_golden(run)": "Fix: give each a name: graphrt_golden(run, 'name').",
    "graphrt_golden(run, 'x'); graphrt_golden(run, 'X')": "compares two runs with one golden trace",
    "graphrt_golden(run, '../x')": "'../x' cannot be the name of a golden trace",
    "graphrt_golden(run, '')": "'' cannot be the name of a golden trace",
    "graphrt_golden(run, 'a b')": "'a b' cannot be the name of a golden trace",
}


def test_invalid_names_are_refused(suite: Path) -> None:
    test = "from flow import graph\nfrom graphrt.testing import record\n"
    for number, body in enumerate(INVALID_NAMES):
        test += f"def test_{number}(graphrt_golden):\n    run = record(graph, {{'kind': 'end'}})\n    {body}\n"
    code, text = run_pytest(suite, "-q", "--graphrt-update", "test_it.py", test_it=test)
    assert code == 1, text
    assert "5 failed" in text
    assert [reason for reason in INVALID_NAMES.values() if reason not in text] == []
    assert sorted(path.name for path in suite.rglob("*.json")) == ["test_0.json", "test_1-x.json"]


def test_file_names_of_unusual_parameters_are_safe_and_different(suite: Path) -> None:
    odd = TESTS.replace(
        '["again", "end"]', '["a/b", "a:b", "A:b", "\\u00e9", "x" * 300, "x" * 301, "::", "../../up", "up", "UP"]'
    )
    odd = odd.replace('{"kind": kind}', '{"kind": "end", "log": [kind]}')
    code, text = run_pytest(suite, "-q", "--graphrt-update", test_flow=odd)
    assert code == 0, text
    names = list(goldens(suite))
    assert len({name.lower() for name in names}) == 10 + 2
    assert all(
        set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-[]~") for name in names
    )
    assert len(list((suite / "goldens").iterdir())) == 1
    assert run_pytest(suite, "-q")[0] == 0
