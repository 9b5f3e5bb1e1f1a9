"""`LiveItem`, which a follower gets between the entries of a thread, and its wire format between processes.

A *writer* collects live items and passes them to the store in batches (`live_relay`). A writer is a run, or a task
executed by a queue worker. `live_feed` reads the batches.

A batch is a line of JSON (its `Heading`), followed by a line for each item: its number within its writer, the number of
the last entry before it, its mode, the item, and the id of its task. Values are encoded as in the journal, so a value
that cannot be stored cannot be relayed either. Objects of the graphrt classes listed in `_classes`, such as
`TextDelta`, are written as the class name and the fields. Text pieces are many and short, so `texts` writes those of
one task on one line. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from pydantic_core import from_json, to_json

from graphrt.errors import StoreError

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._flows.live import MessageItem

LiveMode: TypeAlias = Literal["custom", "messages", "live"]
"""Stream modes of live items: values from `ctx.emit`, pieces of model replies, and task progress."""
_INNER: Final = "item"
"""Name of the field that holds another item, for classes that have one, such as `MessageItem`."""
_TEXTS: Final = "texts"
"""Used in place of the mode in a line written by `texts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveItem:
    """An item that a run shows while it is active and that is not in its journal; see `Runtime.follow`."""

    mode: LiveMode
    """The stream mode that yields it in the process that drives the run."""
    item: Any
    """The item, as that mode gives it: any value that a node emits, a `MessageItem`, or a `Live`. Pieces of a text that
    the reader gets at the same moment are one piece.

    Values of classes that only another graph knows are plain data."""
    seq: int
    """Number of the last entry before it."""
    task_id: str = ""
    """Id of the task that showed it; a *withdrawn* `Live` item of that task retracts it. Empty if no task did."""
    position: str = ""
    """Position for `after=`, from which to continue: the reader gets neither this item nor any earlier one again."""
    missed: int = 0
    """Number of items lost before this one, because they came faster than they were read or were too large."""


class Heading(NamedTuple):
    """The first line of a batch."""

    writer: str
    """Id of the writer: a run, or one execution of a task by a queue worker."""
    task: str = ""
    """Id of the task that a queue worker runs; empty for a run, whose driver has the thread."""
    again: Again | None = None
    """Set if the batch is part of a re-telling; None if its items are new."""
    begins: bool = False
    """Whether it is the first part of the re-telling."""


class Again(NamedTuple):
    """The header of a *re-telling*, which repeats the items that a writer's open tasks have shown so far.

    The repeated items have the numbers up to `last`. Those after it are new to every reader.
    """

    last: int
    """Number of the last item that was shown."""
    seq: int
    """Number of the thread's last entry when the newest item was shown."""
    lost: int
    """Number of items of the open tasks that are not repeated because they cannot be stored or were too large."""


class Sent(NamedTuple):
    """An item as read from a batch. `following` turns it into a `LiveItem`."""

    heading: Heading
    """The heading of its batch."""
    number: int
    """Number of the item within its writer, from 1 and counting dropped items, so that a follower detects gaps. If it
    combines several pieces of a text, which have consecutive numbers, that of the last piece."""
    seq: int
    """Number of the last entry before the item that the writer knew. A queue worker knows only the entries that existed
    when it began."""
    mode: LiveMode
    item: Any
    task_id: str
    size: int
    """Size of its line in bytes; a reader uses it to limit what it buffers."""
    missed: int = 0
    """As in `LiveItem`."""
    last: int = 0
    """As in `Position`."""
    pieces: Sequence[str] = ()
    """The pieces of a text that it combines; empty for any other item."""

    @property
    def first(self) -> int:
        """Number of its first piece, or of the item itself."""
        return self.number - max(len(self.pieces), 1) + 1

    def between(self, first: int, last: int) -> Sent:
        """Return the item with those of its pieces whose numbers are from *first* to *last*; there is at least one."""
        if first <= self.first and self.number <= last:
            return self
        pieces = self.pieces[max(first - self.first, 0) : last - self.first + 1]
        item = replace(self.item, item=replace(self.item.item, text="".join(pieces)))
        return self._replace(number=min(self.number, last), item=item, pieces=pieces)


def line(codec: Codec, number: int, seq: int, mode: str, item: Any, task_id: str) -> bytes:
    """Return an item as one line; the arguments are as in `Sent`.

    Raises:
        NotStorable: A value in it cannot be stored.
    """
    return codec.dump([number, seq, mode, _form(item), task_id])


def texts(seq: int, pieces: Sequence[tuple[int, MessageItem]]) -> bytes:
    """Return text pieces of one task and one class as one line, each with its number.

    They need no codec, which would take ten times as long.

    Raises:
        ValueError: A text cannot be stored, because it contains a lone surrogate.
    """
    number, item = pieces[0]
    form = [
        type(item.item).__name__,
        item.node,
        [number for number, _ in pieces],
        [piece.item.text for _, piece in pieces],
    ]
    return to_json([number, seq, _TEXTS, form, item.task_id])


def batch(heading: Heading, lines: Iterable[bytes]) -> bytes:
    """Return the items of *lines* as one batch."""
    writer, task, again, begins = heading
    return b"\n".join([to_json([writer, task, begins, *(again or ())]), *lines])


def opened(codec: Codec, body: bytes) -> tuple[Heading, list[Sent]]:
    """Return the heading of a batch and its items, ordered by number.

    Raises:
        StoreError: An item is damaged.
        ValueError: The heading is not JSON.
    """
    head, *lines = body.split(b"\n")
    writer, task, begins, *again = from_json(head)
    heading = Heading(str(writer), str(task), Again(*again) if again else None, bool(begins))
    items = [sent for encoded in lines for sent in _sent(codec, heading, encoded)]
    return heading, sorted(items, key=lambda sent: sent.number)


def _sent(codec: Codec, heading: Heading, encoded: bytes) -> Iterator[Sent]:
    """Yield the items of a line: one item, or a text that combines the pieces that came together.

    A reader gets them at the same moment, and each item costs it more time than a piece (decision 0318).
    """
    try:
        number, seq, mode, form, task_id = codec.load(encoded)
    except StoreError as error:
        if error.code != "unknown-type":  # the line is damaged
            raise
        # The value's class is known only to another graph, so the item stays plain data.
        number, seq, mode, form, task_id = from_json(encoded)
    if mode != _TEXTS:
        yield Sent(heading, number, seq, cast("LiveMode", mode), _item(form), task_id, len(encoded))
        return
    name, node, numbers, pieces = form
    classes = _classes()
    whole, piece = classes["MessageItem"], classes[name]
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[end - 1] + 1:  # items of other tasks came in between
            text = "".join(pieces[start:end])
            item = whole(node=node, task_id=task_id, item=piece(text=text))
            size = len(text) + PIECE_BYTES
            number = numbers[end - 1]
            yield Sent(heading, number, seq, "messages", item, task_id, size, pieces=pieces[start:end])
            start = end


PIECE_BYTES: Final = 32
"""Assumed overhead of a text piece beyond its text."""


@cache
def _names(cls: Any) -> tuple[str, ...]:
    """Return the field names of a class. Cached, since `fields` would compute them again for each token."""
    return tuple(field.name for field in fields(cls))


def _form(item: Any) -> list[Any]:
    """Return an item as a pair: the name of its class and its fields, or an empty name and the value itself."""
    cls: Any = item.__class__
    if cls not in _classes().values():
        return ["", item]
    values = {name: getattr(item, name) for name in _names(cls)}
    if _INNER in values:
        values[_INNER] = _form(values[_INNER])
    return [cls.__name__, values]


def _item(form: Any) -> Any:
    """Return the item of a pair made by `_form`."""
    name, values = form
    if not name:
        return values
    cls = _classes().get(name)
    if cls is None:  # a newer graphrt wrote it
        return values
    known = _names(cls)
    values = {key: value for key, value in values.items() if key in known}  # a newer graphrt may have more fields
    if _INNER in values:
        values[_INNER] = _item(values[_INNER])
    return cls(**values)


@cache
def text_pieces() -> frozenset[type]:
    """Return the classes of pieces of a text. Imported at first use, since few runs have a model."""
    from graphrt.harness.protocol import TextDelta, ThinkingDelta

    return frozenset({TextDelta, ThinkingDelta})


@cache
def model_attempts() -> tuple[type, type]:
    """Return the classes of the items that begin and fail an attempt of a model call. Imported as above."""
    from graphrt.harness.agent.events import ModelFailed, ModelStarted

    return ModelStarted, ModelFailed


_found: Final[dict[str, Any]] = {}
"""The table of `_classes`, filled at its first call."""


def _classes() -> dict[str, Any]:
    """Return the classes of graphrt's own items by name. Imported at first use, since few runs are followed live."""
    if not _found:
        from graphrt._flows.live import Live, MessageItem
        from graphrt._usage.budget import BudgetWarning
        from graphrt.harness.agent import events
        from graphrt.harness.protocol import TextDelta, ThinkingDelta, ToolCallDelta

        own = [Live, MessageItem, BudgetWarning, TextDelta, ThinkingDelta, ToolCallDelta]
        own += [events.ModelStarted, events.ModelEnded, events.ModelFailed]
        own += [events.ToolStarted, events.ToolEnded, events.CheckEnded]
        own += [events.HandedOver, events.SubAgentItem]
        _found.update({cls.__name__: cls for cls in own})
    return _found
