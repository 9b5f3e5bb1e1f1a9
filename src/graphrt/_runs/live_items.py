"""`LiveItem`, what a follower gets between the entries of a thread, and its form on the way between processes.

A batch is a line with the id of the run, and then a line for each item: its number in the run, the number of the last
entry before it, its mode, and the item. Values are encoded as the journal's are. Classes of graphrt's own, such as
`TextDelta`, are written as their name and fields, by a closed table. So a value that no store takes has no form here.
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
_INNER: Final = "item"
"""The field of these classes that holds another item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveItem:
    """Something that a run shows while it goes on, and that is not in its journal; see `Runtime.follow`."""

    mode: LiveMode
    """The stream mode that shows it in the process that drives the run."""
    item: Any
    """The item, as that mode gives it: any value that a node emits, a `MessageItem`, or a `Live`. Values of classes that
    only another graph knows are plain data."""
    seq: int
    """Number of the last entry before it. It is not a position: `after=` takes the `seq` of an entry."""
    missed: int = 0
    """How many items before this one were lost, because they came faster than they were read."""


class Sent(NamedTuple):
    """An item as it comes out of a batch."""

    run: str
    number: int
    """Counts the items of the run, from 1, with those that were dropped."""
    seq: int
    mode: LiveMode
    item: Any
    size: int
    """Bytes of its form."""


def line(codec: Codec, number: int, seq: int, mode: str, item: Any) -> bytes:
    """Return an item as one line.

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
        StoreError: It is damaged.
    """
    head, *lines = body.split(b"\n")
    run = str(from_json(head))
    for one in lines:
        try:
            number, seq, mode, form = codec.load(one)
        except StoreError as error:
            if error.code != "unknown-type":
                raise
            number, seq, mode, form = from_json(one)
        yield Sent(run, number, seq, cast("LiveMode", mode), _item(form), len(one))


def _form(item: Any) -> list[Any]:
    cls: Any = item.__class__
    if cls not in _classes().values():
        return ["", item]
    told = {one.name: getattr(item, one.name) for one in fields(item)}
    if _INNER in told:
        told[_INNER] = _form(told[_INNER])
    return [cls.__name__, told]


def _item(form: Any) -> Any:
    name, told = form
    if not name:
        return told
    cls = _classes().get(name)
    if cls is None:  # a newer graphrt wrote it
        return told
    known = {one.name for one in fields(cls)}
    told = {key: value for key, value in told.items() if key in known}
    if _INNER in told:
        told[_INNER] = _item(told[_INNER])
    return cls(**told)


_found: Final[dict[str, Any]] = {}


def _classes() -> dict[str, Any]:
    """Return the classes of graphrt's own items, by name; imported at first use, since only few runs are followed live."""
    if not _found:
        from graphrt._drivers.message_item import MessageItem
        from graphrt._flows.live import Live
        from graphrt._usage.budget import BudgetWarning
        from graphrt.harness.agent import events
        from graphrt.harness.protocol import TextDelta, ThinkingDelta, ToolCallDelta

        own = [Live, MessageItem, BudgetWarning, TextDelta, ThinkingDelta, ToolCallDelta]
        own += [events.ModelStarted, events.ModelEnded, events.ModelFailed]
        own += [events.ToolStarted, events.ToolEnded, events.SubAgentItem]
        _found.update({cls.__name__: cls for cls in own})
    return _found
