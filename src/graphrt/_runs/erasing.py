"""`erase`: replaces chosen values in stored threads without breaking their hash chains (decision 0128).

The unit is a *line*: the encoded form of one field write, answer, effect, message or model reply. Its *place* says
which of these it is. This module chooses the lines, finds threads that still need a value, and orders the steps.
`_journal.erasing` computes the new bytes of a thread, and the store replaces them in one transaction. `WORLD` has the
error codes of a store that cannot currently be reached or written. `PLAIN` is a codec that reads any body as plain JSON
data. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from graphrt import events
from graphrt._engine.erased_work import erased_fields, erased_work
from graphrt._journal.batch_format import blob_names
from graphrt._journal.erasing import Choose, Place, ThreadErasure, holds_text
from graphrt._journal.leases import give_back, release_now, take
from graphrt._journal.reader import WORLD, Reader
from graphrt._journal.thread_meta import read_meta
from graphrt._journal.verifying import PLAIN
from graphrt._runs.entries import entries
from graphrt._runs.erasure_report import ErasureReport, Leftover
from graphrt._runs.listeners import of_edits
from graphrt._runs.loading import folded, the_store
from graphrt._runs.relisting import relisted
from graphrt._runs.run_config import RunConfig
from graphrt.errors import AuditError, ConflictError, GraphrtError, InputError, StoreError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.erasing import BAD_ERASURE, NO_SUCH_FIELD, PREDICATE_FAILED, STILL_NEEDED
from graphrt.errors._codes.threads import CONFLICT
from graphrt.events import ValuesErased
from graphrt.stores._checks import encodes
from graphrt.stores.filters import MemoryFilter
from graphrt.stores.ids import check_id, local_id_of
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit, MemoryWrite, Record, StoredThread

if TYPE_CHECKING:
    from pathlib import Path

    from graphrt.audit._erased_file import ErasedFile

Predicate: TypeAlias = Callable[[str, int, "str | None", Any], bool]
"""Returns whether to erase. Takes the thread, entry number, field (None if the line is not a field write) and value."""
Where: TypeAlias = "str | tuple[str, str] | Predicate"
_UNFINISHED: Final = frozenset({"interrupted", "failed", "running"})
"""Statuses of threads that may continue, and so may still need a value."""
_OUTSIDE: Final = (
    "Exports, backups, replicas, traces and what sinks, models and tools were given lie outside of the store and still "
    "have what they got."
)
_NO_LOG: Final = (OSError, AuditError, ValueError, LookupError, TypeError, AssertionError)
"""Errors for a file that cannot be read or written, or is not the log of its thread."""
_BLOB: Final = b'{"$t":"blob","v":"'
"""Prefix of a line that refers to a large value; the SHA-256 of its bytes follows, as 64 hexadecimal digits."""


def erase(
    config: RunConfig,
    where: Any,
    *,
    threads: Iterable[str] | None,
    reason: str,
    by: str | None,
    dry_run: bool,
    force: bool,
) -> ErasureReport:
    """Erase values of stored threads; see `Runtime.erase`."""
    store = the_store(config)
    store.require("erasure")
    choice = _Choice(config, where)
    if isinstance(threads, str):  # an iterable of str too
        raise INVALID_ARGUMENT(argument="threads= of erase()", value=threads, wanted="a list of ids, or None for all")
    wanted = None if threads is None else [check_id(thread) for thread in threads]
    work = _Erasing(config, store, choice, reason, config.user if by is None else by, dry_run=dry_run, force=force)
    for thread in choice.threads(store, wanted):
        work.one(thread, asked=wanted is not None)
    choice.check_field()
    if wanted is None:
        work.log_files_of_deleted_threads()
        work.memory()
    return work.report()


@final
class _Choice:
    """The caller's choice of values: a text, a pair (thread, field) or a predicate. Anything else is rejected."""

    def __init__(self, config: RunConfig, where: Any) -> None:
        criterion: Any = where  # type checkers rule out other types here, but callers may pass anything
        self._codec: Final = config.plan.codec
        self._graph: Final = config.plan.name
        self.text: str | None = where if isinstance(where, str) else None
        """The text that is erased wherever a value contains it; None for the other forms."""
        self._pair: tuple[str, str] | None = None  # thread and field
        self._family: set[str] = set()
        """Threads whose field is erased: the named one, plus its copies and forks once `_find_family` has run."""
        self._names: set[str] = set()
        """Names that occur in the threads read so far: of fields, and of nodes."""
        self._fields: Final = config.plan.state.fields
        self._predicate: Predicate | None = None
        if isinstance(where, str):
            if not where or not encodes(where):  # no value holds a lone surrogate
                raise BAD_ERASURE(given=where)
        elif isinstance(where, tuple):
            pair: tuple[Any, ...] = criterion
            if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
                raise BAD_ERASURE(given=where)
            self._pair = check_id(pair[0]), pair[1]
            self._family = {pair[0]}
        elif callable(where):
            self._predicate = criterion
        else:
            raise BAD_ERASURE(given=where)

    def threads(self, store: Store, wanted: Sequence[str] | None) -> Sequence[str]:
        """Return the threads to search: those that the caller named (*wanted*), else all that may contain values."""
        if self._pair is not None:
            self._find_family(self._pair[0], store)
        if wanted is not None:
            return wanted
        return [thread for thread in store.threads() if self._pair is None or thread in self._family]

    def _find_family(self, named: str, store: Store) -> None:
        """Add the copies and forks of the thread *named* to the threads whose field is erased."""
        store.head(named)  # raises an InputError if there is no such thread
        # Threads are listed in order of creation: a copy or fork comes after its source.
        for thread in store.threads():
            try:
                sources = _sources(store, thread)
            except StoreError as error:
                if error.code in WORLD:  # the store failed, which says nothing about the thread
                    raise
                continue  # it is damaged, and cannot be erased from either
            if not sources.isdisjoint(self._family):
                self._family.add(thread)

    def chooser(self, thread: str, graph: str, fetch: Callable[[str], bytes | None]) -> Choose:
        """Return the function with which `_journal.erasing` chooses lines of *thread*, whose graph is named *graph*.

        It takes a line's entry, place and bytes. *fetch* returns a large value by its hash; None if it is missing.
        """
        text = self.text
        if text is not None:

            def contains(_seq: int, _place: Place, line: bytes) -> bool:
                return holds_text(_whole(line, fetch), text) or any(text in held for held in _files(line, fetch))

            return contains
        if self._pair is not None:
            # None is not a field name, so it selects nothing.
            field = self._pair[1] if thread in self._family else None

            def writes_field(_seq: int, place: Place, _line: bytes) -> bool:
                if place.kind == "field" and place.field is not None:
                    self._names.add(place.field)
                return place.kind == "field" and place.field == field

            return writes_field

        def predicate_says(seq: int, place: Place, line: bytes) -> bool:
            return self._ask(thread, seq, place, self._value(_whole(line, fetch), graph, fetch))

        return predicate_says

    def read(self, names: Iterable[str]) -> None:
        """Take note of the names that occur in a thread that was read."""
        self._names.update(names)

    def check_field(self) -> None:
        """Check, after all threads were read, that the field of a pair exists: in the graph or in one of the threads.

        Raises:
            InputError: It is misspelt, so that nothing was erased (`bad-erasure`).
        """
        if self._pair is None or not self._names:  # no thread could be read, which is reported
            return
        field = self._pair[1]
        if field not in self._names and field not in self._fields:
            raise NO_SUCH_FIELD(field=field, thread=self._pair[0], fields=sorted(self._fields))

    def _value(self, line: bytes, graph: str, fetch: Callable[[str], bytes | None]) -> Any:
        """Return the value on *line*; plain JSON data if the runtime's graph does not know its class."""

        def file(name: str) -> bytes:
            data = fetch(name)
            if data is None:
                raise KeyError(name)
            return data

        if graph == self._graph:
            try:
                return self._codec.load(line, file)
            except StoreError as error:
                if error.code != "unknown-type":
                    raise
        return PLAIN.load(line, file)

    def _ask(self, thread: str, seq: int, place: Place, value: Any) -> bool:
        """Call the caller's predicate; raise an InputError if it raises or does not return a bool."""
        assert self._predicate is not None  # noqa: S101 - the caller knows the form
        try:
            returned: Any = self._predicate(thread, seq, place.field, value)
        except Exception as error:
            raise PREDICATE_FAILED(
                did=f"raised {type(error).__name__}", thread=thread, seq=seq, field=place.field
            ) from error
        if returned is not True and returned is not False:
            raise PREDICATE_FAILED(did=f"returned {returned!r}", thread=thread, seq=seq, field=place.field)
        return bool(returned)


def _whole(line: bytes, fetch: Callable[[str], bytes | None]) -> bytes:
    """Return *line*, or the large value that it refers to if that exists."""
    if not line.startswith(_BLOB):
        return line
    value = fetch(line[len(_BLOB) : len(_BLOB) + 64].decode())
    return line if value is None else value


def _files(line: bytes, fetch: Callable[[str], bytes | None]) -> Iterator[str]:
    """Yield the texts of the documents in the value on *line*; their bytes are stored separately."""
    if line.startswith(_BLOB):  # a large value has no files
        return
    for name in blob_names(line):
        with suppress(UnicodeDecodeError):  # a picture
            yield (fetch(name) or b"").decode()


def _sources(store: Store, thread: str) -> set[str]:
    """Return the threads that *thread* was forked or copied from, according to its journal; they may be gone.

    A copy has the entries of its source, so the sources of that are included. Entries that were pruned name none.
    """
    loaded = store.load(thread, upto=0)  # only head and meta
    meta = read_meta(loaded.meta, thread)
    first = loaded.head.first
    # A fork says so in its first entry, and a copy where its own entries begin. Only the meta of a copy has a name.
    records = store.records(thread, after=first - 1, upto=None if "name" in meta else first)
    reader = Reader(store, thread, PLAIN, meta=meta)
    shared = {
        str(event.source)
        for record in records
        for _, event in reader.batch(record).logged
        if isinstance(event, (events.ThreadForked, events.ThreadCopied))
    }
    if "chained" in meta:  # the thread that its chain began with, also after the entries of a copy were pruned
        shared.add(str(meta["chained"]))
    return {local_id_of(store, source) for source in shared}


@final
class _Erasing:
    """One call of `erase`, thread by thread.

    It counts the erased values and collects the remaining copies for the report.

    *reason* and *by* are recorded in the journal. With *force*, values are erased even if an unfinished thread needs
    them.
    """

    def __init__(
        self, config: RunConfig, store: Store, choice: _Choice, reason: str, by: str, *, dry_run: bool, force: bool
    ) -> None:
        self._config: Final = config
        self._store: Final = store
        self._choice: Final = choice
        self._reason: Final = reason
        self._by: Final = by
        self._dry_run: Final = dry_run
        self._force: Final = force
        self._threads: list[str] = []
        self._left: list[Leftover] = []
        self._records = self._lines = self._blobs = self._replies = self._items = 0
        self._looked_at: tuple[ThreadErasure, Mapping[int, tuple[int, ...]]] | None = None
        """Values to erase that exist only in the log file of the thread read last."""
        self._scrubs = False
        """Whether the store has freed bytes to overwrite, from this call or from an interrupted one."""

    def one(self, thread: str, *, asked: bool) -> None:
        """Erase the chosen values of one thread.

        Report an obstacle, or raise it if the caller *asked* for the thread by name.
        """
        try:
            release_now(self._store, thread)  # else a claim that this process failed to release would be in the way
            self._one(thread)
        except ConflictError as error:
            self._refused(error, thread, "running", asked=asked)
        except StoreError as error:
            if error.code in WORLD:
                raise
            self._refused(error, thread, "damaged", asked=asked)
        except InputError as error:
            if error.code == "unknown-thread" and not asked:
                return  # it was deleted meanwhile
            if error.code not in ("erasure-needed", "log-key-needed", "log-not-keyed"):
                raise
            self._refused(error, thread, "needed" if error.code == "erasure-needed" else "key", asked=asked)

    def memory(self) -> None:
        """When erasing a text, delete the memory items that contain it in their key or value.

        Namespaces are names, and erasures do not change names.
        """
        text, store = self._choice.text, self._store
        if text is None or "memory" not in store.offers:
            return
        items = store.query(MemoryFilter(now=float("-inf")))
        matching = [item for item in items if text in item.key or holds_text(item.body, text)]
        self._items = len(matching)
        if matching and not self._dry_run:
            deletions = [MemoryWrite(item.namespace, item.key, None) for item in matching]
            store.write_memory(deletions, at=self._config.clock())
            self._scrubs = True

    def _refused(self, error: GraphrtError, thread: str, what: str, *, asked: bool) -> None:
        """Raise *error*, an obstacle to the erasure, or report it as `Leftover.what` = *what*.

        Dry runs always report it.
        """
        if asked and not self._dry_run:
            raise error
        self._left.append(Leftover(thread, what, error.what))

    def _one(self, thread: str) -> None:
        """Erase the chosen values of one thread, or count them in a dry run. Errors propagate to `one`."""
        store = self._store
        # Without a claim: most threads have nothing to erase, and others may drive them meanwhile.
        erasure = self._read(thread)
        self._choice.read(erasure.reader.names.known)
        self._scrubs = self._scrubs or erasure.reader.erased  # erased by a call that died before overwriting
        if self._dry_run:
            if erasure.lines or self._only_in_file(erasure):
                if erasure.loaded.head.owned:  # a real call would not get the claim
                    raise CONFLICT(thread=thread, known="a living owner holds it now")
                self._prepare(erasure)  # counts, and raises as a real call would
            self._note(erasure)
            return
        if not erasure.lines and not self._only_in_file(erasure) and not self._is_stale(erasure):
            self._note(erasure)
            return
        claim = take(store, thread, create=False, lease_s=self._config.lease_s, at=0.0)  # *at* is for new threads only
        try:
            erasure = self._read(thread)  # again: only now can no other process write it
            self._note(erasure)
            if erasure.lines or self._only_in_file(erasure):
                commit, records, keep = self._prepare(erasure)
                # `since`: snapshots from this entry on contain a chosen value, and are deleted.
                store.erase(claim, commit, records=records.values(), snapshots_after=erasure.since - 1, keep_blobs=keep)
                self._scrubs = True
                self._config.kept.forget(thread)
                self._show(thread, commit)
            self._rewrite_log_file(erasure)
        finally:
            give_back(store, claim)

    def _read(self, thread: str) -> ThreadErasure:
        """Read and verify a thread, and choose the values to erase."""
        store, config = self._store, self._config
        loaded = store.load(thread)
        choose = self._choice.chooser(thread, loaded.head.graph, lambda name: store.blobs(thread, [name]).get(name))
        return ThreadErasure(store, loaded, config.keys, choose, text=self._choice.text)

    def _prepare(self, erasure: ThreadErasure) -> tuple[Commit, dict[int, Record], set[str]]:
        """Return and count the data for the store to write: commit, records to replace by `seq`, blobs to keep.

        Raise an InputError if an unfinished thread needs one of the values (`erasure-needed`), or its log needs a key.
        """
        if erasure.chain is not None:
            audit = self._config.audit
            # Raises if the log does not have the runtime's key.
            erasure.chain.writable(adopt=audit is not None and audit.adopt)
        event = ValuesErased(
            by=self._by,
            reason=self._reason,
            records=erasure.records,
            lines=erasure.lines,
            erased={**self._only_in_file(erasure), **erasure.erased()},
        )
        records = erasure.rewritten()
        commit = erasure.commit(event, self._config.clock(), seed=self._config.seed)
        commit = relisted(self._config, self._store, erasure, records, commit)
        if not self._force and erasure.loaded.head.status in _UNFINISHED:
            self._check_not_needed(erasure, erasure.loaded_after(records, commit))
        # Names of the blobs that are still referred to, and of the others.
        keep, unused = erasure.blobs(records, commit)
        self._threads.append(erasure.reader.thread)
        self._records += erasure.records
        self._lines += erasure.lines
        self._blobs += len(unused)
        self._replies += erasure.replies
        return commit, records, keep

    def _check_not_needed(self, erasure: ThreadErasure, after: StoredThread) -> None:
        """Raise an InputError (`erasure-needed`) if the thread, as folded after the erasure, may need a value."""
        head = erasure.loaded.head
        if head.graph != self._config.plan.name:
            needs = [f"what this runtime cannot tell, as it drives graph {self._config.plan.name!r}"]
        else:
            try:
                engine = folded(self._config, after).engine
            except GraphrtError as error:
                if error.code in WORLD:  # the store failed, which says nothing about the thread
                    raise
                raise STILL_NEEDED(
                    thread=head.thread, status=head.status, needs=f"what cannot be told: {error.what}"
                ) from error
            needs = [f"field {name!r}" for name in erased_fields(engine, engine.values)]
            needs += dict.fromkeys(erased_work(engine))
        if needs:
            raise STILL_NEEDED(thread=head.thread, status=head.status, needs=", ".join(needs))

    def _note(self, erasure: ThreadErasure) -> None:
        """Report data of a thread that is not a value and so cannot be erased, or that can be guessed."""
        thread = erasure.reader.thread
        if erasure.text_stays:
            why = (
                "The text is in its id, a name, the key of an effect or a question, or a reason, which are not values."
            )
            self._left.append(Leftover(thread, "text", why))
        if erasure.lines and erasure.digest_stays:
            why = "Its first record has digests of outcomes that were staged when it was forked, without a salt."
            self._left.append(Leftover(thread, "digest", why))

    def _show(self, thread: str, commit: Commit) -> None:
        """Show the entry of the erasure to the sinks, and to the Python log."""
        seq, sinks = commit.records[0].seq, of_edits(self._config)
        for entry in entries(self._config, thread, after=seq - 1) if sinks else ():
            for sink in sinks:
                sink(entry)

    def _log_file(self, erasure: ThreadErasure) -> ErasedFile | None:
        """Return the function that rewrites the file of the thread's audit log; None if there is no such file."""
        audit = self._config.audit
        if audit is None or erasure.chain is None:
            return None
        head = erasure.loaded.head
        return audit.erased_file(self._store, head.thread, partial(self._choice.chooser, head.thread, head.graph))

    def _only_in_file(self, erasure: ThreadErasure) -> Mapping[int, tuple[int, ...]]:
        """Return the lines to erase in records that remain only in the log file, because the store has pruned them.

        Lines that an earlier erasure named but could not erase are excluded.
        """
        if self._looked_at is None or self._looked_at[0] is not erasure:  # once per thread, since it reads the file
            file = self._log_file(erasure)
            try:
                file_lines = file.only_there() if file is not None else {}
            except _NO_LOG:
                file_lines = {}  # `_is_stale` reports it
            known = erasure.known_erased
            new = {seq: lines for seq, lines in file_lines.items() if not known.get(seq, set()).issuperset(lines)}
            self._looked_at = erasure, new
        return self._looked_at[1]

    def _is_stale(self, erasure: ThreadErasure) -> bool:
        """Return whether the log file has values that the store lacks, or is missing its head, as after a crash."""
        # *erased*: the last entry is that of an erasure. The file ends with a head if that erasure was completed.
        erased, file = erasure.ends_with_erasure, self._log_file(erasure)
        try:
            if file is None:  # unknown whether a head was anchored; anchoring twice does no harm
                return erased and self._config.audit is not None and erasure.chain is not None
            return file.stale() or (erased and not file.has_head(erasure.loaded.head.seq))
        except _NO_LOG as error:
            self._not_rewritten(erasure.reader.thread, error)
            return False

    def _rewrite_log_file(self, erasure: ThreadErasure) -> None:
        """Rewrite the audit log file, and end it with a head: a hash over all records, kept by the anchors."""
        audit, chain = self._config.audit, erasure.chain
        if audit is None or chain is None:
            return
        thread = erasure.reader.thread
        try:
            file = self._log_file(erasure)
            if file is not None:
                # The entry of the erasure comes first. Without it, the missing values would look like tampering.
                audit.recorder(self._store, thread, chain).close()
                file.rewrite()
                self._left += [
                    Leftover(thread, "log-file", f"{path!r} keeps a line that a crash cut off.") for path in file.torn()
                ]
            recorder = audit.recorder(self._store, thread, chain)
            try:
                recorder.mark(self._config.clock())
            finally:
                recorder.close()
        except _NO_LOG as error:
            self._not_rewritten(thread, error)

    def log_files_of_deleted_threads(self) -> None:
        """Erase the chosen values from log files whose thread is no longer in the store."""
        audit = self._config.audit
        for thread, path in audit.orphans(self._store) if audit is not None else ():
            try:
                self._log_file_of_deleted(thread, path)
            except (*_NO_LOG, StoreError, InputError) as error:
                if isinstance(error, InputError) and error.code != "log-key-needed":
                    raise  # the error is about the caller's function
                self._not_rewritten(thread, error)

    def _log_file_of_deleted(self, thread: str, path: Path) -> None:
        from graphrt.audit._closed_file import append_event
        from graphrt.audit._erased_file import ErasedFile

        # The graph is not known, so values are read as plain JSON data.
        file = ErasedFile(path, None, thread, partial(self._choice.chooser, thread, ""))
        file_lines = file.only_there()
        if not file_lines and not file.stale():
            return
        lines = sum(map(len, file_lines.values()))
        if not self._dry_run:
            event = ValuesErased(
                by=self._by, reason=self._reason, records=len(file_lines), lines=lines, erased=file_lines
            )
            append_event(path, event, self._config.keys, self._config.clock())
            file.rewrite()
            self._left += [
                Leftover(thread, "log-file", f"{torn_path!r} keeps a line that a crash cut off.")
                for torn_path in file.torn()
            ]
        self._threads.append(thread)
        self._records += len(file_lines)
        self._lines += lines

    def _not_rewritten(self, thread: str, error: Exception) -> None:
        """Report that the file may still have the values. The store no longer has them, so nothing is raised."""
        self._left.append(
            Leftover(thread, "log-file", f"The file of its log was not rewritten; erase again to try it again: {error}")
        )

    def report(self) -> ErasureReport:
        """Overwrite the space that the store has freed, and return the report."""
        if self._scrubs and not self._dry_run:
            self._left += [Leftover(None, "store", why) for why in self._store._scrub()]
        return ErasureReport(
            dry_run=self._dry_run,
            threads=tuple(self._threads),
            records=self._records,
            lines=self._lines,
            blobs=self._blobs,
            model_calls=self._replies,
            left=(*self._left, Leftover(None, "outside", _OUTSIDE)),
            items=self._items,
        )
