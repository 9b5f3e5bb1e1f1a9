"""The OpenAPI 3.1 document of a server, generated from the table of verbs and the graphs' own classes.

Each graph has its own paths, with the schemas of its input, state and updates where they are used. The schema of an
answer is part of each question (`answer_schema`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation

import graphrt
from graphrt.graph import CompiledGraph
from graphrt.serve import _bodies
from graphrt.serve._problems import MEDIA_TYPE
from graphrt.serve._verbs import STARTED, STATE, VERBS, Verb
from graphrt.wires import document_schemas as schemas
from graphrt.wires.plain_data import plain

PROBLEM: Final = schemas.object_of(
    {
        "type": {"type": "string", "format": "uri-reference"},
        "title": schemas.TEXT,
        "status": schemas.WHOLE,
        "code": schemas.TEXT,
        "detail": schemas.TEXT,
        "fix": schemas.TEXT,
    },
    thread=schemas.TEXT,
)
_OF_INPUT: Final = (_bodies.NewThread, _bodies.NewRun, _bodies.NewSchedule)
_PROBLEMS: Final = {"$ref": "#/components/responses/Problem"}


def document(graphs: Iterable[CompiledGraph[Any, Any, Any]], root: str) -> dict[str, Any]:
    """Return the document of a server of *graphs* that is mounted at *root*."""
    parts: dict[str, Any] = {"Problem": PROBLEM, "Started": STARTED}
    paths: dict[str, dict[str, Any]] = {
        "/health": _plain("health", "Say that the process lives."),
        "/ready": _plain("ready", "Say whether the server can work.", refused="503"),
        "/graphs": _plain("graphs", "List the graphs."),
        "/openapi.json": _plain("openapi", "This document."),
        "/problems/{code}": {
            "get": {
                "operationId": "problem",
                "summary": "Explain a code of a problem.",
                "parameters": [_in_path("code")],
                "responses": {
                    "200": {"description": "A page", "content": {"text/markdown": {"schema": schemas.TEXT}}},
                    "404": _PROBLEMS,
                },
            }
        },
    }
    for graph in graphs:
        own = _classes(graph, parts)
        for verb in VERBS:
            path = f"/graphs/{graph.name}{verb.path}"
            paths.setdefault(path, {})[verb.method.lower()] = _operation(graph.name, verb, own)
    return {
        "openapi": "3.1.0",
        "info": {"title": "graphrt", "version": graphrt.__version__},
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {
            "schemas": parts,
            "responses": {
                "Problem": {
                    "description": "The request was refused, or failed.",
                    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
        },
    }


def _classes(graph: CompiledGraph[Any, Any, Any], parts: dict[str, Any]) -> Mapping[str, dict[str, Any]]:
    """Add the schemas of the graph's classes to *parts*, and return references to them."""
    update = graph.update_type
    return {
        "input": _schema(graph.name, "Input", graph.input_type, "validation", parts),
        "state": _schema(graph.name, "State", graph.state_type, "serialization", parts),
        "output": _schema(graph.name, "Output", graph.output_type, "serialization", parts),
        "update": {} if update is None else _schema(graph.name, "Update", update, "validation", parts),
    }


def _schema(graph: str, role: str, cls: Any, mode: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Add the schema of *cls* to *parts*, with those of the classes that it names; return a reference to it.

    A class that JSON schema cannot describe is any value: the runtime checks it in any case.
    """
    prefix = "".join(char if char.isalnum() or char in "._-" else "_" for char in graph)
    try:
        template = f"#/components/schemas/{prefix}.{role}.{{model}}"
        schema: dict[str, Any] = plain(
            TypeAdapter(cls).json_schema(mode=mode, ref_template=template)
        )  # a default may be NaN
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation):
        schema = {}
    for name, definition in schema.pop("$defs", {}).items():
        parts[f"{prefix}.{role}.{name}"] = definition
    parts[f"{prefix}.{role}"] = schema
    return {"$ref": f"#/components/schemas/{prefix}.{role}"}


def _operation(graph: str, verb: Verb, own: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a verb of a graph as an operation."""
    headers = ["Idempotency-Key"] if verb.keyed else []
    headers += ["Last-Event-ID"] if verb.handle is None else []
    operation: dict[str, Any] = {
        "operationId": f"{graph}.{verb.name}",
        "summary": verb.summary,
        "tags": [graph],
        "parameters": [
            *[_in_path(name) for name in ("thread", "name") if f"{{{name}}}" in verb.path],
            *_parameters(verb.query),
            *[{"name": name, "in": "header", "required": False, "schema": schemas.TEXT} for name in headers],
        ],
        "responses": {**_responses(verb, own), "default": _PROBLEMS},
        "x-graphrt-right": verb.right,
    }
    if verb.body is not None:
        required = verb.body in (_bodies.Answers, _bodies.NewSignal, _bodies.NewSchedule)
        schema = _body(verb.body, own)
        operation["requestBody"] = {"required": required, "content": {"application/json": {"schema": schema}}}
    return operation


def _body(model: type[_bodies.Part], own: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a body, with the graph's own classes in it."""
    schema = model.model_json_schema()  # this body names no class
    if model in _OF_INPUT:  # for an existing thread, an input is an update, so fields may be missing
        kinds = [own["input"], own["update"]] if own["update"] else [own["input"], {"type": "object"}]
        schema["properties"]["input"] = own["input"] if model is not _bodies.NewRun else {"anyOf": kinds}
    if model is _bodies.Edit and own["update"]:
        schema["properties"]["values"] = {"anyOf": [own["update"], own["state"], {"type": "null"}]}
    return schema


def _parameters(model: type[_bodies.Part]) -> list[dict[str, Any]]:
    """Return the query parameters of a model."""
    schema = model.model_json_schema()
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": property_schema}
        for name, property_schema in schema.get("properties", {}).items()
    ]


def _responses(verb: Verb, own: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the successful responses of a verb."""
    if verb.handle is None:
        events = {"text/event-stream": {"schema": {"type": "string", "description": "Events: entry, live, end."}}}
        return {
            "200": {"description": "The events", "content": events},
            "204": {"description": "Nothing comes after `Last-Event-ID`, and the run has ended."},
        }
    gives = verb.gives
    if gives is STATE:
        gives = {**STATE, "properties": {**STATE["properties"], "state": own["state"], "output": own["output"]}}
    done = {"description": verb.summary, "content": {"application/json": {"schema": gives}}}
    if verb.waits:
        begun = {"application/json": {"schema": {"$ref": "#/components/schemas/Started"}}}
        return {"200": done, "202": {"description": "The run continues.", "content": begun}}
    return {str(verb.status): done}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schemas.TEXT}


def _plain(name: str, summary: str, refused: str = "default") -> dict[str, Any]:
    """Return the operation of a path that does not belong to a graph."""
    done = {"description": summary, "content": {"application/json": {"schema": {"type": "object"}}}}
    return {"get": {"operationId": name, "summary": summary, "responses": {"200": done, refused: _PROBLEMS}}}
