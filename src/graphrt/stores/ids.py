"""Validation of thread ids, and the tenant that is part of an id.

A *tenant* is a customer whose threads are kept apart from those of others in a store that they share. The shared store
has the thread `order-7` of the tenant `acme` as `acme~order-7`. The tenant's own store (`TenantStore`), which wraps the
shared one and has no other threads, knows it as `order-7` (decision 0151).

This module checks only the form of an id. The stores know whether a thread with that id exists.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeGuard

from graphrt.errors._codes.labels import BAD_TENANT
from graphrt.errors._codes.stores import BAD_THREAD_ID

__all__ = ["bare_id", "beside", "check_id", "check_namespace", "check_tenant", "local_id_of", "shared_id", "tenant_of"]

LONGEST: Final = 200
"""Maximum length of an id without its tenant, in characters."""

BETWEEN: Final = "~"
"""Separates tenant and thread; used for nothing else in an id."""
_TENANT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]{0,63}").fullmatch
# An id, preceded by the name of its tenant if it has one.
_FIT: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.:@+=-]{0,63}~)?[A-Za-z0-9_][A-Za-z0-9_.:@+=-]{0,199}").fullmatch
# The form of the id of an open question (an interrupt), `thread/superstep.index:node#key`. Callers easily pass it in
# place of the thread's id; `_fix` then names the thread.
_OF_INTERRUPT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]*/[0-9]+\.[0-9]+:[^#]*#.*").fullmatch
_NAMESPACE: Final = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.:@+=-]{0,63}~)?[A-Za-z0-9_][A-Za-z0-9_.:@+=-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.:@+=-]*)*"
).fullmatch
_RULE: Final = "1 to 200 of the characters A-Z a-z 0-9 _ . : @ + = -, the first of them a letter, a digit or _"
_SHOWN: Final = 80
"""Maximum number of characters of an invalid id that an error message shows."""


def check_id(value: Any) -> str:
    """Return *value* if it is a valid thread id. Ids are compared character by character; nothing is normalised.

    Raises:
        InputError: It is not a str of 1 to 200 allowed characters, after the tenant and `~` if it has one
            (`bad-thread`).
    """
    if type(value) is str and _FIT(value):  # inlined `is_id`, to save a call in each store method
        return value
    raise BAD_THREAD_ID(problem=_what(value), rule=_RULE, fix=_fix(value))


def is_id(value: Any) -> TypeGuard[str]:
    """Return whether *value* has the form of a thread id, with a tenant or without."""
    # Not isinstance: a subclass of str could return another value after the check.
    return type(value) is str and _FIT(value) is not None


def check_bare_id(value: Any) -> str:
    """Return *value* if it is a valid thread id without a tenant.

    Used by a tenant's store for new threads, and by a node for a thread that it waits for.

    Raises:
        InputError: It is not, or names a tenant (`bad-thread`).
    """
    if BETWEEN in check_id(value):
        problem = f"The thread's id {value!r} has {BETWEEN!r}, which stands between a tenant and its threads."
        fix = "Leave the tenant out: it is that of the store, or of the thread that runs."
        raise BAD_THREAD_ID(problem=problem, rule="an id without a tenant", fix=fix)
    return str(value)


def check_namespace(value: Any, *, bare: bool = False, scope: bool = False) -> str:
    """Return *value* if it is a valid namespace of the memory.

    Args:
        value: What was given.
        bare: Refuse one that names a tenant: the store or the thread sets it.
        scope: Also accept a name for several namespaces: an empty text, or without *bare* a tenant with its `~`.

    Raises:
        InputError: It is not (`bad-namespace`).
    """
    if type(value) is str:
        rest = value.partition(BETWEEN)[2] if BETWEEN in value and not bare else value
        if scope and not rest and (value == rest or _TENANT(value[:-1])):
            return value
        if len(rest) <= LONGEST and _NAMESPACE(value) and (not bare or BETWEEN not in value):
            return value
    from graphrt.errors._codes.memory import BAD_NAMESPACE, NAMESPACE_OF_TENANT  # imported late: few programs need them

    problem = f"A namespace of the memory must be a str, not {type(value).__name__}."
    if isinstance(value, str):
        shortened = ascii(value[:_SHOWN]) + ("..." if len(value) > _SHOWN else "")
        problem = f"{shortened} is not a namespace of the memory."
        if bare and BETWEEN in value:
            raise NAMESPACE_OF_TENANT(given=shortened)
    raise BAD_NAMESPACE(problem=problem)


def check_tenant(value: Any) -> str:
    """Return *value* if it is a valid name of a tenant.

    Raises:
        InputError: It is not a str of 1 to 64 of the characters that ids have (`bad-tenant`).
    """
    if type(value) is str and _TENANT(value):
        return value
    raise BAD_TENANT(given=ascii(value)[:_SHOWN] if isinstance(value, str) else f"a {type(value).__name__}")


def tenant_of(thread: str) -> str | None:
    """Return the tenant whose thread has this id; None if it has no tenant."""
    tenant, separator, _ = thread.partition(BETWEEN)
    return tenant if separator else None


def bare_id(thread: str) -> str:
    """Return the id of a thread without its tenant: the same in the tenant's own store and in the shared one."""
    return thread.rpartition(BETWEEN)[2]


def beside(thread: str, bare: str) -> str:
    """Return the id of the thread *bare* in the tenant of *thread*, for the store that has *thread* under that id.

    A thread names its parent and its child threads by their ids without a tenant, so that the names hold in the
    tenant's store and in the shared one.

    Args:
        thread: Id of the thread that is known, with or without a tenant.
        bare: Id of the other thread. A tenant in it is dropped: the result is always of the tenant of *thread*.
    """
    tenant, between, _ = thread.rpartition(BETWEEN)
    return f"{tenant}{between}{bare_id(bare)}"


def shared_id(store: Any, thread: str) -> str:
    """Return the id of *thread* of *store* that is unique over all tenants: with its tenant, if it is a tenant's store.

    Data that leaves the store under the id of a thread (idempotency keys, audit logs) must use it: two tenants may have
    threads with equal ids.
    """
    tenant = getattr(store, "tenant", None)
    return thread if tenant is None else f"{tenant}{BETWEEN}{thread}"


def local_id_of(store: Any, shared: str) -> str:
    """Return the id in *store* of the thread whose id over all tenants is *shared*; the inverse of `shared_id`.

    In a tenant's store, the id of another tenant's thread is returned unchanged: the store has no id for it. A
    copied thread names its source by this id, and may have been imported from elsewhere.
    """
    tenant = getattr(store, "tenant", None)
    return shared if tenant is None else shared.removeprefix(f"{tenant}{BETWEEN}")


def _fix(value: Any) -> str | None:
    """Return advice for an error about *value*, which is not a valid id; None if its kind is not recognised."""
    if type(value) is str and _OF_INTERRUPT(value):
        return f"That is the id of an interrupt: its thread is {value.split('/')[0]!r}, and the id is a key of the answers."
    thread: object = getattr(value, "thread", None)  # a result, a snapshot or another object about a thread
    if type(thread) is str:
        return f"Pass its thread: {thread!r}."
    return None


def _what(value: Any) -> str:
    """Return a sentence for an error that explains why *value* is not a valid id."""
    if type(value) is not str:
        return f"A thread's id must be a str, not {type(value).__name__}."
    if not value:
        return "A thread's id must not be empty."
    shortened = ascii(value[:_SHOWN])[:_SHOWN] + ("..." if len(value) > _SHOWN else "")
    if len(value) > LONGEST:
        return f"The thread's id {shortened} has {len(value):,} characters, {len(value) - LONGEST:,} too many."
    if not re.fullmatch(r"[A-Za-z0-9_]", value[0]):
        return f"The thread's id {shortened} begins with {value[0]!a}."
    place, bad_char = next(
        (n, char) for n, char in enumerate(value, 1) if not re.fullmatch(r"[A-Za-z0-9_.:@+=-]", char)
    )
    return f"The thread's id {shortened} has {bad_char!a} as character {place}."
