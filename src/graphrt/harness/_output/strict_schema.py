"""JSON schemas in the form that strict providers enforce: objects closed, all properties required, few keywords.

OpenAI answers 400 if a strict schema leaves an object open, a property optional or a default in place; pydantic's
schemas of most models do. Pure functions from one schema to another; what a schema means is not known here.
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
"""Keywords that stay unchanged. The dropped keywords only narrow or explain; the answer is validated in any case."""
_NEVER: Final = frozenset(
    {"prefixItems", "patternProperties", "propertyNames", "not", "if", "then", "else", "unevaluatedProperties"}
    | {"dependentRequired", "dependentSchemas", "contains"}
)
"""Keywords that cannot be dropped, because the schema would mean something else: then it has no strict form."""
_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_TYPES: Final[Mapping[Any, str]] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class _OpenError(Exception):
    """The schema has no strict form."""


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return *schema*, which describes an object, in strict form; None if it has no strict form.

    A field with a default becomes required. Answers without it are still accepted.

    Source:
        https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    root = {key: value for key, value in schema.items() if key != "$defs"}
    try:
        strict_root = _strict(root, definitions)
        defs = {name: _strict(definition, definitions) for name, definition in definitions.items()}
    except _OpenError:
        return None
    if strict_root.get("type") != "object":
        return None
    return {**strict_root, "$defs": defs} if defs else strict_root


def _strict(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return *schema* in strict form.

    Raises:
        _OpenError: It has none.
    """
    inlined = _inlined(schema, definitions)
    if "$ref" in inlined:
        return inlined
    strict = {key: value for key, value in inlined.items() if key in _KEPT}
    pattern = inlined.get("pattern")
    if isinstance(pattern, str) and "(?" not in pattern:  # strict patterns have no lookaround
        strict["pattern"] = pattern
    if inlined.get("format") in _FORMATS:
        strict["format"] = inlined["format"]
    variants = inlined.get("anyOf", inlined.get("oneOf"))
    if variants is not None:
        return strict | {"anyOf": [_strict(variant, definitions) for variant in variants]}
    if "type" not in strict:
        strict["type"] = _type_of(strict)
    kinds: list[Any] = [strict["type"]] if isinstance(strict["type"], str) else strict["type"]
    if "object" in kinds:
        strict |= _closed(inlined, definitions)
    if "array" in kinds:
        strict["items"] = _strict(inlined.get("items"), definitions)
    return strict


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return *schema* with its reference or single `allOf` part merged in; a bare reference stays as it is.

    Strict providers accept no keywords beside a reference.

    Raises:
        _OpenError: It has several parts, an unknown or circular reference, or keywords that cannot be dropped.
    """
    seen: set[str] = set()
    while True:
        if not _is_object(schema) or not _NEVER.isdisjoint(schema):
            raise _OpenError
        keywords: dict[str, Any] = {key: value for key, value in schema.items() if key not in ("default", "examples")}
        parts: Any = keywords.pop("allOf", ())
        if len(parts) > 1:
            raise _OpenError
        if parts:
            schema = {**parts[0], **keywords}
            continue
        ref = keywords.get("$ref")
        if ref is None or len(keywords) == 1:
            return keywords
        name = str(ref).removeprefix(_DEFS)
        if name in seen or name not in definitions:
            raise _OpenError
        seen.add(name)
        del keywords["$ref"]
        schema = {**definitions[name], **keywords}


def _closed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a closed object.

    Raises:
        _OpenError: The object takes any keys, as a mapping does.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    if schema.get("additionalProperties", "properties" not in schema) is not False:
        raise _OpenError
    return {
        "properties": {name: _strict(field_schema, definitions) for name, field_schema in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _type_of(schema: Mapping[str, Any]) -> Any:
    """Return the type of a schema that only lists values (`enum` or `const`), or a list of types.

    Raises:
        _OpenError: It lists no values, or values that are not simple.
    """
    values: list[Any] = list(schema["enum"]) if "enum" in schema else [schema["const"]] if "const" in schema else []
    kinds = list(dict.fromkeys(_TYPES.get(type(value)) for value in values))
    if not kinds or None in kinds:
        raise _OpenError
    return kinds[0] if len(kinds) == 1 else kinds


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)
