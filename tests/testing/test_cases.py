"""`case_of`: recorded runs as tests that fail while a node is broken and pass once it is repaired.

Each program is a separate module, in a correct and in a broken version. A run of one of them is recorded in SQLite, a
step of it is written as a test, and the test is run against both versions.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from tests.testing.case_programs import HEAD, PROGRAMS, to_the_end

from graphrt import Budget, MockHarness, Runtime
from graphrt.audit import AuditLog, generate_key
from graphrt.errors import GraphrtError, InputError, NodeError
from graphrt.stores import SqliteStore, open_store
from graphrt.testing import case_of, replay_case
from graphrt.testing.written_tests import literal, plain

if TYPE_CHECKING:
    from pathlib import Path

    from tests.testing.case_programs import Program

pytest_plugins = ["pytester"]


@pytest.fixture
def module(monkeypatch):
    """Loads a source as the module from which the tests import their graph."""

    def load(source: str, path: Path) -> Any:
        file = path / "case_program.py"
        file.write_text(source)
        spec = importlib.util.spec_from_file_location("case_program", file)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "case_program", made)
        exec(compile(source, str(file), "exec"), made.__dict__)
        return made

    return load


def run_test(path: Path) -> None:
    """Run the only test of a file."""
    made = runpy.run_path(str(path))
    (test,) = [value for name, value in made.items() if name.startswith("test_")]
    test()


@pytest.fixture(params=PROGRAMS)
def program(request):
    return PROGRAMS[request.param]


def written(program: Program, loaded: Any, folder: Path) -> Path:
    """Run the program on a thread in SQLite, and write one of its steps as a test."""
    with SqliteStore(folder / "runs.db") as store, Runtime(loaded.graph, store=store) as runtime:
        program.run(runtime)
        at = None
        if program.before is not None:
            at = next(snapshot.seq for snapshot in runtime.history("order-17") if program.before in snapshot.next)
        entries = len(list(runtime.entries("order-17")))
        path = case_of(runtime, "order-17", at, to=folder)
        assert len(list(runtime.entries("order-17"))) == entries  # the thread was only read
        assert "graphrt-case" not in repr(runtime.threads())
        return path


@pytest.mark.slow
def test_case_fails_while_the_node_is_broken_and_passes_once_it_is_repaired(program, module, tmp_path):
    recorded = program.broken if program.failed else program.whole
    path = written(program, module(program.text(recorded), tmp_path), tmp_path)
    text = path.read_text()
    assert program.says in text

    mended = module(program.text(program.whole), tmp_path)
    run_test(path)
    assert mended.outside == []  # no effect was repeated

    module(program.text(program.broken), tmp_path)
    with pytest.raises((AssertionError, NodeError)):
        run_test(path)


@pytest.mark.slow
def test_file_is_a_pytest_file_and_deterministic(module, tmp_path, pytester, monkeypatch):
    program = PROGRAMS["agent with a tool"]
    source = program.text(program.whole)
    loaded = module(source, tmp_path)
    with SqliteStore(tmp_path / "runs.db") as store, Runtime(loaded.graph, store=store) as runtime:
        program.run(runtime)
        path = case_of(runtime, "order-17", to=tmp_path)
        text = path.read_text()
        assert case_of(runtime, "order-17", to=tmp_path) == path  # the same content is allowed
        assert path.read_text() == text
        path.write_text(text + "# edited\n")
        with pytest.raises(InputError, match="other content"):
            case_of(runtime, "order-17", to=tmp_path)
        case_of(runtime, "order-17", to=path, overwrite=True)
    assert path.name == "test_ask_order_17_1.py"

    # The two versions have the same size, and may have the same time: bytecode of the first would hide the second.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take as long to import as everything else
    pytester.makepyfile(case_program=source)
    pytester.makepyfile(test_case=text)
    pytester.runpytest_subprocess("-q", "-p", "pytest_graphrt", "-p", "no:cacheprovider").assert_outcomes(passed=1)
    pytester.makepyfile(case_program=program.text(program.broken))
    result = pytester.runpytest_subprocess("-q", "-p", "pytest_graphrt", "-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*'tea costs 3.'*'TEA COSTS 3.'*"])


def test_node_with_a_different_request_gets_an_error(module, tmp_path):
    source = """
    from graphrt.harness import LiteLLMModel

    model = FunctionModel(lambda asked: pay("model"))
    agent = Agent(model, name="writer")

    async def ask(state: State, ctx: Context) -> Any:
        return {"notes": [(await agent.run("Write it.")).text]}

    graph = line(ask)
    """
    loaded = module(HEAD + dedent(source), tmp_path)
    with SqliteStore(tmp_path / "runs.db") as store, Runtime(loaded.graph, store=store) as runtime:
        to_the_end(runtime)
        path = case_of(runtime, "order-17", to=tmp_path)

    changed = source.replace('"Write it."', '"Write it again."').replace(
        'FunctionModel(lambda asked: pay("model"))', 'LiteLLMModel("openai/gpt-4o-mini", api_key="no-key")'
    )
    module(HEAD + dedent(changed), tmp_path)
    with pytest.raises(GraphrtError, match="is forbidden") as caught:
        run_test(path)
    assert "asks something else than it did then" in "\n".join(caught.value.__notes__)


def test_deps_and_harness_of_the_run_are_named_in_the_file(module, tmp_path):
    source = """
    class Shelf:
        price = 3

    async def ask(state: State, ctx: Context) -> Any:
        reply = await ctx.harness.run("How much?", max_tokens=9)
        return {"notes": [f"{reply.text} {ctx.deps.price}"]}

    graph = line(ask)
    """
    loaded = module(HEAD + dedent(source), tmp_path)
    given = {"deps": loaded.Shelf(), "harness": MockHarness(["three"]), "budget": Budget(tokens=9_000)}
    with SqliteStore(tmp_path / "runs.db") as store, Runtime(loaded.graph, store=store, **given) as runtime:
        to_the_end(runtime)
        path = case_of(runtime, "order-17", to=tmp_path)

    text = path.read_text()
    assert "from graphrt import Budget, MockHarness\n" in text
    assert "CASE, deps=DEPS, harness=MockHarness([]), budget=Budget(tokens=9000))" in text
    assert "DEPS: Any = None  # the run had a case_program.Shelf here" in text
    path.write_text(text.replace("DEPS: Any = None", "from case_program import Shelf\n\nDEPS: Any = Shelf()"))
    run_test(path)


@pytest.mark.parametrize(
    "read", ["now", "datetime.fromtimestamp(now, UTC).isoformat()", "[{'at': now}, 'text', 2.5, '2026-01-01']"]
)
def test_clock_shows_the_time_that_a_node_wrote(read, module, tmp_path):
    source = f"""
    from datetime import UTC, datetime
    from time import sleep

    def stamp(state: dict[str, Any], ctx: Context) -> Any:
        now = ctx.now()
        sleep(0.001)  # the end of the step is another time
        return {{"topic": {read}}}

    graph = line(stamp, state=te.TypedDict("Stamped", {{"topic": Any}}))
    """
    loaded = module(HEAD + dedent(source), tmp_path)
    with SqliteStore(tmp_path / "runs.db") as store, Runtime(loaded.graph, store=store) as runtime:
        runtime.run({"topic": ""}, thread="order-17")
        path = case_of(runtime, "order-17", to=tmp_path)

    run_test(path)
    assert "clock=lambda: ..." in path.read_text()


@pytest.mark.parametrize("has_home", [True, False])
def test_agent_that_was_the_harness_is_passed_again(has_home, module, tmp_path):
    source = """
    agent = Agent(ScriptedModel(["three"]), name="seller", system="Be brief.")

    async def ask(state: State, ctx: Context) -> Any:
        return {"notes": [(await ctx.harness.run("How much?")).text]}

    graph = line(ask)
    """
    loaded = module(HEAD + dedent(source), tmp_path)
    agent = loaded.agent
    if not has_home:
        del loaded.agent
    with SqliteStore(tmp_path / "runs.db") as store, Runtime(loaded.graph, store=store, harness=agent) as runtime:
        to_the_end(runtime)
        path = case_of(runtime, "order-17", to=tmp_path)

    if not has_home:
        place = "HARNESS: Any = None  # the run had the Agent 'seller' here: give the test the same one"
        assert place in path.read_text()
        loaded.agent = agent
        path.write_text(path.read_text().replace(place, "from case_program import agent\n\nHARNESS: Any = agent"))
    run_test(path)


def test_result_finds_tasks_by_id_and_node(module, tmp_path):
    program = PROGRAMS["fan-out and Command"]
    loaded = module(program.text(program.whole), tmp_path)
    path = written(program, loaded, tmp_path)
    step = replay_case(loaded.graph, runpy.run_path(str(path))["CASE"])

    assert list(step) == ["2.0:rest", "2.1:work", "2.2:work"]
    assert step["rest"].wrote == {"total": 1}
    with pytest.raises(InputError, match="2 tasks of the step have the name 'work'"):
        step["work"]
    with pytest.raises(InputError, match="0 tasks of the step have the name 'split'"):
        step["split"]
    assert "next=()" in repr(step)


# -- bad input -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def simple(module, tmp_path):
    program = PROGRAMS["failure that a handler took"]
    loaded = module(program.text(program.whole), tmp_path)
    with SqliteStore(tmp_path / "runs.db") as store, Runtime(loaded.graph, store=store) as runtime:
        to_the_end(runtime)
        yield runtime


def test_entries_without_a_superstep_after_them_are_refused(simple, tmp_path):
    last = simple.state("order-17").seq
    with pytest.raises(InputError, match=rf"No superstep follows entry {last} .*\n.*follow the entries 1, "):
        case_of(simple, "order-17", last, to=tmp_path)
    with pytest.raises(InputError, match="No superstep follows entry -3"):
        case_of(simple, "order-17", -3, to=tmp_path)
    with pytest.raises(InputError, match="nothing"):
        case_of(simple, "nothing", to=tmp_path)


def test_pruned_entries_are_refused(simple, tmp_path):
    before = simple.history("order-17")[0].seq
    assert simple.prune("order-17") > 0
    with pytest.raises(InputError, match="No superstep"):
        case_of(simple, "order-17", 1, to=tmp_path)
    assert before


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_thread_with_a_keyed_audit_log_needs_no_key(tenant, module, tmp_path):
    """The thread is only read."""
    program = PROGRAMS["router"]
    loaded = module(program.text(program.whole), tmp_path)
    audit = AuditLog(key=generate_key())
    url = f"sqlite:///{tmp_path}/runs.db"
    with open_store(url, tenant=tenant) as store, Runtime(loaded.graph, store=store, audit=audit) as runtime:
        to_the_end(runtime)
        run_test(case_of(runtime, "order-17", to=tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "case_program.py/test_x.py"}, r"The file '.*test_x.py' cannot be written: .*case_program.py"),
        ({"to": None}, "The path of a file was expected, not None"),
        ({"graph": open}, "graph= of case_of.. cannot be .*\n.*graph='module:variable'"),
    ],
)
def test_wrong_places_are_refused(options, message, simple, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        case_of(simple, "order-17", **options)


def test_text_that_ends_in_a_slash_is_a_folder(simple, tmp_path):
    path = case_of(simple, "order-17", to=f"{tmp_path}/new/cases/")

    assert path.parent == tmp_path / "new" / "cases"
    assert path.name.startswith("test_")


def test_graph_that_is_not_in_a_module_is_refused(module, tmp_path, monkeypatch):
    program = PROGRAMS["router"]
    loaded = module(program.text(program.whole) + "\n\ndef make():\n    return graph\n", tmp_path)
    graph = loaded.graph
    other = PROGRAMS["question"]
    with SqliteStore(tmp_path / "runs.db") as store, Runtime(graph, store=store) as runtime:
        to_the_end(runtime)
        path = case_of(runtime, "order-17", graph="case_program:make()", to=tmp_path)
        run_test(path)
        assert "from case_program import make\n" in path.read_text()
        with pytest.raises(InputError, match="there is no graph at 'case_program:nothing'"):
            case_of(runtime, "order-17", graph="case_program:nothing", to=tmp_path)
        module(other.text(other.whole), tmp_path)
        with pytest.raises(InputError, match="not the graph that the runtime drives"):
            case_of(runtime, "order-17", graph="case_program:graph", to=tmp_path)
        monkeypatch.delitem(sys.modules, "case_program")
        with pytest.raises(InputError, match="no variable of an imported module holds it"):
            case_of(runtime, "order-17", to=tmp_path)


def test_changed_graph_is_refused(module, tmp_path):
    program = PROGRAMS["large state"]
    path = written(program, module(program.text(program.whole), tmp_path), tmp_path)

    module(program.text(program.whole).replace("line(load, count)", "line(load, ('total', count))"), tmp_path)
    with pytest.raises(InputError, match="node 'count' is pending, but no longer exists") as caught:
        run_test(path)
    assert caught.value.code == "graph-changed"
    module(program.text(program.whole).replace("line(load, count)", "line(load, count, name='other')"), tmp_path)
    with pytest.raises(InputError, match="The case is of graph 'program', and this is graph 'other'"):
        run_test(path)


def test_step_whose_node_is_gone_is_refused(module, tmp_path):
    program = PROGRAMS["large state"]
    text = program.text(program.whole)
    with SqliteStore(tmp_path / "runs.db") as store:
        with Runtime(module(text, tmp_path).graph, store=store) as runtime:
            program.run(runtime)
        changed = module(text.replace("line(load, count)", "line(load)"), tmp_path).graph
        with Runtime(changed, store=store) as runtime:
            with pytest.raises(InputError, match="ran what graph 'program' no longer has: 'count'") as caught:
                case_of(runtime, "order-17", to=tmp_path)
            case_of(runtime, "order-17", runtime.history("order-17")[-1].seq, to=tmp_path)

    assert caught.value.code == "graph-changed"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("graphrt-case-2", "graphrt-case-9"),
        lambda text: text.replace('"fingerprint"', '"fingerprints"'),
        lambda text: re.sub(r"\n== record [^\n]*", "", text, count=1),
        lambda text: text[:200],
        lambda text: 3,
    ],
)
def test_edited_recording_is_detected(change, module, tmp_path):
    program = PROGRAMS["router"]
    loaded = module(program.text(program.whole), tmp_path)
    case = runpy.run_path(str(written(program, loaded, tmp_path)))["CASE"]
    with pytest.raises(InputError, match="not the text of a case") as caught:
        replay_case(loaded.graph, change(case))
    assert caught.value.code == "bad-case"


@pytest.mark.parametrize(
    "value", ["Ada's tea", "a\nb", 'quotes """ and \\ backslash\\', "\x00\u2028é", "x" * 400, "64 x", "== x"]
)
def test_recording_is_readable_and_every_value_is_restored(value, module, tmp_path):
    loaded = module(READABLE, tmp_path)
    with Runtime(loaded.graph, store="memory:", chain=True) as runtime:
        runtime.run({"text": value, "more": [value] * 40}, thread="t")
        path = case_of(runtime, "t", to=tmp_path)

    text = path.read_text(encoding="utf-8")
    assert "PERSONAL DATA" in text.partition("CASE = ")[0]
    assert max(map(len, text.splitlines())) < 600
    if value == "Ada's tea":
        assert text.partition("CASE = ")[2].count(value) > 40
    run_test(path)


READABLE = """
from typing import TypedDict
from graphrt import END, START, GraphBuilder

class State(TypedDict, total=False):
    text: str
    more: list[str]
    echo: str

g = GraphBuilder(State, name="readable")
g.add_node("echo", lambda state: {"echo": state["text"]})
g.add_sequence([START, "echo", END])
graph = g.compile()
"""


def test_arguments_of_a_wrong_type_are_refused(simple, tmp_path):
    with pytest.raises(InputError, match="The runtime of case_of"):
        case_of(simple.graph, "order-17", to=tmp_path)
    with pytest.raises(InputError, match="The graph for replay_case"):
        replay_case(simple, "")  # type: ignore[arg-type]


def test_sets_are_written_in_one_order_in_every_process() -> None:
    assert literal({"tags": set("hgfedcba")}) == "{'tags': {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}}"


@dataclass(frozen=True)
class _Price:
    cents: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({_Price(3), _Price(2)}, "[{'cents': 2}, {'cents': 3}]"),
        ({frozenset("ba"), frozenset("c")}, "[{'a', 'b'}, {'c'}]"),
        ({(1, _Price(2))}, "[(1, {'cents': 2})]"),
        ({_Price(2): "two", (1, 2): "tuple"}, """{"{'cents': 2}": 'two', (1, 2): 'tuple'}"""),
    ],
)
def test_members_and_keys_that_become_unhashable_have_a_literal_form(value, text):
    assert literal(value) == text
    assert plain(eval(text)) == plain(value)
