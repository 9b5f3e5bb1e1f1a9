"""Erasure of values from one stored thread: computes the rewritten bytes (decision 0128). Nothing is written here.

A stored body (of a record, a snapshot, or staged data) consists of lines of JSON. Line 0 is the structure, which has no
user values, and every other line is one value: one write of a field, one answer, effect, message or reply. Erasure
works on such lines. `{"$t":"erased","v":null}` replaces the line. In the record's seal (its link to the hash chain),
the hash of salt and line replaces the salt. Header, leaf and MAC are unchanged, so that the chain still verifies.

Line 0 lists the entries as `[code, path, field, ...]`, where the fields refer to their values by line number;
`event_schema` knows which fields do (`places`). Texts are searched in lines without decoding them into objects
(`holds_text`). An encoded value is JSON. A value of a class is an object in which the key `TAG` (`$t`) names the class;
bytes are an object with their base64 form under `v`.

Repetitions of a value are erased with it: later snapshots, checksums of its field, and digests of snapshots and of
staged outcomes with which records vouch for these. A final record with a `ValuesErased` says that values were erased,
and vouches for the remaining staged data. `_runs.erasing` chooses the lines, and makes the store write the result.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, final

from pydantic_core import from_json, to_json

from graphrt._codec.refusal import TAG
from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import blob_names, closed, digest, encode
from graphrt._journal.body import ERASED_LINE, Body, Names
from graphrt._journal.event_schema import lines_of
from graphrt._journal.field_codecs import Kind
from graphrt._journal.reader import Reader, check_end, check_name, check_own, lacking
from graphrt._journal.staging import binding, outcomes
from graphrt._journal.standing import ThreadStanding
from graphrt._journal.thread_fold import chain_of
from graphrt._journal.thread_meta import read_meta
from graphrt._journal.verifying import PLAIN, note_erased
from graphrt.events import ValuesErased
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit, Record, StoredSnapshot, StoredThread

if TYPE_CHECKING:
    from graphrt._journal.chain import Chain
    from graphrt._journal.log_keys import KeyRing


class Place(NamedTuple):
    """A line that holds a value."""

    line: int
    """Number of the line."""
    kind: Kind
    """The kind of content of the line:

    - `field`: a write of a field;
    - `reply`: a model's reply;
    - `value`: another value, such as an effect, an answer or a message;
    - `checksums`: checksums of fields;
    - `type`: the type of an answer;
    - `vouch`: digests of staged bodies, of a snapshot or of the names in the meta.
    """
    field: str | None = None
    """Name of the field that is written; None for other kinds."""
    entry: int = 0
    """Position, in the body, of the entry that it belongs to."""


def places(structure: Sequence[Any], names: Sequence[str]) -> Iterator[Place]:
    """Yield the lines of a body that hold values.

    Args:
        structure: Line 0 of the body, decoded.
        names: Names of the thread, including those that the body introduces.
    """
    # Version, time, run, cause and new names come first. `more`: the number of the line that vouches, if there is one.
    _, _, _, _, _, entries, *more = structure
    for entry, (code, _, *stored) in enumerate(entries):  # the path is not needed
        for line, kind, field in lines_of(code, stored, names):
            yield Place(line, kind, field, entry)
    for line in more:
        yield Place(line, "vouch")


_BINARY: Final = (b'"$t":"bytes"', b'"$t":"bytearray"')
"""Pattern to find encoded bytes, because the base64 form hides texts inside them."""


def escaped(text: str) -> bytes:
    """Return *text* as it appears inside a JSON string."""
    return to_json(text)[1:-1]


def holds_text(line: bytes, text: str) -> bool:
    """Return whether *text* is part of a text, a key or bytes (in UTF-8) anywhere in the encoded value *line*."""
    # Each character is escaped in exactly one way, so comparing bytes is enough for most lines.
    if escaped(text) not in line and not any(tag in line for tag in _BINARY):
        return False
    pending: list[Any] = [from_json(line)]
    while pending:
        value = pending.pop()
        if value.__class__ is str:
            if text in value:
                return True
        elif value.__class__ is list:
            pending += value
        elif value.__class__ is dict:
            tag = value.pop(TAG, None)  # the name of a class is not part of the value
            if tag in ("bytes", "bytearray") and text.encode() in b64decode(str(value.get("v"))):
                return True
            if any(text in key for key in value):
                return True
            pending += value.values()
    return False


Choose: TypeAlias = Callable[[int, Place, bytes], bool]
"""Returns whether to erase a line. Takes the number of its entry, its place (what it contains), and the line."""
_KINDS: Final = frozenset({"field", "reply", "value"})
"""Kinds of lines that can be chosen. Others are erased only as a consequence, or contain no user value."""
_MARKER: Final = b'{"$t":"marker"'
"""Prefixes of the lines of DELETE and UNSET, which are not values."""


class Part(NamedTuple):
    """A parsed body for erasure."""

    lines: Sequence[bytes]
    """Its lines, without the checksum."""
    places: Sequence[Place]
    """The kinds of its lines."""
    chosen: frozenset[int]
    """Numbers of the lines to erase."""

    def without(self, more: Iterable[int] = ()) -> list[bytes]:
        """Return the lines, with the chosen ones replaced, and those with the numbers *more* too."""
        erased = {*self.chosen, *more}
        return [ERASED_LINE if number in erased else line for number, line in enumerate(self.lines)]


def part_of(lines: Sequence[bytes], names: Sequence[str], first: int, choose: Choose) -> Part:
    """Determine the contents of a body's lines, and which lines to erase. Erased lines are not chosen again.

    Args:
        lines: Its lines, without the checksum.
        names: Names that it may refer to.
        first: Number of its first entry.
        choose: Chooses the lines to erase.
    """
    line_places = list(places(from_json(lines[0]), names))
    chosen = frozenset(
        place.line
        for place in line_places
        if place.kind in _KINDS
        and lines[place.line] != ERASED_LINE
        and not lines[place.line].startswith(_MARKER)
        and choose(first + place.entry, place, lines[place.line])
    )
    return Part(lines, line_places, chosen)


def repeated(part: Part, fields: set[str | None], *, snapshots_from: int) -> set[int]:
    """Return the numbers of lines with digests or checksums of erased values, which could confirm a guess of a value.

    Args:
        fields: Fields of which values were erased in the record of *part* or before it, for their checksums.
        snapshots_from: Snapshots of this entry and later ones are dropped, so that no record may vouch for them.
    """
    numbers: set[int] = set()
    for place in part.places:
        line = part.lines[place.line]
        if line == ERASED_LINE:
            continue
        if place.kind == "checksums" and not fields.isdisjoint(from_json(line)):
            numbers.add(place.line)
        if place.kind == "vouch":
            vouched = from_json(line)
            dropped = vouched.get("snapshot", [0])[0] >= snapshots_from > 0  # 0 if it does not vouch for a snapshot
            # The line in the first record is kept, because it vouches for names, whose changes would otherwise go
            # undetected.
            if "names" not in vouched and ("staged" in vouched or dropped):
                numbers.add(place.line)
    return numbers


@final
class ThreadErasure:
    """The erasure of the chosen values of one thread.

    Creating it reads and verifies the thread but writes nothing. The methods then return the data for the store:
    `rewritten` and `commit`, and `blobs` for those that it may delete.

    Args:
        store: Where the thread is.
        loaded: The thread in its present state.
        keys: Keys of the log; None verifies no MACs and makes none.
        choose: Chooses the lines to erase.
        text: The text by which values are chosen; None if by other means. Occurrences elsewhere are reported.

    Raises:
        StoreError: The thread is damaged.
    """

    def __init__(
        self,
        store: Store,
        loaded: StoredThread,
        keys: KeyRing | None,
        choose: Choose,
        *,
        text: str | None = None,
    ) -> None:
        head = loaded.head
        self._store: Final = store
        self._choose: Final = choose
        self.loaded: Final = loaded
        self._meta: Final = read_meta(loaded.meta, head.thread)
        check_own(store, head.thread, self._meta)  # checks that its id was not swapped with another thread's
        self.reader: Final = Reader(store, head.thread, PLAIN, meta=self._meta, keys=keys)  # reads values as JSON
        self.chain: Chain | None = None
        """The end of the chain, after `commit` with the new record; None if the thread is not chained."""
        self._standing = ThreadStanding()  # the entry about the erasure continues the last run
        self.ends_with_erasure: bool = False
        """Whether the last entry is a `ValuesErased`: the audit log file may still lack an interrupted erasure."""
        self.known_erased: dict[int, set[int]] = {}
        """Lines that earlier erasures have named, by the `seq` of their record."""
        self._blobs: set[str] = set()  # names of the large values that records and staged bodies currently refer to
        self._cut: Final[dict[int, tuple[Record, Part]]] = {}
        """Records with chosen lines, or with lines that may have to be erased with them, by their `seq`."""
        self.base: StoredSnapshot | None = None
        """The snapshot with which a pruned thread begins, instead of its first entries; None if it was not pruned."""
        self._base_part: Part | None = None
        self._staged: dict[str, Part] = {}  # staged bodies by key
        self.text_stays: bool = False
        """Whether the text is also in something that is not a value: names, ids, keys of effects, the meta."""
        self.digest_stays: bool = False
        """Whether the first record repeats digests of staged outcomes, as that of a fork does."""
        self._text: Final = text
        self._look(head.thread, head.graph, *(key for key, _ in loaded.staged))
        self._look_in(loaded.meta or b"")
        self._read_base(keys)
        self._read_records()
        self._read_staged()

    def _look(self, *texts: str) -> None:
        """Look for the text in names and ids."""
        self.text_stays = self.text_stays or (self._text is not None and any(self._text in text for text in texts))

    def _look_in(self, line: bytes) -> None:
        """Look for the text in JSON that holds no values."""
        if self._text is not None and escaped(self._text) in line:
            self.text_stays = True

    def _read_base(self, keys: KeyRing | None) -> None:
        """Read the snapshot that a pruned thread begins with, and set the chain to where the first record continues."""
        head = self.loaded.head
        digests: Mapping[str, str] | None = None
        if head.first > 1:
            self.base = self._store.load(head.thread, upto=head.first - 1).snapshot
        if self.base is not None:
            state = self.reader.saved(self.base.body, self.base.seq)
            self._standing.stand(state, self.base.seq)
            digests = state.digests
            lines, names = self._lines(self.base.body)
            self._base_part = part_of(lines, names, self.base.seq, self._choose)
        if self._meta.get("chained"):
            self.chain = chain_of(str(self._meta["chained"]), digests, keys)

    def _read_records(self) -> None:
        """Verify all records in order, as a run does, and keep those that may contain values to erase."""
        head, reader = self.loaded.head, self.reader
        seq = head.first - 1
        for record in self._store.records(head.thread, after=seq, upto=head.seq):
            if record.seq - record.count != seq:
                raise lacking(head.thread, seq + 1)
            batch, body = reader.checked(record, self.chain)
            lines = body.lines
            self._blobs |= blob_names(record.body)
            part = part_of(lines, reader.names.known, seq + 1, self._choose)
            self._look_in(lines[0])
            self.digest_stays = self.digest_stays or any(
                place.kind == "vouch" and b'"staged":' in lines[place.line] and b'"names":' in lines[place.line]
                for place in part.places
            )
            if part.chosen or any(place.kind in ("checksums", "vouch") for place in part.places):
                self._cut[record.seq] = record, part
            self.ends_with_erasure = isinstance(batch.logged[-1][1], ValuesErased)  # pairs of path and event
            note_erased(batch.logged, self.known_erased)
            self._standing.apply(batch.logged, record.seq - record.count + 1, batch.run)
            seq = record.seq
        check_end(head.thread, seq, head.seq)
        check_name(self._store, head.thread, self.chain and self.chain.name)

    def _read_staged(self) -> None:
        """Verify the staged bodies, and choose lines of them. They have no entries yet, so they count as the next."""
        reader, seq = self.reader, self.loaded.head.seq
        reader.check_beside(self.loaded.staged, seq)  # against the digests by which records vouch for them
        for key, payload in self.loaded.staged:
            lines, names = self._lines(payload, key=key)
            self._blobs |= blob_names(payload)
            self._staged[key] = part_of(lines, names, seq + 1, self._choose)

    def _lines(self, payload: bytes, *, key: str | None = None) -> tuple[Sequence[bytes], Sequence[str]]:
        """Return the lines of a snapshot, or of the body staged under *key*, and the names that the body brings."""
        names = Names()
        return self.reader.body(payload, names, key=key)[1].lines, names.known

    def parts(self) -> Iterator[Part]:
        """Yield the bodies with a chosen line: of records, of staged data, and of the first snapshot."""
        yield from (part for _, part in self._cut.values() if part.chosen)
        yield from (part for part in self._staged.values() if part.chosen)
        if self._base_part is not None and self._base_part.chosen:
            yield self._base_part

    @property
    def records(self) -> int:
        """Number of records that lose values."""
        return sum(bool(part.chosen) for _, part in self._cut.values())

    @property
    def lines(self) -> int:
        """Number of values that are erased."""
        return sum(len(part.chosen) for part in self.parts())

    @property
    def replies(self) -> int:
        """Number of model replies among them."""
        return sum(
            place.kind == "reply" and place.line in part.chosen for part in self.parts() for place in part.places
        )

    @property
    def since(self) -> int:
        """Number of the entry from which on snapshots hold erased values; past the end if no record has any."""
        if self._base_part is not None and self._base_part.chosen and self.base is not None:
            return self.base.seq
        return min((seq for seq, (_, part) in self._cut.items() if part.chosen), default=self.loaded.head.seq + 1)

    def erased(self) -> dict[int, tuple[int, ...]]:
        """Return the numbers of the erased lines, by the `seq` of their record, for the entry about the erasure."""
        fields: set[str | None] = {
            place.field for part in self.parts() for place in part.places if place.line in part.chosen
        } - {None}  # of lines that hold no field
        since = self.since
        by_seq = {
            seq: {*part.chosen, *repeated(part, fields if seq >= since else set(), snapshots_from=since)}
            for seq, (_, part) in self._cut.items()
        }
        return {seq: tuple(sorted(numbers)) for seq, numbers in sorted(by_seq.items()) if numbers}

    def rewritten(self) -> dict[int, Record]:
        """Return the records that change, by their `seq`."""
        return {seq: self._record(*self._cut[seq], numbers) for seq, numbers in self.erased().items()}

    @staticmethod
    def _record(record: Record, part: Part, numbers: Collection[int]) -> Record:
        """Return *record* without the lines *numbers*, with a seal that still fits its header."""
        body = closed(part.without(numbers))
        seal = record.seal
        if seal:
            from graphrt._journal.seal import erased  # loads OpenSSL, for chained threads only

            seal = erased(seal, part.lines, numbers)
        return record._replace(body=body, seal=seal)

    def staged(self) -> list[tuple[str, bytes]]:
        """Return the staged data with the chosen values erased, in the order of staging."""
        return [(key, self._restaged(key, payload)) for key, payload in self.loaded.staged]

    def _restaged(self, key: str, payload: bytes) -> bytes:
        """Return the body staged under *key* without the chosen values, rebound to its key."""
        part = self._staged[key]
        if not part.chosen:
            return payload
        return closed(part.without(), binding(str(self._meta.get("chained") or ""), key))

    def new_base(self) -> StoredSnapshot | None:
        """Return the snapshot that a pruned thread begins with, if values of it are erased; else None."""
        if self._base_part is None or not self._base_part.chosen or self.base is None:
            return None
        return StoredSnapshot(self.base.seq, closed(self._base_part.without()))

    def commit(self, event: ValuesErased, at: float, *, seed: int | None) -> Commit:
        """Return the commit with *event*, to be written in one transaction with `rewritten`.

        Args:
            event: Contains who erased values, why, and how many.
            at: Seconds since the epoch.
            seed: Makes the salts the same each time; None draws them at random.
        """
        seq, staged, base = self.loaded.head.seq + 1, self.staged(), self.new_base()
        batch = Batch(at, self._standing.run, self._standing.cause, [("", event)])
        body = Body(PLAIN, self.reader.names)
        # An *end* is a part of the hash at the end of a staged body. Vouch for the same keys as the last record
        # (`beside`, all checked to be staged). Where its end is empty, it vouched only for the existence of a body.
        ends = outcomes(staged)
        beside = {key: ends.get(key, "") if end else "" for key, end in sorted(self.reader.beside.items())}
        payload = encode(body, batch, staged=beside, snapshot=(base.seq, digest(base.body)) if base else None)
        chain = self.chain
        seal = chain.seal(seq, 1, at, body.lines, body.written, seed) if chain is not None else b""  # 1 entry
        changed = [row for row in staged if self._staged[row[0]].chosen]
        return Commit(expected=seq - 1, at=at, records=(Record(seq, 1, payload, seal),), stage=changed, snapshot=base)

    def loaded_after(self, rewritten: Mapping[int, Record], commit: Commit) -> StoredThread:
        """Return the thread as it will be loaded after the erasure, to check which erased values it still needs."""
        head = self.loaded.head
        saved = commit.snapshot or self._snapshot_before(self.since)
        after = saved.seq if saved is not None else 0
        records = [
            rewritten.get(record.seq, record) for record in self._store.records(head.thread, after=after, upto=head.seq)
        ]
        return self.loaded._replace(
            head=head._replace(seq=head.seq + 1),
            snapshot=saved,
            records=[*records, *commit.records],
            staged=self.staged(),
        )

    def _snapshot_before(self, seq: int) -> StoredSnapshot | None:
        """Return the newest snapshot of an entry before *seq*; None if there is none."""
        return self._store.load(self.reader.thread, upto=seq - 1).snapshot if seq > 1 else None

    def blobs(self, rewritten: Mapping[int, Record], commit: Commit) -> tuple[set[str], set[str]]:
        """Return the names of the remaining large values, and of those that are unreferenced after the erasure."""
        head = self.loaded.head
        remaining = blob_names(self.loaded.meta or b"")
        for _, payload in self.staged():
            remaining |= blob_names(payload)
        for record in self._store.records(head.thread, after=head.first - 1, upto=head.seq):
            remaining |= blob_names(rewritten.get(record.seq, record).body)
        saved = commit.snapshot
        if saved is not None:
            remaining |= blob_names(saved.body)
        saved = self._snapshot_before(self.since)  # later snapshots are dropped
        while saved is not None:
            remaining |= blob_names(saved.body)
            saved = self._snapshot_before(saved.seq)
        return remaining, self._blobs - remaining
