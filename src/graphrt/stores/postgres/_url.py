"""Parsing of a PostgreSQL store's URL into graphrt's own options and those of libpq, the C library of PostgreSQL.

This module makes no connections. The password is kept separately, so that it can be removed from error texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from graphrt.errors import closest, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.stores import UNKNOWN_STORE
from graphrt.stores.postgres._driver import driver

_OWN: Final = ("schema", "unsafe", "pool_size", "connect_timeout_s", "busy_timeout_s")
_FITS: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}").fullmatch
_SWITCH: Final = {"true": True, "1": True, "false": False, "0": False}
_EXAMPLE: Final = "postgresql://user:password@host:5432/database?schema=graphrt"
# Hosts with optional ports, separated by commas as libpq accepts them; an IPv6 address is in brackets.
_HOSTS: Final = re.compile(r"(?:(?:\[[^\[\]@/]*\]|[^:@/\[\],]*)(?::[0-9]*)?(?:,|$))*").fullmatch


class Address(NamedTuple):
    """The parts of a PostgreSQL store's URL."""

    libpq: str
    """The URL without our own options."""
    given: frozenset[str]
    """Names of libpq's options that the URL sets."""
    schema: str
    unsafe: bool
    """Whether a server that may lose confirmed commits is accepted; for tests only."""
    secret: str
    """The password; empty if the URL has none."""
    place: str
    """Server, database and schema, for error messages; without the password."""
    numbers: dict[str, float]
    """The numeric options of our own that the URL sets, by name."""


def read(url: str) -> Address:
    """Parse *url*. Errors do not show it, because it may contain a password.

    Raises:
        InputError: *url* or one of its options is not valid (`unknown-store`), or the name of the schema is not
            (`input`).
    """
    # scheme://user:password@hosts/database?query
    scheme, slashes, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    server, slash, database = rest.partition("/")
    login, at, hosts = server.rpartition("@")
    user, _, password = login.partition(":")
    # A special character that is not percent-encoded would shift the borders, and a part of the password would be shown
    # as a host or database.
    if scheme not in {"postgresql", "postgres"} or not slashes or "@" in login + database or not _HOSTS(hosts):
        raise UNKNOWN_STORE(
            what="A store's URL",
            problem="it is not that of a PostgreSQL store",
            examples=_EXAMPLE,
            fix="Write it like that; percent-encode special characters in a name or a password.",
        )
    pairs = [pair.partition("=")[::2] for pair in query.split("&") if pair]  # (name, value)
    # libpq decodes its own values, so they are passed on unchanged.
    own_options = {name: unquote(value) for name, value in pairs if name in _OWN}
    libpq = {name: value for name, value in pairs if name not in _OWN}
    _refuse_unknown(libpq)
    schema = own_options.get("schema", "graphrt")
    if not _FITS(schema) or schema.startswith("pg_") or schema == "information_schema":
        raise INVALID_ARGUMENT(
            argument="The name of a schema",
            value=schema[:80],
            wanted="?schema= of 1 to 63 of a-z, 0-9 and _, not beginning with a digit or pg_",
        )
    host = unquote(libpq.get("host", hosts)) or "the default server"
    name = unquote(database or libpq.get("dbname", "") or user) or "the default one"
    options = "&".join(f"{name}={value}" for name, value in libpq.items())
    return Address(
        libpq=f"{scheme}://{login}{at}{hosts}{slash}{database}{'?' if options else ''}{options}",
        given=frozenset(libpq),
        schema=schema,
        unsafe=_switch(own_options.get("unsafe", "false")),
        secret=unquote(libpq.get("password", "") or password),
        place=f"database {name!r} on {host}, schema {schema!r}",
        # All of `_OWN` but the first two, `schema` and `unsafe`, are numbers.
        numbers={name: _number(name, own_options[name]) for name in _OWN[2:] if name in own_options},
    )


def _refuse_unknown(options: Iterable[str]) -> None:
    """Check that all *options*, which are not graphrt's own, are known to the installed libpq.

    Raises:
        InputError: One of them is not (`unknown-store`).
    """
    known: set[str] = {option.keyword.decode() for option in driver().pq.Conninfo.get_defaults()}
    for name in options:
        if name not in known:
            guess = closest(name, [*_OWN, *known])
            raise UNKNOWN_STORE(
                what="A store's URL",
                problem=f"a PostgreSQL store has no option {name[:80]!r}",
                examples=f"options {names(_OWN)}, and those of libpq",
                guess=guess,
            )


def _switch(text: str) -> bool:
    """Return the value of the option `unsafe`.

    Raises:
        InputError: *text* is neither true nor false (`unknown-store`).
    """
    if text.lower() not in _SWITCH:
        raise UNKNOWN_STORE(
            what="A store's URL",
            problem=f"the option unsafe={text[:80]!r} is neither true nor false",
            examples="unsafe=true",
        )
    return _SWITCH[text.lower()]


def _number(name: str, text: str) -> float:
    """Return the value of the option *name*.

    Raises:
        InputError: *text* is not a number, or not one that is allowed.
    """
    try:
        return positive(name, float(text))
    except ValueError:
        raise UNKNOWN_STORE(
            what="A store's URL", problem=f"the option {name}={text[:80]!r} is not a number", examples=f"{name}=5"
        ) from None


def positive(name: str, value: Any) -> float:
    """Return *value*, the option *name*, if it is a number above 0 and below a million.

    It is checked here for values of the URL and for arguments of `PostgresStore`.

    Raises:
        InputError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise INVALID_ARGUMENT(argument=name, value=value, wanted="a number of more than 0 and less than a million")
    return value
