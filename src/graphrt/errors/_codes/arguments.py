"""Errors of calls: the input, arguments of a Runtime and its methods, options, names that do not exist."""

from __future__ import annotations

from graphrt.errors import InputError, MissingExtraError
from graphrt.errors._error_code import ErrorCode

BAD_INPUT = ErrorCode(
    "bad-input", InputError, "{who} does not fit {state_class}: {problems}.", fix="Pass values of the declared types."
)
INPUT_OF_WRONG_KIND = BAD_INPUT.variant("{who} cannot be {given}.", fix="Pass {wanted}.")

UNKNOWN_KEY = ErrorCode(
    "unknown-key",
    InputError,
    "{who} has {unknown:a key that is not a field|keys that are not fields} of the {schema}: {unknown:names}.",
    known="fields {fields:names}",
    fix="Remove it, or declare the field.",
)

MISSING_FIELD = ErrorCode(
    "missing-field",
    InputError,
    "The input lacks {missing:a field that has|fields that have} no default: {missing:names}.",
    fix="Pass them, or give the fields defaults.",
)

UNKNOWN_NODE_ASKED = ErrorCode(
    "unknown-node",
    InputError,
    "{who} names {name!r}, which is not a node.",
    known="nodes {known_nodes:names}",
    fix="Name a node of the graph{or_end}.",
)

INVALID_ARGUMENT = ErrorCode("input", InputError, "{argument} cannot be {value:brief}.", fix="Pass {wanted}.")
ARGUMENT_OUT_OF_BOUNDS = INVALID_ARGUMENT.variant("{problem}.", fix="Pass {wanted}.")
WRONG_RETURN_VALUE = INVALID_ARGUMENT.variant("{function} returned {returned}.", fix="Return {wanted}.")
UNKNOWN_NAME_IN_ARGUMENT = INVALID_ARGUMENT.variant(
    "{argument} names {name!r}, which is not {what:a}.", known="{known_names:names}", fix="Use one of these names."
)
UNKNOWN_OPTION = INVALID_ARGUMENT.variant("{name}= is not {what:a}.", known="{known_names:names}", fix="{advice}")
ARGUMENT_NEEDS_ANOTHER = INVALID_ARGUMENT.variant(
    "{argument} needs {missing}.", fix="Add {missing}, or leave out what needs it."
)
ARGUMENTS_EXCLUDE_EACH_OTHER = INVALID_ARGUMENT.variant(
    "{argument} does not go with {other}.", fix="Leave out {superfluous}."
)

BAD_LIMITS = ErrorCode("bad-limit", InputError, "{limits} cannot be used: {problems}.", fix="Correct them: {example}.")

MISSING_PACKAGE = ErrorCode(
    "missing-extra",
    MissingExtraError,
    "{user} needs a package that is not installed: {package}.",
    fix='pip install "graphrt[{extra}]"',
)

FORKED = ErrorCode(
    "forked",
    InputError,
    "{of} was used in process {parent}, of which this process, {child}, is a forked child.",
    known="threads, locks and connections of a process do not work in its children",
    fix="Create it in the child: with gunicorn in the hook post_fork, with multiprocessing in the pool's initializer.",
)

NOT_COMPILED = ErrorCode(
    "not-compiled",
    InputError,
    "A Runtime drives a compiled graph, not {given:a_type}.",
    fix="Call compile() first: Runtime(builder.compile()).",
)
