"""Invalid manifests are refused with every problem, its code and its path; none of their code is executed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from graphrt import END, START, GraphBuilder
from graphrt.errors import DefinitionError, InputError
from graphrt.nodes import registry, registry_of, set_value
from graphrt.specs import Registry

from .support import Answer, State, Way, child, every_kind, fetch, flag, label, problems_of, several, told, way

KNOWN = registry(
    functions=[label], tools=[fetch], routers=[flag, way, several], types=[State, Answer], graphs={"child": child()}
)


def manifest(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A manifest of these nodes, one after another."""
    names = ["START", *(str(node.get("name")) for node in nodes), "END"]
    edges = [{"from": source, "to": target} for source, target in pairwise(names)]
    return {"name": "draft", "state": "State", "nodes": list(nodes), "edges": edges, **more}


def ask(**more: Any) -> dict[str, Any]:
    return {"name": "ask", "kind": "llm", "prompt": "About {topic}.", "into": "answer", **more}


def each() -> dict[str, Any]:
    return {"name": "each", "kind": "batch", "work": [ask(into="notes", as_list=True)], "over": "pages"}


def read(data: Any, known: Registry = KNOWN, **more: Any) -> Any:
    return GraphBuilder.from_spec(data, known, **more).compile()


WRONG: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("a prompt that is a number", manifest(ask(prompt=3)), [("bad-spec", "nodes[0].prompt")]),
    ("a template that reaches for attributes", manifest(ask(prompt="{topic.__class__}")), [("bad-spec", "nodes[0].prompt")]),
    ("a system template that indexes", manifest(ask(system={"template": "{pages[0]}"})), [("bad-spec", "nodes[0].system.template")]),
    ("an option that is not there", manifest(ask(promt="x")), [("bad-spec", "nodes[0].promt")]),
    ("a lacking option", manifest({"name": "ask", "kind": "llm", "prompt": "x"}), [("bad-spec", "nodes[0].into")]),
    ("an empty name", manifest(ask(), ask(name="", prompt=3), edges=[]), [("bad-spec", "nodes[1].name")]),
    ("an empty kind", manifest(ask(kind="")), [("bad-spec", "nodes[0].kind")]),
    ("an unknown kind", manifest({"name": "a", "kind": "lmm"}), [("bad-spec", "nodes[0].kind")]),
    ("a router as a node", manifest({"name": "a", "kind": "field", "field": "topic"}), [("bad-spec", "nodes[0].kind")]),
    ("an unknown function", manifest({"name": "a", "kind": "function", "function": "labl"}), [("unknown-part", "nodes[0].function")]),
    ("an unknown tool", manifest({"name": "a", "kind": "tool", "function": "label"}), [("unknown-part", "nodes[0].function")]),
    ("an unknown model", manifest(ask(model="gpt")), [("unknown-part", "nodes[0].model")]),
    ("an unknown fallback", manifest(ask(model="m", fallbacks=["n"])), [("unknown-part", "nodes[0].model"), ("unknown-part", "nodes[0].fallbacks[0]")]),
    ("an unknown type", manifest(ask(output="Answr")), [("unknown-part", "nodes[0].output")]),
    ("arguments that do not fit", manifest(ask(into={"answer": "text"})), [("input", "nodes[0]")]),
    ("an unknown policy", manifest(ask(policy={"retyr": 2})), [("bad-spec", "nodes[0].policy.retyr")]),
    ("a text as a number", manifest(ask(policy={"timeout_s": "2"})), [("bad-spec", "nodes[0].policy.timeout_s")]),
    ("a budget of nothing", manifest(ask(policy={"budget": {}})), [("bad-limit", "nodes[0].policy.budget")]),
    ("an unknown exception", manifest(ask(policy={"retry": {"retry_on": ["Oops"]}})), [("unknown-part", "nodes[0].policy.retry.retry_on[0]")]),
    ("an unknown field", manifest(ask(into="anser")), [("bad-update-type", "nodes[0]")]),
    ("an edge to nowhere", manifest(ask(), edges=[{"from": "START", "to": "ask"}, {"from": "ask", "to": "gone"}]), [("unknown-node", "edges[1]")]),
    ("a doubled name", manifest(ask(), ask()), [("duplicate-node", "nodes[1]")]),
    ("a reserved name", manifest(ask(name="END")), [("reserved-name", "nodes[0]"), ("start-to-end", "edges[0]"), ("end-as-source", "edges[1]")]),
    ("an unknown router", manifest(ask(), edges=[{"from": "START", "to": "ask"}], conditional_edges=[{"from": "ask", "router": "r", "routes": ["ask"]}]), [("unknown-part", "conditional_edges[0].router")]),
    ("an unknown kind of router", manifest(ask(), edges=[{"from": "START", "to": "ask"}], conditional_edges=[{"from": "ask", "router": {"kind": "llm"}, "routes": ["ask"]}]), [("bad-spec", "conditional_edges[0].router.kind")]),
    ("a label of no enum", manifest(ask(), edges=[{"from": "START", "to": "ask"}], conditional_edges=[{"from": "ask", "router": "way", "routes": [{"label": {"enum": "Way.UP"}, "to": "END"}]}]), [("bad-spec", "conditional_edges[0].routes[0].label.enum")]),
    ("limits of a wrong type", manifest(ask(), limits=3), [("bad-spec", "limits")]),
    ("no state", {"nodes": [ask()]}, [("bad-spec", "state")]),
    ("an unknown state", {"state": "Stat", "nodes": [ask()]}, [("unknown-part", "state")]),
    ("another state", manifest(ask(), state={"class": "Answer", "fields": {"text": {"type": "int"}, "score": {"type": "int", "reducer": "add"}}}), [("bad-spec", "state.fields.text"), ("bad-spec", "state.fields.score"), ("unknown-read", "nodes[0]"), ("bad-update-type", "nodes[0]")]),
    ("a type that is code", manifest(ask(), state={"fields": {"topic": {"type": "open('/x')", "required": True}}}), [("bad-spec", "state.fields.topic.type")]),
    ("a type that is not known", manifest(ask(), state={"fields": {"topic": {"type": "list[Odd]", "required": True}}}), [("bad-spec", "state.fields.topic.type")]),
    ("a marker as a reducer", manifest(ask(), state={"fields": {"topic": {"type": "str", "reducer": "DELETE", "required": True}}}), [("unknown-part", "state.fields.topic.reducer")]),
    ("an unknown reducer", manifest(ask(), state={"fields": {"topic": {"type": "str", "reducer": "sum", "required": True}}}), [("unknown-part", "state.fields.topic.reducer")]),
    ("a default that is code", manifest(ask(), state={"fields": {"topic": {"type": "str"}}}), [("bad-spec", "state.fields.topic")]),
    ("a wrong version", manifest(ask(), spec_version=2), [("bad-spec", "spec_version")]),
    ("a wrong limit", manifest(ask(), limits={"max_stpes": 3}), [("bad-spec", "limits.max_stpes")]),
    ("an unknown field of an input", manifest(ask(), input=["topc"]), [("bad-spec", "input[0]")]),
    ("a wrong nested manifest", manifest({"name": "in", "kind": "graph", "graph": manifest(ask(prompt=None))}), [("bad-spec", "nodes[0].graph.nodes[0].prompt")]),
    ("a nested graph without entry", manifest({"name": "in", "kind": "graph", "graph": manifest(ask(), edges=[])}), [("no-entry", "")]),
    ("a wrong item of a batch", manifest({"name": "b", "kind": "batch", "work": [ask(prompt=None)]}), [("bad-spec", "nodes[0].work[0].prompt")]),
    ("a policy inside a batch", manifest({"name": "b", "kind": "batch", "work": [ask(policy={"retry": 2})]}), [("bad-spec", "nodes[0].work[0].policy")]),
    ("two items of one name", manifest({"name": "b", "kind": "batch", "work": [ask(), ask()]}), [("bad-spec", "nodes[0].work")]),
    ("an unknown state beside a batch", manifest(each(), state="Stat"), [("unknown-part", "state")]),
    ("a wrong outline beside a batch", manifest(each(), form=1), [("bad-spec", "form")]),
    ("an unknown nested graph with its own input", manifest({"name": "in", "kind": "graph", "graph": "chlid", "policy": {"input": {"topic": "topic"}}}), [("unknown-part", "nodes[0].graph")]),
    ("an unknown nested graph", manifest({"name": "in", "kind": "graph", "graph": "chlid"}), [("unknown-part", "nodes[0].graph")]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_problems_have_a_code_and_a_path(data: Any, expected: list[tuple[str, str]]) -> None:
    found = problems_of(lambda: read(data))

    assert found == expected
    assert not any("instance of" in problem.message for problem in told(lambda: read(data))), "a class nobody knows"


def test_all_problems_are_reported_at_once() -> None:
    data = manifest(ask(prompt=3), {"name": "a", "kind": "function", "function": "labl"}, ask(name="c", into="anser"))
    data["edges"].append({"from": "ask", "to": "gone"})

    found = problems_of(lambda: read(data))

    assert ("bad-spec", "nodes[0].prompt") in found
    assert ("unknown-part", "nodes[1].function") in found
    assert ("bad-update-type", "nodes[2]") in found
    assert ("unknown-node", "edges[4]") in found


def test_nodes_are_checked_although_the_outline_is_invalid() -> None:
    data = manifest(ask(prompt=3), {"name": "a", "kind": "function", "function": "labl"}, colour="red")

    found = problems_of(lambda: read(data))

    assert found == [
        ("bad-spec", "colour"), ("bad-spec", "nodes[0].prompt"), ("unknown-part", "nodes[1].function")
    ]  # fmt: skip


def test_problem_suggests_the_probable_name() -> None:
    problem = told(lambda: read(manifest({"name": "a", "kind": "function", "function": "labl"})))[0]

    assert problem.hint == "Did you mean 'label'?"
    assert "functions named 'labl'" in problem.message


def test_registry_refuses_values_without_a_name_and_duplicate_names() -> None:
    odd: Any = 3
    acts: list[Callable[[], Any]] = [
        lambda: registry(functions=[label, label]),
        lambda: registry(functions=[odd]),
        lambda: registry(functions=odd),
        lambda: registry(functions={"": label}),
    ]
    for act in acts:
        with pytest.raises(InputError) as refused:
            act()
        assert refused.value.code == "bad-registry"


def test_registry_can_be_narrowed() -> None:
    few = KNOWN.only(kinds=["llm"], functions=[])

    assert list(few.kinds) == ["llm"]
    assert few.section("functions") == {}
    assert list(few.section("tools")) == ["fetch"]
    assert problems_of(lambda: read(manifest({"name": "a", "kind": "tool", "function": "fetch"}), few)) == [
        ("bad-spec", "nodes[0].kind")
    ]


def test_registry_can_be_extended() -> None:
    more = registry(tools=[fetch]).extended(tools={"look": fetch}, types=[State])

    assert list(more.section("tools")) == ["fetch", "look"]
    assert list(more.section("types")) == ["State"]
    assert "llm" in more.kinds
    with pytest.raises(InputError):
        more.extended(tools=[3])


def test_labels_of_enums_in_types_are_resolved() -> None:
    def choose(state: State) -> Any:
        return Way.LEFT

    routes = [{"label": {"enum": "Way.LEFT"}, "to": "END"}]
    data = manifest(ask(), edges=[{"from": "START", "to": "ask"}])
    data["conditional_edges"] = [{"from": "ask", "router": "choose", "routes": routes}]

    graph = read(data, registry(routers=[choose], types=[State, Way]))

    assert graph.route("ask", {}) == (END,)


def test_value_that_is_not_data_cannot_be_written() -> None:
    g = GraphBuilder(State, name="odd")
    g.add_node("set", set_value(answer=object()))
    g.add_sequence([START, "set", END])

    with pytest.raises(DefinitionError) as refused:
        g.compile().to_spec()
    assert [(one.code, one.where) for one in refused.value.problems] == [("bad-spec", "nodes[0].values.answer")]


def test_compile_problem_of_an_edited_manifest_names_its_place() -> None:
    data = every_kind().to_spec().to_data()
    data["nodes"][7]["into"] = "verdikt"

    found = problems_of(lambda: GraphBuilder.from_spec(data, registry_of(every_kind())).compile())

    assert found == [("bad-update-type", "nodes[7]")]
