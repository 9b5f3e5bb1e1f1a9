"""The return value of `@g.node`: the unchanged function, and a name for its node."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Command, GraphBuilder, Send
from graphrt.reducers import append


class State(BaseModel):
    notes: Annotated[list[str], append] = []


def hello(state: State) -> dict[str, Any]:
    """Say hello."""
    return {"notes": ["hello"]}


def test_handle_is_called_like_the_function() -> None:
    g = GraphBuilder(State)

    @g.node
    def most(state: State, most: int = 3) -> dict[str, Any]:
        return {"notes": ["x"] * most}

    assert most(State()) == {"notes": ["x"] * 3}
    assert most(State(), most=1) == {"notes": ["x"]}


def test_async_handle_is_awaited_like_the_function() -> None:
    g = GraphBuilder(State)

    @g.node(retry=2)
    async def search(state: State) -> dict[str, Any]:
        return {"notes": ["found"]}

    assert asyncio.run(search(State())) == {"notes": ["found"]}


def test_a_handle_looks_like_its_function() -> None:
    handle = GraphBuilder(State).node(name="greet")(hello)

    assert handle.__name__ == "hello"
    assert handle.__doc__ == "Say hello."
    assert handle.__wrapped__ is hello
    assert handle.__module__ == hello.__module__
    assert handle.__graphrt_node__ == "greet"
    assert repr(handle) == "<node 'greet'>"


def test_node_is_named_after_its_function_or_explicitly() -> None:
    g = GraphBuilder(State)
    g.node(hello)
    g.node(name="again")(hello)
    g.node()(lambda state: {})

    assert g.set_entry("hello").compile(allow=["unreachable-node"]).nodes == ("hello", "again", "<lambda>")


def test_object_without_a_name_is_named_after_its_class() -> None:
    class Counter:
        def __call__(self, state: State) -> dict[str, Any]:
            return {"notes": ["counted"]}

    g = GraphBuilder(State)
    counter = g.node(Counter())

    assert repr(counter) == "<node 'Counter'>"
    assert g.set_entry(counter).compile().run({}).state.notes == ["counted"]


def test_one_function_may_be_a_node_of_two_builders() -> None:
    first, second = GraphBuilder(State), GraphBuilder(State)
    in_first = first.node(hello)
    in_second = second.node(name="greet")(in_first)

    assert in_second.__wrapped__ is hello
    assert first.set_entry(in_first).compile().run({}).state.notes == ["hello"]
    assert second.set_entry(in_second).compile().nodes == ("greet",)
    assert second.compile().run({}).state.notes == ["hello"]


def test_one_function_may_be_two_nodes_of_one_builder() -> None:
    g = GraphBuilder(State)
    first, second = g.node(name="first")(hello), g.node(name="second")(hello)

    assert g.add_sequence([first, second]).set_entry(first).compile().run({}).state.notes == ["hello", "hello"]


def test_decorator_with_arguments_may_be_stored_and_reused() -> None:
    g = GraphBuilder(State)
    careful = g.node(retry=2)
    careful(hello)
    careful(name="second", timeout_s=3)(hello)
    nodes = g.set_entry("hello").compile(allow=["unreachable-node"]).topology()["nodes"]

    assert [(node["name"], node["retry"]["attempts"], node.get("timeout_s")) for node in nodes] == [
        ("hello", 2, None),
        ("second", 2, 3),
    ]


def test_handles_and_names_are_interchangeable() -> None:
    def build(*, named: bool) -> Any:
        g = GraphBuilder(State)
        handles = [g.node(name=name)(hello) for name in "abcd"]
        a, b, c, d = "abcd" if named else handles
        g.add_edge(START, a).add_conditional_edges(a, lambda state: [Send(b, 1), Send(c, 2)], [b, c])
        g.add_join([b, c], d, when="any").add_edge(d, END).branch(b, lambda state: "x").to({"x": c}, default=d)
        return g.compile(allow=["starving-join", "endless-loop"])

    assert build(named=True).topology() == build(named=False).topology()


def test_commands_may_refer_to_handles() -> None:
    g = GraphBuilder(State)

    @g.node
    def last(state: State) -> dict[str, Any]:
        return {"notes": ["last"]}

    @g.node
    def first(state: State) -> Command:
        return Command(update={"notes": ["first"]}, goto=last)

    assert g.set_entry(first).compile(allow=["unreachable-node"]).run({}).state.notes == ["first", "last"]


def test_function_of_a_node_added_by_name_refers_to_it() -> None:
    reference: Any = hello
    g = GraphBuilder(State).add_node("greet", hello).set_entry(reference)

    assert g.compile().route(START, {}) == ("greet",)
