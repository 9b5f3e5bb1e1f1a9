"""Arguments of a builder: its name, and the `input=` and `output=` classes with some of the state's fields.

`GraphBuilder` checks them when it is made, and keeps the problems for `compile()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphrt._plan.state import StateSchema
from graphrt.errors import Problem, names
from graphrt.errors._codes.findings import UNKNOWN_FIELDS_OF_UPDATE


def is_name(name: object) -> bool:
    """Return True if *name* can be the name of a graph."""
    return isinstance(name, str) and bool(name.strip())


def schema_names(
    option: str, schema: Any, state: StateSchema, localns: Mapping[str, Any], where: str, problems: list[Problem]
) -> frozenset[str] | None:
    """Return the field names of an input or output schema; None without a schema: then all fields of the state.

    Args:
        option: `input` or `output`.
        schema: The class.
        state: The schema of the state, which must have its fields.
        localns: The classes that the builder was given, by name, for annotations.
        where: `file:line` of the builder.
        problems: What is wrong is appended to it.
    """
    if schema is None:
        return None
    read = StateSchema(schema, localns)
    unknown = [field for field in read.fields if field not in state.fields]
    problems += read.problems
    if unknown:
        problems.append(
            UNKNOWN_FIELDS_OF_UPDATE(
                who=f"The {option} schema {schema.__name__}", unknown=names(unknown), fields=state.fields, where=where
            )
        )
    return frozenset(read.fields)
