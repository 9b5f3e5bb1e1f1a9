"""Fields that a nested graph shares or maps: untracked ones stay so on both sides (rule R16), and each has a source."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import START, DefinitionError, GraphBuilder
from graphrt.reducers import untracked


class Kept(BaseModel):
    tok: str = ""
    n: int = 0


class Hidden(BaseModel):
    tok: Annotated[str, untracked] = ""
    n: int = 0


def nested(outer: Any, inner: Any, **policy: Any) -> Any:
    child = GraphBuilder(inner, name="child").add_node("c", lambda s: None).set_entry("c").compile()
    return GraphBuilder(outer).add_node("sub", child, **policy).add_edge(START, "sub")


@pytest.mark.parametrize(
    ("outer", "inner", "policy", "message"),
    [
        (Hidden, Kept, {}, "is given field 'tok', which is untracked, for field 'tok', whose values are stored."),
        (Kept, Hidden, {}, "gives back field 'tok', which is untracked, for field 'tok', whose values are stored."),
        (
            Hidden,
            Kept,
            {"input": {"tok": "tok"}, "output": {"n": "n"}},
            "is given field 'tok', which is untracked, for field 'tok', whose values are stored.",
        ),
        (
            Kept,
            Hidden,
            {"input": {}, "output": {"tok": "tok"}},
            "gives back field 'tok', which is untracked, for field 'tok', whose values are stored.",
        ),
    ],
)
def test_untracked_field_that_the_other_graph_stores_is_a_finding(
    outer: Any, inner: Any, policy: Any, message: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        nested(outer, inner, **policy).compile()

    [problem] = caught.value.problems
    assert (problem.code, problem.node) == ("untracked-leak", "sub")
    assert problem.message == f"Nested graph 'sub' {message}"


@pytest.mark.parametrize(
    ("outer", "inner", "policy"),
    [
        (Hidden, Hidden, {}),
        (Kept, Kept, {}),
        (Kept, Hidden, {"input": {"tok": "tok"}, "output": {"n": "n"}}),
        (Hidden, Kept, {"input": {"n": "n"}, "output": {"tok": "tok"}}),
        (Hidden, Kept, {"input": lambda s: {"n": s.n}, "output": lambda s: {"n": s.n}}),
    ],
)
def test_field_that_is_stored_on_both_sides_or_on_neither_is_not_a_finding(outer: Any, inner: Any, policy: Any) -> None:
    assert nested(outer, inner, **policy).compile()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"input": {"tok": "tko"}}, "input= of node 'sub' reads 'tko', which is not a field of Outer."),
        ({"output": {"total": "nn"}}, "output= of node 'sub' reads 'nn', which is not a field of Kept."),
    ],
)
def test_mapping_that_reads_an_unknown_field_is_a_finding(policy: Any, message: str) -> None:
    class Outer(BaseModel):
        tok: str = ""
        total: int = 0

    with pytest.raises(DefinitionError) as caught:
        nested(Outer, Kept, **policy).compile()

    [problem] = caught.value.problems
    assert (problem.code, problem.node, problem.message) == ("unknown-read", "sub", message)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"input": {"zzz": "tok"}}, "input= of node 'sub' writes 'zzz', which is not a field of Kept."),
        ({"output": {"qq": "n"}}, "output= of node 'sub' writes 'qq', which is not a field of Outer."),
    ],
)
def test_mapping_that_writes_an_unknown_field_is_a_finding(policy: Any, message: str) -> None:
    class Outer(BaseModel):
        tok: str = ""

    with pytest.raises(DefinitionError) as caught:
        nested(Outer, Kept, **policy).compile()

    [problem] = caught.value.problems
    assert (problem.code, problem.node, problem.message) == ("bad-update-type", "sub", message)
