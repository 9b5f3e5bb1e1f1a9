"""Findings of `compile()` about the state, the update and other schemas: fields, types, reducers."""

from __future__ import annotations

from graphrt.errors._error_code import Finding

UNRESOLVED_STATE = Finding(
    "bad-state",
    "The annotations of {cls} cannot be resolved: {problem}.",
    fix="Define the named types before GraphBuilder(...), at module level or in the same function.",
)
UNCHECKABLE_STATE_FIELD = UNRESOLVED_STATE.variant(
    "The type of field {field!r}, {annotation}, cannot be checked: {problem}",
    fix="Use a type that pydantic knows, or Any.",
)
NOT_A_STATE = UNRESOLVED_STATE.variant(
    "{cls} cannot be a state.", fix="Use a pydantic model, a dataclass or a TypedDict class."
)
EXTRA_FIELDS = UNRESOLVED_STATE.variant(
    "{state} allows extra fields, which a node that returns the full state cannot change.",
    fix="Declare the fields, or use GraphBuilder(...) with partial updates.",
)

UNRESOLVED_UPDATE = Finding(
    "bad-update-type",
    "The annotations of {cls} cannot be resolved: {problem}.",
    fix="Define the named types before GraphBuilder(...), at module level or in the same function.",
)
UNCHECKABLE_UPDATE_FIELD = UNRESOLVED_UPDATE.variant(
    "The type of field {field!r}, {annotation}, cannot be checked: {problem}",
    fix="Use a type that pydantic knows, or Any.",
)
UNKNOWN_WRITES = UNRESOLVED_UPDATE.variant(
    "writes= of node {node!r} names {name}, which is not a field of the state.", fix="Known: {fields:names}."
)
NOT_AN_UPDATE_SCHEMA = UNRESOLVED_UPDATE.variant(
    "{cls} cannot be the Update of a graph.",
    fix="Use a TypedDict with total=False, a pydantic model or a dataclass of partial updates.",
)
UPDATE_OF_UNKNOWN_FIELD = UNRESOLVED_UPDATE.variant(
    "{update}.{name} updates a field that {state} does not have.", fix="Declare {name!r} in the state, or remove it."
)
UPDATE_WITH_DEFAULTS = UNRESOLVED_UPDATE.variant(
    "Fields of the dataclass {cls} would be written even if a node does not set them: {fields:names}.",
    fix="Give every field of a dataclass used as Update the default UNSET.",
)
SCHEMA_LACKS_FIELDS = UNRESOLVED_UPDATE.variant(
    "The {option} schema {schema} has fields that the state lacks: {unknown:names}.", fix="Known: {fields:names}."
)

QUOTED_REDUCER = Finding(
    "bad-reducer",
    "Field {field!r} has the text {mark!r} beside its type: the name of a reducer or marker does nothing.",
    fix="Write it without quotes, after `from graphrt.reducers import {mark}`. A text that is meant for "
    "readers may say anything else.",
)
INNER_REDUCER = QUOTED_REDUCER.variant(
    "{mark!r} stands inside the type of field {field!r}, where it has no effect.",
    fix="Put it around the whole type: Annotated[<the type>, <the reducer>].",
)
SEVERAL_REDUCERS = QUOTED_REDUCER.variant(
    "Field {field!r} has {number} reducers: {reducers}.", fix="Keep one reducer in its Annotated[...]."
)
BAD_REDUCER = QUOTED_REDUCER.variant("Reducer {reducer!r} of field {field!r} {problem}.")
FIELD_NEEDS_DEFAULT = QUOTED_REDUCER.variant("Field {field!r} is {problem}.", fix="Give the field a default.")
UNKNOWN_REDUCER = QUOTED_REDUCER.variant(
    "Field {field!r} has the reducer {reducer!r}.", fix="Use a built-in reducer's name, or a function."
)

UNTRACKED_LEAK = Finding(
    "untracked-leak",
    "Nested graph {name!r} {verb} field {out_of!r}, which is untracked, for field {into!r}, whose values are stored.",
    fix="Mark field {into!r} of {state} untracked too, or name the fields that are shared with {option}=.",
)
