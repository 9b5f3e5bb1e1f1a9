"""The stored form of each event: the table of codes and fields, and the one encoder and decoder that follow it.

A stored event is a list: its code, the path of its graph (0 at the top), and its fields in the order of the table.
Trailing fields that hold their default are not written. How each kind of field is written is in `field_codecs`. User
values go on lines of the body, and the JSON has the numbers of these lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt._journal.field_codecs import (
    AMOUNTS,
    ARGUMENTS,
    CHECKSUMS,
    COUNTS,
    DIGESTS,
    EACH_AMOUNTS,
    ERROR,
    ERRORS,
    FIELDS,
    FLAG,
    HANDLED,
    ID,
    INT,
    ITEMS,
    JOINS,
    LINES,
    MAYBE_AMOUNTS,
    MAYBE_FIELDS,
    MAYBE_NAMES,
    MAYBE_TEXT,
    MESSAGE,
    NAME,
    NAMES,
    NUMBER,
    RARE_FLAG,
    RARE_INT,
    SIGNALS,
    TAGS,
    TASK,
    TASKS,
    TEXT,
    TEXTS,
    UPDATES,
    USAGE,
    USED,
    VALUE,
    FieldCodec,
    Form,
    Line,
    clean_,
    each,
    int_,
    node_of,
    same_,
    text_,
)

if TYPE_CHECKING:
    from graphrt._journal.body import Body


class _Writing(NamedTuple):
    """What writing an event needs of its form, made ready: this runs for every event of every run with a store."""

    code: int
    values: Callable[[Any], tuple[Any, ...]]
    """Returns the values of the fields, in stored order."""
    puts: tuple[Callable[[Body, Any], Any], ...]
    """What writes each field."""
    skips: tuple[bool, ...]
    """Whether an empty value is the default of the field. It is not if that is None: `goto=()` and `goto=None` differ."""


def encode_event(body: Body, path: str, event: events.Event | events.StateSaved) -> list[Any]:
    """Return *event* as it is stored; user values become lines of *body*."""
    body.path = path  # codecs need it: ids of tasks begin with it, and only fields of the top graph are noted
    code, values_of, puts, skips = _WRITING[event.__class__]
    values = values_of(event)
    # Trailing fields that hold their default are left out: reading an absent field gives the same value.
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
    """What reading an event needs of its form, made ready: this runs for every event of every thread that is loaded."""

    kind: Any
    """The class of the event."""
    fields: tuple[tuple[_Set, Callable[[Body, Any], Any]], ...]
    """What sets each field, and what reads it."""
    required: int
    """How many fields there must be at least."""
    defaults: tuple[tuple[tuple[_Set, Any], ...], ...]
    """What sets each field that may be absent, and its value: by the number of fields that are stored, those after them.
    At 0 there are all of them."""
    dicts: tuple[_Set, ...]
    """What sets the fields whose default is a dict of their own, because it may be changed."""
    set_node: _Set | None
    """What sets the node, if that is not stored because the id of the task names it."""


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
    # Not by the class, whose fields are frozen: a call with keywords that sets each field by `object.__setattr__` takes
    # as long as all the rest here.
    event = _new(kind)
    for set_ in dicts:
        set_(event, {})
    for set_, value in defaults[0 if None in stored else len(stored)]:
        set_(event, value)
    for (set_, get), part in zip(fields, stored, strict=False):  # those that are absent are the last ones
        if part is not None:
            set_(event, get(body, part))
    if set_node is not None:
        set_node(event, node_of(event.task, path))
    return path, event


def _nested(code: int | None = None) -> FieldCodec:
    """Return the codec of an event inside another one: stored as anywhere, without the path, which is that of the other.

    Args:
        code: Code of the event, if it is always the same and not stored; None stores it.
    """
    given: list[Any] = [] if code is None else [code]

    def put(body: Body, event: Any) -> list[Any]:
        stored, _, *fields = encode_event(body, body.path, event)
        return fields if given else [stored, *fields]

    def get(body: Body, stored: Sequence[Any]) -> Any:
        found, *fields = [*given, *stored]
        return decode_event(body, [found, body.path, *fields])[1]

    def lines(stored: Sequence[Any], names: Sequence[str]) -> Iterable[Line]:
        found, *fields = [*given, *stored]
        return lines_of(found, fields, names)

    return FieldCodec(put, get, ..., lines)


def lines_of(code: int, fields: Sequence[Any], names: Sequence[str]) -> Iterable[Line]:
    """Return the lines that the stored *fields* of the event with the *code* refer to.

    Args:
        names: Names of the thread by number.
    """
    kind = BY_CODE[code]
    for (name, how), stored in zip(FORMS[kind], fields, strict=False):
        if stored is not None:
            for at, what, field in how.lines(stored, names):
                if what == "value":
                    what = "type" if name == "answer_type" else "reply" if kind is events.ModelReplied else what
                yield at, what, field


_SAVED = _nested(15)
"""The state that a fork begins with, a `StateSaved`."""
_OUTCOMES = each(_nested())
"""The outcomes of a superstep that waits for `interrupt_after`, in a snapshot: it is folded already, and its routers run
once a person has answered. The state of a fork may have such outcomes."""
_DUE: Final[Form] = (("next", NAMES), ("sends", ITEMS), ("errors", ERRORS), ("joins", JOINS))
"""What is due next: names, and by position arguments of Sends and failures; then the joins that changed."""
_CALL: Final[Form] = (("task", TASK), ("key", TEXT), ("failed_attempts", INT))
"""What identifies a model call: its task, its key inside the task, and the attempts that had failed before."""
_STATE: Final[Form] = (
    ("values", FIELDS),
    ("superstep", INT),
    ("steps", INT),
    ("visits", COUNTS),
    *_DUE,
    ("entering", FLAG),
    ("usage", USAGE),
    ("status", TEXT),
    ("run", TEXT),
    ("seed", FieldCodec(same_, int_)),
    ("cause", INT),
    ("fingerprint", TEXT),
    ("names", TEXTS),
    ("digests", DIGESTS),
    ("granted", MAYBE_AMOUNTS),
    ("handled", HANDLED),
    ("held", _OUTCOMES),
    ("after", TASKS),
    ("waits", RARE_INT),
    ("signals", SIGNALS),
    ("children", TEXTS),
    ("parent", MAYBE_TEXT),
    ("began", CHECKSUMS),
)
"""The form of `StateSaved`: a snapshot, or the state that a fork begins with."""

# A change of codes, or of the fields of a form, is a change of the stored form: it needs a new `body.VERSION`.
_FORMS: Final[tuple[tuple[int, Any, Form], ...]] = (
    (
        1,
        events.RunStarted,
        (
            ("graph", TEXT),
            ("fingerprint", TEXT),
            ("thread", ID),
            ("seed", INT),
            ("input", FIELDS),
            ("fresh", FLAG),
            ("user", TEXT),
            ("redaction", TEXT),
            ("parent", MAYBE_TEXT),
            ("digests", CHECKSUMS),
        ),
    ),
    (2, events.RunResumed, (("verb", TEXT), ("thread", ID), ("user", TEXT), ("redaction", TEXT))),
    (3, events.InterruptAnswered, (("id", TEXT), ("answer", VALUE), ("nth", INT), ("by", TEXT))),
    (
        4,
        events.InterruptRaised,
        (
            ("id", TEXT),
            ("task", TASK),
            ("node", NAME),
            ("payload", VALUE),
            ("key", TEXT),
            ("answer_type", VALUE),
            ("expires_at", NUMBER),
            ("usage", USAGE),
            ("kind", FieldCodec(clean_, text_, "question")),
            ("version", FieldCodec(same_, int_, 1)),
            ("stale", FLAG),
            ("default", VALUE),
            ("has_default", FLAG),
        ),
    ),
    (
        5,
        events.TaskRetried,
        (
            ("task", TASK),
            ("node", NAME),
            ("attempt", INT),
            ("delay_s", NUMBER),
            ("error", TEXT),
            ("message", MESSAGE),
            ("usage", USAGE),
        ),
    ),
    (
        6,
        events.EffectStarted,
        (
            ("task", TASK),
            ("key", TEXT),
            ("starts", FieldCodec(same_, int_, 1)),
            ("answers", RARE_INT),
            ("arguments", ARGUMENTS),
        ),
    ),
    (
        7,
        events.EffectRecorded,
        (("task", TASK), ("key", TEXT), ("result", VALUE), ("answers", RARE_INT), ("arguments", ARGUMENTS)),
    ),
    (
        8,
        events.TaskSucceeded,
        (
            ("task", TASK),
            ("updates", UPDATES),
            ("goto", MAYBE_NAMES),
            ("sends", ITEMS),
            ("usage", USAGE),
            ("edited", RARE_FLAG),
        ),
    ),
    (
        9,
        events.TaskFailed,
        (
            ("task", TASK),
            ("error", TEXT),
            ("message", MESSAGE),
            ("handler", NAME),
            ("exception", ERROR),
            ("usage", USAGE),
        ),
    ),
    (10, events.OutcomeDropped, (("task", TASK),)),
    (11, events.NodeFatigued, (("node", NAME), ("visits", INT), ("route", NAME))),
    (
        12,
        events.SuperstepCommitted,
        (("superstep", INT), ("wrote", NAMES), *_DUE, ("handled", HANDLED), ("after", TASKS)),
    ),
    (13, events.TasksRouted, (("reason", TEXT), *_DUE, ("handled", HANDLED))),
    (
        14,
        events.ThreadUpdated,
        (
            ("values", FIELDS),
            ("as_node", NAME),
            # None means that the edit left what is due as it was.
            ("next", MAYBE_NAMES),
            *_DUE[1:],
            ("open", FLAG),
            ("handled", HANDLED),
            ("goto", MAYBE_NAMES),
            ("fresh", FLAG),
            ("user", TEXT),
            ("redaction", TEXT),
        ),
    ),
    (15, events.StateSaved, _STATE),
    (16, events.ThreadForked, (("source", TEXT), ("at", INT), ("state", _SAVED))),
    (
        17,
        events.ThreadMigrated,
        (("source", TEXT), ("target", TEXT), ("why", TEXT), ("values", MAYBE_FIELDS)),
    ),
    (18, events.HistoryPruned, (("upto", INT),)),
    (19, events.RunInterrupted, (("interrupts", TEXTS), ("folded", CHECKSUMS))),
    (20, events.RunCompleted, (("steps", INT), ("folded", CHECKSUMS))),
    (21, events.RunFailed, (("error", TEXT), ("message", MESSAGE), ("node", NAME), ("folded", CHECKSUMS))),
    (22, events.RunCancelled, (("reason", TEXT), ("folded", CHECKSUMS), ("threads", TEXTS))),
    (23, events.InterruptExpired, (("id", TEXT),)),
    (24, events.InterruptWithdrawn, (("id", TEXT), ("reason", TEXT))),
    (25, events.AnswerUsed, (("id", TEXT), ("reworded", FLAG), ("payload", VALUE), ("nth", INT))),
    (26, events.AnswerDiscarded, (("id", TEXT), ("reason", TEXT), ("nth", INT))),
    (
        27,
        events.SuperstepAbandoned,
        (
            ("superstep", INT),
            ("tasks", TASKS),
            ("finished", TASKS),
            ("interrupts", TEXTS),
            ("effects", TEXTS),
            ("next", NAMES),
            ("usage", USAGE),
            ("threads", TEXTS),
            ("said", FIELDS),
        ),
    ),
    (
        28,
        events.ModelReplied,
        (
            *_CALL,
            ("reply", VALUE),
            ("usage", USAGE),
            ("model", MAYBE_TEXT),
            ("answers", RARE_INT),
        ),
    ),
    (29, events.UsageRecorded, (*_CALL, ("nth", FieldCodec(same_, int_, 1)), ("usage", USED), ("model", MAYBE_TEXT))),
    (30, events.RepliesDiscarded, (("task", TASK), ("failed_attempts", INT))),
    (31, events.BudgetHeld, (*_CALL, ("reservations", EACH_AMOUNTS))),
    (32, events.BudgetReleased, _CALL),
    (33, events.BudgetGranted, (("task", TASK), ("question", TEXT), ("of", TEXT), ("amounts", AMOUNTS))),
    (
        34,
        events.ValuesErased,
        (("by", TEXT), ("reason", TEXT), ("records", INT), ("lines", INT), ("erased", LINES)),
    ),
    (35, events.RunHandedOver, (("reason", TEXT),)),
    # A title or tag may say who a thread is about, so both are values, which can be erased.
    (36, events.ThreadLabelled, (("title", VALUE), ("tags", TAGS), ("user", TEXT), ("priority", RARE_INT))),
    (37, events.SignalReceived, (("id", TEXT), ("name", TEXT), ("value", VALUE), ("user", TEXT))),
    (38, events.SignalTaken, (("id", TEXT), ("interrupt", TEXT))),
    (39, events.LetterDropped, (("id", TEXT), ("what", TEXT), ("reason", TEXT))),
    (
        40,
        events.ThreadStarted,
        (
            ("task", TASK),
            ("key", TEXT),
            ("thread", TEXT),
            ("graph", TEXT),
            ("detached", RARE_FLAG),
            ("made", RARE_FLAG),
            ("arguments", ARGUMENTS),
        ),
    ),
    (
        41,
        events.ReplyStopped,
        (*_CALL, ("text", VALUE), ("model", MAYBE_TEXT), ("attempt", FieldCodec(same_, int_, 1))),
    ),
    (42, events.ThreadDeleted, (("user", TEXT),)),
    (43, events.ThreadCopied, (("source", TEXT), ("thread", TEXT))),
)
FORMS: Final[Mapping[Any, Form]] = {kind: form for _, kind, form in _FORMS}
"""Event class to its fields, in stored order."""
CODES: Final[Mapping[Any, int]] = {kind: code for code, kind, _ in _FORMS}
"""Event class to its stored code."""
BY_CODE: Final[Mapping[Any, Any]] = {code: kind for code, kind, _ in _FORMS}
"""Stored code to event class."""
NODE_IN_TASK_ID: Final = frozenset({events.TaskSucceeded, events.TaskFailed, events.OutcomeDropped})
"""Events whose node is not stored, because the id of their task names it, as `2.0:search` names `search`."""


def _only(get: Callable[[Any], Any], event: Any) -> tuple[Any]:
    """Return the one field that *get* returns, as a tuple."""
    return (get(event),)


def _writing(code: int, form: Form) -> _Writing:
    """Make ready what writing an event with the *code* needs."""
    names = [name for name, _ in form]
    get: Callable[[Any], Any] = attrgetter(*names)
    values: Callable[[Any], tuple[Any, ...]] = get if len(names) > 1 else partial(_only, get)
    # Empty sequences and mappings, and what a codec writes as absent (RARE_) when it holds its default.
    skips = tuple(how.empty in ((), {}) or how.put is RARE_FLAG.put for _, how in form)
    return _Writing(code, values, tuple(how.put for _, how in form), skips)


def _reading(kind: Any, form: Form) -> _Reading:
    """Make ready what reading an event of *kind* needs."""
    setters: dict[str, _Set] = {name: getattr(kind, name).__set__ for name in kind.__slots__}
    fields = tuple((setters[name], how.get) for name, how in form)
    required = max((at for at, (_, how) in enumerate(form, 1) if how.empty is ...), default=0)
    own = tuple(how.empty == {} for _, how in form)  # each event gets a mapping of its own: its reader may change it
    defaults = tuple(
        tuple(
            (setters[name], how.empty)
            for (name, how), apart in zip(form[count:], own[count:], strict=True)
            if not apart and how.empty is not ...
        )
        for count in range(len(form) + 1)
    )
    dicts = tuple(setters[name] for (name, _), apart in zip(form, own, strict=True) if apart)
    return _Reading(kind, fields, required, defaults, dicts, setters["node"] if kind in NODE_IN_TASK_ID else None)


_new: Final = object.__new__
_WRITING: Final = {kind: _writing(code, form) for code, kind, form in _FORMS}
_READING: Final = {code: _reading(kind, form) for code, kind, form in _FORMS}
