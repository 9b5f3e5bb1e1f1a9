"""Errors of the command line: what a target, a file or an option names."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

BAD_WORDS = ErrorCode("usage", InputError, "The command line is wrong: {problem}", fix="Run the command with --help.")

BAD_TARGET = ErrorCode(
    "bad-target",
    InputError,
    "{given!r} does not name a graph: {problem}.",
    fix="Write package.module:name or path/to/file.py:name, where name is a graph, a Runtime, or a function that makes one.",
)
TARGET_NOT_IMPORTED = ErrorCode(
    "target-not-imported",
    InputError,
    "The module of {given!r} cannot be imported: {error:described}{place}.",
    fix="Correct the module. With --debug, the command prints the traceback.",
)
NO_SUCH_DATABASE = ErrorCode(
    "no-such-database",
    InputError,
    "{problem}.",
    fix="Pass --store sqlite:///runs.db or --store postgresql://..., or set GRAPHRT_STORE: a database that exists.",
)
BAD_DOCUMENT = ErrorCode(
    "bad-document",
    InputError,
    "{source} cannot be read as {form}: {problem}.",
    fix="Pass a file with one JSON document in UTF-8, or - for standard input.",
)
AUTHORIZE_NEEDED = ErrorCode(
    "authorize-needed",
    InputError,
    "Other machines reach {host!r}, and nothing says which of their requests are allowed.",
    fix="Pass --authorize module:function, a function of the request that returns a Caller, or leave out --host.",
)
NO_PERSON = ErrorCode(
    "no-person",
    InputError,
    "{count:count question} cannot be asked here: {why}.",
    known="{ids:names}",
    fix="Pass --answers FILE, a JSON object of ids to answers, or --answer JSON for the only question.",
)
NO_BACKUP_OF = ErrorCode(
    "no-backup",
    InputError,
    "The command line makes no backup of {store:a_type}.",
    fix="Use the tools of its server, such as pg_dump, or export its threads one by one.",
)
