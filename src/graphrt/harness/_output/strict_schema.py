"""Schemas that providers hold a model to: every object closed, every property asked for, nothing else said.

Pure functions from one JSON schema to another. What a schema stands for, and who is sent it, does not live here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["strict_form"]

_DEFS: Final = "#/$defs/"
_KEPT: Final = frozenset(
    {"type", "title", "description", "enum", "const", "multipleOf", "minimum", "maximum"}
    | {"exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
)
"""What may stay as it is. What is dropped only narrows or explains: whoever reads the answer checks it all the same."""
_NEVER: Final = frozenset(
    {"prefixItems", "patternProperties", "propertyNames", "not", "if", "then", "else", "unevaluatedProperties"}
    | {"dependentRequired", "dependentSchemas", "contains"}
)
"""What says so much that the schema would ask for something else without it."""
_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_TYPES: Final[Mapping[Any, str]] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class _OpenError(Exception):
    """The schema has no strict form."""


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """*schema*, an object's, in the form that strict providers want; None if what it asks for has none.

    A field with a default has to be given as well: what is read may still lack it.

    Source:
        https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    root = {key: value for key, value in schema.items() if key != "$defs"}
    try:
        found = _strict(root, definitions)
        defs = {name: _strict(one, definitions) for name, one in definitions.items()}
    except _OpenError:
        return None
    if found.get("type") != "object":
        return None
    return {**found, "$defs": defs} if defs else found


def _strict(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    said = _inlined(schema, definitions)
    if "$ref" in said:
        return said
    made = {key: value for key, value in said.items() if key in _KEPT}
    pattern = said.get("pattern")
    if isinstance(pattern, str) and "(?" not in pattern:  # no looking around
        made["pattern"] = pattern
    if said.get("format") in _FORMATS:
        made["format"] = said["format"]
    variants = said.get("anyOf", said.get("oneOf"))
    if variants is not None:
        return made | {"anyOf": [_strict(one, definitions) for one in variants]}
    if "type" not in made:
        made["type"] = _type_of(made)
    kinds: list[Any] = [made["type"]] if isinstance(made["type"], str) else made["type"]
    if "object" in kinds:
        made |= _closed(said, definitions)
    if "array" in kinds:
        made["items"] = _strict(said.get("items"), definitions)
    return made


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """*schema* with what its reference or its only part stands for, unless it is nothing but a reference."""
    seen: set[str] = set()
    while True:
        if not _is_object(schema) or not _NEVER.isdisjoint(schema):
            raise _OpenError
        said: dict[str, Any] = {key: value for key, value in schema.items() if key not in ("default", "examples")}
        parts: Any = said.pop("allOf", ())
        if len(parts) > 1:
            raise _OpenError
        if parts:
            schema = {**parts[0], **said}
            continue
        ref = said.get("$ref")
        if ref is None or len(said) == 1:
            return said
        name = str(ref).removeprefix(_DEFS)
        if name in seen or name not in definitions:
            raise _OpenError
        seen.add(name)
        del said["$ref"]
        schema = {**definitions[name], **said}


def _closed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    if schema.get("additionalProperties", "properties" not in schema) is not False:  # any keys: a mapping
        raise _OpenError
    return {
        "properties": {name: _strict(one, definitions) for name, one in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _type_of(schema: Mapping[str, Any]) -> Any:
    """The type of a schema that names only values."""
    values: list[Any] = list(schema["enum"]) if "enum" in schema else [schema["const"]] if "const" in schema else []
    kinds = list(dict.fromkeys(_TYPES.get(type(value)) for value in values))
    if not kinds or None in kinds:
        raise _OpenError
    return kinds[0] if len(kinds) == 1 else kinds


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)
