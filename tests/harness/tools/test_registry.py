"""Tools by name: no duplicates, no silent changes."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt.errors import InputError
from graphrt.harness.tools.function import FunctionTool, tool
from graphrt.harness.tools.registry import ToolRegistry


@tool
def add(a: int) -> int:
    return a


def search(query: str) -> str:
    return query


@pytest.fixture
def tools() -> ToolRegistry:
    return ToolRegistry([add, search])


def test_tools_and_plain_functions_keep_their_order(tools: ToolRegistry) -> None:
    assert tools.names == ("add", "search")
    assert [spec.name for spec in tools.specs] == ["add", "search"]
    assert tools.get("add") is add
    assert isinstance(tools.get("search"), FunctionTool)
    assert (len(tools), "add" in tools, "sub" in tools) == (2, True, False)
    assert [made.spec.name for made in tools] == ["add", "search"]
    assert repr(tools) == "ToolRegistry(add, search)"
    assert ToolRegistry(tools).names == tools.names
    assert len(ToolRegistry()) == 0


def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    with pytest.raises(InputError) as caught:
        ToolRegistry([add, tool(name="add")(search)])
    assert caught.value.code == "duplicate-tool"
    assert caught.value.where.count(__file__) == 2


def test_unknown_name_is_reported_with_a_suggestion(tools: ToolRegistry) -> None:
    with pytest.raises(InputError) as caught:
        tools.get("serch")
    assert (caught.value.code, caught.value.fix) == ("unknown-tool", "Did you mean 'search'?")
    with pytest.raises(InputError, match="no tools"):
        ToolRegistry().get("add")


def test_only_narrows_and_keeps_the_order(tools: ToolRegistry) -> None:
    assert tools.only(["search", "add"]).names == ("add", "search")
    assert tools.only(()).names == ()
    with pytest.raises(InputError) as caught:
        tools.only(["sub"])
    assert caught.value.code == "unknown-tool"
    with pytest.raises(InputError, match="The names of only"):
        tools.only("add")


def test_registry_cannot_be_changed(tools: ToolRegistry) -> None:
    with pytest.raises(TypeError):
        tools._tools["x"] = add  # type: ignore[index]
    with pytest.raises(TypeError):
        tools["x"] = add  # type: ignore[index]


@pytest.mark.parametrize("given", [3, "add", add], ids=["number", "text", "one tool"])
def test_single_value_is_not_a_list_of_tools(given: Any) -> None:
    with pytest.raises(InputError) as caught:
        ToolRegistry(given)
    assert caught.value.code == "input"


@pytest.mark.parametrize("given", [3, None, FunctionTool], ids=["number", "none", "class"])
def test_value_that_is_not_a_tool_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="A tool cannot be"):
        ToolRegistry([given])


def test_any_object_with_the_four_parts_is_a_tool() -> None:
    class Mine:
        spec = add.spec
        policy = add.policy

        def check(self, arguments: Any, /) -> Any:
            return arguments

        async def call(self, arguments: Any, context: Any, /) -> str:
            return "mine"

    mine = Mine()
    assert ToolRegistry([mine]).get("add") is mine
