"""Route coverage, compared with a hand count: declared routes, taken routes, and the reports about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.testing.covered_graphs import State, child, every, log

from graphrt import END, PARENT, START, Command, GraphBuilder, Runtime
from graphrt.errors import GraphrtError, InputError
from graphrt.graph import observe
from graphrt.testing import record
from graphrt.testing.route_coverage import CoverageData, Summary, declared, load, summarise
from graphrt.testing.route_coverage.__main__ import main
from graphrt.testing.route_coverage.arcs import KINDS
from graphrt.testing.route_coverage.collecting import Collector

HERE = str(Path(__file__))


RUNS = (
    *("loop", "sub", "twice", "ask", "send", "pair", "command", "retry", "error", "timeout"),
    *("spend", "half", "both"),
)

PAIR = (
    "node:flaky route:choose:*->flaky goto:flaky->pair node:pair edge:pair->left edge:pair->right node:left node:right "
    "node:first join:left,right:fired->first join:left,right:absorbed->first edge:first->END"
)


def test_declared_arcs_of_a_graph() -> None:
    arcs = declared(every().topology())
    count = {kind: sum(arc.kind == kind for arc in arcs) for kind in {arc.kind for arc in arcs}}

    assert count == {
        "node": 16,
        "edge": 12,  # START, loop, two of pair, and eight to END
        "route": 9,
        "goto": 2,
        "join": 4,  # fired and absorbed, fired and starved; a join starves by default with an error
        "budget": 1,
        "retry": 1,
        "timeout": 1,
        "error": 1,
        "fatigue": 1,
        "interrupt": 1,
        "resume": 1,
    }
    assert set(count) == set(KINDS)
    assert len({arc.id for arc in arcs}) == len(arcs)


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("loop", "node:loop route:choose:loop->loop edge:loop->loop fatigue:loop->end interrupt:end"),
        ("sub", "node:sub route:choose:sub->sub edge:sub->END"),
        ("ask", "route:choose:ask->ask interrupt:ask"),
        ("send", "node:sent route:choose:sent->sent edge:sent->END"),
        (
            "pair",
            PAIR,
        ),
        ("command", "node:flaky route:choose:*->flaky goto:flaky->end interrupt:end"),
        (
            "retry",
            f"retry:flaky {PAIR}",
        ),
        ("spend", "node:spend route:choose:spend->spend budget:spend"),
        (
            "half",
            "node:half route:choose:half->half node:whole join:half,other:starved->whole edge:whole->END",
        ),
        (
            "both",
            (
                "node:half node:other route:choose:half->half route:choose:other->other node:whole "
                "join:half,other:fired->whole edge:whole->END"
            ),
        ),
        (
            "error",
            "retry:flaky node:flaky route:choose:*->flaky error:flaky->rescue node:rescue edge:rescue->END",
        ),
    ],
)
def test_each_run_takes_exactly_its_arcs(collect: Callable[..., Summary], kind: str, taken: str) -> None:
    record(every(), {"kind": kind})

    summary = collect()

    assert {arc.id for arc in summary.graphs[0].taken} == {"node:choose", "edge:START->choose", *taken.split()}


def test_all_runs_together_take_every_arc(collect: Callable[..., Summary]) -> None:
    graph = every()
    calm = graph.with_nodes({"spend": log("spend")})  # whose edge is taken only if it does not fail
    record(calm, {"kind": "spend"})
    for kind in RUNS:
        run = record(graph, {"kind": kind})
        if run.interrupts:
            run.resume("yes")

    summary = collect()

    assert [str(arc) for graph in summary.graphs for arc in graph.missing] == []
    assert [(graph.title, graph.count) for graph in summary.graphs] == [("every", 52), ("every/sub", 6)]
    assert summary.percent == 100


def test_timeout_is_a_separate_arc(collect: Callable[..., Summary]) -> None:
    async def slow(state: State) -> None:
        import asyncio

        await asyncio.sleep(10)

    g = GraphBuilder(State, name="every")
    g.add_node("slow", slow, timeout_s=0.01)
    g.add_sequence([START, "slow", END])
    record(g.compile(), {})

    assert [arc.id for arc in collect().graphs[0].taken] == ["node:slow", "edge:START->slow", "timeout:slow"]


@pytest.mark.parametrize(("starved", "outcome"), [("run", "starved"), ("ignore", "starved")])
def test_starved_join_is_an_outcome(collect: Callable[..., Summary], starved: Any, outcome: str) -> None:
    g = GraphBuilder(State, name="every")
    for name in ("a", "b", "c", "d"):
        g.add_node(name, log(name))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: state["kind"].split(), ["b", "c"])
    g.add_join(["b", "c"], "d", starved=starved)
    g.add_edge("d", END)
    record(g.compile(), {"kind": "b"})

    joins = [arc for arc in [*collect().graphs[0].taken] if arc.kind == "join"]

    assert [arc.label for arc in joins] == [outcome]


def test_nested_graph_counts_at_its_path_and_alone(collect: Callable[..., Summary]) -> None:
    inner = child()
    g = GraphBuilder(State, name="every")
    g.add_node("one", inner)
    g.add_node("two", inner)
    g.add_sequence([START, "one", "two", END])
    graph = g.compile()
    record(graph, {"kind": "once"})

    alone = {graph.title: [str(arc) for arc in graph.missing] for graph in collect().graphs}
    record(inner, {"kind": "twice"})
    both = {graph.title: [str(arc) for arc in graph.missing] for graph in collect().graphs}

    missing = ["node other", "other -> END", "inside -[True]-> other"]
    assert alone == {"every": [], "every/one": missing, "every/two": missing}
    assert both == {"every": [], "every/one": [], "every/two": []}


def test_router_that_is_called_without_a_run_counts(collect: Callable[..., Summary]) -> None:
    graph = child()
    graph.route("inside", {"kind": "twice"})

    assert [arc.id for arc in collect("child").graphs[0].taken] == ["route:inside:True->other"]


def test_copy_with_other_nodes_counts_for_the_graph(collect: Callable[..., Summary]) -> None:
    graph = child()
    record(graph.with_nodes({"inside": log("double")}), {"kind": "once"})

    (summary,) = collect("child").graphs
    assert summary.percent == 50
    assert summary.graph.file.endswith("covered_graphs.py")


def test_two_graphs_of_one_name_are_kept_apart(collect: Callable[..., Summary]) -> None:
    g = GraphBuilder(State, name="every")
    g.add_node("a", log("a"))
    g.add_sequence([START, "a", END])
    h = GraphBuilder(State, name="every")
    h.add_node("a", log("a"))
    h.add_sequence([START, "a", END])
    h.compile()
    record(g.compile(), {})

    one, two = collect().graphs
    assert [one.percent, two.percent] == [100, 0]
    assert "test_route_coverage.py:" in one.title
    assert one.title != two.title


@pytest.mark.parametrize("verb", ["run", "arun", "steps"])
def test_every_verb_counts(collect: Callable[..., Summary], verb: str, tmp_path: Path) -> None:
    import asyncio

    runtime = Runtime(child(), store=f"sqlite:///{tmp_path / 'a.db'}")
    match verb:
        case "run":
            runtime.run({"kind": "twice"}, thread="t")
        case "arun":
            asyncio.run(runtime.arun({"kind": "twice"}, thread="t"))
        case _:
            list(runtime.steps({"kind": "twice"}, thread="t"))
    runtime.close()

    assert [arc.id for arc in collect("child").graphs[0].missing] == ["route:inside:False->END"]


def test_failed_run_keeps_its_taken_arcs(collect: Callable[..., Summary]) -> None:
    def broken(state: State) -> None:
        raise ValueError("no")

    with pytest.raises(GraphrtError):
        child().with_nodes({"inside": broken}).run({"kind": "once"})

    assert [arc.id for arc in collect("child").graphs[0].taken] == ["node:inside", "edge:START->inside"]


def collected(collect: Callable[..., Summary]) -> CoverageData:
    """The data of a graph without runs."""
    child()
    return CoverageData({found.graph.key: found.graph for found in collect("child").graphs})


# -- data --------------------------------------------------------------------------------------------------------


def test_saved_data_merges(collect: Callable[..., Summary], tmp_path: Path) -> None:
    graph = child()
    record(graph, {"kind": "once"})
    collect("child")
    first = load(tmp_path / "data")
    first.save(tmp_path / "first.json")
    stop = observe(other := Collector(tmp_path / "other"))
    child().run({"kind": "twice"})
    other.flush()
    stop()
    merged = load(tmp_path / "first.json")
    merged.merge(load(tmp_path / "other"))

    assert summarise(first, ["child"]).percent < 100
    assert summarise(merged, ["child"]).percent == 100
    assert load(tmp_path / "first.json").to_json() == first.to_json()


UNKNOWN_KIND = b'{"format": 1, "graphs": [], "hits": [["g", "", [[["leap", "a"], []]]]]}'


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff\xfe", b"[]", b'{"format": 99}', b'{"format": 1}', b'{"format": 1, "graphs": 3}', UNKNOWN_KIND],
)
def test_unreadable_data_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "data.json").write_bytes(data)
    with pytest.raises(InputError, match=r"route coverage data at .* cannot be used"):
        load(tmp_path / "data.json")


def test_half_a_line_of_a_killed_process_is_ignored(collect: Callable[..., Summary], tmp_path: Path) -> None:
    record(child(), {"kind": "once"})
    before = collect("child").percent
    (file,) = (tmp_path / "data").iterdir()
    file.write_text(file.read_text() + '{"hit": ["chi')

    assert collect("child").percent == before


def test_unknown_target_is_refused(collect: Callable[..., Summary]) -> None:
    child()
    with pytest.raises(InputError, match="'chlid' names no graph") as caught:
        collect("chlid")
    assert "Did you mean 'child'?" in str(caught.value)


def test_unimportable_module_is_found_by_its_file(collect: Callable[..., Summary]) -> None:
    """A package below `src` that is not installed where the data of several runs is merged."""
    graph = next(iter(collected(collect).graphs.values()))
    graph.file = "src/desk/flows/__init__.py"
    data = CoverageData({graph.key: graph})

    for target in ("desk", "desk.flows", "flows"):
        assert [found.graph for found in summarise(data, [target]).graphs] == [graph]
    for target in ("des", "flows.desk", "desk.other"):
        with pytest.raises(InputError, match="names no graph"):
            summarise(data, [target])


def test_data_of_two_versions_of_a_file_is_not_merged(
    collect: Callable[..., Summary], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = collected(collect)
    data.save(tmp_path / "old.json")
    (graph,) = data.graphs.values()
    graph.key, graph.digest = "child|another version", "another"
    data.graphs = {graph.key: graph}
    data.save(tmp_path / "new.json")

    assert main([str(tmp_path / "old.json"), str(tmp_path / "new.json")]) == 2
    assert "it was measured with another version of" in capsys.readouterr().err
    assert main([str(tmp_path / "new.json"), str(tmp_path / "new.json"), "--target", "child"]) == 0


@pytest.mark.slow
def test_data_without_a_graph_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CoverageData().save(tmp_path / "empty.json")

    assert main([str(tmp_path / "empty.json"), "--fail-under", "90"]) == 2
    assert "has no graph that was compiled outside of test files" in capsys.readouterr().err


def test_handover_is_an_arc_of_the_nested_graphs_node(collect: Callable[..., Summary]) -> None:
    inner = GraphBuilder(State, name="inner", hands_over_to=["bill"])
    inner.add_node("look", lambda state: Command(goto="bill", graph=PARENT))
    inner.set_entry("look")
    g = GraphBuilder(State, name="every")
    g.add_node("inner", inner.compile())
    g.add_node("bill", log("bill"))
    g.add_sequence([START, "inner", END])
    g.compile().run({})
    taken = {graph.title: [arc.id for arc in graph.taken] for graph in collect().graphs}

    assert sorted(taken.values()) == [
        ["node:inner", "node:bill", "edge:START->inner", "goto:inner->bill"],
        ["node:look", "edge:START->look"],
    ]
