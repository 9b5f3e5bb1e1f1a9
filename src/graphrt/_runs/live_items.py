"""`LiveItem`, what a follower gets between the entries of a thread, and its form on the way between processes.

The driver collects live items and hands them to the store in batches (`live_relay`); `following` reads them.

A batch is a line with the id of the run, and then a line for each item: its number in the run, the number of the last
entry before it, its mode, and the item. Values are encoded as those of the journal are: a value that cannot be stored
cannot be relayed either. Objects of graphrt's own classes in the table `_classes`, such as `TextDelta`, are written as
the name of the class and its fields. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from pydantic_core import from_json, to_json

from graphrt.errors import StoreError

if TYPE_CHECKING:
    from graphrt._codec import Codec

LiveMode: TypeAlias = Literal["custom", "messages", "live"]
"""Stream modes of live items: values of `ctx.emit`, pieces of model replies, and how tasks go on."""
_INNER: Final = "item"
"""Name of the field that holds another item, in those of the classes that have one, such as `MessageItem`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveItem:
    """Something that a run shows while it goes on, and that is not in its journal; see `Runtime.follow`."""

    mode: LiveMode
    """The stream mode that shows it in the process that drives the run."""
    item: Any
    """The item, as that mode gives it: any value that a node emits, a `MessageItem`, or a `Live`.

    Values of classes that only another graph knows are plain data."""
    seq: int
    """Number of the last entry before it. It is not a position: `after=` takes the `seq` of an entry."""
    missed: int = 0
    """How many items before this one were lost, because they came faster than they were read."""


class Sent(NamedTuple):
    """An item as it comes out of a batch. `following` makes a `LiveItem` of it."""

    run: str
    """Id of the run that showed it."""
    number: int
    """Counts the items of the run, from 1, with those that were dropped: a follower finds gaps by it."""
    seq: int
    """Number of the last entry before the item."""
    mode: LiveMode
    item: Any
    size: int
    """Bytes of its line, by which a reader bounds what it holds."""


def line(codec: Codec, number: int, seq: int, mode: str, item: Any) -> bytes:
    """Return an item as one line; the arguments are as in `Sent`.

    Raises:
        NotStorable: A value in it cannot be stored.
    """
    return codec.dump([number, seq, mode, _form(item)])


def batch(run: str, lines: Sequence[bytes]) -> bytes:
    """Return the items of *lines* as one batch."""
    return b"\n".join([to_json(run), *lines])


def items(codec: Codec, body: bytes) -> Iterator[Sent]:
    """Return the items of a batch.

    Raises:
        StoreError: An item is damaged.
        ValueError: The line with the id of the run is not JSON.
    """
    head, *lines = body.split(b"\n")
    run = str(from_json(head))
    for one in lines:
        try:
            number, seq, mode, form = codec.load(one)
        except StoreError as error:
            if error.code != "unknown-type":  # the line is damaged
                raise
            # A value of a class that only another graph knows: the item stays plain data.
            number, seq, mode, form = from_json(one)
        yield Sent(run, number, seq, cast("LiveMode", mode), _item(form), len(one))


def _form(item: Any) -> list[Any]:
    """Return an item as a pair: the name of its class and its fields, or an empty name and the value itself."""
    cls: Any = item.__class__
    if cls not in _classes().values():
        return ["", item]
    values = {one.name: getattr(item, one.name) for one in fields(item)}
    if _INNER in values:
        values[_INNER] = _form(values[_INNER])
    return [cls.__name__, values]


def _item(form: Any) -> Any:
    """Return the item of a pair that `_form` made."""
    name, values = form
    if not name:
        return values
    cls = _classes().get(name)
    if cls is None:  # a newer graphrt wrote it
        return values
    known = {one.name for one in fields(cls)}
    values = {key: value for key, value in values.items() if key in known}  # a newer graphrt may have more fields
    if _INNER in values:
        values[_INNER] = _item(values[_INNER])
    return cls(**values)


_found: Final[dict[str, Any]] = {}
"""The table of `_classes`, filled at its first call."""


def _classes() -> dict[str, Any]:
    """Return the classes of graphrt's own items, by name; imported at first use, as only few runs are followed live."""
    if not _found:
        from graphrt._flows.live import Live, MessageItem
        from graphrt._usage.budget import BudgetWarning
        from graphrt.harness.agent import events
        from graphrt.harness.protocol import TextDelta, ThinkingDelta, ToolCallDelta

        own = [Live, MessageItem, BudgetWarning, TextDelta, ThinkingDelta, ToolCallDelta]
        own += [events.ModelStarted, events.ModelEnded, events.ModelFailed]
        own += [events.ToolStarted, events.ToolEnded, events.SubAgentItem]
        _found.update({cls.__name__: cls for cls in own})
    return _found
