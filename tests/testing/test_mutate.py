"""`python -m graphrt.testing.mutate`, in real runs: planted suites, the content of the report, and failures."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually

from graphrt.testing.mutate.__main__ import main

pytestmark = pytest.mark.slow
Mutate = Callable[..., tuple[int, str, str]]
Read = Callable[..., dict[str, Any]]

FLOW = """
from typing import Annotated, TypedDict
from graphrt import END, START, GraphBuilder
from graphrt.reducers import append

class State(TypedDict, total=False):
    kind: str
    log: Annotated[list[str], append]

def note(text):
    return lambda state: {"log": [text]}

def child():
    g = GraphBuilder(State, name="child")
    g.add_node("inside", note("inside"))
    g.add_sequence([START, "inside", END])
    return g.compile()

def flow(inner):
    g = GraphBuilder(State, name="flow")
    g.add_node("a", note("a"))
    g.add_node("b", note("b"))
    g.add_node("sub", inner)
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: state["kind"], {"again": "b", "end": END})
    g.add_edge("b", "sub")
    g.add_edge("sub", END)
    return g.compile()

inner = child()
graph = flow(inner)
"""
FULL = """
from flow import graph, inner

def test_end():
    assert graph.run({"kind": "end"}).state == {"kind": "end", "log": ["a"]}

def test_again():
    result = graph.run({"kind": "again"})
    assert result.state["log"] == ["a", "b", "inside"]
    assert result.visited == {"a": 1, "b": 1, "sub": 1}

def test_inner():
    assert inner.run({"log": ["before"]}).state["log"] == ["before", "inside"]
"""
WEAK = """
import pytest
from flow import child, flow

@pytest.fixture(scope="module")
def ran():
    return flow(child()).run({"kind": "again"})

def test_that_has_nothing_to_do_with_it():
    pass

def test_it_runs(ran):
    assert ran.status == "completed"

def test_it_begins_with_a(ran):
    assert ran.state["log"][0] == "a"
"""
WEAK_SURVIVORS = {
    "flow/swap-labels:a:again<>end",  # the run completes either way, and begins with a
    "flow/no-update:b",
    "flow/no-update:sub",
    "child/drop-reducer:log",
    "child/keep-latest:log",
    "child/no-update:inside",
}
WEAK_UNTESTED = {"flow/drop-edge:a:end->END", "flow/redirect-edge:a:end->END=>b"}


def write(folder: Path, **files: str) -> None:
    for name, text in {"flow": FLOW, **files}.items():
        (folder / f"{name}.py").write_text(text)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the command, and an environment without plugins of this run."""
    for name in [name for name in os.environ if name.startswith(("GRAPHRT_", "PYTEST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mutate(folder: Path, capfd: pytest.CaptureFixture[str]) -> Mutate:
    """Runs the command on files in the working directory; returns its exit code, its output and its errors."""

    def run(*arguments: str, **files: str) -> tuple[int, str, str]:
        write(folder, **files)
        code = main(arguments)
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def verdicts(mutate: Mutate) -> Read:
    """The JSON of a successful run."""

    def read(*arguments: str, **files: str) -> dict[str, Any]:
        code, out, err = mutate("--json=-", "-j2", *arguments, **files)
        assert code == 0, err
        data: dict[str, Any] = json.loads(out)
        return data

    return read


def ids(data: dict[str, Any], *statuses: str) -> set[str]:
    return {one["id"] for one in data["verdicts"] if one["status"] in statuses}


# -- planted suites ----------------------------------------------------------------------------------------------


def test_no_mutant_of_a_fully_asserted_graph_survives(verdicts: Read) -> None:
    data = verdicts("flow:graph", "--", "pytest", "test_full.py", test_full=FULL, test_weak=WEAK)

    assert ids(data, "survived", "untested", "untried") == set()
    assert ids(data, "timeout", "crashed") == set()
    assert data["score"] == 100
    refused = ids(data, "refused")
    assert {"flow/drop-edge:START->a", "flow/drop-edge:b->sub", "child/drop-edge:START->inside"} <= refused
    assert "flow/drop-edge:a:end->END" in ids(data, "killed")


def test_survivors_of_a_weak_suite_equal_those_computed_by_hand(mutate: Mutate, verdicts: Read, folder: Path) -> None:
    skip = ["--skip=raise", "--skip=flow/drop-reducer:*", "--skip=flow/keep-latest:*"]  # to save time
    command = ["flow", "--json=found.json", "--fail-under=60", *skip, "-j2", "--", "test_weak.py"]
    code, out, _ = mutate(*command, test_full=FULL, test_weak=WEAK)
    data = json.loads((folder / "found.json").read_text())

    assert code == 1
    assert "ERROR: The mutation score is 52.9%, and 60% is required." in out
    assert ids(data, "survived") == WEAK_SURVIVORS
    assert ids(data, "untested") == WEAK_UNTESTED
    section = out.partition("case: flow/no-update:b\n")[2].splitlines()[:3]
    declared, added = lines_with('name="flow"', 'add_node("b"')
    assert section == [
        f"  flow, declared at flow.py:{declared}, node b at flow.py:{added}",
        "  nearest: test_weak.py::test_it_runs took node b and passed (of 2 that passed)",
        "  replay: python -m graphrt.testing.mutate flow --only=flow/no-update:b -- test_weak.py",
    ]
    assert "survived: the node b returns no update" in out

    replay = shlex.split(section[-1].partition("mutate ")[2])
    again = verdicts(*replay)
    assert ids(again, "survived") == {"flow/no-update:b"} == {one["id"] for one in again["verdicts"]}


def test_file_that_is_no_report_is_not_overwritten(mutate: Mutate, folder: Path) -> None:
    code, _, err = mutate("flow", "--json=test_weak.py", test_weak=WEAK)

    assert code == 2
    assert "already, which is not a report of mutants" in err
    assert (folder / "test_weak.py").read_text().endswith(WEAK)


def lines_with(*texts: str) -> list[int]:
    return [next(number for number, found in enumerate(FLOW.splitlines(), 1) if text in found) for text in texts]


def test_mutant_is_used_in_subprocesses_and_in_copies_with_doubles(verdicts: Read) -> None:
    test = """
import subprocess, sys
from flow import graph

def test_in_a_process():
    code = "from flow import graph; print(graph.run({'kind': 'end'}).state['log'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "['a']\\n", done.stderr

def test_with_a_double():
    double = graph.with_nodes({"b": lambda state: {"log": ["double"]}})
    assert double.run({"kind": "again"}).state["log"][:2] == ["a", "double"]
"""
    wanted = ["no-update:a", "raise:b"]
    data = verdicts("flow:graph", *[f"--only={one}" for one in wanted], "--", "test_it.py", test_it=test)

    found = {one["id"]: one for one in data["verdicts"]}
    assert found["flow/no-update:a"]["test"] == "test_it.py::test_in_a_process"
    assert found["flow/raise:b"]["status"] == "survived"
    assert found["flow/raise:b"]["test"] == "test_it.py::test_with_a_double"
    assert "doubles of the node" in found["flow/raise:b"]["note"]


@pytest.mark.needs("xdist")
def test_workers_of_xdist_and_thresholds_of_other_plugins_do_not_matter(verdicts: Read) -> None:
    """A subset of the tests takes fewer routes than all, and a threshold that fails then does not kill a mutant."""
    options = ["-p", "xdist", "-n1", "-p", "pytest_graphrt", "--graphrt-cov=flow", "--graphrt-cov-fail-under=100"]
    data = verdicts("flow:graph", "--only=flow/no-update:b", "--", *options, "test_weak.py", test_weak=WEAK)

    assert ids(data, "survived") == {"flow/no-update:b"}


# -- selection of mutants and tests ------------------------------------------------------------------------------


def test_list_names_mutants_and_tests_none(mutate: Mutate) -> None:
    code, out, _ = mutate("flow:graph", "--list", "--", "-q", test_full=FULL)

    assert code == 0
    assert "child/raise:inside: the node inside raises an error (2 tests)" in out
    assert "flow/drop-edge:START->a: the edge START -> a is dropped (refused by compile(): no-entry)" in out
    assert len(out.splitlines()) == 23


def test_sample_is_drawn_by_the_seed_and_reports_the_omitted_mutants(mutate: Mutate) -> None:
    command = ["flow:graph", "--skip=*edge", "--max-mutants=1", "--seed=3", "--", "test_full.py"]
    code, out, _ = mutate(*command, test_full=FULL)

    assert code == 0
    assert "Not searched: 12 mutants, by --max-mutants; another --seed draws others" in out
    assert "of 1 mutant (" in out


# -- abnormal ends of mutants ------------------------------------------------------------------------------------


def test_endless_mutant_is_stopped(verdicts: Read, folder: Path) -> None:
    test = f"""
import subprocess, sys
from flow import graph

def test_it():
    while graph.run({{"kind": "end"}}).state.get("log") != ["a"]:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(600)  # {folder}"])
"""
    data = verdicts("flow:graph", "--only=no-update:a", "--timeout=3", "--", "test_it.py", test_it=test)

    assert [(one["status"], one["note"]) for one in data["verdicts"]] == [("timeout", "no end within 3 s")]
    assert data["score"] == 100
    eventually(lambda: str(folder) not in processes())


def processes() -> str:
    """The command lines of all processes."""
    return subprocess.run(["ps", "axww"], capture_output=True, text=True, check=False).stdout


def test_mutant_that_ends_pytest_itself_is_tried_twice(verdicts: Read, folder: Path) -> None:
    test = """
import os
from flow import graph

def test_it():
    if graph.run({"kind": "end"}).state.get("log") != ["a"]:
        open("died", "a").write("x")
        os.kill(os.getpid(), 9)
"""
    data = verdicts("flow:graph", "--only=no-update:a", "--", "test_it.py", test_it=test)

    assert [(one["status"], one["note"]) for one in data["verdicts"]] == [
        ("crashed", "pytest ended twice with exit code -9")
    ]
    assert (folder / "died").read_text() == "xx"


def test_tests_whose_names_change_are_reported_as_missing(verdicts: Read) -> None:
    test = """
import os, pytest
from flow import graph

@pytest.mark.parametrize("pid", [os.getpid()])
def test_it(pid):
    graph.run({"kind": "end"})
"""
    data = verdicts("flow:graph", "--only=no-update:a", "--", "test_it.py", test_it=test)

    assert [one["status"] for one in data["verdicts"]] == ["untried"]
    assert "their ids differ" in data["verdicts"][0]["note"]


def test_interrupt_shows_the_result_so_far_and_leaves_no_process(folder: Path) -> None:
    slow = FULL.replace("def test_again():", "def test_again():\n    import time; time.sleep(0.5)  # planted-slow")
    write(folder, test_full=slow)
    command = ["flow:graph", "-j1", "--skip=*edge", "--", "test_full.py"]
    process = subprocess.Popen(
        [sys.executable, "-m", "graphrt.testing.mutate", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    while "mutants tried" not in (seen := process.stdout.readline()):
        assert seen, process.communicate()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # as a shell and its group may both send it
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130, err
    assert "The search was interrupted." in out
    assert "mutation score: 100.0% of " in out
    assert "Traceback" not in err
    eventually(lambda: str(folder) not in processes())


# -- bad input ---------------------------------------------------------------------------------------------------

NOTHING = "def test_it(): pass"
USED = "from flow import graph\ndef test_it(): graph.run({'kind': 'end'})"


@pytest.mark.parametrize(
    ("arguments", "test", "says"),
    [
        ("bad:graph", USED, "Module 'bad' cannot be imported: RuntimeError: no key"),
        pytest.param(
            "nowhere:graph", USED, "Module 'nowhere' cannot be imported: ModuleNotFoundError", marks=pytest.mark.full
        ),
        pytest.param("flow:nothing", USED, "Module 'flow' has no graph 'nothing'.", marks=pytest.mark.full),
        pytest.param(
            "flow:child", USED, "flow:child is a function, not a compiled graph", marks=pytest.mark.full
        ),
        ("flwo", USED, "Did you mean 'flow'?"),
        ("flow:graph", NOTHING, "No test runs 'flow', or asks for a route."),
        pytest.param("flow:graph", "", "ran no tests", marks=pytest.mark.full),
        ("flow:graph", USED + "\ndef test_no(): assert 0, 'broken'", "has 1 test that cannot pass"),
        pytest.param(
            "flow:graph", "import nowhere", "ModuleNotFoundError: No module named 'nowhere'", marks=pytest.mark.full
        ),
        ("flow:graph", "import os\ndef test_it(): os._exit(3)", "which has no mutant, did not come to its end (exit code 3)"),
        ("flow:graph --only=flow/rais:a", USED, "Did you mean 'flow/raise:a'?"),
    ],
)  # fmt: skip
def test_invalid_setup_is_reported_and_no_mutant_is_tested(
    mutate: Mutate, arguments: str, test: str, says: str
) -> None:
    command = [*arguments.split(), "--", "test_it.py"]
    code, out, err = mutate(*command, test_it=test, bad="raise RuntimeError('no key')")

    assert code == 2
    assert says in err
    assert "Fix: " in err
    assert "Traceback" not in err
    assert out == "running the tests without a mutant ...\n"


@pytest.mark.parametrize("option", ["--jobs=0", "--timeout=-1", "--fail-under=101", "--max-mutants=none", "--nothing"])
def test_invalid_options_are_usage_errors(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["flow:graph", option])

    assert caught.value.code == 2
    assert "error: " in capsys.readouterr().err
