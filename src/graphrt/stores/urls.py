"""Opening a store by its URL.

This module parses URLs. Stores and the meaning of their options are defined elsewhere; a store's module is imported
when a URL names it. A package adds a scheme with an entry point of the group `graphrt.stores`. The entry point's name
is the scheme, and its value a callable that takes the URL and returns a store.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from graphrt.errors import a_type, closest, names
from graphrt.errors._codes.stores import (
    UNKNOWN_STORE,
)
from graphrt.stores.ids import check_tenant
from graphrt.stores.protocol import Store

__all__ = ["open_store"]

GROUP: Final = "graphrt.stores"
"""Entry point group for the schemes of other packages."""

_EXAMPLES: Final = '"memory:", "sqlite:///runs.db", "sqlite:////srv/runs.db", "postgresql://user@host/name"'
_CONNINFO: Final = re.compile(
    r"\s*(?:sqlite:/*)?(?:host|hostaddr|port|dbname|user|password|passfile|service|options|sslmode|sslpassword"
    r"|application_name|connect_timeout|client_encoding|target_session_attrs)\s*=",
    re.IGNORECASE,
)
"""The start of a libpq connection string: a common keyword and `=`."""
_SQLITE: Final[dict[str, Callable[[str], Any]]] = {"busy_timeout_s": float, "log_limit_bytes": int}
"""Options that a sqlite URL may have, and the function that parses each."""


def open_store(url: str, *, tenant: str | None = None) -> Store:
    """Return the store that *url* names. Its first call opens the file, or connects.

    Args:
        url: `memory:`; `sqlite:///relative.db` or `sqlite:////absolute/path.db`, percent-encoded where necessary, with
            the options `?busy_timeout_s=5` and `log_limit_bytes=...`; `postgresql://...`; or a URL whose scheme an
            installed package provides.
        tenant: The tenant to whose threads the store is restricted; see `TenantStore`. None has all threads.

    Raises:
        InputError: *url* does not name a store (`unknown-store`), or *tenant* is not a name (`bad-tenant`). A password
            in the URL is never shown.
    """
    if tenant is not None:
        from graphrt.stores.tenants import TenantStore

        check_tenant(tenant)
        own = TenantStore(open_store(url), tenant)
        own.closes_shared = True  # closing it closes the store opened here too, which no other object uses
        return own
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers need not be typed
        raise UNKNOWN_STORE(what="A store's URL", problem=f"it is not a text, but {a_type(url)}", examples=_EXAMPLES)
    check_is_url(url)
    scheme, colon, rest = url.partition(":")
    if not colon or not scheme:
        # A suggestion for the error, assuming that a path without a scheme is a SQLite file.
        meant = "memory:" if url.strip(":").lower() == "memory" else f"sqlite:///{url[:80]}"
        raise UNKNOWN_STORE(what=repr(url[:80]), problem="it has no scheme", examples=_EXAMPLES, guess=meant)
    match scheme.lower():
        case "memory":
            if rest.strip("/"):
                raise UNKNOWN_STORE(
                    what="A store's URL", problem="a memory store has no name and no options", examples=_EXAMPLES
                )
            from graphrt.stores.memory import MemoryStore

            return MemoryStore()
        case "sqlite":
            return _sqlite(rest)
        case "postgresql" | "postgres":
            from graphrt.stores.postgres import PostgresStore

            return PostgresStore(url)
        case other:
            return _third_party(other, url)


def check_is_url(url: str) -> None:
    """Refuse a connection string of libpq, such as `host=h password=...`; no part of it is shown.

    Raises:
        InputError: It is one (`unknown-store`).
    """
    if _CONNINFO.match(url):
        problem = "it is a connection string of libpq"
        raise UNKNOWN_STORE(what="A store's URL", problem=problem, examples=_EXAMPLES)


def _sqlite(rest: str) -> Store:
    """Return a SQLite store; *rest* is the URL after `sqlite:`.

    Raises:
        InputError: It names no file, or has an unknown or invalid option (`unknown-store`).
    """
    from urllib.parse import parse_qsl, unquote

    from graphrt.stores.sqlite import SqliteStore

    path, _, query = rest.partition("?")
    if not path.startswith("///") or path == "///":
        raise UNKNOWN_STORE(
            what=repr("sqlite:" + path[:80]),
            problem="it names no file: three slashes come before a relative path, four begin an absolute one",
            examples=_EXAMPLES,
            guess=f"sqlite:///{name[:80]}" if (name := path.lstrip("/")) else "",
        )
    options: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        read = _SQLITE.get(name)
        if read is None:
            raise UNKNOWN_STORE(
                what="A store's URL",
                problem=f"a SQLite store has no option {name[:80]!r}",
                examples=f"options {names(_SQLITE)}",
            )
        try:
            options[name] = read(text)
        except ValueError:
            raise UNKNOWN_STORE(
                what="A store's URL", problem=f"the option {name}={text[:80]!r} is not a number", examples=_EXAMPLES
            ) from None
    return SqliteStore(unquote(path[3:]), **options)  # after `///`; an absolute path begins with a fourth slash


def _third_party(scheme: str, url: str) -> Store:
    """Open a store through the entry point of an installed package for *scheme*.

    Raises:
        InputError: No package provides the scheme, or what it returns is not a store (`unknown-store`).
    """
    from importlib.metadata import entry_points

    installed = entry_points(group=GROUP)
    if scheme not in installed.names:
        schemes = ["memory", "sqlite", "postgresql", *sorted(installed.names)]
        raise UNKNOWN_STORE(
            what=repr(scheme[:80] + ":"),
            problem="no store is known by this scheme",
            examples=_EXAMPLES,
            known=f"{_EXAMPLES}; installed: {names(sorted(installed.names)) or 'no others'}",
            guess=closest(scheme, schemes),
        )
    store: object = installed[scheme].load()(url)
    if not isinstance(store, Store):
        raise UNKNOWN_STORE(
            what=f"The scheme {scheme[:80]!r}",
            problem=f"what is installed for it is not a store, but {a_type(store)}",
            examples=_EXAMPLES,
            fix="Correct or remove the package that provides the scheme.",
        )
    return store
