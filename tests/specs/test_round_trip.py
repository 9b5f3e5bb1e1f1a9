"""A graph that was written as data and read again is the same graph."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import given
from tests.laws.build import build
from tests.laws.description import Graph
from tests.laws.graphs import graphs
from tests.laws.steady import Steady

from graphrt import END, START, GraphBuilder
from graphrt.errors import DefinitionError
from graphrt.nodes import llm, registry, registry_of, set_value
from graphrt.reducers import append, union
from graphrt.specs import Form, GraphSpec, declare_form

from .support import State, again, child, every_kind, fetch, label, mock, small


@pytest.mark.slow
@given(graph=graphs(mistakes=False))
def test_random_graphs_are_read_back_unchanged(graph: Graph) -> None:
    written = build(graph, Steady(graph))

    read = again(written, written.to_spec().to_json())

    assert read.fingerprint == written.fingerprint
    assert read.limits == written.limits
    assert read.to_spec().to_data() == written.to_spec().to_data()
    assert not written.diff(read)


@pytest.mark.slow
@given(one=graphs(mistakes=False), other=graphs(mistakes=False))
def test_graphs_without_differences_have_one_fingerprint(one: Graph, other: Graph) -> None:
    first, second = build(one, Steady(one)), build(other, Steady(other))

    assert bool(first.diff(second)) == (first.to_spec().to_data() != second.to_spec().to_data())
    if first.fingerprint != second.fingerprint:
        assert first.diff(second)


def test_every_kind_of_node_is_read_back() -> None:
    graph = every_kind()

    read = again(graph, graph.to_spec().to_json())

    assert read.fingerprint == graph.fingerprint
    assert read.topology() == graph.topology()
    assert read.to_spec().to_data() == graph.to_spec().to_data()


def test_manifest_has_the_arguments_of_ready_made_nodes() -> None:
    nodes = {node["name"]: node for node in every_kind().to_spec().to_data()["nodes"]}

    assert nodes["score"] == {
        "name": "score",
        "kind": "llm",
        "prompt": "Judge {answer}.",
        "into": {"score": "score"},
        "output": "Answer",
        "model": "cheap",
        "agent_name": "judge",
    }
    assert nodes["set"]["values"] == {
        "answer": {"template": "{topic}!"},
        "verdict": {"delete": True},
        "notes": {"value": ["a"]},
        "title": {"copy_of": "topic"},
        "score": 1,
    }
    assert [node["name"] for node in nodes["batch"]["work"]] == ["a", "b"]
    assert nodes["child"]["graph"]["limits"] == {"max_steps": 7}
    assert nodes["label"]["policy"] == {
        "retry": {"attempts": 4, "wait_initial_s": 1, "retry_on": ["ConnectionError", "OSError"]},
        "cache": 4,
        "key": "key",
    }


def test_loaded_graph_runs() -> None:
    read = again(small())

    state = read.run({"topic": "milk"}, harness=mock("White.")).state

    assert (state.answer, state.title) == ("White.", "milk")


def test_the_names_of_a_registry_are_written() -> None:
    known = registry(functions={"name_it": label}, types={"S": State})

    data = small().to_spec(known).to_data()

    assert data["nodes"][1]["function"] == "name_it"
    assert data["state"]["class"] == "S"
    assert again(small(), data, known).fingerprint == small().fingerprint


def test_unregistered_value_cannot_be_written() -> None:
    with pytest.raises(DefinitionError) as refused:
        small().to_spec(registry(types=[State]))

    assert [(problem.code, problem.node) for problem in refused.value.problems] == [("unknown-part", "label")]


def test_functions_with_one_name_are_distinguished() -> None:
    g = GraphBuilder(State, name="same")
    g.add_node("one", lambda state: {"notes": ["1"]}).add_node("two", lambda state: {"notes": ["2"]})
    g.add_sequence([START, "one", "two", END])

    read = again(g.compile())

    assert read.run({}).state.notes == ["1", "2"]


def test_state_is_built_from_its_fields_if_its_class_is_unknown() -> None:
    graph = small()
    known = registry(functions=[label], reducers={"longest": State.model_fields["title"].metadata[0]})

    read = again(graph, None, known)

    assert read.state_type is not State
    assert read.fingerprint == graph.fingerprint
    assert read.run({}, harness=mock("x")).state.title == "tea"


class Keys(TypedDict, total=False):
    log: Annotated[list[str], append]
    seen: Annotated[list[int], union]
    mode: Literal["a", "b"] | None


def test_typed_dict_is_built_from_its_fields() -> None:
    g = GraphBuilder(Keys, name="keys")
    g.add_node("set", set_value(log=["x"]))
    g.add_sequence([START, "set", END])
    graph = g.compile()

    read = again(graph, graph.to_spec(), registry())

    assert read.fingerprint == graph.fingerprint
    assert read.run({}).state["log"] == ["x"]


def test_class_of_the_caller_replaces_that_of_the_manifest() -> None:
    data = small().to_spec().to_data()
    del data["state"]

    read = GraphBuilder.from_spec(data, registry(functions=[label]), state=State).compile()

    assert read.state_type is State


def test_registered_graph_is_referred_to_by_name() -> None:
    inner = child()
    g = GraphBuilder(State, name="outer")
    g.add_node("inner", inner)
    g.add_sequence([START, "inner", END])
    graph = g.compile()
    known = registry(graphs={"inner": inner}, types=[State])

    data = graph.to_spec(known).to_data()

    assert data["nodes"][0] == {"name": "inner", "kind": "graph", "graph": "inner"}
    assert again(graph, data, known).fingerprint == graph.fingerprint


def test_limits_and_allowed_findings_are_those_of_the_manifest() -> None:
    g = GraphBuilder(State, name="loop")
    g.add_node("one", label).add_edge(START, "one").add_edge("one", "one")
    graph = g.compile(allow=["endless-loop", "no-way-out"])

    assert again(graph).fingerprint == graph.fingerprint


def greet(word: str, *, into: str = "answer") -> Any:
    """A user's factory."""

    def node(state: State) -> dict[str, Any]:
        return {into: f"{word} {state.topic}"}

    return declare_form(node, GreetForm, {"word": word, "into": into})


class GreetForm(Form):
    kind: Literal["greet"] = "greet"
    word: str
    into: str = "answer"

    factory = staticmethod(greet)


def test_custom_factory_has_its_own_form() -> None:
    g = GraphBuilder(State, name="own")
    g.add_node("greet", greet("Hello"))
    g.add_sequence([START, "greet", END])
    graph = g.compile()
    data = graph.to_spec().to_data()

    read = GraphBuilder.from_spec(data, registry_of(graph, kinds=[GreetForm])).compile()

    assert data["nodes"][0] == {"name": "greet", "kind": "greet", "word": "Hello"}
    assert read.run({}).state.answer == "Hello tea"


def test_text_of_a_manifest_is_json() -> None:
    spec = every_kind().to_spec()

    assert json.loads(str(spec)) == spec.to_data()
    assert GraphSpec.model_validate(spec.to_data()).to_data() == spec.to_data()


def test_replaced_node_is_written_in_its_new_form() -> None:
    graph = small().with_nodes({"ask": lambda state: {"answer": "stub"}})

    assert graph.to_spec().to_data()["nodes"][0] == {"name": "ask", "kind": "function", "function": "ask"}


def test_model_of_a_ready_made_node_is_identified_by_its_own_name() -> None:
    g = GraphBuilder(State, name="models")
    g.add_node("a", llm("{topic}", into="answer", model="gpt-x")).add_edge(START, "a")
    graph = g.compile()

    assert dict(registry_of(graph).section("models")) == {"gpt-x": "gpt-x"}
    assert fetch("x") == "about x"


def test_loaded_graph_knows_the_file_of_the_caller() -> None:
    g = GraphBuilder(State, name="outer")
    g.add_node("inner", child()).add_edge(START, "inner")

    read = again(g.compile())

    for graph in (read, read.nested["inner"]):
        place = graph.declared_at()
        assert place is not None
        assert place[0].endswith("support.py")
