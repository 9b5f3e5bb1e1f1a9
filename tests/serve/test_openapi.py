"""The OpenAPI document is valid, and has the graphs' own classes and all verbs."""

from __future__ import annotations

import math
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.serve import anyone, app
from graphrt.serve._verbs import VERBS

from .conftest import papers


@pytest.fixture
def document() -> Any:
    return app(
        [Runtime(papers(), store="memory:"), Runtime(papers("other papers"), store="memory:")], authorize=anyone
    ).openapi("/agents")


@pytest.mark.needs("openapi_spec_validator")
def test_the_document_is_valid(document):
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_every_verb_of_every_graph_has_its_own_operation(document):
    ids = [one["operationId"] for path in document["paths"].values() for one in path.values()]

    assert len(ids) == len(set(ids))
    assert {f"{graph}.{verb.name}" for graph in ("papers", "other papers") for verb in VERBS} <= set(ids)


def test_input_and_state_have_the_classes_of_the_graph(document):
    parts = document["components"]["schemas"]
    start = document["paths"]["/graphs/papers/threads"]["post"]["requestBody"]["content"]["application/json"]["schema"]

    assert start["properties"]["input"] == {"$ref": "#/components/schemas/papers.Input"}
    assert parts["papers.Input"]["required"] == ["topic"]
    assert set(parts["papers.State"]["properties"]) == {"topic", "notes", "approved"}


def test_default_that_json_lacks_is_a_text():
    class Score(BaseModel):
        mean: float = math.nan

    g = GraphBuilder(Score, name="scores")
    g.add_node("rate", lambda state: None)
    g.add_sequence([START, "rate", END])
    document = app(Runtime(g.compile(), store="memory:"), authorize=anyone).openapi()

    assert document["components"]["schemas"]["scores.State"]["properties"]["mean"]["default"] == "NaN"


def test_documents_match_their_schemas(served):
    document = served.http.get("/openapi.json").json()
    thread = served.paused(tags=["a"])
    served("POST", f"/threads/{thread}/update", {"values": {"notes": ["x"]}})
    bad = []
    for verb in VERBS:
        if verb.method != "GET" or verb.handle is None:
            continue
        answer = served("GET", verb.path.format(thread=thread))
        operation = document["paths"][f"/graphs/papers{verb.path}"]["get"]
        schema = operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
        whole = {**schema, "components": document["components"]}
        bad += [(verb.name, error.message) for error in Draft202012Validator(whole).iter_errors(answer.json())]

    assert bad == []
