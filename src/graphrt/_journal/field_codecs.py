"""Codecs that write fields of events into the structure of a body, and read them. `event_schema` assigns them.

A body is the stored form of the events of one commit: lines of JSON. Line 0 is the structure, which has no user values.
Every other line is one encoded value, to which the structure refers by the line's number. It refers to node names
and fields by their number too (`Names`).

A `FieldCodec` is one kind of field: how its value becomes JSON for the structure, how it is read again, and which lines
it refers to. Kinds are built from other kinds: `each` is a sequence of one kind, `by` a mapping between two. Stored
data may contain anything, so reading raises TypeError, ValueError or LookupError on JSON that cannot be converted to a
value of the field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from graphrt._journal.body import ERASED_TEXT, Body
from graphrt._usage import stored_form
from graphrt.commands import ERASED
from graphrt.events import Amounts, HandledTask, JoinStanding, Usage

Kind: TypeAlias = Literal["field", "reply", "value", "checksums", "type", "vouch"]
"""The kind of a line of a body; `erasing.Place` explains the kinds."""
Line: TypeAlias = tuple[int, Kind, str | None]
"""A line that a field refers to: its number, what it holds, and the name of the field of the state that it writes."""


def _no_lines(_stored: Any, _names: Sequence[str]) -> Iterable[Line]:
    """Return the lines of a field that holds no user value."""
    return ()


def _value_line(at: int, _names: Sequence[str]) -> Iterable[Line]:
    """Return the line of a user value."""
    return ((at, "value", None),)


def _reply_line(at: int, _names: Sequence[str]) -> Iterable[Line]:
    """Return the line of a model's reply."""
    return ((at, "reply", None),)


def _type_line(at: int, _names: Sequence[str]) -> Iterable[Line]:
    """Return the line of the type of an answer, which is not a user value."""
    return ((at, "type", None),)


class FieldCodec(NamedTuple):
    """How one kind of field is written and read. User values go on lines of the body, not into the structure."""

    put: Callable[[Body, Any], Any]
    """Returns the JSON for the structure. A result of None is stored as an absent field."""
    get: Callable[[Body, Any], Any]
    """Returns the value. On data of another form it raises Python's own errors, which `decode` converts to a
    StoreError."""
    empty: Any = None
    """The value of an absent field, if the class of its event has no default; `...` if the field must be present
    then."""
    lines: Callable[[Any, Sequence[str]], Iterable[Line]] = _no_lines
    """Returns the lines that the stored field refers to, for erasure. Takes the names of the thread by number, too."""


Form: TypeAlias = tuple[tuple[str, FieldCodec], ...]
"""Names and codecs of an event's fields, in stored order."""


def each(codec: FieldCodec, empty: Any = ()) -> FieldCodec:
    """Return the codec of a sequence of *codec*, stored as a list."""

    def put(body: Body, values: Iterable[Any]) -> list[Any]:
        return [codec.put(body, value) for value in values]

    def get(body: Body, stored: Iterable[Any]) -> tuple[Any, ...]:
        return tuple([read(body, part) for part in stored])

    def lines(stored: Iterable[Any], names: Sequence[str]) -> Iterable[Line]:
        return [line for part in stored for line in codec.lines(part, names)]

    read = codec.get
    return FieldCodec(put, get, empty, lines)


def by(key: FieldCodec, value: FieldCodec) -> FieldCodec:
    """Return the codec of a mapping of *key* to *value*, stored as a flat list: key, value, key, value, and so on."""

    def put(body: Body, items: Mapping[Any, Any]) -> list[Any]:
        return [part for at, item in items.items() for part in (key.put(body, at), value.put(body, item))]

    def get(body: Body, stored: Sequence[Any]) -> dict[Any, Any]:
        return {key.get(body, at): value.get(body, part) for at, part in zip(stored[::2], stored[1::2], strict=True)}

    def lines(stored: Sequence[Any], names: Sequence[str]) -> Iterable[Line]:
        return [line for part in stored[1::2] for line in value.lines(part, names)]

    return FieldCodec(put, get, {}, lines)


def same_(_body: Body, value: Any) -> Any:
    """Write a value that is already JSON."""
    return value


def text_(_body: Body, value: Any) -> str:
    """Check that a stored value is text."""
    if not isinstance(value, str):
        raise TypeError("text was expected")
    return value


def clean_(_body: Body, value: str) -> str:
    """Write graphrt's own text, with lone surrogates, which UTF-8 cannot encode, escaped."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def int_(_body: Body, value: Any) -> int:
    """Check that a stored value is an integer; a bool is not."""
    if value.__class__ is not int:
        raise TypeError("a whole number was expected")
    number: int = value
    return number


def _get_number(_body: Body, value: Any) -> float:
    """Read a number; `float` also takes the texts that `encode` writes for NaN and infinity."""
    return float(value)


def _put_flag(_body: Body, value: Any) -> int:
    """Write a bool as 0 or 1, which is shorter."""
    return int(value)


def _get_flag(_body: Body, value: Any) -> bool:
    """Read a bool. Unlike other fields, any JSON is accepted, because Python converts anything to a bool."""
    return bool(value)


def _put_name(body: Body, name: str) -> int:
    """Write the name of a node or field as its number."""
    return body.names.put(name)


def _get_name(body: Body, number: int) -> str:
    """Read the name of a node or field. A number that is too large raises IndexError as well."""
    if number < 0:  # would count from the end
        raise IndexError
    return body.names.known[number]


def _put_task(body: Body, task: str) -> Any:
    """Write a task's id as a list: `2.0:search`, task 0 of superstep 2, becomes `[2, 0, number of the name]`.

    The id of a task of a nested graph begins with the path of that graph, which the entry contains once.
    """
    place, _, node = task[len(body.path) :].partition(":")
    superstep, _, index = place.partition(".")
    return [int(superstep), int(index), body.names.put(node)]


def _get_task(body: Body, stored: Any) -> str:
    """Read a task's id, with the path of its graph."""
    superstep, index, node = stored
    if superstep.__class__ is not int or index.__class__ is not int:
        raise TypeError("a whole number was expected")
    return f"{body.path}{superstep}.{index}:{_get_name(body, node)}"


def _put_arguments(body: Body, arguments: str) -> int:
    """Write the arguments of an effect on a separate line, which can be erased; a text without lone surrogates."""
    return body.line(to_json(arguments))


def _get_arguments(body: Body, at: int) -> Any:
    """Read the arguments of an effect, `Erased()` if they were erased."""
    if at > 0 and body.is_erased(at):  # tested by line, because readers that only inspect lines do not decode the value
        return ERASED
    value = body.get(at)
    if not isinstance(from_json(text_(body, value)), list):
        raise TypeError("a JSON array was expected")
    return value


def _put_message(body: Body, message: str) -> int:
    """Write the message of an error on a separate line, which can be erased: it may quote user values."""
    return body.put(clean_(body, message))


def _get_message(body: Body, at: int) -> Any:
    """Read the message of an error. It stays text if it was erased, which messages must be."""
    return ERASED_TEXT if body.is_erased(at) else body.get(at)


def _field_lines(stored: Sequence[int], names: Sequence[str]) -> Iterable[Line]:
    """Return the lines of written fields, which are stored as number of the name, number of the line, and so on."""
    return [(at, "field", names[name]) for name, at in zip(stored[::2], stored[1::2], strict=True)]


def _put_tags(body: Body, tags: Sequence[str]) -> int:
    """Write the tags of a thread on one line, which can be erased; return its number."""
    return body.put(list(tags))


def _get_tags(body: Body, at: int) -> tuple[str, ...]:
    """Read the tags of a thread; none if they were erased."""
    tags = body.get(at)
    return tuple(tags) if tags.__class__ is list else ()


def _put_digests(_body: Body, digests: Mapping[str, str]) -> dict[str, str] | None:
    """Write a snapshot's digests of the hash chain by field; absent without a chain.

    They are in the structure, unlike those of `_put_checksums`: they are salted, so they cannot confirm a guess of a
    value.
    """
    return dict(digests) or None


def _get_digests(body: Body, value: Mapping[str, Any]) -> dict[str, str]:
    """Read digests or checksums by field."""
    return {text_(body, name): text_(body, digest) for name, digest in value.items()}


def _put_checksums(body: Body, checksums: Mapping[str, str]) -> int | None:
    """Write checksums of fields on a separate line, so that they can be erased together with the values.

    They are not salted, so a checksum could confirm a guess of an erased value.
    """
    return body.put(dict(checksums)) if checksums else None


def _get_checksums(body: Body, at: int) -> dict[str, str]:
    """Read checksums by field; none if they were erased."""
    return {} if body.is_erased(at) else _get_digests(body, body.get(at))


def _checksums_line(at: int, _names: Sequence[str]) -> Iterable[Line]:
    """Return the line of checksums."""
    return ((at, "checksums", None),)


def _put_usage(_body: Body, usage: Usage) -> list[Any]:
    """Write the usage of model calls as a list of numbers."""
    return stored_form.usage_to(usage)


def _get_usage(_body: Body, stored: Sequence[Any]) -> Usage:
    """Read the usage of model calls."""
    return stored_form.usage_from(stored)


def _put_amounts(_body: Body, amounts: Amounts) -> list[int]:
    """Write amounts of a budget (tokens, micro-dollars, calls) as a list of numbers."""
    return stored_form.amounts_to(amounts)


def _get_amounts(_body: Body, stored: Sequence[Any]) -> Amounts:
    """Read amounts of a budget."""
    return stored_form.amounts_from(stored)


def _put_join(body: Body, join: JoinStanding) -> list[Any]:
    """Write the state of a join (a node that waits for several others): node, sources, arrived sources, flags.

    The flags are `fired`, if the node was already started, and `emptied`, if a router led to none of the sources.
    """
    flags = join.fired + 2 * join.emptied
    return [body.names.put(join.node), NAMES.put(body, join.sources), NAMES.put(body, join.arrived), flags]


def _get_join(body: Body, stored: Any) -> JoinStanding:
    """Read the state of a join."""
    node, sources, arrived, flags = stored
    return JoinStanding(
        node=_get_name(body, node),
        sources=NAMES.get(body, sources),
        arrived=NAMES.get(body, arrived),
        fired=bool(int_(body, flags) & 1),
        emptied=bool(flags & 2),
    )


def _put_handled(body: Body, items: Mapping[int, Sequence[HandledTask]]) -> list[Any]:
    """Write the failed tasks that due `on_error` nodes handle: position of the node, then task and argument of each."""
    return [
        # Only a task that was started by a Send has an argument. Line 0 is the structure, so 0 can mean "none".
        [at, [[_put_task(body, task.task), 0 if task.arg is None else body.put(task.arg)] for task in handled]]
        for at, handled in items.items()
    ]


def _get_handled(body: Body, stored: Sequence[Any]) -> dict[int, tuple[HandledTask, ...]]:
    """Read the failed tasks by the position of the node that handles them."""
    return {int_(body, at): tuple(_one_handled(body, task, arg) for task, arg in handled) for at, handled in stored}


def _one_handled(body: Body, stored: Any, at: Any) -> HandledTask:
    """Read one failed task; *at* is the line of its argument, or 0. Its node is not stored, as its id names it."""
    task = _get_task(body, stored)
    arg = body.get(at) if int_(body, at) else None
    return HandledTask(task=task, node=node_of(task, body.path), arg=arg)


def _handled_lines(stored: Sequence[Any], _names: Sequence[str]) -> Iterable[Line]:
    """Return the lines of the arguments of failed tasks; 0 means that a task has none."""
    return [(at, "value", None) for _, handled in stored for _, at in handled if at]


def _put_lines(_body: Body, lines: Mapping[int, Iterable[int]]) -> list[list[int]] | None:
    """Write numbers of lines by the last entry of their record."""
    return [[seq, *numbers] for seq, numbers in lines.items()] or None


def _get_lines(body: Body, stored: Any) -> dict[int, tuple[int, ...]]:
    """Read the output of `_put_lines`."""
    return {int_(body, seq): tuple(int_(body, number) for number in numbers) for seq, *numbers in stored}


def _put_signals(body: Body, signals: Sequence[tuple[str, str, Any]]) -> list[Any]:
    """Write signals that no node has taken yet as a flat list: id, name, number of the value's line, and so on."""
    return [part for id_, name, value in signals for part in (id_, name, body.put(value))]


def _get_signals(body: Body, stored: Sequence[Any]) -> tuple[tuple[str, str, Any], ...]:
    """Read the output of `_put_signals`: id, name and value of each signal."""
    return tuple(
        (text_(body, id_), text_(body, name), body.get(at))
        for id_, name, at in zip(stored[::3], stored[1::3], stored[2::3], strict=True)
    )


def _signal_lines(stored: Sequence[Any], _names: Sequence[str]) -> Iterable[Line]:
    """Return the lines of the values of signals."""
    return [(at, "value", None) for at in stored[2::3]]


TEXT = FieldCodec(clean_, text_, "")
ID = FieldCodec(same_, text_)
TEXTS = each(ID)
INT = FieldCodec(same_, int_, 0)
NUMBER = FieldCodec(same_, _get_number)
FLAG = FieldCodec(_put_flag, _get_flag, False)
NAME = FieldCodec(_put_name, _get_name)
NAMES = each(NAME)
TASK = FieldCodec(_put_task, _get_task, ...)
TASKS = each(TASK)
COUNTS = by(NAME, INT)
VALUE = FieldCodec(Body.put, Body.get, lines=_value_line)
REPLY = VALUE._replace(lines=_reply_line)
TYPE = VALUE._replace(lines=_type_line)
ITEMS = by(INT, VALUE)
ARGUMENTS = FieldCodec(_put_arguments, _get_arguments, lines=_value_line)
MESSAGE = FieldCodec(_put_message, _get_message, "", _value_line)
TAGS = FieldCodec(_put_tags, _get_tags, (), _value_line)
SIGNALS = FieldCodec(_put_signals, _get_signals, (), _signal_lines)
FIELDS = FieldCodec(Body.put_fields, Body.get_fields, {}, _field_lines)
UPDATES = each(FIELDS)
ERROR = FieldCodec(Body.put_error, Body.get_error, lines=_value_line)
ERRORS = by(INT, ERROR)
HANDLED = FieldCodec(_put_handled, _get_handled, {}, _handled_lines)
JOINS = each(FieldCodec(_put_join, _get_join))
DIGESTS = FieldCodec(_put_digests, _get_digests, {})
CHECKSUMS = FieldCodec(_put_checksums, _get_checksums, {}, _checksums_line)
LINES = FieldCodec(_put_lines, _get_lines, {})
USAGE = FieldCodec(_put_usage, _get_usage, ...)
AMOUNTS = FieldCodec(_put_amounts, _get_amounts, ...)
EACH_AMOUNTS = each(AMOUNTS, ...)


def node_of(task: str, path: str) -> str:
    """Return the node that a task's id names: `search` for `2.0:search`.

    Args:
        path: Path of the graph that the task belongs to, with which the id begins.
    """
    return task[len(path) :].partition(":")[2]
