"""The JSON schema of manifests accepts the output of `to_spec`, and refuses invalid manifests."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from tests.laws.build import build
from tests.laws.description import Graph
from tests.laws.graphs import graphs
from tests.laws.steady import Steady

from graphrt.nodes import registry, registry_of

from .support import every_kind

try:
    import jsonschema
except ImportError:  # the marker below requires it
    jsonschema = None
pytestmark = pytest.mark.needs("jsonschema")

SCHEMA = registry().json_schema()


def valid(data: Any, schema: dict[str, Any] = SCHEMA) -> bool:
    validator: Any = jsonschema.Draft202012Validator(schema)
    return bool(validator.is_valid(data))


def test_schema_is_a_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def test_graph_with_every_kind_of_node_matches() -> None:
    validator: Any = jsonschema.Draft202012Validator(SCHEMA)

    assert list(validator.iter_errors(every_kind().to_spec().to_data())) == []


@pytest.mark.slow
@given(graph=graphs(mistakes=False))
def test_random_graphs_match(graph: Graph) -> None:
    assert valid(build(graph, Steady(graph)).to_spec().to_data())


EDITS: list[Callable[[dict[str, Any]], Any]] = [
    lambda data: data.update(colour="red"),
    lambda data: data.pop("nodes"),
    lambda data: data["nodes"][1].update(promt="x"),
    lambda data: data["nodes"][1].pop("prompt"),
    lambda data: data["nodes"][1].update(kind="lmm"),
    lambda data: data["nodes"][1].pop("name"),
    lambda data: data["nodes"][1].update(policy={"retyr": 2}),
    lambda data: data["conditional_edges"][0].update(router={"kind": "llm"}),
]


@pytest.mark.parametrize("edit", EDITS)
def test_invalid_manifest_does_not_match(edit: Any) -> None:
    data = copy.deepcopy(every_kind().to_spec().to_data())
    edit(data)

    assert not valid(data)


def test_schema_can_be_limited_to_some_kinds() -> None:
    few = registry_of(every_kind()).json_schema(kinds=["llm"])
    ask = {"name": "a", "kind": "llm", "prompt": "x", "into": "answer"}

    assert valid({"nodes": [ask]}, few)
    assert not valid({"nodes": [{"name": "a", "kind": "clear_error"}]}, few)
    assert "HumanForm" not in few["$defs"]


def test_fields_are_described_for_models() -> None:
    assert (
        "Text with fields of the state in braces" in SCHEMA["$defs"]["LlmForm"]["properties"]["prompt"]["description"]
    )
