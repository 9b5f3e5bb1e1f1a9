"""How fields of events are written into the structure of a body, and read from it. `event_schema` assigns them.

A body is the stored form of the events of one commit: lines of JSON. Line 0 is the structure, which has no user values.
Every other line is one encoded value, to which the structure refers by the line's number. It refers to names of nodes
and fields by their number too (`Names`).

`_put_` functions get a value and return its JSON for the structure. `_get_` functions get this JSON (*stored*, or *at*
if it is the number of a line) and return the value. What comes from a store may be anything, so they raise TypeError,
ValueError or LookupError on JSON of which no value of the field can be made.

Names that end with an underscore are also used by `event_schema`. `same_` and `clean_` put; `text_` and `int_` get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from graphrt._journal.body import ERASED_TEXT, Body
from graphrt._usage import stored_form
from graphrt.commands import ERASED
from graphrt.events import Amounts, HandledTask, JoinStanding, Usage


class FieldCodec(NamedTuple):
    """How one kind of field is written and read. User values go on lines of the body, not into the structure."""

    put: Callable[[Body, Any], Any]
    """Returns the JSON for the structure. A result of None is stored as an absent field."""
    get: Callable[[Body, Any], Any]
    """Returns the value. Raises what Python raises on data of another form; `decode` makes it a StoreError."""
    empty: Any = None
    """Default for a field that is absent; `...` if it is required."""


Form: TypeAlias = tuple[tuple[str, FieldCodec], ...]
"""Names and codecs of an event's fields, in stored order."""


def same_(_body: Body, value: Any) -> Any:
    """Write a value that is JSON already as it is."""
    return value


def text_(_body: Body, value: Any) -> str:
    """Check that a stored value is text."""
    if not isinstance(value, str):
        raise TypeError("text was expected")
    return value


def clean_(_body: Body, value: str) -> str:
    """Write text of graphrt's own, with lone surrogates escaped, which UTF-8 cannot encode."""
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


def _put_rare_flag(_body: Body, value: Any) -> int | None:
    """Write True as 1, and False, the usual value, as an absent field: at the end of a form it costs no bytes."""
    return 1 if value else None


def _put_rare_int(_body: Body, value: Any) -> int | None:
    """Write 0 as an absent field, as `_put_rare_flag` does with False."""
    return value or None


def _put_texts(_body: Body, items: Any) -> list[Any]:
    """Write a sequence of texts as a list."""
    return list(items)


def _put_digests(_body: Body, digests: Mapping[str, str]) -> dict[str, str] | None:
    """Write a snapshot's digests of the hash chain by field; absent without a chain.

    They stand in the structure, unlike `_put_checksums`: they are made with salts, and confirm no guess of a value.
    """
    return dict(digests) or None


def _put_checksums(body: Body, checksums: Mapping[str, str]) -> int | None:
    """Write checksums of fields on a line of their own, so that they can be erased together with the values.

    They have no salt, so that a checksum would confirm a guess of an erased value.
    """
    return body.put(dict(checksums)) if checksums else None


def _get_checksums(body: Body, at: int) -> dict[str, str]:
    """Read checksums by field; none if they were erased."""
    return {} if body.is_erased(at) else _get_digests(body, body.get(at))


def _get_flag(_body: Body, value: Any) -> bool:
    """Read a bool. Nothing is refused, unlike in other fields: Python makes a bool of any JSON."""
    return bool(value)


def _put_name(body: Body, name: str) -> int:
    """Write the name of a node or field as its number."""
    return body.names.put(name)


def _get_name(body: Body, number: int) -> str:
    """Read the name of a node or field. A number that is too large raises IndexError as well."""
    if number < 0:  # would count from the end
        raise IndexError
    return body.names.known[number]


def _put_names(body: Body, names: Sequence[str]) -> list[int]:
    """Write names as their numbers, in order."""
    return [body.names.put(name) for name in names]


def _get_names(body: Body, numbers: Sequence[int]) -> tuple[str, ...]:
    """Read names, in order."""
    return tuple(_get_name(body, number) for number in numbers)


def _put_task(body: Body, task: str) -> Any:
    """Write a task's id as a list: `2.0:search`, task 0 of superstep 2, becomes `[2, 0, number of the name]`.

    The id of a task of a nested graph begins with the path of that graph, which stands once in the entry.
    """
    place, _, node = task[len(body.path) :].partition(":")
    superstep, _, index = place.partition(".")
    return [int(superstep), int(index), body.names.put(node)]


def _get_task(body: Body, stored: Any) -> str:
    """Read a task's id, with the path of its graph."""
    superstep, index, node = stored
    return f"{body.path}{int_(body, superstep)}.{int_(body, index)}:{_get_name(body, node)}"


def _put_tasks(body: Body, tasks: Sequence[str]) -> list[Any]:
    """Write ids of tasks, in order."""
    return [_put_task(body, task) for task in tasks]


def _get_tasks(body: Body, stored: Sequence[Any]) -> tuple[str, ...]:
    """Read ids of tasks, in order."""
    return tuple(_get_task(body, one) for one in stored)


def _put_value(body: Body, value: Any) -> int:
    """Write a user value on a line of its own, which can be erased."""
    return body.put(value)


def _get_value(body: Body, at: int) -> Any:
    """Read a user value; an erased one reads as `Erased()`."""
    return body.get(at)


def _put_arguments(body: Body, arguments: str) -> int:
    """Write the arguments of an effect on a line of their own, which can be erased; a text without lone surrogates."""
    return body.line(to_json(arguments))


def _get_arguments(body: Body, at: int) -> Any:
    """Read the arguments of an effect, `Erased()` if they were erased."""
    value = body.get(at)
    if value is not ERASED and not isinstance(from_json(text_(body, value)), list):
        raise TypeError("a JSON array was expected")
    return value


def _put_message(body: Body, message: str) -> int:
    """Write the message of an error on a line of its own, which can be erased: it may quote user values."""
    return body.put(clean_(body, message))


def _get_message(body: Body, at: int) -> Any:
    """Read the message of an error. It stays text if it was erased, which messages must be."""
    return ERASED_TEXT if body.is_erased(at) else body.get(at)


def _put_fields(body: Body, values: Mapping[str, Any]) -> list[int]:
    """Write values of fields, one line each, as a flat list: number of the name, number of the line, and so on."""
    return body.put_fields(values)


def _get_fields(body: Body, stored: Sequence[int]) -> dict[str, Any]:
    """Read values of fields by name."""
    return body.get_fields(stored)


def _put_updates(body: Body, updates: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Write the updates of a task: none, one, or of a nested graph one for each of its commits."""
    return [body.put_fields(update) for update in updates]


def _get_updates(body: Body, stored: Sequence[Sequence[int]]) -> tuple[dict[str, Any], ...]:
    """Read the updates of a task, in order."""
    return tuple(body.get_fields(pairs) for pairs in stored)


def _put_items(body: Body, items: Mapping[int, Any]) -> list[int]:
    """Write arguments of Sends as a flat list: position among the due nodes, number of the line, and so on."""
    return [number for at, value in items.items() for number in (at, body.put(value))]


def _get_items(body: Body, stored: Sequence[int]) -> dict[int, Any]:
    """Read arguments of Sends by position."""
    each = iter(stored)  # passed twice to `zip`, it takes the flat list in pairs; so below
    return {int_(body, at): body.get(line) for at, line in zip(each, each, strict=True)}


def _put_errors(body: Body, items: Mapping[int, BaseException]) -> list[int]:
    """Write the errors that due `on_error` nodes handle: position of the node, number of the line, and so on."""
    return [number for at, value in items.items() for number in (at, body.put_error(value))]


def _get_errors(body: Body, stored: Sequence[int]) -> dict[int, BaseException]:
    """Read errors by the position of the node that handles them."""
    each = iter(stored)
    return {int_(body, at): body.get_error(line) for at, line in zip(each, each, strict=True)}


def _put_error(body: Body, error: BaseException) -> int:
    """Write an exception on a line of its own, which can be erased."""
    return body.put_error(error)


def _get_error(body: Body, at: int) -> BaseException:
    """Read an exception; a `RecordedError` in its place if its class is a user's, or if it was erased."""
    return body.get_error(at)


def _put_usage(_body: Body, usage: Usage) -> list[Any]:
    """Write what model calls used as a list of numbers."""
    return stored_form.usage_to(usage)


def _get_usage(_body: Body, stored: Sequence[Any]) -> Usage:
    """Read what model calls used."""
    return stored_form.usage_from(stored)


def _put_amounts(_body: Body, amounts: Amounts) -> list[int]:
    """Write amounts of a budget (tokens, micro-dollars, calls) as a list of numbers."""
    return stored_form.amounts_to(amounts)


def _get_amounts(_body: Body, stored: Sequence[Any]) -> Amounts:
    """Read amounts of a budget."""
    return stored_form.amounts_from(stored)


def _put_each_amounts(_body: Body, each: Sequence[Amounts]) -> list[list[int]]:
    """Write the reservations of a model call, oldest first: one for each time that it was begun."""
    return list(map(stored_form.amounts_to, each))


def _get_each_amounts(_body: Body, stored: Sequence[Sequence[Any]]) -> tuple[Amounts, ...]:
    """Read the reservations of a model call."""
    return tuple(map(stored_form.amounts_from, stored))


def _put_joins(body: Body, joins: Sequence[JoinStanding]) -> list[Any]:
    """Write where joins stand, which are nodes that wait for several others: node, its sources, those that arrived.

    The flags are `fired`, that the node was started already, and `emptied`, that a router led to none of the sources.
    """
    return [
        # Two flags in one number: 1 and 2.
        [body.names.put(j.node), _put_names(body, j.sources), _put_names(body, j.arrived), j.fired + 2 * j.emptied]
        for j in joins
    ]


def _get_joins(body: Body, stored: Sequence[Any]) -> tuple[JoinStanding, ...]:
    """Read where joins stand."""
    return tuple(
        JoinStanding(
            node=_get_name(body, node),
            sources=_get_names(body, sources),
            arrived=_get_names(body, arrived),
            fired=bool(int_(body, how) & 1),
            emptied=bool(how & 2),
        )
        for node, sources, arrived, how in stored
    )


def _put_handled(body: Body, items: Mapping[int, Sequence[HandledTask]]) -> list[Any]:
    """Write the failed tasks that due `on_error` nodes handle: position of the node, then task and argument of each."""
    return [
        # Only a task that a Send started has an argument. Line 0 is the structure, so 0 can mean that there is none.
        [at, [[_put_task(body, one.task), 0 if one.arg is None else body.put(one.arg)] for one in handled]]
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


def _put_lines(_body: Body, lines: Mapping[int, Iterable[int]]) -> list[list[int]] | None:
    """Write numbers of lines by the last entry of their record."""
    return [[seq, *numbers] for seq, numbers in lines.items()] or None


def _get_lines(body: Body, stored: Any) -> dict[int, tuple[int, ...]]:
    """Read what `_put_lines` wrote."""
    return {int_(body, seq): tuple(int_(body, number) for number in numbers) for seq, *numbers in stored}


def _put_counts(body: Body, counts: Mapping[str, int]) -> list[int]:
    """Write visits of nodes as a flat list: number of the name, count, and so on."""
    return [number for name, count in counts.items() for number in (body.names.put(name), count)]


def _get_counts(body: Body, stored: Sequence[int]) -> dict[str, int]:
    """Read visits by node."""
    each = iter(stored)
    return {_get_name(body, name): int_(body, count) for name, count in zip(each, each, strict=True)}


def _get_texts(_body: Body, value: Sequence[Any]) -> tuple[str, ...]:
    """Read a list of texts."""
    return tuple(text_(_body, one) for one in value)


def _get_digests(body: Body, value: Mapping[str, Any]) -> dict[str, str]:
    """Read digests or checksums by field."""
    return {text_(body, name): text_(body, digest) for name, digest in value.items()}


_NOTHING: Final[dict[int, Any]] = {}

# MAYBE_: the field may be None, which an absent field stands for. RARE_: the usual value is not stored.
TEXT = FieldCodec(clean_, text_, "")
INT = FieldCodec(same_, int_, 0)
NUMBER = FieldCodec(same_, _get_number)
FLAG = FieldCodec(_put_flag, _get_flag, False)
RARE_INT = FieldCodec(_put_rare_int, int_, 0)
RARE_FLAG = FieldCodec(_put_rare_flag, _get_flag, False)
NAME = FieldCodec(_put_name, _get_name)
NAMES = FieldCodec(_put_names, _get_names, ())
MAYBE_NAMES = FieldCodec(_put_names, _get_names, None)
TASK = FieldCodec(_put_task, _get_task, ...)
TASKS = FieldCodec(_put_tasks, _get_tasks, ())
VALUE = FieldCodec(_put_value, _get_value)
ARGUMENTS = FieldCodec(_put_arguments, _get_arguments)
MESSAGE = FieldCodec(_put_message, _get_message, "")
FIELDS = FieldCodec(_put_fields, _get_fields, {})
MAYBE_FIELDS = FieldCodec(_put_fields, _get_fields, None)
UPDATES = FieldCodec(_put_updates, _get_updates, ())
ITEMS = FieldCodec(_put_items, _get_items, _NOTHING)
ERRORS = FieldCodec(_put_errors, _get_errors, _NOTHING)
ERROR = FieldCodec(_put_error, _get_error)
USAGE = FieldCodec(_put_usage, _get_usage)
JOINS = FieldCodec(_put_joins, _get_joins, ())
DIGESTS = FieldCodec(_put_digests, _get_digests, {})
TEXTS = FieldCodec(_put_texts, _get_texts, ())
MAYBE_TEXT = FieldCodec(clean_, text_)
USED = FieldCodec(_put_usage, _get_usage, ...)
MAYBE_AMOUNTS = FieldCodec(_put_amounts, _get_amounts)
AMOUNTS = FieldCodec(_put_amounts, _get_amounts, ...)
EACH_AMOUNTS = FieldCodec(_put_each_amounts, _get_each_amounts, ...)
CHECKSUMS = FieldCodec(_put_checksums, _get_checksums, {})
HANDLED = FieldCodec(_put_handled, _get_handled, _NOTHING)
LINES = FieldCodec(_put_lines, _get_lines, {})
COUNTS = FieldCodec(_put_counts, _get_counts, {})


def node_of(task: str, path: str) -> str:
    """Return the node that a task's id names: `search` for `2.0:search`.

    Args:
        path: Path of the graph that the task belongs to, with which the id begins.
    """
    return task[len(path) :].partition(":")[2]
