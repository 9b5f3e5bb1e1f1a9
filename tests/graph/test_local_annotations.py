"""Annotations that are texts may name classes and reducers that are local to the function around the builder."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from graphrt import END, START, GraphBuilder
from graphrt.harness import tool


def test_classes_and_reducers_local_to_the_function_of_a_builder_are_resolved() -> None:
    class Note(TypedDict):
        text: str

    def newest(current: list[Note], incoming: list[Note]) -> list[Note]:
        return [*current, *incoming][-1:]

    class State(TypedDict):
        notes: Annotated[list[Note], newest]

    def write(state: State) -> Any:
        return {"notes": [{"text": f"after {len(state['notes'])}"}]}

    g = GraphBuilder(State, name="local")
    g.add_node("write", write).add_edge(START, "write").add_edge("write", END)

    assert g.compile().run({"notes": [{"text": "first"}]}).state == {"notes": [{"text": "after 1"}]}


def test_classes_local_to_the_function_of_a_tool_are_resolved() -> None:
    class Place(TypedDict):
        town: str

    @tool
    def weather(place: Place) -> str:
        """The weather of a place."""
        return place["town"]

    assert weather.spec.parameters["$defs"]["Place"]["properties"] == {"town": {"type": "string"}}
