"""The bytes of plain supersteps, written and read without building events.

The engine records supersteps of one plain task as tuples (`Engine.plain_commit`). Such a superstep has two entries: the
task's outcome (`TaskSucceeded`) and the commit (`SuperstepCommitted`). The bytes are exactly those that `batch_format`
makes of these events: a structure in JSON on line 0, then one line for each value, then a CRC-32.

A superstep has a shape: node, fields written, next node. A graph has few shapes, so the constant parts of each are
encoded once. The remaining data of a superstep is a time, the cause, the number of the superstep, and the values. A
reader also decodes the constant parts of each shape once, with `batch_format`. Deciding and storing is left to `writer`
and `thread_fold`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final
from zlib import crc32

from pydantic_core import from_json, to_json

from graphrt import events
from graphrt._journal.batch import Batch, no_time
from graphrt._journal.body import ERASED_BEGIN, VERSION, Names
from graphrt._journal.event_schema import CODES
from graphrt.errors import StoreError
from graphrt.events import Entry

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._engine.storability import Stamped
    from graphrt._journal.chain import Chain
    from graphrt._journal.reader import Reader
    from graphrt._plan.state import StateSchema
    from graphrt._plan.tables import NodePlan

Fresh: TypeAlias = "tuple[int, NodePlan, Stamped | None, NodePlan]"
"""A superstep as the engine notes it: its number, the node, its update, and the node that is due next.

The update is a dict that brings the encoded value of each field that is stored, in `lines`; None if nothing is written.
"""
Key: TypeAlias = "tuple[NodePlan, NodePlan, tuple[str, ...]]"
"""Key of a shape: node, next node, and the fields in the order of the update, which is the order of their lines."""
Shape: TypeAlias = tuple[bytes, tuple[tuple[str, int], ...]]
"""Template of a structure, to be filled in with time, cause, and twice the superstep's number; and the fields written,
with the numbers of their lines."""

_STRUCTURE: Final = b"[%d,%%%%b,%%b,%%%%d,[],[[%d,0,[%%%%d,0,%%d]%%b],[%d,0,%%%%d,%%b,[%%d]]]]" % (
    VERSION,
    CODES[events.TaskSucceeded],
    CODES[events.SuperstepCommitted],
)
"""Template for the template of a shape, to be filled in with run, node, updates, the fields written, and the next node.
`[]` is the list of new names, which is empty, and `0` is the path of the outermost graph."""
_STORED: Final = re.compile(
    rb"\[%d,([-+.\deE]+),(\"[^\"\\]*\"),(?:0|[1-9]\d*),\[\],\[\[%d,0,\[(?:0|[1-9]\d*)"
    rb"(,0,\d+\],\[\[[\d,]+\]\]\],\[%d,0,)(?:0|[1-9]\d*)(,\[[\d,]*\],\[\d+\]\]\]\])"
    % (VERSION, CODES[events.TaskSucceeded], CODES[events.SuperstepCommitted])
)
"""A structure of the form of `_STRUCTURE`, of a superstep that wrote something. Groups: characters of the time, run, and
the constant bytes of both entries."""


StoredStep: TypeAlias = tuple[float, str, list[bytes], tuple[tuple[str, int], ...], dict[str, Any], str]
"""A plain superstep as it was stored: seconds since the epoch; id of the run that wrote it; the lines of the body, the
structure first; the fields written, with the numbers of their lines; field to value; the node that is due next."""


@final
class FastStepReader:
    """Reads the bodies of plain supersteps of one thread.

    Args:
        reader: Decodes the first body of each shape, and fetches large values.
    """

    __slots__ = ("_is_plain", "_reader", "_run", "_shapes")

    def __init__(self, reader: Reader) -> None:
        from graphrt._codec.codec import is_plain  # loads the codec, which a run without a store does not need

        self._is_plain = is_plain
        self._reader = reader
        self._run = (b"", "")
        """Id of the last run, as it is stored, and decoded."""
        self._shapes: dict[tuple[bytes, bytes], tuple[tuple[tuple[str, int], ...], str] | None] = {}
        """The fields written and the next node, by the constant bytes; None if the reader has to build events."""

    def read(self, body: bytes) -> StoredStep | None:
        """Return the superstep that is stored as *body*.

        None if it is not plain, was partially erased, or cannot be read. `Reader` then decodes the body or reports the
        problem.
        """
        text, _, check = body.rpartition(b"\n")
        lines = text.split(b"\n")
        match = _STORED.fullmatch(lines[0])
        if match is None or check != b"%08x" % crc32(text):
            return None
        at, run, done, commit = match.groups()
        key = (done, commit)
        try:
            shape = self._shapes[key]
        except KeyError:
            shape = self._shapes[key] = self._shape(body)
        if shape is None:
            return None
        written, target = shape
        update: dict[str, Any] = {}
        try:
            if self._is_plain(text):  # asked once for all lines, and not for each of them
                for name, line in written:
                    update[name] = from_json(lines[line], allow_inf_nan=False)
            elif ERASED_BEGIN in text:
                return None
            else:
                load, fetch = self._reader.codec.load, self._reader.fetch
                for name, line in written:
                    update[name] = load(lines[line], fetch)
            if run != self._run[0]:
                self._run = (run, from_json(run))
            time_s = float(from_json(at))  # a fourth of the time of float(at)
        except (IndexError, OverflowError, ValueError, StoreError):
            return None
        return time_s, self._run[1], lines, written, update, target

    def _shape(self, body: bytes) -> tuple[tuple[tuple[str, int], ...], str] | None:
        """Return the fields written by the superstep that is stored as *body*, and the next node, as its events say."""
        try:
            batch, decoded = self._reader.body(body)
        except StoreError:
            return None
        (_, done), (_, commit) = batch.logged
        if not isinstance(done, events.TaskSucceeded) or not isinstance(commit, events.SuperstepCommitted):
            return None
        return tuple(decoded.written), commit.next[0]


@final
class FastStepBytes:
    """Makes bodies and seals for one run.

    Args:
        names: The names of the thread, with their numbers.
        state: Provides the fields in schema order, and which are untracked, that is, never stored (R16).
        run_id: Id of the run.
        chain: The end of the thread's hash chain; None if the thread is not chained.
        seed: Makes the salts of the chain's hashes the same in every run; None draws them at random.
    """

    __slots__ = ("_chain", "_names", "_order", "_run", "_run_id", "_seed", "_untracked", "shapes")

    def __init__(self, names: Names, state: StateSchema, run_id: str, chain: Chain | None, seed: int | None) -> None:
        self._names = names
        self._order = tuple(state.fields)
        """Fields in schema order."""
        self._untracked = state.untracked
        self._chain = chain
        self._seed = seed
        self._run_id = run_id
        self._run: bytes = to_json(run_id)
        self.shapes: dict[Key, Shape] = {}
        """Known shapes by key."""

    def shape(self, key: Key, fresh: Fresh) -> Shape | None:
        """Create the shape of the superstep; None if it has a new name, so that the writer has to build events.

        A structure without new names, like `_STRUCTURE`, cannot introduce one.

        Args:
            key: The key of the new shape in `shapes`.
        """
        _, node, update, target = fresh
        number = self._names.number
        written = update.lines if update else ()
        # The commit names all fields that were written. Untracked ones have no line, as their values are not stored.
        field_names = [name for name in self._order if name in update] if update else []
        used = [node.id_name, *written, *field_names, target.name]
        numbers = {name: at for name in used if (at := number(name)) is not None}
        if len(numbers) != len(set(used)):  # a new name, which only events can introduce
            return None
        pairs = [part for line, name in enumerate(written, 1) for part in (numbers[name], line)]
        updates = b",[%b]" % to_json(pairs) if update else b""  # one update, a flat list of name and line
        fields = to_json([numbers[name] for name in field_names])
        run = self._run.replace(b"%", b"%%")
        template = _STRUCTURE % (run, numbers[node.id_name], updates, fields, numbers[target.name])
        shape = self.shapes[key] = template, tuple(zip(written, pairs[1::2], strict=True))  # every second is a line
        return shape

    def make(self, shape: Shape, fresh: Fresh, seq: int, at: float, cause: int) -> tuple[bytes, bytes]:
        """Return the body and the seal of the superstep's commit; the seal is empty without a chain.

        Args:
            seq: Number of the commit's last entry.
            at: Seconds since the epoch.
            cause: `seq` of the last start, resume or commit.

        Raises:
            InputError: *at* is infinite or not a number, or does not fit into a header.
        """
        template, written = shape
        superstep, _, update, _ = fresh  # the nodes are in the shape
        if at - at:  # NaN, and therefore true, only for infinity and NaN
            raise no_time(at)
        structure = template % (to_json(at), cause, superstep, superstep)
        chain = self._chain
        lines = [structure, *update.lines.values()] if update else [structure]
        text = b"\n".join(lines)
        seal = chain.seal(seq, 2, at, lines, written, self._seed) if chain is not None else b""  # 2 entries
        return b"%b\n%08x" % (text, crc32(text)), seal

    def logged(self, fresh: Fresh) -> Sequence[Logged]:
        """Return the superstep as events, for sinks, and for a commit that `make` cannot encode."""
        superstep, node, update, target = fresh
        # `Fresh` has the whole update, but entries must not contain values of untracked fields; `wrote` still names
        # them.
        tracked = {name: value for name, value in update.items() if name not in self._untracked} if update else {}
        done = events.TaskSucceeded(
            task=f"{superstep}.0:{node.id_name}", node=node.id_name, updates=(tracked,) if update else ()
        )
        commit = events.SuperstepCommitted(
            superstep=superstep,
            wrote=tuple(name for name in self._order if update and name in update),
            next=(target.name,),
        )
        return [("", done), ("", commit)]

    def entries(self, fresh: Fresh, first: int, at: float, cause: int, thread: str | None) -> Iterator[Entry]:
        """Yield the two entries of the superstep, numbered from *first*; the other arguments are those of `make`."""
        return Batch(at, self._run_id, cause, self.logged(fresh)).entries(first, thread)
