"""Unusual tools and results of MCP servers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from graphrt.errors import ToolArgumentsError, ToolError
from graphrt.harness.tools.mcp._tool import McpTool
from graphrt.harness.tools.protocol import ToolPolicy, ToolResult


class Server:
    """Answers every call with one result."""

    name = "fake"

    def __init__(self, content: list[Any] | None = None, structured: Any = None, *, error: bool = False) -> None:
        self.result = SimpleNamespace(content=content or [], structured_content=structured, is_error=error)
        self.calls: list[tuple[str, Any]] = []

    async def call_tool(self, name: str, arguments: Any, *, idempotency_key: str = "") -> Any:
        self.calls.append((name, arguments))
        return self.result


def made(server: Server | None = None, **described: Any) -> McpTool:
    known: dict[str, Any] = {"name": "t", "description": None, "input_schema": {}, "annotations": None, **described}
    return McpTool(server or Server(), SimpleNamespace(**known), prefix="", policy=ToolPolicy(), hinted=True)


def told(tool: McpTool, arguments: dict[str, Any]) -> list[str]:
    with pytest.raises(ToolArgumentsError) as caught:
        tool.check(arguments)
    return list(caught.value.values)


def called(server: Server, context: Any) -> ToolResult:
    return asyncio.run(made(server).call({}, context()))


@pytest.mark.parametrize(
    ("remote", "name"),
    [("a.b/c d", "a_b_c_d"), ("größe", "gr__e"), ("", "tool"), ("x" * 64, "x" * 64)],
)
def test_names_are_converted_to_portable_ones(remote: str, name: str) -> None:
    assert made(name=remote).spec.name == name
    assert made(name=remote).remote_name == remote


def test_long_names_stay_different() -> None:
    names = {made(name="x" * 100 + str(n)).spec.name for n in range(5)}

    assert len(names) == 5
    assert {len(name) for name in names} == {64}


@pytest.mark.parametrize(
    ("annotations", "effect"),
    [
        (None, "once"),
        (SimpleNamespace(read_only_hint=None, idempotent_hint=None), "once"),
        (SimpleNamespace(read_only_hint=True, idempotent_hint=None), "pure"),
        (SimpleNamespace(read_only_hint=False, idempotent_hint=True), "idempotent"),
        (SimpleNamespace(read_only_hint="yes", idempotent_hint=1), "once"),
    ],
)
def test_hints_determine_the_effect_class(annotations: Any, effect: str) -> None:
    assert made(annotations=annotations).policy.effect == effect


@pytest.mark.parametrize("schema", [None, {}, {"type": "object", "properties": None}, {"properties": []}])
def test_empty_schema_becomes_an_empty_object(schema: Any) -> None:
    assert made(input_schema=schema).spec.parameters == {"type": "object", "properties": {}}


@pytest.mark.needs("mcp")
def test_mismatches_are_reported_like_those_of_functions() -> None:
    schema = {
        "properties": {
            "query": {"type": "string", "maxLength": 3},
            "filters": {"type": "array", "items": {"type": "object", "required": ["name", "most"]}},
            "mode": {"enum": ["fast", "full"]},
            "n": {"type": ["integer", "null"]},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    tool = made(input_schema=schema)

    assert tool.check({"query": "abc"}) == {"query": "abc"}
    assert told(tool, {}) == ["query: is missing"]
    assert told(tool, {"query": "abcd"}) == ['query: should keep to maxLength 3 (given: "abcd")']
    assert told(tool, {"query": "a", "mode": "slow"}) == ['mode: should be one of ["fast","full"] (given: "slow")']
    assert told(tool, {"query": "a", "n": "x"}) == ['n: should be of type integer or null (given: "x")']
    assert told(tool, {"query": "a", "qury": 1}) == [
        "qury: unknown argument; did you mean query? It takes query, filters, mode, n"
    ]
    assert told(tool, {"query": "a", "filters": [{}]}) == ["filters[0].name: is missing", "filters[0].most: is missing"]


@pytest.mark.needs("mcp")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no-such-type"},
        {"properties": {"x": {"$ref": "http://example.com/schema.json"}}},
        {"properties": {"x": {"$ref": "#/nowhere"}}},
        {"properties": {"x": {"pattern": "("}}},
    ],
    ids=["unknown type", "remote reference", "dangling reference", "broken pattern"],
)
def test_invalid_schema_is_left_to_the_server(schema: dict[str, Any]) -> None:
    assert made(input_schema=schema).check({"x": "1"}) == {"x": "1"}


def test_kinds_of_content_are_named(context: Any) -> None:
    content = [
        SimpleNamespace(type="text", text="hi"),
        SimpleNamespace(type="audio", mime_type="audio/wav", data="aGVsbG8h"),
        SimpleNamespace(type="resource", resource=SimpleNamespace(text="inside", uri="x:y")),
        SimpleNamespace(type="resource", resource=SimpleNamespace(blob="AA==", uri="x:z")),
        SimpleNamespace(type="hologram"),
    ]

    assert (
        called(Server(content), context).text == "hi\n[audio: audio/wav, 6 bytes]\ninside\n[resource: x:z]\n[hologram]"
    )


def test_structured_content_is_the_value_and_the_text_if_there_is_no_other(context: Any) -> None:
    assert called(Server(structured={"a": 1}), context) == ToolResult(text='{"a":1}', value={"a": 1})
    assert called(Server(structured=[1]), context).text == "[1]"
    both = called(Server([SimpleNamespace(type="text", text="one")], {"a": 1}, error=True), context)
    assert both == ToolResult(text="one", value={"a": 1}, error=True)


def test_invalid_unicode_is_refused(context: Any) -> None:
    with pytest.raises(ToolError) as caught:
        called(Server([SimpleNamespace(type="text", text="\ud800")]), context)
    assert caught.value.code == "tool-result"
