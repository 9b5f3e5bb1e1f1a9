"""Declared fields: unknown reads, and the finding about fields that one branch deletes and another reads."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, computed_field

from graphrt import END, START, GraphBuilder, InputError
from graphrt.graph import declare_fields
from graphrt.reducers import append

from .support import codes, texts


class State(BaseModel):
    notes: Annotated[list[str], append] = []
    text: str = ""

    @computed_field
    @property
    def size(self) -> int:
        return len(self.notes)


def reader(state: Any) -> None: ...


def plain(state: Any) -> None: ...


def deleter(state: Any) -> None: ...


declare_fields(reader, reads=["notes"], writes=["text"])
declare_fields(deleter, deletes=["notes"])


def graph() -> GraphBuilder[Any, Any]:
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="triage")
    return g.add_node("delete", deleter).add_node("read", reader).add_node("plain", plain)


def test_reader_in_a_parallel_branch_is_a_finding() -> None:
    g = graph().add_edge(START, "delete").add_edge(START, "plain").add_edge("plain", "read")

    [text] = texts(g)
    assert text == (
        "[deleted-source] Node 'delete' deletes 'notes', which node 'read' reads in another branch, before or after "
        "that.\n      Fix: Join 'read' before 'delete', or let the node keep its sources."
    )
    assert codes(g, allow=["deleted-source"]) == []


def test_reader_that_runs_before_the_deletion_is_correct() -> None:
    g = graph().add_edge(START, "read").add_edge(START, "plain")
    g.add_join(["read", "plain"], "delete")

    assert codes(g) == []


def test_reader_after_the_deletion_is_correct() -> None:
    g = graph().add_sequence([START, "plain", "delete", "read", END])

    assert codes(g) == []


@pytest.mark.parametrize(("several", "found"), [(False, []), (True, ["deleted-source"])])
def test_alternatives_of_a_router_exclude_each_other_unless_it_names_several(
    several: bool,
    found: list[str],
) -> None:
    def one(state: Any) -> str:
        return "read"

    def many(state: Any) -> list[str]:
        return ["read", "delete"]

    g = graph().add_edge(START, "plain")
    g.add_conditional_edges("plain", many if several else one, ["read", "delete"])

    assert codes(g) == found


def test_read_of_an_unknown_field_is_an_error() -> None:
    def wrong(state: Any) -> None: ...

    g = (
        graph()
        .add_node("wrong", declare_fields(wrong, reads=["ntoes"]))
        .add_sequence([START, "plain", "wrong", "read", "delete"])
    )

    assert texts(g) == [
        "[unknown-read] Node 'wrong' reads 'ntoes', which is not a field of the state.\n      Fix: Did you mean 'notes'?"
    ]


def test_a_computed_field_may_be_read() -> None:
    def sized(state: Any) -> None: ...

    g: GraphBuilder[Any, Any] = GraphBuilder(State)

    assert codes(g.add_node("sized", declare_fields(sized, reads=["size"])).set_entry("sized")) == []


def test_declared_writes_are_the_default_of_the_policy_and_are_checked() -> None:
    def wrong(state: Any) -> None: ...

    declare_fields(wrong, writes=["txet"])
    g: GraphBuilder[Any, Any] = GraphBuilder(State)
    overruled: GraphBuilder[Any, Any] = GraphBuilder(State)

    assert codes(g.add_node("wrong", wrong).set_entry("wrong")) == ["bad-update-type"]
    assert codes(overruled.add_node("wrong", wrong, writes=["text"]).set_entry("wrong")) == []


def test_only_functions_can_declare_fields() -> None:
    wrong: Any = "reader"

    with pytest.raises(InputError, match="fn cannot be 'reader'"):
        declare_fields(wrong)
