"""Text and data that are not a manifest are refused with a typed error, in bounded time and memory."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt import GraphBuilder
from graphrt.errors import DefinitionError, InputError
from graphrt.nodes import registry
from graphrt.specs import SpecLimits


def refused(spec: Any, **more: Any) -> InputError:
    with pytest.raises(InputError) as error:
        GraphBuilder.from_spec(spec, registry(), **more)
    assert error.value.code == "bad-spec-text"
    return error.value


def itself() -> dict[str, Any]:
    inner: dict[str, Any] = {"name": "in", "kind": "graph"}
    outer: dict[str, Any] = {"nodes": [inner]}
    inner["graph"] = outer
    return outer


def laughs() -> list[Any]:
    """Data that is small in memory and has 10**12 values."""
    value: list[Any] = ["ha"]
    for _ in range(12):
        value = [value] * 10
    return value


BOMBS: list[tuple[str, Any, str]] = [
    ("deep lists", "[" * 100_000 + "]" * 100_000, "levels deep"),
    ("deep objects", '{"a":' * 100_000 + "1" + "}" * 100_000, "levels deep"),
    ("brackets that are never closed", '{"nodes": ' + "[" * 5_000, "levels deep"),
    ("a huge text", json.dumps({"name": "x" * 2_000_000}), "bytes"),
    ("a huge text of wide characters", json.dumps({"name": "ü" * 600_000}, ensure_ascii=False), "bytes"),
    ("an exponent", '{"nodes": [], "limits": {"deadline_s": 1e999}}', "too large"),
    ("a number of many digits", '{"limits": {"max_steps": ' + "9" * 100_000 + "}}", "too large"),
    ("not a number", '{"limits": {"deadline_s": NaN}}', "NaN"),
    ("a doubled key", '{"name": "a", "name": "b", "nodes": []}', "twice"),
    ("no JSON", "{nodes: []}", "not usable JSON"),
    ("nothing", "", "not usable JSON"),
    ("no UTF-8", b"\xff\xfe{}", "UTF-8"),
    ("half a character", '{"name": "\\ud800", "nodes": []}', "surrogate"),
    ("data that contains itself", itself(), "contains itself"),
    ("few lists many times", {"nodes": laughs()}, "values"),
    ("a number of Python", {"nodes": [], "limits": {"max_steps": 10**5_000}}, "too large"),
    ("an infinite number", {"nodes": [], "limits": {"deadline_s": float("inf")}}, "inf"),
    ("a key that is no string", {"nodes": [{1: "a"}]}, "not a string"),
    ("a value that is no data", {"nodes": [{"name": object()}]}, "not data"),
    ("strings that are huge together", {"nodes": ["x" * 1_000] * 2_000}, "characters"),
]


@pytest.mark.parametrize(("spec", "text"), [bomb[1:] for bomb in BOMBS], ids=[bomb[0] for bomb in BOMBS])
def test_bombs_are_refused_fast(spec: Any, text: str) -> None:
    started = time.thread_time()

    error = refused(spec)

    assert text in error.what
    assert len(str(error)) < 1_000
    assert time.thread_time() - started < 5


@pytest.mark.parametrize("spec", ["[]", "3", "null", [], 3, None, object()])
def test_value_that_is_not_an_object_is_not_a_manifest(spec: Any) -> None:
    assert "A manifest is" in refused(spec).what


def test_path_of_a_value_is_reported() -> None:
    error = refused({"nodes": [{"name": "a", "options": {"x y": {1, 2}}}]})

    assert error.path == "nodes[0].options['x y']"


def test_a_bracket_in_a_string_is_not_a_level() -> None:
    text = json.dumps({"name": "[" * 500 + '\\"' + "{" * 500, "nodes": []})

    with pytest.raises(DefinitionError):
        GraphBuilder.from_spec(text, registry())


def test_limits_can_be_widened_and_narrowed() -> None:
    text = json.dumps({"name": "x" * 500, "nodes": []})

    assert "bytes" in refused(text, limits=SpecLimits(max_bytes=100)).what
    with pytest.raises(InputError):
        SpecLimits(max_depth=0)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=20,
    )
)
def test_any_data_is_refused_with_a_typed_error(value: Any) -> None:
    for spec in (value, {"nodes": value}, {"nodes": [value], "state": value, "edges": value}):
        with pytest.raises((InputError, DefinitionError)):
            GraphBuilder.from_spec(spec, registry())


@given(st.text() | st.binary())
def test_any_text_is_refused_with_a_typed_error(text: str | bytes) -> None:
    with pytest.raises((InputError, DefinitionError)):
        GraphBuilder.from_spec(text, registry())
