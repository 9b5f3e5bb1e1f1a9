"""Every kind of parameter: its schema, its accepted values, and the error for others that a model gets."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field
from typing_extensions import TypedDict

from graphrt.errors import ToolArgumentsError, ToolError
from graphrt.harness.tools.function import tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Filter(BaseModel):
    name: str
    most: int = 10


@dataclasses.dataclass
class Span:
    start: dt.date
    end: dt.date | None = None


class Box(TypedDict):
    width: int
    height: NotRequired[int]


class Tree(BaseModel):
    name: str
    below: list[Tree] = []


def _no_cats(value: Any) -> Any:
    if value == "cat":
        raise ValueError("cats are not for sale")
    if value == "bug":
        raise KeyError("a bug in the validator")
    return value


CASES: list[tuple[Any, Any, Any, dict[str, Any]]] = [
    (str, "x", "x", {"type": "string"}),
    (int, "5", 5, {"type": "integer"}),
    (float, 1, 1.0, {"type": "number"}),
    (bool, "true", True, {"type": "boolean"}),
    (Optional[int], None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045 - the tested annotation
    (int | str, "x", "x", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (Literal["a", 2], 2, 2, {"enum": ["a", 2]}),
    (Colour, "red", Colour.RED, {"$ref": "#/$defs/Colour"}),
    (Filter, {"name": "x"}, Filter(name="x"), {"$ref": "#/$defs/Filter"}),
    (list[Filter], [{"name": "x", "most": 1}], [Filter(name="x", most=1)], {"type": "array"}),
    (Span, {"start": "2026-01-02"}, Span(dt.date(2026, 1, 2)), {"$ref": "#/$defs/Span"}),
    (Box, {"width": 3}, {"width": 3}, {"$ref": "#/$defs/Box"}),
    (Tree, {"name": "a", "below": [{"name": "b"}]}, Tree(name="a", below=[Tree(name="b")]), {"$ref": "#/$defs/Tree"}),
    (dict[str, int], {"a": "1"}, {"a": 1}, {"type": "object"}),
    (tuple[int, str], [1, "x"], (1, "x"), {"type": "array"}),
    (set[int], [1, 1, 2], {1, 2}, {"type": "array", "uniqueItems": True}),
    (dt.datetime, "2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), {}),
    (dt.timedelta, "PT90S", dt.timedelta(seconds=90), {"format": "duration"}),
    (Decimal, "1.10", Decimal("1.10"), {}),
    (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678123456781234567812345678"), {}),
    (bytes, "abc", b"abc", {"type": "string"}),
    (Any, [1, {"a": None}], [1, {"a": None}], {}),
    (object, "x", "x", {}),
    (Annotated[int, Field(ge=1, description="how many")], 3, 3, {"minimum": 1, "description": "how many"}),
    (Annotated[str, Field(pattern="^a", max_length=3)], "ab", "ab", {"pattern": "^a", "maxLength": 3}),
]


@pytest.mark.parametrize(("kind", "sent", "wanted", "schema"), CASES, ids=[str(case[0]) for case in CASES])
def test_kind_of_parameter_has_a_schema_and_is_parsed(
    kind: Any, sent: Any, wanted: Any, schema: dict[str, Any]
) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = kind
    made = tool(take)

    found = made.spec.parameters["properties"]["value"]
    assert {key: found.get(key) for key in schema} == schema
    assert "title" not in found
    assert made.check({"value": sent}) == {"value": wanted}
    assert made.spec.parameters["required"] == ["value"]


def test_defaults_stay_those_of_the_function() -> None:
    kept = object()

    @tool
    def take(
        a: int = 1, b: Any = kept, c: int = Field(3, ge=1, description="field"), *, d: Annotated[int, Field(default=7)]
    ) -> None: ...

    assert take.check({}) == {"c": 3, "d": 7}
    assert take.check({"a": 2}) == {"a": 2, "c": 3, "d": 7}
    properties = take.spec.parameters["properties"]
    assert (properties["a"]["default"], properties["c"]["description"], properties["d"]["default"]) == (1, "field", 7)
    assert "required" not in take.spec.parameters


def test_parameter_whose_default_is_none_accepts_none() -> None:
    @tool
    def take(
        when: dt.date = None,  # type: ignore[assignment]  # noqa: RUF013 - a common mistake
        n: Annotated[int, Field(description="how many")] = None,  # type: ignore[assignment]  # noqa: RUF013
        either: int | None = None,
    ) -> None: ...

    assert take.check({"when": None, "n": None, "either": None}) == {"when": None, "n": None, "either": None}
    assert take.check({"when": "2026-01-02"}) == {"when": dt.date(2026, 1, 2)}
    assert told(take, {"n": "x"}).count("\n- n: ") == 1


@pytest.mark.parametrize("name", ["schema", "copy", "model_config", "json", "_x", "self_", "p0", "class_", "größe"])
def test_any_parameter_name_is_accepted(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def take(p1: int, {name}: int) -> int:\n    return {name}", namespace)

    made = tool(namespace["take"])
    assert made.check({"p1": 1, name: 2}) == {"p1": 1, name: 2}
    assert list(made.spec.parameters["properties"]) == ["p1", name]


def test_types_of_the_enclosing_function_are_resolved() -> None:
    class Local(BaseModel):
        x: int

    @tool
    def take(local: Local, more: list[Local] | None = None) -> None: ...

    assert take.check({"local": {"x": 1}}) == {"local": Local(x=1)}


def told(made: Any, arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolArgumentsError) as caught:
        made.check(arguments)
    assert caught.value.code == "tool-arguments"
    assert caught.value.tool == made.spec.name
    return str(caught.value.what)


@tool
def search(query: str, filters: list[Filter] | None = None, mode: Literal["fast", "full"] = "fast") -> None: ...


def test_mismatch_names_path_value_and_expected_type() -> None:
    text = told(search, {"filters": [{"name": "x", "most": "many"}], "mode": "slow", "qery": "x"})

    assert text.splitlines() == [
        "The arguments do not fit search:",
        "- query: is missing",
        '- filters[0].most: should be a valid integer, unable to parse string as an integer (given: "many")',
        "- mode: should be 'fast' or 'full' (given: \"slow\")",
        "- qery: unknown argument; did you mean query? It takes query, filters, mode",
        "Correct them and call it again.",
    ]


def test_mismatch_is_short_for_any_value() -> None:
    text = told(search, {"query": ["x" * 5000], **{f"stranger{n}": 1 for n in range(50)}})

    assert len(text) < 1500
    assert "and 43 more" in text


def test_mismatch_names_no_classes_of_the_program() -> None:
    text = told(search, {"query": "x", "filters": [3]})

    assert "filters[0]: should be an object (given: 3)" in text
    assert "Filter" not in text


def test_nested_unknown_keys_are_reported_if_their_class_refuses_them() -> None:
    @tool
    def take(span: Span) -> None: ...

    assert "- span.begin: is not a known key" in told(take, {"span": {"start": "2026-01-02", "begin": 1}})


def test_mismatch_of_a_validator_has_its_message() -> None:
    @tool
    def buy(animal: Annotated[str, BeforeValidator(_no_cats)]) -> None: ...

    assert 'animal: cats are not for sale (given: "cat")' in told(buy, {"animal": "cat"})


def test_bug_in_a_validator_is_not_shown_to_the_model() -> None:
    @tool
    def buy(animal: Annotated[str, BeforeValidator(_no_cats)]) -> None: ...

    with pytest.raises(ToolError) as caught:
        buy.check({"animal": "bug"})
    assert not isinstance(caught.value, ToolArgumentsError)
    assert isinstance(caught.value.__cause__, KeyError)


def test_invalid_unicode_is_a_mismatch() -> None:
    assert "Unicode" in told(search, {"query": "\ud800"})


def test_endless_arguments_are_a_mismatch() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    assert "too deeply" in told(search, {"query": deep})


def test_numbers_of_any_size_are_parsed_exactly() -> None:
    @tool
    def take(n: int) -> None: ...

    assert take.check({"n": 10**400}) == {"n": 10**400}
    assert "finite" in told(take, {"n": float("inf")})


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["query", "filters", "mode", "other"]), JSON))
def test_any_arguments_of_a_model_are_validated_or_reported_briefly(arguments: dict[str, Any]) -> None:
    try:
        checked = search.check(arguments)
    except ToolArgumentsError as error:
        assert 3 <= len(error.what.splitlines()) <= 12  # noqa: PT017 - either outcome is correct
        assert "pydantic" not in error.what  # noqa: PT017
    else:
        assert set(checked) == set(arguments)
        assert isinstance(checked["query"], str)


@given(JSON)
def test_parameter_of_type_any_gets_any_value_unchanged(value: Any) -> None:
    @tool
    def take(value: Any) -> None: ...

    assert take.check({"value": value}) == {"value": value}
