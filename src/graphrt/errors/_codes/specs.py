"""Errors of manifests: graphs as data that cannot be read, or graphs that cannot be written as data."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode, Finding

BAD_SPEC_TEXT = ErrorCode(
    "bad-spec-text",
    InputError,
    "The manifest cannot be read: {problem}.",
    fix="Pass JSON as graph.to_spec() writes it. For a larger manifest that you trust: limits=SpecLimits(...).",
)
NOT_A_SPEC = BAD_SPEC_TEXT.variant(
    "A manifest is {given}.", fix="Pass JSON text, a mapping, or what graph.to_spec() returned."
)


BAD_SPEC = Finding("bad-spec", "{problem}.")
MISSING_STATE = BAD_SPEC.variant(
    "No state is given.", fix="Name a class of the registry, describe the fields, or pass state=."
)
UNKNOWN_KIND = BAD_SPEC.variant("There is no kind of node {kind!r}.", fix="Known: {kinds:names}.")
OTHER_STATE = BAD_SPEC.variant(
    "Field {field!r} is {declared} in the manifest and {found} in {cls}.", fix="Correct one of the two."
)
BAD_FIELD_TYPE = BAD_SPEC.variant(
    "The type {text!r} of field {field!r} cannot be used: {problem}.",
    fix="Use str, int, float, bool, None, Any, list[...], dict[str, ...], Literal[...], |, or a class of the registry.",
)
FIELD_OF_CODE = BAD_SPEC.variant(
    "Field {field!r} is not required and has no default as data.",
    fix="Give a default, make it required, or register the state class if the default is made by code.",
)
UNKNOWN_LABEL = BAD_SPEC.variant(
    "The label {label!r} is a member of no enum that router {router!r} or the registry names.",
    fix="Annotate the router with the enum, or register it as a type.",
)
UNWRITABLE_VALUE = BAD_SPEC.variant(
    "{value} cannot be written as data.", fix="Give the node data, or make it by a function of your own."
)

UNKNOWN_PART = Finding("unknown-part", "The registry has no {section} named {name!r}.", fix="Known: {known_names}.")
UNREGISTERED = UNKNOWN_PART.variant(
    "{value} is not in the registry's {section}.", fix="Register it, or write without a registry."
)

BAD_SECTION = ErrorCode(
    "bad-registry",
    InputError,
    "Section {section!r} of the registry has {problem}.",
    fix="Pass a mapping of names, or a list of objects that have names, each name once.",
)
