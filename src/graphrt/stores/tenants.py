"""TenantStore: the threads of one tenant in a store that several tenants share.

A *tenant* is a customer whose threads are kept apart from those of others. A tenant's thread `order-7` is the thread
`acme~order-7` of the shared store. Every call maps ids on the way in, and heads, claims and errors on the way out.
Isolation does not depend on checks that could be forgotten: no id that a tenant can pass names another tenant's thread
(decision 0151).

This module has only the mapping; `ids` defines the form of ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, final

from graphrt.errors import GraphrtError, StoreError
from graphrt.errors._codes.labels import TENANT_OF_TENANT
from graphrt.errors._codes.stores import STORE_CLOSED
from graphrt.errors._codes.threads import LOST_LEASE, UNKNOWN_THREAD
from graphrt.stores._label_rows import thread_of, wrong_token
from graphrt.stores.filters import DueFilter, Filter, QuestionFilter, ScheduleFilter, ThreadFilter
from graphrt.stores.ids import BETWEEN, check_bare_id, check_id, check_namespace, check_tenant, tenant_of
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit, Head, Record, StoreFinding
from graphrt.stores.wrapper import P, StoreWrapper, T

__all__ = ["TenantStore"]


class _Claim(Claim):
    """A claim of the shared store, under the id that the tenant knows."""

    __slots__ = ("inner",)

    def __init__(self, inner: Claim, head: Head) -> None:
        super().__init__(head, inner.lease_s, inner.former)  # *head* has the tenant's id, `inner.head` the shared one
        self.inner: Final = inner


@final
class TenantStore(StoreWrapper):
    """The threads of one tenant in a shared store; it sees, lists, claims, copies and deletes no others.

    Two tenants may have threads with equal ids. Closing it releases its claims. The shared store stays open, unless
    `open_store` opened it for this tenant alone.

    Args:
        store: The shared store. Wrap an `EncryptedStore`, rather than being wrapped by one, so that bodies are bound to
            the tenant.
        tenant: 1 to 64 of the characters that ids have.

    Raises:
        InputError: *tenant* is not such a name, or *store* is a tenant's already (`bad-tenant`).
    """

    def __init__(self, store: Store, tenant: str) -> None:
        tenant = check_tenant(tenant)
        if isinstance(store, TenantStore):
            raise TENANT_OF_TENANT(tenant=tenant, first=store.tenant)
        super().__init__(store)
        self.tenant: str | None = tenant
        self._prefix: Final = f"{tenant}{BETWEEN}"
        self._held: Final[dict[int, _Claim]] = {}
        """Claims that callers got and have not released, by their `id()`."""
        self._closed = False
        self.closes_shared: bool = False
        """Whether closing it also closes the shared store."""

    def __repr__(self) -> str:
        return f"<TenantStore of {self.tenant!r} over {self.store!r}>"

    def inner_id(self, thread: str, *, new: bool = False) -> str:
        """Return the id that the thread, or schedule, has in the shared store.

        Raises:
            InputError: *thread* is not a valid id (`bad-thread`), or names a tenant (`bad-thread` for a new thread,
                else `unknown-thread`).
        """
        if new:
            return self._prefix + check_bare_id(thread)
        check_id(thread)
        if BETWEEN in thread:  # it may be another tenant's, so the error is that for an unknown thread
            raise UNKNOWN_THREAD(thread=thread)
        return self._prefix + thread

    def outer_id(self, thread: str) -> str:
        """Return the id that the tenant knows."""
        return thread.removeprefix(self._prefix)

    def inner_namespace(self, namespace: str, *, scope: bool = False) -> str:
        """Return the name of the namespace in the shared store.

        Raises:
            InputError: *namespace* is not valid, or names a tenant (`bad-namespace`).
        """
        return self._prefix + check_namespace(namespace, bare=True, scope=scope)

    def outer_namespace(self, namespace: str) -> str:
        """Return the name that the tenant knows."""
        return namespace.removeprefix(self._prefix)

    def inner_claim(self, claim: Claim) -> Claim:
        """Return the claim of the shared store behind *claim*; refuse one from another store object."""
        if not isinstance(claim, _Claim):
            raise LOST_LEASE(thread=claim.thread, epoch=claim.epoch, known="it was given by another store object")
        return claim.inner

    def outer_claim(self, claim: Claim) -> Claim:
        """Return a claim under the tenant's id for *claim* of the shared store."""
        own = _Claim(claim, claim.head._replace(thread=self.outer_id(claim.thread)))
        self._held[id(own)] = own
        return own

    def inner_filter(self, wanted: Filter[Any]) -> Filter[Any]:
        """Return *wanted*, restricted to the tenant's rows."""
        shared = super().inner_filter(wanted)
        if isinstance(shared, QuestionFilter):
            return replace(shared, tenant=self.tenant)
        if isinstance(shared, ThreadFilter) and "labels" in self.offers:  # which has an index of tenants
            prefix = None if shared.prefix is None else self._prefix + shared.prefix
            return replace(shared, tenant=self.tenant, prefix=prefix)
        if isinstance(shared, (ThreadFilter, DueFilter, ScheduleFilter)):
            return replace(shared, prefix=self._prefix + (shared.prefix or ""))
        return shared

    def inner_after(self, wanted: Filter[Any], after: str) -> str:
        """Return *after* in the form of the shared store; refuse a token of another tenant's question."""
        # The position of another tenant's thread among the threads of this one would reveal that it exists.
        if isinstance(wanted, QuestionFilter) and tenant_of(thread_of(after) or self._prefix) != self.tenant:
            raise wrong_token(after)
        return super().inner_after(wanted, after)

    def select(self, wanted: Filter[Any], *, after: str | None, limit: int | None) -> list[Any]:
        """Return a page of the tenant's rows. See `Store.query`."""
        rows = super().select(wanted, after=after, limit=limit)
        # A filter for another tenant finds nothing. The shared store was still called, to check the arguments.
        is_foreign = isinstance(wanted, (ThreadFilter, QuestionFilter)) and wanted.tenant not in (None, self.tenant)
        return [] if is_foreign else rows

    def call(self, method: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        """Call the shared store; errors name threads as the tenant does. Refuse if this object is closed."""
        if self._closed:
            raise STORE_CLOSED(store=f"The store of the tenant {self.tenant!r}")
        try:
            return super().call(method, *args, **options)
        except GraphrtError as error:
            self._rename(error)
            raise

    def outer_records(self, records: Iterator[Record], thread: str) -> Iterator[Record]:
        """Yield the *records* of *thread*. Later pages are read outside `call`, so errors are mapped here."""
        try:
            yield from super().outer_records(records, thread)
        except GraphrtError as error:
            self._rename(error)
            raise

    def _rename(self, error: GraphrtError) -> None:
        """Replace the shared store's ids in *error*, in place, by those that the tenant knows."""
        texts = error.__dict__
        for name, value in texts.items():
            if isinstance(value, str):
                texts[name] = value.replace(self._prefix, "")
        error.args = tuple(arg.replace(self._prefix, "") if isinstance(arg, str) else arg for arg in error.args)

    def renew(self, claims: Iterable[Claim]) -> None:
        """Restart the leases of *claims*. See `Store.renew`."""
        if not self._closed:  # otherwise the claims are void, like those of other store objects
            super().renew([claim for claim in claims if isinstance(claim, _Claim)])

    def release(self, claim: Claim) -> None:
        """Release the thread. See `Store.release`."""
        # Claims of other store objects count as void here; `close` releases all of its own claims.
        if isinstance(claim, _Claim) and not self._closed:
            super().release(claim)
            self._held.pop(id(claim), None)

    def commit(self, claim: Claim, commit: Commit) -> None:
        """Write all of *commit* or nothing. See `Store.commit`."""
        super().commit(claim, commit)
        if commit.release:
            self._held.pop(id(claim), None)

    def erase(self, claim: Claim, commit: Commit, **rest: Any) -> None:
        """Replace records, remove what repeats them, and write *commit*. See `Store.erase`."""
        super().erase(claim, commit, **rest)
        if commit.release:
            self._held.pop(id(claim), None)

    def _survey(self) -> Iterator[str | StoreFinding]:
        """Yield the ids of the tenant's threads, for `verify`: the survey of the shared store covers others too."""
        return Store._survey(self)

    def close(self) -> None:
        """Release all claims of this object, and close the shared store if it belongs only to this object."""
        if self._closed:
            return
        self._closed = True
        own_claims = list(self._held.values())
        self._held.clear()
        for claim in own_claims:
            with suppress(StoreError):  # it cannot be released now: its lease runs out by itself
                self.store.release(claim.inner)
        if self.closes_shared:
            self.store.close()
