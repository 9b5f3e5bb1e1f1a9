"""`BlobNames`: the list of a thread's blob names that an encrypted store keeps, itself encrypted.

Blobs are large values, each stored under a name that is derived from its content. An encrypted store writes them under
an HMAC of these names instead, from which the names cannot be computed. The list says which names they have, for an
erasure and for `verify`. It consists of *pages*: each commit with new blobs appends one, with their names, as a further blob. To
*seal* is to encrypt under the store's current key; the `Keyring` seals, opens, and computes the HMACs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, final

from graphrt._forks import Home, OwnLock
from graphrt.stores._sealing import Keyring
from graphrt.stores.protocol import Claim, Commit, Store

_AT_ONCE: Final = 64
"""Pages of the list of blob names that are read in one call."""


@final
class BlobNames:
    """The list of the blob names of one thread. Its sealed pages are numbered from 0 and have no gaps.

    Args:
        keys: The keys of the encrypted store.
        thread: Id of the thread.
        home: The process that uses the encrypted store.

    The methods get the *store* that is encrypted: it has the sealed bodies.
    """

    def __init__(self, keys: Keyring, thread: str, home: Home) -> None:
        self._keys: Final = keys
        self._thread: Final = thread
        self._count: int | None = None
        """Number of pages, or None if it is not known."""
        self.known: set[str] = set()
        """Names on the pages, as the caller of the encrypted store knows them. Some of these blobs may be pruned."""
        self._lock: Final = OwnLock(home)

    def read(self, store: Store) -> int:
        """Read all pages, if that is still to be done, and return their number.

        It takes no lock, because `pages` and `commit`, which hold it, call it.
        """
        if self._count is None:
            count, known = 0, set[str]()
            # The number of pages is stored nowhere: pages are read in groups until one is missing.
            while True:
                numbers = range(count, count + _AT_ONCE)
                pages = {number: self._pages(number) for number in numbers}
                found = store.blobs(self._thread, [one for ones in pages.values() for one in ones])
                for number, ones in pages.items():
                    page = next((found[one] for one in ones if one in found), None)
                    if page is None:
                        break
                    known.update(json.loads(self._keys.open(page, self._thread, "names", number)))
                    count += 1
                if count <= numbers[-1]:
                    break
            self._count, self.known = count, known
        return self._count

    def pages(self, store: Store) -> list[str]:
        """Return all names under which the pages may be stored, so that a prune keeps them."""
        with self._lock:
            return [one for number in range(self.read(store)) for one in self._pages(number)]

    def page(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return a single page with all of *names*, by the name of the first page; an empty dict without names.

        An erasure deletes the old pages and writes this one in their place, because the name of an erased value must
        not stay.
        """
        listed = sorted(set(names))
        if not listed:
            return {}
        return {self._pages(0)[0]: self._keys.seal(json.dumps(listed).encode(), self._thread, "names", 0)}

    def commit(self, store: Store, claim: Claim, sealed: Commit, blobs: Iterable[str]) -> None:
        """Write *sealed* and, in the same transaction, a page with those of the names in *blobs* that are new."""
        with self._lock:  # two concurrent commits must not use the same page number
            number = self.read(store)
            new = [name for name in blobs if name not in self.known]
            more: dict[str, Any] = dict(sealed.blobs)
            if new:
                page = json.dumps(new).encode()
                more[self._pages(number)[0]] = self._keys.seal(page, self._thread, "names", number)
            try:
                store.commit(claim, sealed._replace(blobs=more))
            except BaseException:
                self._count = None  # the page may or may not be stored: read the list again before the next commit
                raise
            self._count = number + bool(new)
            self.known.update(new)

    def _pages(self, number: int) -> list[str]:
        """Return the names under which a page may be stored: one for each key, that of the current key first.

        The NUL keeps them apart from names of blobs.
        """
        return self._keys.names(self._thread, f"\0names {number}")
