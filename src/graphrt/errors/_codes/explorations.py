"""Errors of explorations: arguments of the explorers, and alternatives that no run can take."""

from __future__ import annotations

from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_NODE_ASKED

ALTERNATIVE_WITH_UNKNOWN_TARGET = UNKNOWN_NODE_ASKED.variant(
    "An alternative of node {key!r} goes to {name!r}, which is not a node.",
    known="nodes {known_nodes:names}",
    fix="Pass a function that returns the Command, if the wrong target is what you look for.",
)

ALTERNATIVE_OF_UNKNOWN_FIELD = INVALID_ARGUMENT.variant(
    "An alternative of node {key!r} writes {name!r}, which is not a field of the state.",
    known="fields {fields:names}",
    fix="Name a field, or pass a function that returns the update, if the unknown key is what you look for.",
)
IMPOSSIBLE_ALTERNATIVE = INVALID_ARGUMENT.variant(
    "An alternative of node {key!r} is impossible: {shown}. {error:told}",
    fix="Correct it, or pass a function that returns it if this is the bug that you look for.",
)
IMPOSSIBLE_REPLY = INVALID_ARGUMENT.variant("A reply is impossible: {error:told}", fix="Correct replies= or harness=.")
CALL_WITHOUT_REPLIES = INVALID_ARGUMENT.variant(
    "A model is called that has no replies: {error:told}",
    fix="Pass replies={{agent: [...]}}, harness=[...], or alternatives= of the node.",
)
