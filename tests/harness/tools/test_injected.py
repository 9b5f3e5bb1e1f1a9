"""Injected arguments: they come from the program only, whatever the model sends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt.errors import InputError, ToolArgumentsError, ToolError
from graphrt.harness.messages import ToolCall
from graphrt.harness.tools.function import tool
from graphrt.harness.tools.injected import Injected
from graphrt.harness.tools.protocol import ToolContext


class Database:
    """A class without a schema, which it does not need."""

    def __init__(self, name: str) -> None:
        self.name = name


async def user(context: ToolContext) -> str:
    await asyncio.sleep(0)
    return f"user of {context.call.id}"


@tool
def save(
    text: str,
    ctx: ToolContext,
    db: Annotated[Database, Injected("db")],
    who: Annotated[str, Injected(user)],
    depth: Annotated[int, Injected(lambda context: context.depth)],
    maybe: ToolContext | None = None,
) -> list[Any]:
    return [text, ctx.call.id, db.name, who, depth, maybe is ctx]


DEPS = {"db": Database("main")}


def test_injected_parameters_are_not_in_the_schema() -> None:
    assert list(save.spec.parameters["properties"]) == ["text"]
    assert "$defs" not in save.spec.parameters


def test_injected_values_reach_the_function(context: Any) -> None:
    result = asyncio.run(save.call(save.check({"text": "hi"}), context(deps=DEPS, depth=2)))

    assert result.value == ["hi", "call-1", "main", "user of call-1", 2, True]


def test_context_with_a_type_of_deps_is_a_context(context: Any) -> None:
    @tool
    def price(item: str, ctx: ToolContext[dict[str, int]], same: ToolContext[dict[str, int]] | None = None) -> int:
        assert same is ctx
        return ctx.deps[item]

    assert list(price.spec.parameters["properties"]) == ["item"]
    assert asyncio.run(price.call(price.check({"item": "tea"}), context(deps={"tea": 3}))).value == 3


@pytest.mark.parametrize("name", ["ctx", "db", "who", "depth", "maybe"])
def test_model_that_sends_an_injected_argument_is_refused(name: str) -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        save.check({"text": "hi", name: "mine"})
    assert f"{name}: unknown argument; it takes text" in caught.value.what


@given(st.dictionaries(st.sampled_from(["text", "ctx", "db", "who", "depth", "Db", "db "]), st.text(max_size=5)))
def test_arguments_of_a_model_never_override_injected_ones(sent: dict[str, str]) -> None:
    context = ToolContext(call=ToolCall(id="call-9", name="save"), deps=DEPS)
    try:
        checked = save.check(sent)
    except ToolArgumentsError:
        assert set(sent) != {"text"}
        return
    assert set(checked) == {"text"}
    forged = {**checked, "db": Database("forged"), "who": "root"}  # as if a check had accepted it
    assert asyncio.run(save.call(forged, context)).value[2:4] == ["main", "user of call-9"]


@pytest.mark.parametrize("deps", [{"db": Database("x")}, SimpleNamespace(db=Database("x"))], ids=["mapping", "object"])
def test_deps_may_be_a_mapping_or_an_object(deps: Any, context: Any) -> None:
    assert asyncio.run(save.call({"text": ""}, context(deps=deps))).value[2] == "x"


@pytest.mark.parametrize(
    ("deps", "said"),
    [
        (None, "nothing was passed as deps"),
        ({"cache": 1}, "it has 'cache'"),
        (SimpleNamespace(), "deps is a SimpleNamespace"),
    ],
)
def test_missing_value_in_deps_is_reported_to_the_program(deps: Any, said: str, context: Any) -> None:
    with pytest.raises(ToolError) as caught:
        asyncio.run(save.call({"text": ""}, context(deps=deps)))
    assert (caught.value.code, caught.value.field, caught.value.tool) == ("tool-injection", "db", "save")
    assert said in caught.value.what


def test_error_of_a_source_is_reported_with_its_cause(context: Any) -> None:
    @tool
    def take(x: Annotated[int, Injected(lambda _context: 1 // 0)]) -> int:
        return x

    with pytest.raises(ToolError) as caught:
        asyncio.run(take.call({}, context()))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_parameter_with_a_default_does_not_need_deps(context: Any) -> None:
    @tool
    def take(x: Annotated[int, Injected("x")] = 5) -> int:
        return x

    assert asyncio.run(take.call({}, context())).value == 5
    assert asyncio.run(take.call({}, context(deps={"x": 6}))).value == 6


def test_invalid_marks_are_reported() -> None:
    with pytest.raises(InputError, match="The source of Injected cannot be"):
        Injected(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="The source of Injected cannot be"):
        Injected("")
    with pytest.raises(InputError, match="needs its source"):

        @tool
        def bare(x: Annotated[int, Injected]) -> None: ...

    with pytest.raises(InputError, match="one source only"):

        @tool
        def twice(x: Annotated[int, Injected("a"), Injected("b")]) -> None: ...
