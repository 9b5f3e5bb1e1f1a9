"""Checks scripted tool calls for a double that has only the schemas of the tools, not the tools themselves.

An agent's tools check their arguments completely. A `MockHarness` or a fake server sees only the JSON schemas in a call
or request. These suffice to find arguments broken by a changed signature: wrong names, and values of a wrong type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from graphrt._arguments import is_list, is_mapping
from graphrt.errors import ScriptError, names
from graphrt.errors._codes.doubles import SCRIPT_WRONG_CALL
from graphrt.harness.messages import ToolCall
from graphrt.harness.tools._argument_errors import unknown

_PLAIN: Final = frozenset({"string", "integer", "number", "boolean"})
"""Types that tools may convert into each other, as pydantic does for "4" and 4."""
_KINDS: Final[dict[Any, str]] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def wrong_call(double: str, calls: Iterable[ToolCall], schemas: Mapping[str, Any]) -> ScriptError | None:
    """Return the error for the first of *calls* that does not fit the schema of its tool; None if all fit.

    Args:
        double: Name of the double, for the error.
        calls: Scripted calls. Calls of tools without a schema, and calls that are not JSON on purpose, are skipped.
        schemas: Maps names of tools to the JSON schemas of their arguments.
    """
    for call in calls:
        schema = schemas.get(call.name)
        if call.error is not None or not is_mapping(schema):
            continue
        problems = list(_problems(call.arguments, schema))
        if problems:
            return SCRIPT_WRONG_CALL(
                double=double,
                tool=call.name,
                problem="; ".join(problems),
                arguments=list(call.arguments),
                got=call.arguments_text,
            )
    return None


def _problems(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    known: Mapping[str, Any] = schema.get("properties") or {}
    for name, value in arguments.items():
        if name in known:
            expected = _type_of(known[name])
            actual = _kind(value)
            if expected is not None and expected != actual and not (expected in _PLAIN and actual in _PLAIN):
                yield f"{name}: should be of type {expected}, and is of type {actual}"
        elif schema.get("additionalProperties") is False:
            yield f"{name}: {unknown(name, tuple(known))}"
    missing = [name for name in schema.get("required") or () if name not in arguments]
    if missing:
        yield f"missing: {names(missing)}"


def _type_of(schema: Any) -> str | None:
    """Return the only JSON type that a schema allows; None if it allows several or expresses it differently."""
    json_type = schema.get("type") if is_mapping(schema) else None
    return json_type if isinstance(json_type, str) else None


def _kind(value: Any) -> str:
    if is_mapping(value):
        return "object"
    if is_list(value):
        return "array"
    return _KINDS.get(type(value), "null")
