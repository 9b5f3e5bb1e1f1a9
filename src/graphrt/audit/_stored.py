"""Logs of threads in a store: exported to files, and their heads. No graph is needed."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrt._arguments import checked_path
from graphrt._journal.verifying import PLAIN
from graphrt.audit._export import exported, log_of, tree_of
from graphrt.audit._heads import head_of
from graphrt.audit._keys import key_ring
from graphrt.audit._lines import line_of
from graphrt.audit._mirror import rewritten
from graphrt.audit.offline import Head
from graphrt.errors._codes.audit import NO_HEAD
from graphrt.stores.ids import shared_id

if TYPE_CHECKING:
    from graphrt._journal.log_keys import LogKeys
    from graphrt.stores.protocol import Store


def head(store: Store | str, thread: str, *, key: bytes | None = None) -> Head:
    """Return the head of a thread's log as it is now, to be kept outside of the store.

    Args:
        store: The store, or its URL.
        thread: Id of the thread.
        key: Key that the head is authenticated with; None authenticates nothing.

    Raises:
        InputError: The thread is not chained, there is no such thread, or the key is weak.
        StoreError: The thread cannot be read.
    """
    with opened(store) as source:
        log, _ = log_of(source, thread)
        return _head(source, thread, log, _keys(key, log))


def export(store: Store | str, thread: str, path: str | os.PathLike[str], *, key: bytes | None = None) -> Head:
    """Write the log of a thread to a file that `verify` checks without the store, and return its head.

    The file ends with the head. Only its owner may read it. It is written beside *path* and then renamed, so that there
    is never half of it.

    Args:
        store: The store, or its URL.
        thread: Id of the thread.
        path: The file; one that exists is replaced.
        key: Key that the head is authenticated with; None authenticates nothing.

    Raises:
        InputError: The thread is not chained, there is no such thread, or the key is weak.
        StoreError: The thread cannot be read.
        OSError: The file cannot be written.
    """
    target = Path(checked_path(path))
    with opened(store) as source:
        log, _ = log_of(source, thread)
        keys = _keys(key, log)
        with rewritten(target) as file:
            file.writelines(exported(source, thread, PLAIN))
            found = _head(source, thread, log, keys)
            file.write(line_of({"head": found.to_dict()}))
    return found


def _head(store: Store, thread: str, log: str, keys: LogKeys | None) -> Head:
    now = store.head(thread)
    tree = tree_of(store, thread, log, PLAIN, now.seq)
    if not tree.size:
        raise NO_HEAD(thread=thread)
    return head_of(log, shared_id(store, thread), now.seq, now.updated_at, tree, keys)


def _keys(key: bytes | None, log: str) -> LogKeys | None:
    return key_ring(key, ()).of(log) if key is not None else None


def opened(store: Any) -> AbstractContextManager[Store]:
    """Return a store for a `with` block, which closes it if a URL was given."""
    if not isinstance(store, str):
        return nullcontext(store)
    from graphrt.stores import open_store

    return open_store(store)
