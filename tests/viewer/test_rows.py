"""Rows of threads: folding them gives the state, and each names its author, content, time and routes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.audit.honest_logs import options
from tests.journal import voyage

from graphrt import END, START, Command, GraphBuilder, Runtime
from graphrt.stores import open_store
from graphrt.viewer._documents import entry_document, state_document, thread_document
from graphrt.viewer._graphs import Edges, SeenGraph
from graphrt.viewer._library import runtimes_of
from graphrt.viewer._threads import Thread, Threads
from graphrt.viewer._values import Bounds

from . import graphs
from .conftest import check

BOUNDS = Bounds()


def read(runtime: Runtime[Any, Any], thread: str, use: Callable[[Thread, Any], Any], graph: str = "desk") -> Any:
    return Threads(BOUNDS).get(runtime, graph, thread, use)


def rows_of(runtime: Runtime[Any, Any], thread: str, graph: str = "desk") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(runtime, thread, lambda one, _: list(one.rows), graph)
    return found


def folded(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Fold the operations of rows, like the page does."""
    root: dict[str, Any] = {}
    for row in rows:
        for verb, path, *given in row["ops"]:
            place: Any = root
            for part in path[:-1]:
                place = place[part]
            if verb == "=":
                place[path[-1]] = given[0]
            elif verb == "-":
                del place[path[-1]]
            elif verb == "+":
                place[path[-1]] = [*place[path[-1]], *given[0]]
            else:
                at, goes, comes = given
                place[path[-1]] = [*place[path[-1]][:at], *comes, *place[path[-1]][at + goes :]]
    return root


def without_refs(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_refs(item) for name, item in value.items() if name != "ref"}
    return [without_refs(item) for item in value] if isinstance(value, list) else value


def test_folded_rows_equal_the_state_after_each_entry(letters: Runtime[Any, Any]) -> None:
    rows = [check(row, "Row") for row in rows_of(letters, "letter")]
    snapshots = letters.history("letter")
    assert len(snapshots) > 6
    for snapshot in snapshots:
        wanted = read(letters, "letter", lambda one, _, at=snapshot.seq: state_document(one, at, BOUNDS))
        check(wanted, "StateDoc")

        assert without_refs(folded([row for row in rows if row["seq"] <= snapshot.seq])) == without_refs(
            wanted["values"]
        )


def test_rows_of_a_random_run_fold_to_its_state() -> None:
    """Fan-out, retries, a nested graph, questions, an edit between the runs, a second input."""
    voyage.tries.clear()
    with Runtime(voyage.graph(), store="memory:", **options()) as runtime:
        list(runtime.steps({"notes": ["begun"]}, thread="t"))
        runtime.update("t", {"table": {"c": "x" * 70_000}})
        for answers in ("left", True):
            list(runtime.steps(thread="t", answer=answers))
        list(runtime.steps({"count": 1}, thread="t"))
        name = runtime.graph.name
        rows = rows_of(runtime, "t", name)
        now = read(runtime, "t", lambda one, _: state_document(one, None, BOUNDS), name)

    assert without_refs(folded(rows)) == without_refs(now["values"])
    assert [row["n"] for row in rows] == list(range(len(rows)))
    assert {"input", "task", "ended", "resumed", "edit", "retried"} <= {row["kind"] for row in rows}


def test_rows_name_questions_answers_authors_and_routes(letters: Runtime[Any, Any]) -> None:
    rows = rows_of(letters, "letter")
    edges = letters.graph.topology()["edges"]
    of = {(row["node"], row["outcome"]): row for row in rows if row["kind"] == "task"}

    write = of["write", "success"]
    assert [one["tools"] for one in write["calls"]] == [["weather"], ["send"], []]
    assert [(one["name"], one["arguments"]) for one in write["tools"]] == [
        ("weather", {"city": "Ulm"}),
        ("send", {"to": "ann", "text": "It is clear in Ulm."}),
    ]
    assert write["calls"][2]["text"] == "The letter is on its way."
    assert of["write", "interrupted"]["text"] == "asks to approve send"
    assert of["approve", "success"]["answers"][0]["answer"] == {"do": "send", "remark": "good", "copies": 1}
    assert of["file", "error"]["text"] == "ValueError: no shelf for 'rain'"
    taken = [(edges[at]["from"], edges[at]["to"]) for row in rows if not row["path"] for at in row["edges"]]
    assert taken == [
        ("START", "plan"), ("plan", "read"), *[("read", "look_up")] * 3, ("look_up", "write"), ("write", "approve"),
        ("approve", "file"),
    ]  # fmt: skip
    nested = [row for row in rows if row["path"] == "3.0:look_up"]
    assert [(row["node"], row["ops"], row["wrote"]) for row in nested] == [
        ("web", [], ["notes", "calls"]),
        ("books", [], ["notes", "calls"]),
    ]
    assert [row["edges"] for row in nested] == [[0, 1], [2]]


def test_thread_without_its_code_is_shown_from_the_journal(letters: Runtime[Any, Any], tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        _, bare = runtimes_of(store)
        assert bare is not None
        document = read(bare, "letter", lambda one, head: check(thread_document(one, head, BOUNDS), "ThreadDoc"))
        rows = rows_of(bare, "letter")
        state = read(bare, "letter", lambda one, _: state_document(one, None, BOUNDS))
        waiting = read(bare, "waiting", lambda one, head: thread_document(one, head, BOUNDS))

    assert not document["code"]
    known = [(row["node"], row["outcome"]) for row in rows_of(letters, "letter")]
    assert [(row["node"], row["outcome"]) for row in rows] == known
    assert {node["name"]: node["kind"] for node in document["topology"]["nodes"]}["look_up"] == "graph"
    edges = document["topology"]["edges"]
    assert ("START", "plan") in {(edges[at]["from"], edges[at]["to"]) for at in rows[0]["edges"]}
    assert state["values"]["notes"] == ["books on rain"]  # the last written value
    assert state["values"]["verdict"]["do"] == "send"
    assert [(one["node"], one["payload"]["tool"]) for one in waiting["questions"]] == [("write", "send")]


def test_growing_thread_is_read_incrementally_and_one_with_erased_values_again(letters: Runtime[Any, Any]) -> None:
    threads = Threads(BOUNDS)

    def rows(one: Thread, _head: Any) -> list[dict[str, Any]]:
        return list(one.rows)

    first = threads.get(letters, "desk", "waiting", rows)
    letters.resume("waiting", answer=True)
    then = threads.get(letters, "desk", "waiting", rows)
    assert then[: len(first)] == first
    assert then == rows_of(letters, "waiting")

    assert "Ulm" in str(then)
    letters.erase("Ulm", threads=["waiting"], force=True)
    erased = threads.get(letters, "desk", "waiting", rows)
    assert "Ulm" not in str(erased)
    assert "$erased" in str(erased)


def test_growing_pruned_thread_reports_the_prune_once() -> None:
    kept = Threads(BOUNDS)
    with Runtime(graphs.inner.compile(), store="memory:") as runtime:
        runtime.run({"question": "a"}, thread="t")
        runtime.prune("t")
        for _ in range(2):
            runtime.run({"question": "b"}, thread="t")
            rows = kept.get(runtime, runtime.graph.name, "t", lambda one, _: list(one.rows))
        state = runtime.state("t").values

    assert [row["kind"] for row in rows].count("pruned") == 1
    assert folded(rows)["calls"] == state.calls == 6


def test_edge_after_a_question_is_shown_once_it_is_answered() -> None:
    g = GraphBuilder(graphs.Loose, name="held")
    g.add_node("a", lambda _: {"text": "a"}, interrupt_after=True)
    g.add_node("b", lambda _: {"text": "b"})
    seen = SeenGraph("held")
    with Runtime(g.add_sequence([START, "a", "b", END]).compile(), store="memory:") as runtime:
        runtime.run({}, thread="t")
        runtime.resume("t", answer=True)
        for entry in runtime.entries("t"):
            seen.add(entry)

    assert [(edge["from"], edge["to"]) for edge in seen.document["topology"]["edges"]] == [
        ("START", "a"), ("a", "b"), ("b", "END"),
    ]  # fmt: skip


def test_command_takes_an_edge_of_a_router_to_its_target() -> None:
    """A converted router is a conditional edge whose node returns a Command."""
    between = [{"from": "a", "to": to, "kind": "conditional", "branch": 0} for to in ("b", "c", "END")]
    edges = Edges({"name": "g", "nodes": [], "edges": between, "state": {}}, "")

    assert [edges.taken("a", (), goto) for goto in (("c",), ("b", "b"), ())] == [[1], [0], [2]]


def test_edges_of_commands_and_error_handlers_are_marked_as_taken() -> None:
    g = GraphBuilder(graphs.Loose, name="turns")

    @g.node(goto=["second"])
    def first(state: graphs.Loose) -> Any:
        return Command(update={"text": "a"}, goto="second")

    @g.node(on_error="mend")
    def second(state: graphs.Loose) -> dict[str, Any]:
        raise ValueError("no")

    @g.node
    def mend(state: graphs.Loose) -> dict[str, Any]:
        return {"text": "mended"}

    g.add_edge(START, first)
    with Runtime(g.compile(), store="memory:") as runtime:
        runtime.run({}, thread="t")
        rows = rows_of(runtime, "t", "turns")
        edges = runtime.graph.topology()["edges"]

    tasks = [row for row in rows if row["kind"] == "task"]
    assert [row["outcome"] for row in tasks] == ["success", "handled", "success"]
    assert tasks[0]["goto"] == ["second"]
    assert [edges[row["edges"][0]]["kind"] for row in tasks[:2]] == ["goto", "on_error"]


@pytest.mark.parametrize("code", [True, False])
def test_entries_are_documents(letters: Runtime[Any, Any], code: bool) -> None:
    for entry in letters.entries("letter", raw=not code):
        check(entry_document(entry, BOUNDS, code=code), "EntryDoc")
