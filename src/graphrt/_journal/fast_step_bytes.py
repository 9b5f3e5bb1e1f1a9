"""The bytes of plain supersteps, made and read without building events.

The engine notes supersteps of one plain task as tuples (`Engine.told`). Such a superstep has two entries: the task's
outcome (`TaskSucceeded`) and the commit (`SuperstepCommitted`). The bytes are exactly those that `batch_format` makes
of these events: a structure in JSON on line 0, then one line for each value, then a CRC-32.

A superstep has a shape: node, fields written, next node. A graph has few shapes, so the constant parts of each are
encoded once. What is left per superstep is a time, the cause, the number of the superstep, and the values. A reader
decodes the constant parts of each shape once, too, by `batch_format`. Nothing is decided or stored here: `writer` and
`thread_fold` do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, final
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
Shape: TypeAlias = tuple[bytes, tuple[tuple[str, int], ...]]
"""Template of a structure, to be filled in with time, cause, and twice the superstep's number; and the fields written,
with the numbers of their lines."""

_STRUCTURE: Final = b"[%d,%%%%b,%%b,%%%%d,[],[[%d,0,[%%%%d,0,%%d]%%b],[%d,0,%%%%d,%%b,[%%d]]]]" % (
    VERSION,
    CODES[events.TaskSucceeded],
    CODES[events.SuperstepCommitted],
)
"""Template of the template of a shape. To fill in: run, node, updates, the fields written, and the node that is due
next. `[]` is the list of new names, of which there are none, and `0` is the path of the graph at the top."""
_STORED: Final = re.compile(
    rb"\[%d,(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?),(\"[^\"\\]*\"),(?:0|[1-9]\d*),\[\],\[\[%d,0,\[(?:0|[1-9]\d*)"
    rb"(,0,\d+\],\[\[[\d,]+\]\]\],\[%d,0,)(?:0|[1-9]\d*)(,\[[\d,]*\],\[\d+\]\]\]\])"
    % (VERSION, CODES[events.TaskSucceeded], CODES[events.SuperstepCommitted])
)
"""A structure of the form of `_STRUCTURE`, of a superstep that wrote something. Groups: time, run, and the constant
bytes of both entries."""


class StoredStep(NamedTuple):
    """A plain superstep as it was stored."""

    at: float
    """Seconds since the epoch."""
    run: str
    """Id of the run that wrote it."""
    lines: list[bytes]
    """The lines of the body, the structure first."""
    written: tuple[tuple[str, int], ...]
    """The fields written, with the numbers of their lines."""
    update: dict[str, Any]
    """Field to value."""
    target: str
    """The node that is due next."""


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
        """The fields written and the next node, by the constant bytes; None if the reader has to make events of them."""

    def read(self, body: bytes) -> StoredStep | None:
        """Return the superstep that is stored as *body*.

        None if it is not plain, was erased in part, or cannot be read: then `Reader` decodes the body, or says why not.
        """
        text, _, check = body.rpartition(b"\n")
        lines = text.split(b"\n")
        match = _STORED.fullmatch(lines[0])
        if match is None or check != b"%08x" % crc32(text) or ERASED_BEGIN in body:
            return None
        at, run, *constant = match.groups()
        key = (constant[0], constant[1])
        if key not in self._shapes:
            self._shapes[key] = self._shape(body)
        shape = self._shapes[key]
        if shape is None:
            return None
        written, target = shape
        update: dict[str, Any] = {}
        try:
            if self._is_plain(text):  # asked once for all lines, and not for each of them
                for name, line in written:
                    update[name] = from_json(lines[line], allow_inf_nan=False)
            else:
                load, fetch = self._reader.codec.load, self._reader.fetch
                for name, line in written:
                    update[name] = load(lines[line], fetch)
            if run != self._run[0]:
                self._run = (run, from_json(run))
        except (IndexError, ValueError, StoreError):
            return None
        return StoredStep(float(at), self._run[1], lines, written, update, target)

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
        state: Gives the fields in schema order, and which are untracked, which means never stored (R16).
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
        self.shapes: dict[tuple[Any, ...], Shape] = {}
        """Shapes by node, next node, and fields in the order of the update."""

    def shape(self, fresh: Fresh) -> Shape | None:
        """Return the shape of the superstep; None if it has a new name. Then the writer has to make events of it.

        A structure without new names, as `_STRUCTURE` is, cannot introduce one.
        """
        _, node, update, target = fresh
        # Fields in the order of the update, because lines are written in that order.
        key = (node, target, *update) if update else (node, target)
        try:
            return self.shapes[key]
        except KeyError:
            made = self._shape(fresh)
            if made is not None:
                self.shapes[key] = made
            return made

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
        if at - at:  # nan, and so true, for infinity and nan alone
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
        # `Fresh` has the whole update, but values of untracked fields must be in no entry; `wrote` still names them.
        kept = {name: value for name, value in update.items() if name not in self._untracked} if update else {}
        done = events.TaskSucceeded(
            task=f"{superstep}.0:{node.name}", node=node.name, updates=(kept,) if update else ()
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

    def _shape(self, fresh: Fresh) -> Shape | None:
        """Build the shape of the superstep; None if one of its names has no number yet."""
        _, node, update, target = fresh
        number = self._names.number
        written = update.lines if update else ()
        # The commit names all fields that were written. Untracked ones have no line, as their values are not stored.
        wrote = [name for name in self._order if name in update] if update else []
        used = [node.name, *written, *wrote, target.name]
        numbers = {name: at for name in used if (at := number(name)) is not None}
        if len(numbers) != len(set(used)):  # a new name, which only events can introduce
            return None
        pairs = [part for line, name in enumerate(written, 1) for part in (numbers[name], line)]
        updates = b",[%b]" % to_json(pairs) if update else b""  # one update, a flat list of name and line
        fields = to_json([numbers[name] for name in wrote])
        run = self._run.replace(b"%", b"%%")
        template = _STRUCTURE % (run, numbers[node.name], updates, fields, numbers[target.name])
        return template, tuple(zip(written, pairs[1::2], strict=True))  # every second is a line
