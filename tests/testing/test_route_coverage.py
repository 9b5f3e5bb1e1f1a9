"""Route coverage, against a hand count: what is declared, what runs take, and what the reports say of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from graphrt import END, START, Command, GraphBuilder, RetryPolicy, Runtime, Send
from graphrt.errors import GraphrtError, InputError
from graphrt.graph import observe
from graphrt.reducers import append
from graphrt.testing import record
from graphrt.testing.route_coverage import Summary, declared, load, summarise
from graphrt.testing.route_coverage.collecting import Collector
from graphrt.testing.route_coverage.html_page import html
from graphrt.testing.route_coverage.reports import as_json, cobertura, lcov, mermaid, terminal

HERE = str(Path(__file__))


class State(TypedDict, total=False):
    kind: str
    log: Annotated[list[str], append]


def log(text: str) -> Callable[[State], Any]:
    return lambda state: {"log": [text]}


def child() -> Any:
    g = GraphBuilder(State, name="child")
    g.add_node("inside", log("inside"))
    g.add_node("other", log("other"))
    g.add_edge(START, "inside")
    g.add_conditional_edges("inside", lambda state: state["kind"] == "twice", {True: "other", False: END})
    g.add_edge("other", END)
    return g.compile()


def every() -> Any:
    """A graph with every kind of arc, whose path the field `kind` chooses."""

    def flaky(state: State, ctx: Any) -> Any:
        if state["kind"] == "timeout":
            raise TimeoutError("no result within 1 s")  # as the runtime words it
        if (state["kind"] == "retry" and ctx.attempt == 1) or state["kind"] == "error":
            raise ConnectionError("lost")
        return Command(goto="end" if state["kind"] == "command" else "pair")

    def ask(state: State, ctx: Any) -> Any:
        return {"log": [ctx.interrupt("yes?", key="k")]} if state["kind"] == "ask" else None

    g = GraphBuilder(State, name="every")
    g.add_node("choose", log("choose"))
    g.add_node("flaky", flaky, retry=RetryPolicy(attempts=2, wait_initial_s=0.0, jitter=False), timeout_s=30,
               on_error="rescue", goto=["pair", "end"])  # fmt: skip
    g.add_node("rescue", log("rescue"))
    g.add_node("pair", log("pair"))
    g.add_node("left", log("left"))
    g.add_node("right", log("right"))
    g.add_node("first", log("first"))
    g.add_node("loop", log("loop"), max_visits=2, on_fatigue="end")
    g.add_node("sent", lambda state, ctx: {"log": [str(ctx.arg)]})
    g.add_node("sub", child())
    g.add_node("ask", ask)
    g.add_node("end", log("end"), interrupt_before=True)
    g.add_edge(START, "choose")
    g.add_conditional_edges(
        "choose",
        lambda state: [Send("sent", 1), Send("sent", 2)] if state["kind"] == "send" else state["kind"],
        {"loop": "loop", "sub": "sub", "twice": "sub", "ask": "ask", "sent": "sent"},
        default="flaky",
    )
    g.add_edge("loop", "loop")
    g.add_edge("pair", "left")
    g.add_edge("pair", "right")
    g.add_join(["left", "right"], "first", when="any")
    for name in ("rescue", "sent", "sub", "ask", "first"):
        g.add_edge(name, END)
    g.add_edge("end", END)
    return g.compile(allow=["endless-loop", "no-way-out"])


KINDS = ("loop", "sub", "twice", "ask", "send", "pair", "command", "retry", "error", "timeout")

PAIR = (
    "node:flaky route:choose:*->flaky goto:flaky->pair node:pair edge:pair->left edge:pair->right node:left node:right "
    "node:first join:left,right:fired->first join:left,right:absorbed->first edge:first->END"
)


def test_what_a_graph_declares() -> None:
    arcs = declared(every().topology())
    count = {kind: sum(arc.kind == kind for arc in arcs) for kind in {arc.kind for arc in arcs}}

    assert count == {
        "node": 12,
        "edge": 10,  # START, loop, two of pair, and six to END
        "route": 6,
        "goto": 2,
        "join": 2,  # fired and absorbed; a join starves by default with an error
        "retry": 1,
        "timeout": 1,
        "error": 1,
        "fatigue": 1,
        "interrupt": 1,
        "resume": 1,
    }
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


def test_all_arcs_of_all_runs_are_everything_but_the_real_timeout(collect: Callable[..., Summary]) -> None:
    graph = every()
    for kind in KINDS:
        run = record(graph, {"kind": kind})
        if run.interrupts:
            run.resume("yes")

    summary = collect()

    assert [str(arc) for graph in summary.graphs for arc in graph.missing] == []
    assert [(graph.title, graph.count) for graph in summary.graphs] == [("every", 40), ("every/sub", 6)]
    assert summary.percent == 100


def test_a_timeout_is_an_arc_of_its_own(collect: Callable[..., Summary]) -> None:
    async def slow(state: State) -> None:
        import asyncio

        await asyncio.sleep(10)

    g = GraphBuilder(State, name="every")
    g.add_node("slow", slow, timeout_s=0.01)
    g.add_sequence([START, "slow", END])
    record(g.compile(), {})

    assert [arc.id for arc in collect().graphs[0].taken] == ["node:slow", "edge:START->slow", "timeout:slow"]


@pytest.mark.parametrize(("starved", "outcome"), [("run", "starved"), ("ignore", "starved")])
def test_a_starved_join_is_an_outcome(collect: Callable[..., Summary], starved: Any, outcome: str) -> None:
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


def test_a_nested_graph_counts_at_its_path_and_alone(collect: Callable[..., Summary]) -> None:
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


def test_a_router_that_is_asked_without_a_run_counts(collect: Callable[..., Summary]) -> None:
    graph = child()
    graph.route("inside", {"kind": "twice"})

    assert [arc.id for arc in collect("child").graphs[0].taken] == ["route:inside:True->other"]


def test_a_copy_with_other_nodes_counts_for_the_graph(collect: Callable[..., Summary]) -> None:
    graph = child()
    record(graph.with_nodes({"inside": log("double")}), {"kind": "once"})

    (summary,) = collect("child").graphs
    assert summary.percent == 50
    assert summary.graph.file.endswith("test_route_coverage.py")


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


def test_a_run_that_fails_has_taken_what_it_took(collect: Callable[..., Summary]) -> None:
    def broken(state: State) -> None:
        raise ValueError("no")

    with pytest.raises(GraphrtError):
        child().with_nodes({"inside": broken}).run({"kind": "once"})

    assert [arc.id for arc in collect("child").graphs[0].taken] == ["node:inside", "edge:START->inside"]


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
def test_data_that_cannot_be_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "data.json").write_bytes(data)
    with pytest.raises(InputError, match="not route coverage data that this version of graphrt can read"):
        load(tmp_path / "data.json")


def test_a_killed_process_leaves_half_a_line(collect: Callable[..., Summary], tmp_path: Path) -> None:
    record(child(), {"kind": "once"})
    before = collect("child").percent
    (file,) = (tmp_path / "data").iterdir()
    file.write_text(file.read_text() + '{"hit": ["chi')

    assert collect("child").percent == before


def test_a_target_that_names_nothing(collect: Callable[..., Summary]) -> None:
    child()
    with pytest.raises(InputError, match="'chlid', which names no graph") as caught:
        collect("chlid")
    assert "Did you mean 'child'?" in str(caught.value)


# -- reports -----------------------------------------------------------------------------------------------------


@pytest.fixture
def half(collect: Callable[..., Summary]) -> Summary:
    record(child(), {"kind": "once"})
    return collect("child")


def test_the_table(half: Summary) -> None:
    assert terminal(half).splitlines() == [
        "graph   arcs  taken  missed  cover",
        "----------------------------------",
        "child      6      3       3    50%",
        "    node other",
        "    other -> END",
        "    inside -[True]-> other",
    ]


def test_lcov_and_cobertura_count_the_same(half: Summary) -> None:
    text = lcov(half)
    root = ET.fromstring(cobertura(half))

    assert "BRF:6\nBRH:3" in text
    assert text.count("BRDA:") == 6
    assert root.attrib["branches-valid"] == "6"
    assert root.attrib["branches-covered"] == "3"
    shown = [line.attrib["condition-coverage"] for line in root.iter("line")]
    assert shown == ["100% (1/1)", "66% (2/3)", "0% (0/2)"]


def test_json_has_every_arc(half: Summary) -> None:
    data = json.loads(as_json(half))

    assert [(arc["id"], arc["taken"]) for arc in data["graphs"][0]["arcs"]] == [
        ("node:inside", True),
        ("edge:START->inside", True),
        ("route:inside:False->END", True),
        ("node:other", False),
        ("edge:other->END", False),
        ("route:inside:True->other", False),
    ]
    assert data["percent"] == 50


def test_mermaid_marks_what_was_missed(half: Summary) -> None:
    text = mermaid(half)
    assert 'n2["other"]:::missed' in text
    assert "-.->" in text
    assert text.count("linkStyle") == 1


def test_the_page_is_one_file(half: Summary) -> None:
    page = html(half)
    assert "Route coverage: 50%" in page
    assert page.count('class="node missed"') == 1
    assert page.count('class="edge missed"') == 2
    assert "<script" not in page
    assert "http" not in page
    ET.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
