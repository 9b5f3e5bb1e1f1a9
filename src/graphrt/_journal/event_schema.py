"""The stored form of each event: its code, and its fields in order.

Trailing fields that hold their default are not written. How each kind of field is written is in `field_codecs`: a `FieldCodec` has `put` (value to JSON), `get` (JSON to value) and
`empty` (the default of an absent field; `...` if it is required). User values go on lines of the body, and the JSON has
the numbers of these lines.

The `_put_` and `_get_` functions here are such codecs. They are not in `field_codecs` because they need the forms, or
serve one event only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from graphrt import events
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
    clean_,
    int_,
    node_of,
    same_,
    text_,
)

if TYPE_CHECKING:
    from graphrt._journal.body import Body


def _put_state(body: Body, state: events.StateSaved) -> list[Any]:
    """Write the state that a fork begins with, inside a `ThreadForked`, as a list of its fields."""
    return [how.put(body, value) if (value := getattr(state, name)) is not None else None for name, how in STATE]


def _get_state(body: Body, stored: Sequence[Any]) -> events.StateSaved:
    """Read what `_put_state` wrote."""
    values: dict[str, Any] = {}
    for (name, how), one in zip(STATE, stored, strict=True):
        values[name] = how.empty if one is None else how.get(body, one)
    return events.StateSaved(**values)


def _put_outcomes(body: Body, outcomes: Sequence[events.TaskSucceeded | events.TaskFailed]) -> list[Any]:
    """Write the outcomes of a superstep that waits for `interrupt_after`, in a snapshot: lists of code and fields.

    It is folded already, and its routers run once a person has answered. The state of a fork may have such outcomes.
    """
    stored: list[Any] = []
    for event in outcomes:
        form = FORMS[event.__class__]
        values = [how.put(body, value) if (value := getattr(event, name)) is not None else None for name, how in form]
        stored.append([CODES[event.__class__], *values])
    return stored


def _get_outcomes(body: Body, stored: Sequence[Any]) -> tuple[Any, ...]:
    """Read what `_put_outcomes` wrote. The node is not stored, because the task's id names it."""
    found: list[Any] = []
    for code, *parts in stored:
        kind = BY_CODE[code]
        if kind not in (events.TaskSucceeded, events.TaskFailed):
            raise ValueError("an outcome of a task was expected")
        values: dict[str, Any] = {}
        for (name, how), one in zip(FORMS[kind], parts, strict=True):
            values[name] = how.empty if one is None else how.get(body, one)
        values["node"] = node_of(values["task"], body.path)
        found.append(kind(**values))
    return tuple(found)


def _put_tags(body: Body, tags: Sequence[str]) -> int:
    """Write the tags of a thread on one line, which can be erased; return its number."""
    return body.put(list(tags))


def _get_tags(body: Body, line: int) -> tuple[str, ...]:
    """Read the tags of a thread; none if they were erased."""
    found = body.get(line)
    return tuple(found) if found.__class__ is list else ()


TAGS = FieldCodec(_put_tags, _get_tags, ())


def _put_signals(body: Body, signals: Sequence[tuple[str, str, Any]]) -> list[Any]:
    """Write signals that no node has taken yet as a flat list: id, name, number of the value's line, and so on."""
    return [part for id_, name, value in signals for part in (id_, name, body.put(value))]


def _get_signals(body: Body, stored: Sequence[Any]) -> tuple[tuple[str, str, Any], ...]:
    """Read what `_put_signals` wrote: id, name and value of each signal."""
    parts = iter(stored)
    return tuple(
        (text_(body, id_), text_(body, name), body.get(line))
        for id_, name, line in zip(parts, parts, parts, strict=True)
    )


SIGNALS = FieldCodec(_put_signals, _get_signals, ())
OUTCOMES = FieldCodec(_put_outcomes, _get_outcomes, ())
_DUE: Final[Form] = (("next", NAMES), ("sends", ITEMS), ("errors", ERRORS), ("joins", JOINS))
"""What is due next: names, and by position arguments of Sends and failures; then the joins that changed."""
_CALL: Final[Form] = (("task", TASK), ("key", TEXT), ("failed_attempts", INT))
"""What identifies a model call: its task, its key inside the task, and the attempts that had failed before."""
STATE: Final[Form] = (
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
    ("held", OUTCOMES),
    ("after", TASKS),
    ("waits", RARE_INT),
    ("signals", SIGNALS),
    ("children", TEXTS),
    ("parent", MAYBE_TEXT),
    ("began", CHECKSUMS),
)
"""The form of `StateSaved`."""

# A change of codes, or of the fields of a form, is a change of the stored form: it needs a new `body.VERSION`.
_FORMS: Final[tuple[tuple[int, Any, Form], ...]] = (
    (
        1,
        events.RunStarted,
        (
            ("graph", TEXT),
            ("fingerprint", TEXT),
            ("thread", FieldCodec(same_, text_)),
            ("seed", INT),
            ("input", FIELDS),
            ("fresh", FLAG),
            ("user", TEXT),
            ("redaction", TEXT),
            ("parent", MAYBE_TEXT),
            ("digests", CHECKSUMS),
        ),
    ),
    (2, events.RunResumed, (("verb", TEXT), ("thread", FieldCodec(same_, text_)), ("user", TEXT), ("redaction", TEXT))),
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
    (15, events.StateSaved, STATE),
    (16, events.ThreadForked, (("source", TEXT), ("at", INT), ("state", FieldCodec(_put_state, _get_state, ...)))),
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
    (25, events.AnswerUsed, (("id", TEXT), ("reworded", FLAG), ("payload", VALUE))),
    (26, events.AnswerDiscarded, (("id", TEXT), ("reason", TEXT))),
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
