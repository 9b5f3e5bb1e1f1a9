"""Errors of cassettes."""

from __future__ import annotations

from graphrt.errors import InputError, ScriptError
from graphrt.errors._error_code import ErrorCode

CASSETTE_UNSTORABLE = ErrorCode(
    "cassette-unstorable",
    InputError,
    "A Cassette cannot record {path}: {problem}.",
    fix="Pass plain data to the call, and other objects to the model or harness when it is made.",
)
OUTPUT_WITHOUT_JSON = CASSETTE_UNSTORABLE.variant(
    "A Cassette cannot record the output of a reply: type {value:type} has no JSON form.",
    fix="Put the cassette around the model of the agent: cassette.model(...).",
)

CASSETTE_UNREADABLE = ErrorCode(
    "cassette-unreadable",
    ScriptError,
    "The cassette cannot be {done}: {reason}.",
    fix="Pass the path of a file that this user may read, and write to record.",
    where="{path}",
)

CASSETTE_CHANGED = ErrorCode(
    "cassette-changed",
    ScriptError,
    "The cassette was changed by another program while it was being recorded.",
    fix="Record one cassette from one Cassette at a time; give parallel processes one each.",
    where="{path}",
)

CASSETTE_NEWER = ErrorCode(
    "cassette-newer",
    ScriptError,
    "The cassette is of version {value}, and this graphrt reads up to version {newest}.",
    fix="Upgrade graphrt, or re-record it: delete the file, then GRAPHRT_CASSETTE=record.",
    where="{path}",
)

CASSETTE_DAMAGED = ErrorCode(
    "cassette-damaged",
    ScriptError,
    "The cassette is damaged: {why}.",
    fix="Restore it from version control, or delete it and re-record with GRAPHRT_CASSETTE=record.",
    where="{path}, line {value}",
)

CASSETTE_OUTPUT = ErrorCode(
    "cassette-output",
    ScriptError,
    "The recorded output of a reply cannot be given back: {why}.",
    fix="Use the matching type: cassette.harness(..., output=Type).",
)

CASSETTE_MISSING = ErrorCode(
    "cassette-missing",
    ScriptError,
    "There is no cassette.",
    fix="Record it: GRAPHRT_CASSETTE=record asks the live model for what is missing and adds it.",
    where="{path}",
)

CASSETTE_UNUSED = ErrorCode(
    "cassette-unused",
    ScriptError,
    "The cassette was not used up: {number} of {all} recordings were never asked for.",
    known="{shown}{and_more}",
    fix="Find out why the calls were not made, re-record with GRAPHRT_CASSETTE=rewrite, or allow it with strict=False.",
    where="{path}",
)

CASSETTE_MISS = ErrorCode(
    "cassette-miss",
    ScriptError,
    "{problem}: {asked!r}.",
    fix="{alone}Find out why the call changed. If that is intended, GRAPHRT_CASSETTE=record adds what is missing.",
    where="{path}",
)
