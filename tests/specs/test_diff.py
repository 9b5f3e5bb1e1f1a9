"""The differences of two graphs, in words and as data."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from graphrt import GraphBuilder
from graphrt.nodes import registry_of

from .support import Way, again, every_kind, flag, label, small, way

Edit = Callable[[dict[str, Any]], Any]
GRAPH = every_kind()


def edited(edit: Edit) -> Any:
    """The graph after an edit of its manifest."""
    data = GRAPH.to_spec().to_data()
    edit(data)
    return GraphBuilder.from_spec(data, registry_of(GRAPH)).compile()


def node(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in data["nodes"] if one["name"] == name)


def edge(data: dict[str, Any], source: str) -> dict[str, Any]:
    return next(one for one in data["conditional_edges"] if one["from"] == source)


def rename(data: dict[str, Any]) -> None:
    data["name"] = "other"


def add_node(data: dict[str, Any]) -> None:
    data["nodes"].append({"name": "new", "kind": "clear_error"})
    data["edges"].append({"from": "last", "to": "new"})
    node(data, "last")["policy"].pop("goto")


EDITS: list[tuple[Edit, str]] = [
    (rename, "graph name: changed from 'all' to 'other'"),
    (add_node, "policy last.goto: removed\nnode new: added\nedge last -> new: added"),
    (lambda d: node(d, "ask").update(prompt="On {topic}."), "argument ask.prompt: changed from 'About {topic}.' to 'On {topic}.'"),
    (lambda d: node(d, "ask").update(thinking="title"), "argument ask.thinking: added ('title')"),
    (lambda d: node(d, "fetch")["policy"].update(timeout_s=3), "policy fetch.timeout_s: changed from 2 to 3"),
    (lambda d: node(d, "set")["values"].update(score=True), "argument set.values: changed from"),
    (lambda d: edge(d, "sub")["routes"].update(approve="fetch"), "route sub.'approve': changed from 'chat' to 'fetch'"),
    (lambda d: edge(d, "sub").pop("default"), "conditional edge sub.default: removed ('END')"),
    (lambda d: edge(d, "sub").update(default="jury"), "conditional edge sub.default: changed from 'END' to 'jury'"),
    (lambda d: edge(d, "reduce").update(routes=["set", "jury"]), "conditional edge reduce.routes: changed from ['jury', 'set'] to ['set', 'jury']"),
    (lambda d: edge(d, "chat")["routes"][0].update(to="jury"), "route chat.Way.LEFT: changed from 'fetch' to 'jury'"),
    (lambda d: d["joins"][0].update(when="all"), "join ask + score -> sub: changed from"),
    (lambda d: d["limits"].update(max_steps=41), "limit max_steps: changed from 40 to 41"),
    (lambda d: d["limits"].pop("deadline_s"), "limit deadline_s: removed (2.5)"),
    (lambda d: node(d, "child")["graph"]["limits"].update(max_steps=8), "limit child/max_steps: changed from 7 to 8"),
    (lambda d: node(d, "batch")["work"][1].update(prompt="{page}"), "argument batch/b.prompt: changed from 'Read {page}.' to '{page}'"),
    (lambda d: d["nodes"].append(d["nodes"].pop(0)), "order nodes: changed from"),
    (lambda d: d["edges"].append(d["edges"].pop(0)), "order edges: changed from"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "words"), EDITS, ids=[words.split("\n")[0][:40] for _, words in EDITS])
def test_a_difference_is_reported_in_words(edit: Edit, words: str) -> None:
    found = str(GRAPH.diff(edited(edit)))

    assert found == words or (words.endswith("from") and found.startswith(words) and "\n" not in found)


def test_equal_graphs_have_no_differences() -> None:
    found = GRAPH.diff(again(GRAPH))

    assert not found
    assert found.changes == ()
    assert str(found) == "no differences"


def test_change_has_its_values_and_can_be_pickled() -> None:
    (change,) = GRAPH.diff(edited(lambda d: d["limits"].update(max_steps=41))).changes

    assert (change.what, change.of, change.name, change.before, change.after) == (
        "changed",
        "limit",
        "max_steps",
        40,
        41,
    )
    assert pickle.loads(pickle.dumps(change)) == change


def test_addition_in_one_direction_is_a_removal_in_the_other() -> None:
    bigger = edited(add_node)

    assert [change.what for change in GRAPH.diff(bigger).changes] == ["removed", "added", "added"]
    assert [change.what for change in bigger.diff(GRAPH).changes] == ["added", "removed", "removed"]


def test_fields_of_the_state_are_compared() -> None:
    found = str(small().diff(GRAPH.with_nodes({})))
    assert "node fetch: added" in found

    graph = small()
    data = graph.to_spec().to_data()
    data["state"]["class"] = "Other"
    data["state"]["fields"]["score"]["reducer"] = "add"
    del data["state"]["fields"]["tag"]
    other = GraphBuilder.from_spec(data, registry_of(graph)).compile()

    assert str(graph.diff(other)).splitlines() == [
        "state class: changed from 'State' to 'Other'",
        "field score.reducer: added ('add')",
        "field tag: removed",
    ]


def test_function_is_identified_by_its_name() -> None:
    stub = small().with_nodes({"label": label})

    assert not small().diff(stub)
    assert Way.LEFT is not Way.RIGHT
    assert way is not flag
