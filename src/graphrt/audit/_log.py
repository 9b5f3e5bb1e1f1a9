"""`AuditLog`: how a runtime keeps and authenticates the logs of its threads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, final

from graphrt._arguments import checked_path, is_list
from graphrt._journal.log_keys import KeyRing
from graphrt._overwriting import check_overwritable
from graphrt.audit._heads import BEGINS, Anchor, anchored
from graphrt.audit._keys import key_ring
from graphrt.audit._mirror import file_of
from graphrt.audit._recorder import Recorder
from graphrt.audit._redaction import Redaction
from graphrt.errors import InputError, a_type
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.audit import BAD_REDACTION_RULES, NOT_CHAINED, NOT_CLOSED, WEAK_KEY
from graphrt.events import ThreadDeleted
from graphrt.stores.ids import local_id_of, shared_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrt._journal.chain import Chain
    from graphrt._journal.erasing import Choose
    from graphrt.audit._erased_file import ErasedFile
    from graphrt.stores.protocol import Store


@final
class AuditLog:
    """Makes the journal of a runtime's threads an audit log.

    The log is the journal itself: its records are in the same transaction as the step, and form a hash chain. With a
    *key*, each record has a MAC (HMAC-SHA256), so that changing, adding or removing a record without the key is
    noticed. With a folder, the log of each thread is also kept as a file that `graphrt.audit.verify` checks without the
    store.

    Args:
        place: A folder of one JSON Lines file for each thread: a file is appended to after each commit, and is durable
            before the run continues. Or a store, or its URL, for a runtime that has none. None: the runtime's store
            alone.
        key: 32 or more random bytes, as `generate_key` makes them. None leaves records without MACs.
        older: Keys that earlier records were written with. To change keys, make the new one *key*, and put the old one
            here: the next record of each thread is authenticated with both.
        user: Who uses the runtime; recorded with each start, resume and edit.
        anchor: Where the heads of logs are kept, outside the logs: a file to append to, a function to call with each
            `Head`, or a list of these. A head is made whenever a run pauses or ends.
        on_failure: What happens if a log or anchor cannot be written. "stop" ends the run with an error before it does
            anything else; "continue" warns, and adds the missing records when the thread is driven again. A redaction
            that fails stops the run all the same.
        redact: Rules by which values are redacted when they enter a thread. None: only fields marked `redacted` are.
        on_delete: What happens to the file of a thread that is deleted: "close" ends it with a sealed entry, and the id cannot
            be used again with this folder; "remove" deletes it. Anchored heads remain.
        adopt: Continue with threads that were started without a key, and authenticate them from then on. Otherwise they
            are refused, since anyone who can write to the store can make such a thread.

    Raises:
        InputError: A key is weak, another argument has a wrong type or value (`bad-path` for a path), or *anchor* names
            a file of another kind (`path-exists`).
        OSError: The file that *anchor* names cannot be read.
    """

    __slots__ = ("_anchors", "_folder", "_on_delete", "_on_failure", "adopt", "keys", "redact", "store", "user")

    def __init__(
        self,
        place: str | os.PathLike[str] | Store | None = None,
        *,
        key: bytes | None = None,
        older: Sequence[bytes] = (),
        user: str | None = None,
        anchor: Anchor | Sequence[Anchor] | None = None,
        on_failure: Literal["stop", "continue"] = "stop",
        redact: Redaction | None = None,
        on_delete: Literal["close", "remove"] = "close",
        adopt: bool = False,
    ) -> None:
        is_url = isinstance(place, str) and ("://" in place or place == "memory:")
        is_store = is_url or hasattr(place, "commit")
        if place is not None and not is_store and not isinstance(place, (str, os.PathLike)):
            raise INVALID_ARGUMENT(
                argument="The first argument of AuditLog",
                value=place,
                wanted="a folder for one file per thread, or a store or its URL; leave it out to use the runtime's store alone",
            )
        if on_failure not in ("stop", "continue"):
            raise INVALID_ARGUMENT(
                argument="on_failure=", value=on_failure, wanted="'stop' or 'continue'; 'stop' is the default"
            )
        if on_delete not in ("close", "remove"):
            raise INVALID_ARGUMENT(
                argument="on_delete=", value=on_delete, wanted="'close' or 'remove'; 'close' is the default"
            )
        self._on_delete: Final = on_delete
        self.store: Any = place if is_store else None
        """The store, or its URL, for a runtime without a store of its own; None if it was not given."""
        self._folder: Final = Path(checked_path(place)) if place is not None and not is_store else None
        self._anchors: Final = _anchors(anchor)
        self._on_failure: Final = on_failure
        self.adopt: bool = adopt
        """Whether threads that were started without a key are adopted."""
        self.keys: KeyRing | None = key_ring(key, older) if key is not None else None
        """The keys, whose `repr` shows none of them; None without one."""
        redaction: Any = redact
        if redaction is not None and not isinstance(redaction, Redaction):
            raise BAD_REDACTION_RULES(what="redact=", problem=f"it takes a Redaction, not {a_type(redact)}")
        self.redact: Redaction | None = redact
        """The rules; None without any."""
        self.user: str = user or ""
        """Who uses the runtime; empty if that was not given."""

    def __repr__(self) -> str:
        return f"AuditLog({str(self._folder) if self._folder else None!r}, keys={self.keys!r}, user={self.user!r})"

    def path(self, thread: str) -> Path | None:
        """Return the file of a thread's log; None without a folder."""
        return file_of(self._folder, thread) if self._folder is not None else None

    def check_deletable(self, store: Store, thread: str) -> None:
        """Check, before a thread is deleted, that the available keys suffice to close its log file.

        The file gets its missing records, as after a crash: afterwards no other copy exists.

        Raises:
            InputError: The log uses a key that was not given (`log-key-needed`), or there is no such thread.
            StoreError: The file cannot be written.
            AuditError: The file is damaged, or another log's.
        """
        path = self.path(shared_id(store, thread))
        if self._on_delete == "remove" or path is None or not path.is_file():
            return
        from graphrt.audit._closed_file import last_record

        last = last_record(path)
        if last is None:
            return
        last.writable(self.keys.of(last.log) if self.keys is not None else None)
        head = store.head(thread)
        if last.seq < head.seq and not head.owned:  # a thread with an owner is not deleted
            from graphrt._journal.thread_fold import chain_of

            self.recorder(store, thread, chain_of(last.log, None, self.keys)).close()

    def deleted(self, store: Store, thread: str, at: float, user: str) -> None:
        """Close or remove the file of a thread that *user* deleted.

        Raises:
            StoreError: That failed (`log-not-written`), and `on_failure` is "stop".
        """
        path = self.path(shared_id(store, thread))
        if path is None or not path.is_file():
            return
        from graphrt.audit._closed_file import append_event, remove

        try:
            if self._on_delete == "remove":
                remove(path)
                return
            head = append_event(path, ThreadDeleted(user=user), self.keys, at)
            if head is not None:
                for anchor in self._anchors:
                    anchored(head, anchor)
        except Exception as error:
            if self._on_failure == "stop":
                raise NOT_CLOSED(thread=thread, path=str(path), error=error) from error
            warnings.warn(f"The log file {str(path)!r} of a deleted thread was not closed: {error}", stacklevel=2)

    def orphans(self, store: Store) -> Iterator[tuple[str, Path]]:
        """Yield the log files in the folder whose thread is not in *store* any more, with the id of the thread."""
        if self._folder is None or not self._folder.is_dir():
            return
        from graphrt.audit._closed_file import first_line_of

        for path in sorted(self._folder.glob("*.jsonl")):
            named = first_line_of(path)
            local = local_id_of(store, named[1]) if named is not None else ""
            if named is None or shared_id(store, local) != named[1]:
                continue  # not a log, or the log of another tenant
            if not _is_there(store, local):
                yield local, path

    def erased_file(
        self, store: Store, thread: str, chooser: Callable[[Callable[[str], bytes | None]], Choose]
    ) -> ErasedFile | None:
        """Return the function that rewrites a thread's log file after values were erased; None without a file."""
        path = self.path(shared_id(store, thread))
        if path is None or not path.exists():
            return None
        from graphrt.audit._erased_file import ErasedFile  # rarely needed

        return ErasedFile(path, store, thread, chooser)

    def recorder(self, store: Store, thread: str, chain: Chain | None) -> Recorder:
        """Return the recorder of the commits of a claimed thread.

        Raises:
            InputError: The thread is not chained.
            StoreError: The thread's file cannot be opened or is in use.
            AuditError: The thread's file is another log's.
        """
        if chain is None:
            raise NOT_CHAINED(thread=thread)
        return Recorder(
            store,
            thread,
            chain,
            path=self.path(shared_id(store, thread)),
            keys=self.keys.of(chain.thread) if self.keys is not None else None,
            anchors=self._anchors,
            on_failure=self._on_failure,
        )


def _is_there(store: Store, thread: str) -> bool:
    try:
        store.head(thread)
    except InputError:
        return False
    return True


def weakly_keyed(folder: Path, secret: bytes) -> AuditLog:
    """Return an audit log whose key may be guessable, for programs that have only such a secret.

    `verify` reports it.

    Raises:
        InputError: The secret is empty (`weak-key`).
    """
    if not secret:
        raise WEAK_KEY(problem="empty")
    log = AuditLog(folder)
    log.keys = KeyRing(secret, ())
    return log


def _anchors(anchor: Any) -> tuple[Anchor, ...]:
    anchors: tuple[Any, ...] = () if anchor is None else tuple(anchor) if is_list(anchor) else (anchor,)
    for item in anchors:
        if callable(item):
            continue
        if not isinstance(item, (str, os.PathLike)):
            raise INVALID_ARGUMENT(
                argument="anchor=",
                value=item,
                wanted="a file, a function that keeps the head somewhere else, or a list of these",
            )
        check_overwritable(checked_path(item), kind="a file of heads", begins=BEGINS)
    return anchors
