"""The stored form of each event: the table of codes and fields, and the encoder and decoder based on it.

A stored event is a list: its code, the path of its graph (0 at the top), and its fields in the order of its class.
Trailing fields that hold their default are not written if that is None, 0, False or empty. The name of a field
determines how it is written (`_CODECS`), because a name has the same meaning in all events; the codecs are in
`field_codecs`. User values are written on lines of the body, and the JSON contains the line numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt._journal import field_codecs as codecs
from graphrt._journal.field_codecs import FieldCodec, Form, Line, each, node_of

if TYPE_CHECKING:
    from graphrt._journal.body import Body


class _Writing(NamedTuple):
    """The prepared parts of an event's form for writing: this runs for every event of every run with a store."""

    code: int
    values: Callable[[Any], tuple[Any, ...]]
    """Returns the values of the fields, in stored order."""
    puts: tuple[Callable[[Body, Any], Any], ...]
    """The writer of each field."""
    skips: tuple[bool, ...]
    """Whether the default of the field is 0, False or empty. False if it is None, because `goto=()` and `goto=None`
    differ."""


def encode_event(body: Body, path: str, event: events.Event | events.StateSaved) -> list[Any]:
    """Return *event* as it is stored; user values become lines of *body*."""
    # Needed by codecs: ids of tasks begin with it, and only fields of the outermost graph are recorded.
    body.path = path
    code, values_of, puts, skips = _WRITING[event.__class__]
    values = values_of(event)
    # Trailing fields that hold such a default are left out: reading an absent field gives the same value.
    count = len(values)
    while count and ((value := values[count - 1]) is None or (skips[count - 1] and not value)):
        count -= 1
    entry: list[Any] = [code, path or 0]
    for put, value in zip(puts, values[:count], strict=False):
        entry.append(None if value is None else put(body, value))
    return entry


_Set: TypeAlias = Callable[[Any, Any], None]
"""Sets one field of an event."""


class _Reading(NamedTuple):
    """The prepared parts of an event's form for reading: this runs for every event of every loaded thread."""

    kind: Any
    """The class of the event."""
    fields: tuple[tuple[_Set, Callable[[Body, Any], Any]], ...]
    """The setter and the reader of each field."""
    required: int
    """How many fields there must be at least."""
    defaults: tuple[tuple[tuple[_Set, Any], ...], ...]
    """By the number of stored fields, the setters and values of the absent fields that follow; at 0, of all of them."""
    dicts: tuple[_Set, ...]
    """Setters of the fields whose default is a new dict, because it may be changed."""
    set_node: _Set | None
    """The setter of the node, if it is not stored because the id of the task names it."""


def decode_event(body: Body, entry: Sequence[Any]) -> Logged:
    """Return the path and event that `encode_event` wrote.

    Raises:
        LookupError, TypeError, ValueError: *entry* is not such a list.
    """
    kind, fields, required, defaults, dicts, set_node = _READING[entry[0]]
    path = body.path = entry[1] or ""
    if path.__class__ is not str:
        raise TypeError("a path is text")
    stored = entry[2:]
    if None in stored[:required] or len(stored) < required:
        raise ValueError("a required field is missing")
    # Not with the class's constructor: its fields are frozen, and setting each with `object.__setattr__` takes as long
    # as everything else here.
    event = _new(kind)
    for set_ in dicts:
        set_(event, {})
    for set_, value in defaults[0 if None in stored else len(stored)]:
        set_(event, value)
    for (set_, get), part in zip(fields, stored, strict=False):  # absent fields are always the last ones
        if part is not None:
            set_(event, get(body, part))
    if set_node is not None:
        set_node(event, node_of(event.task, path))
    return path, event


def _nested(code: int | None = None) -> FieldCodec:
    """Return the codec of an event inside another event: without the path, which is that of the outer event.

    Args:
        code: Code of the event if it is constant and not stored; None to store it.
    """
    prefix: list[Any] = [] if code is None else [code]

    def put(body: Body, event: Any) -> list[Any]:
        stored, _, *fields = encode_event(body, body.path, event)
        return fields if prefix else [stored, *fields]

    def get(body: Body, stored: Sequence[Any]) -> Any:
        event_code, *fields = [*prefix, *stored]
        return decode_event(body, [event_code, body.path, *fields])[1]

    def lines(stored: Sequence[Any], names: Sequence[str]) -> Iterable[Line]:
        event_code, *fields = [*prefix, *stored]
        return lines_of(event_code, fields, names)

    return FieldCodec(put, get, ..., lines)


def lines_of(code: int, fields: Sequence[Any], names: Sequence[str]) -> Iterable[Line]:
    """Return the lines that the stored *fields* of the event with the *code* refer to.

    Args:
        names: Names of the thread by number.
    """
    for (_, codec), stored in zip(FORMS[BY_CODE[code]], fields, strict=False):
        if stored is not None:
            yield from codec.lines(stored, names)


# Changing codes, or the names or order of an event's fields, changes the stored form and requires a new `body.VERSION`.
# Adding a field at the end of an event does not.
BY_CODE: Final[Mapping[int, Any]] = {
    1: events.RunStarted,
    2: events.RunResumed,
    3: events.InterruptAnswered,
    4: events.InterruptRaised,
    5: events.TaskRetried,
    6: events.EffectStarted,
    7: events.EffectRecorded,
    8: events.TaskSucceeded,
    9: events.TaskFailed,
    10: events.OutcomeDropped,
    11: events.NodeFatigued,
    12: events.SuperstepCommitted,
    13: events.TasksRouted,
    14: events.ThreadUpdated,
    15: events.StateSaved,  # a snapshot; no entry
    16: events.ThreadForked,
    17: events.ThreadMigrated,
    18: events.HistoryPruned,
    19: events.RunInterrupted,
    20: events.RunCompleted,
    21: events.RunFailed,
    22: events.RunCancelled,
    23: events.InterruptExpired,
    24: events.InterruptWithdrawn,
    25: events.AnswerUsed,
    26: events.AnswerDiscarded,
    27: events.SuperstepAbandoned,
    28: events.ModelReplied,
    29: events.UsageRecorded,
    30: events.RepliesDiscarded,
    31: events.BudgetHeld,
    32: events.BudgetReleased,
    33: events.BudgetGranted,
    34: events.ValuesErased,
    35: events.RunHandedOver,
    36: events.ThreadLabelled,
    37: events.SignalReceived,
    38: events.SignalTaken,
    39: events.LetterDropped,
    40: events.ThreadStarted,
    41: events.ReplyStopped,
    42: events.ThreadDeleted,  # only in log files
    43: events.ThreadCopied,
    44: events.MemoryWritten,
}
"""Stored code to event class."""
CODES: Final[Mapping[Any, int]] = {kind: code for code, kind in BY_CODE.items()}
"""Event class to its stored code."""
NODE_IN_TASK_ID: Final = frozenset({events.TaskSucceeded, events.TaskFailed, events.OutcomeDropped})
"""Events whose node is not stored, because the id of their task names it, as `2.0:search` names `search`."""
_NAMED: Final[tuple[tuple[FieldCodec, str], ...]] = (
    (
        codecs.TEXT,
        "agent by error fingerprint graph id interrupt key kind model name of parent question reason redaction run",
    ),
    (codecs.TEXT, "source status target user verb what why"),
    (codecs.ID, "thread"),
    (codecs.TEXTS, "children effects interrupts names threads"),
    (
        codecs.INT,
        "answers at attempt cause failed_attempts lines nth priority records seed starts steps superstep upto",
    ),
    (codecs.INT, "version waits"),
    (codecs.NUMBER, "delay_s expires_at expires_s"),
    (codecs.FLAG, "above deleted detached edited entering fresh has_default made open reworded stale"),
    (codecs.NAME, "as_node handler node route"),
    (codecs.NAMES, "goto next wrote"),
    (codecs.TASK, "task"),
    (codecs.TASKS, "after finished tasks"),
    (codecs.COUNTS, "visits"),
    # A title or tag may reveal who a thread is about, so both are values that can be erased.
    (codecs.VALUE, "answer default embedded namespace payload result text title value"),
    (codecs.TAGS, "tags"),
    (codecs.REPLY, "reply"),
    (codecs.TYPE, "answer_type"),
    (codecs.ITEMS, "args sends"),
    (codecs.ARGUMENTS, "arguments"),
    (codecs.MESSAGE, "message"),
    (codecs.FIELDS, "input said values"),
    (codecs.UPDATES, "updates"),
    (codecs.ERROR, "exception"),
    (codecs.ERRORS, "errors"),
    (codecs.HANDLED, "handled"),
    (codecs.JOINS, "joins"),
    (codecs.CHECKSUMS, "began digests folded"),
    (codecs.LINES, "erased"),
    (codecs.USAGE, "usage"),
    (codecs.AMOUNTS, "amounts granted"),
    (codecs.EACH_AMOUNTS, "reservations"),
    (codecs.SIGNALS, "signals"),
    # The state that a fork begins with, a `StateSaved`.
    (_nested(15), "state"),
    # The memory writes of an effect.
    (each(_nested(44)), "memory"),
    # The outcomes of a superstep that waits for `interrupt_after`, in a snapshot: it is folded already, and its routers
    # run once a person has answered. The state of a fork may have such outcomes.
    (each(_nested()), "held"),
)
_CODECS: Final[Mapping[str, FieldCodec]] = {name: how for how, names in _NAMED for name in names.split()}
"""Maps the name of a field to its codec."""
_OTHERS: Final[Mapping[tuple[Any, str], FieldCodec]] = {
    (events.NodeFatigued, "visits"): codecs.INT,
    (events.MemoryWritten, "key"): codecs.VALUE,  # like its namespace, it may reveal who the item is about
    (events.StateSaved, "digests"): codecs.DIGESTS,  # digests of the hash chain, not checksums of values
}
"""Fields whose names have a different meaning in one event."""


def _default(field: Field[Any], codec: FieldCodec) -> Any:
    """Return the value of an absent field: its default, else the codec's; `...` if it must be present."""
    if field.default is not MISSING:
        return field.default
    return codec.empty if field.default_factory is MISSING else field.default_factory()


def _form(kind: Any) -> Form:
    """Return the fields of an event class that are stored, in order, each with its codec and default."""
    with_codecs = [(field, _OTHERS.get((kind, field.name)) or _CODECS[field.name]) for field in fields(kind)]
    return tuple(
        (field.name, codec._replace(empty=_default(field, codec)))
        for field, codec in with_codecs
        if field.name != "node" or kind not in NODE_IN_TASK_ID
    )


FORMS: Final[Mapping[Any, Form]] = {kind: _form(kind) for kind in CODES}
"""Event class to its fields, in stored order."""


def _only(get: Callable[[Any], Any], event: Any) -> tuple[Any]:
    """Return the one field that *get* returns, as a tuple."""
    return (get(event),)


def _writing(code: int, form: Form) -> _Writing:
    """Prepare the data for writing an event with the *code*."""
    names = [name for name, _ in form]
    get: Callable[[Any], Any] = attrgetter(*names)
    values: Callable[[Any], tuple[Any, ...]] = get if len(names) > 1 else partial(_only, get)
    skips = tuple(codec.empty is not None and codec.empty is not ... and not codec.empty for _, codec in form)
    return _Writing(code, values, tuple(codec.put for _, codec in form), skips)


def _reading(kind: Any, form: Form) -> _Reading:
    """Prepare the data for reading an event of *kind*."""
    setters: dict[str, _Set] = {name: getattr(kind, name).__set__ for name in kind.__slots__}
    fields = tuple((setters[name], codec.get) for name, codec in form)
    required = max((at for at, (_, codec) in enumerate(form, 1) if codec.empty is ...), default=0)
    # Each event gets its own mapping, because its reader may change it.
    needs_copy = tuple(codec.empty == {} for _, codec in form)
    defaults = tuple(
        tuple(
            (setters[name], codec.empty)
            for (name, codec), is_copied in zip(form[count:], needs_copy[count:], strict=True)
            if not is_copied and codec.empty is not ...
        )
        for count in range(len(form) + 1)
    )
    dicts = tuple(setters[name] for (name, _), is_copied in zip(form, needs_copy, strict=True) if is_copied)
    return _Reading(kind, fields, required, defaults, dicts, setters["node"] if kind in NODE_IN_TASK_ID else None)


_new: Final = object.__new__
_WRITING: Final = {kind: _writing(CODES[kind], form) for kind, form in FORMS.items()}
_READING: Final = {code: _reading(kind, FORMS[kind]) for code, kind in BY_CODE.items()}
