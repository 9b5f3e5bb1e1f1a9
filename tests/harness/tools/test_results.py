"""Results of tools, as a model reads them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from graphrt.errors import InputError, ToolError
from graphrt.harness.tools.protocol import ToolResult
from graphrt.harness.tools.results import to_result


class Town(BaseModel):
    name: str
    secret: SecretStr = SecretStr("hush")
    inner: Any = None


@dataclasses.dataclass
class Point:
    x: Any


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        ({"a": [1, 2.5]}, '{"a":[1,2.5]}'),
        (Town(name="Bergen"), '{"name":"Bergen","secret":"**********","inner":null}'),
        (Point(Colour.RED), '{"x":"red"}'),
        (dt.date(2026, 1, 2), '"2026-01-02"'),
        (Decimal("1.10"), '"1.10"'),
        (b"abc", '"abc"'),
        ({1: "x"}, '{"1":"x"}'),
        ((1, {2}), "[1,[2]]"),
        (float("nan"), '"NaN"'),
        (10**30, "1" + "0" * 30),
    ],
    ids=str,
)
def test_text_is_unchanged_and_other_values_become_json(value: Any, text: str) -> None:
    result = to_result(value, tool="t")

    assert result.text == text
    assert result.value is value
    assert result.error is False


def test_result_object_of_a_tool_is_unchanged() -> None:
    made = ToolResult(text="for the model", value=object(), error=True)

    assert to_result(made, tool="t") is made


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "result"),
        ({"a": [1, {"b": object()}]}, "result['a'][1]['b']"),
        (Point([object()]), "result.x[0]"),
        (Town(name="x", inner=lambda: 1), "result.inner"),
        (b"\xff", "result"),
        ("\ud800", "result"),
        ({"a": "\ud800"}, "result['a']"),
        (ToolResult(text="\ud800"), "result"),
    ],
    ids=["object", "nested", "dataclass", "model", "bytes", "surrogate", "surrogate inside", "surrogate of a result"],
)
def test_unserializable_value_is_named_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(ToolError) as caught:
        to_result(value, tool="t")
    assert (caught.value.code, caught.value.path, caught.value.tool) == ("tool-result", path, "t")


def test_cycles_and_endless_nesting_are_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    for value in (cycle, {"a": cycle}, deep):
        with pytest.raises(ToolError) as caught:
            to_result(value, tool="t")
        assert caught.value.code == "tool-result"
        assert len(str(caught.value)) < 1000


def test_objects_that_raise_on_access_are_refused() -> None:
    class Bad(dict[str, Any]):
        def __iter__(self) -> Any:
            raise RuntimeError("no")

        def items(self) -> Any:
            raise RuntimeError("no")

    try:
        to_result({"x": Bad(a=1)}, tool="t")
    except ToolError as error:
        assert error.code == "tool-result"  # noqa: PT017 - some versions of pydantic ignore the methods


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ).filter(lambda value: not isinstance(value, str))
)
def test_json_values_are_unchanged(value: Any) -> None:
    assert json.loads(to_result(value, tool="t").text) == value


@pytest.mark.parametrize("text", [None, 3])
def test_text_of_a_result_must_be_a_text(text: Any) -> None:
    with pytest.raises(InputError, match="The text of a ToolResult cannot be"):
        ToolResult(text=text)
