"""Errors of explorations: arguments of the explorers, and alternatives that no run can take."""

from __future__ import annotations

from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_NODE_ASKED

BOUND_BELOW_ONE = INVALID_ARGUMENT.variant("{function} got {option}={given!r}.", fix="Pass 1 or more.")
GRAPH_OR_FUNCTION_EXPECTED = INVALID_ARGUMENT.variant(
    "explore_schedules() takes a compiled graph, or a function that makes one, not {given:a_type}.",
    fix="Pass what compile() returned, or a function without arguments that returns it.",
)
STORE_OF_SEVERAL_CASES = INVALID_ARGUMENT.variant(
    "store={store!r} cannot be made anew for each case.",
    known="None, 'memory:', 'sqlite:', a function",
    fix="Pass a function that opens a store in the folder that it is given.",
)
NO_SUCH_CASE = INVALID_ARGUMENT.variant(
    "There is no case {at!r}.",
    known="cases {cases:names}",
    fix="Take at= from the replay line of a finding, or leave it out to try all cases.",
)

ALTERNATIVE_WITH_UNKNOWN_TARGET = UNKNOWN_NODE_ASKED.variant(
    "An alternative of node {key!r} goes to {name!r}, which is not a node.",
    known="nodes {known_nodes:names}",
    fix="Pass a function that returns the Command, if the wrong target is what you look for.",
)

ALTERNATIVES_NOT_A_LIST = INVALID_ARGUMENT.variant(
    "The alternatives of {of} are {shown}, which is not a list.",
    fix="Pass a list, with one item for each alternative.",
)
NO_ALTERNATIVES = INVALID_ARGUMENT.variant(
    "The alternatives of {of} are an empty list.", fix="Pass at least one, or leave it out."
)
ASYNC_ALTERNATIVE = INVALID_ARGUMENT.variant(
    "An alternative of node {key!r} is an async function.", fix="Pass a function that does not wait."
)
ALTERNATIVE_OF_UNKNOWN_FIELD = INVALID_ARGUMENT.variant(
    "An alternative of node {key!r} writes {name!r}, which is not a field of the state.",
    known="fields {fields:names}",
    fix="Name a field, or pass a function that returns the update, if the unknown key is what you look for.",
)
ALTERNATIVE_OF_WRONG_KIND = INVALID_ARGUMENT.variant(
    "An alternative of node {key!r} is {shown}, which no node can return.",
    fix="Pass an update, None, a Command, an Interrupt, an exception, or a function of the state.",
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
