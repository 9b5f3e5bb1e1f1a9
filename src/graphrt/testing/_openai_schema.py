"""Checks the output schema in requests to OpenAI against the rules of strict mode.

Chat completions have the schema in `response_format`, Responses in `text.format`.

Errors have OpenAI's wording. Pure functions over request bodies; `_openai_wire` sends the refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphrt._arguments import is_list, is_mapping

_FORBIDDEN: Final = (
    *("default", "examples", "oneOf", "allOf", "not", "if", "then", "else", "patternProperties", "propertyNames"),
    *("dependentRequired", "dependentSchemas", "prefixItems", "contains", "uniqueItems", "minLength", "maxLength"),
)
"""Keywords of JSON Schema that strict mode does not support."""
_SPEAK_FOR_THEMSELVES: Final = ("anyOf", "$ref")
"""Keywords that make `type` optional."""


def refusal_of(body: Mapping[str, Any]) -> str | None:
    """Return OpenAI's error message for an invalid schema in a request; None if it would accept it.

    Args:
        body: The JSON document of the request.

    Source:
        https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    text: Any = body.get("text")
    wanted: Any = body.get("response_format", text.get("format") if _is_object(text) else None)
    if not _is_object(wanted) or wanted.get("type") != "json_schema":
        return None
    form: Any = wanted.get("json_schema", wanted)
    if not _is_object(form) or not form.get("strict"):
        return None
    schema: Any = form.get("schema")
    problem = next(_problems_of_root(schema), None)
    return None if problem is None else f"Invalid schema for response_format {form.get('name')!r}: {problem}"


def _problems_of_root(schema: Any) -> Iterator[str]:
    """Iterate over the problems of a whole schema, which must be an object, and of its definitions."""
    kind = schema.get("type") if _is_object(schema) else None
    if kind != "object":
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
        return
    if "anyOf" in schema:
        yield "In context=(), 'anyOf' is not permitted at the root."
    yield from _problems(schema, ())
    definitions: Any = schema.get("$defs")
    for name, definition in definitions.items() if is_mapping(definitions) else ():
        yield from _problems(definition, ("$defs", name))


def _problems(schema: Any, at: tuple[str, ...]) -> Iterator[str]:
    """Iterate over the problems of a schema and of those inside it; *at* is its path from the root."""
    context = f"In context={at!r}, "
    if not _is_object(schema) or not any(key in schema for key in ("type", *_SPEAK_FOR_THEMSELVES)):
        yield f"{context}schema must have a 'type' key."
        return
    if "$ref" in schema and len(schema) > 1:
        yield f"context={at!r}, $ref cannot have keywords {set(schema) - {'$ref'}!r}."
    for key in _FORBIDDEN:
        if key in schema:
            yield f"{context}{key!r} is not permitted."
    raw_type: Any = schema.get("type")
    kinds = raw_type if is_list(raw_type) else [raw_type]
    raw_properties: Any = schema.get("properties")
    properties: Mapping[str, Any] = raw_properties if is_mapping(raw_properties) else {}
    if "object" in kinds:
        if schema.get("additionalProperties") is not False:
            yield f"{context}'additionalProperties' is required to be supplied and to be false."
        if missing := [name for name in properties if name not in _listed(schema.get("required"))]:
            yield (
                f"{context}'required' is required to be supplied and to be an array including every key in properties."
                f" Missing {missing[0]!r}."
            )
    for name, property_schema in properties.items():
        yield from _problems(property_schema, (*at, "properties", name))
    if "array" in kinds:
        if "items" not in schema:
            yield f"{context}array schema missing items."
        else:
            yield from _problems(schema["items"], (*at, "items"))
    for number, option in enumerate(_listed(schema.get("anyOf"))):
        yield from _problems(option, (*at, "anyOf", str(number)))


def _listed(value: object) -> list[Any]:
    return value if is_list(value) else []


def _is_object(value: object) -> bool:
    return isinstance(value, dict)
