"""Errors of calls: what a graph or a run is asked for, and the input that it is given."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

INPUT_REFUSED = ErrorCode(
    "bad-input",
    InputError,
    "{state_class} refused the input: {error:type}: {error}",
    fix="Pass values that {state_class} accepts.",
)
INPUT_OF_WRONG_KIND = INPUT_REFUSED.variant(
    "The input must be {wanted}, not {given:type}: {quoted}.",
    known="fields {fields:names}",
    fix="Pass the fields that the graph starts with.",
)
INPUT_DOES_NOT_FIT = INPUT_REFUSED.variant(
    "The input does not fit {state_class}: {problems}.", fix="Pass values of the declared types."
)
NESTED_INPUT_NOT_A_MAPPING = INPUT_REFUSED.variant(
    "input= of nested graph {node!r} returned {quoted}, which is not a mapping.",
    fix="Return a mapping of the nested graph's fields.",
)
SEND_NOT_A_MAPPING = INPUT_REFUSED.variant(
    "A Send to nested graph {node!r} has the argument {argument}, which is not a mapping.",
    fix="Send a mapping of the nested graph's fields.",
)

UNKNOWN_INPUT_KEY = ErrorCode(
    "unknown-key",
    InputError,
    "The input has {unknown:a key that is not a field|keys that are not fields} of the {schema}: {unknown:names}.",
    known="fields {fields:names}",
    fix="Remove it, or declare the field.",
    carries=("field",),
)

MISSING_INPUT = ErrorCode(
    "missing-field",
    InputError,
    "The input lacks {missing:a field that has|fields that have} no default: {missing:names}.",
    fix="Pass them, or give the fields defaults.",
    carries=("field",),
)

UNKNOWN_NODE_ASKED = ErrorCode(
    "unknown-node",
    InputError,
    "{verb} was asked about {name!r}, which is not a node.",
    known="nodes {known_nodes:names}",
    fix="Name a node of the graph{or_end}.",
)

UNKNOWN_RUN_OPTION = ErrorCode(
    "unknown-option", InputError, "A run has no option {option!r}.", known="options {options:names}"
)

NAME_INSTEAD_OF_FUNCTION = ErrorCode(
    "bad-node",
    InputError,
    "@g.node was given the name {name!r} as if it were a function.",
    fix="Write @g.node(name={name!r}).",
)
