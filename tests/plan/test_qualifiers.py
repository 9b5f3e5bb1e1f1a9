"""Qualifiers of TypedDict keys, in any order with Annotated: the declared type is checked (rule R7)."""

from __future__ import annotations

import typing
import warnings
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import START, GraphBuilder, InputError, UpdateError
from graphrt.reducers import append


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[te.NotRequired[list[int]], append],
        Annotated[te.Required[list[int]], append],
        Annotated[te.ReadOnly[te.NotRequired[list[int]]], append],
        te.NotRequired[Annotated[te.ReadOnly[list[int]], append]],
        Annotated[Annotated[te.NotRequired[list[int]], "the notes"], append],
        te.ReadOnly[Annotated[te.NotRequired[list[int]], append]],
    ],
    ids=["inside", "required", "both inside", "read-only inside", "two Annotated", "between"],
)
@pytest.mark.parametrize("make", [te.TypedDict, typing.TypedDict], ids=["extensions", "typing"])
def test_declared_type_is_checked_for_any_nesting_of_its_qualifiers(hint: Any, make: Any) -> None:
    g: Any = GraphBuilder(make("Qualified", {"c": hint}))
    g.add_node("n", lambda s: {"c": ["x"]}).add_edge(START, "n")
    with warnings.catch_warnings(action="error"):
        graph = g.compile()

    with pytest.raises(UpdateError, match=r"c\[0\]: Input should be a valid integer"):
        graph.run({"c": [0]})
    with pytest.raises(InputError, match=r"c\[0\]: Input should be a valid integer"):
        graph.run({"c": ["y"]})
