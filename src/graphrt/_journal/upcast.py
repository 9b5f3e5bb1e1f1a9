"""Upcasters: old forms of the journal, converted to the present form. One function for each past version.

The rest of graphrt reads the present form only. Old forms are converted in memory when they are read; what is stored
stays as it was. An upcaster makes one event of one event, because the number of an entry is its place in the journal.

What is converted is the structure, line 0 of a body: `[version, time, run, cause, new names, entries, ...]`. An entry
is `[code, path, field, ...]`, with the fields in stored form. Values are on other lines of the body, which entries name
by number. An upcaster may add lines to the body; they are not stored.

| Version | Written by | What the next version changed |
|---|---|---|
| 1 | graphrt 0.1 | Replies, usage, reservations and grants became events of their own (decision 0080), and replies have parts (decision 0082). Before, they were `EffectRecorded` with keys that begin with `model/`, `held/`, `granted/` and `harness/failed`. |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from graphrt import events
from graphrt._journal.body import VERSION, Body
from graphrt._journal.event_schema import CODES
from graphrt._journal.field_codecs import USAGE
from graphrt.errors._codes.stores import JOURNAL_NEWER
from graphrt.events import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

_EFFECT: Final = CODES[events.EffectRecorded]
"""Code of the event by which version 1 recorded all that is converted here."""
_CALL: Final = r"[0-9a-f]{16}\.\d+/.*"
"""Key of a call in version 1: the digest of its run, the number of the run, and what follows. No effect of a user had
such a key, whereas `model/...` alone may also be an effect that a user named so."""
# The groups of these: number of failed attempts, key of the call, and number of the usage record; of `_GRANTED`, the
# question that a person answered.
_REPLY: Final = re.compile(rf"model/(\d+)/({_CALL})", re.DOTALL)
_USAGE: Final = re.compile(r"model/(\d+)/(.+)/spent/(\d+)", re.DOTALL)
_HELD: Final = re.compile(rf"held/(\d+)/({_CALL})", re.DOTALL)
_GRANTED: Final = re.compile(rf"granted/({_CALL}/budget/.+/\d+)", re.DOTALL)
_FAILED: Final = "harness/failed"


def _model_calls(structure: Any, body: Body) -> Any:
    """Convert version 1 to 2: results of effects that are about model calls become events about model calls."""
    _, at, run, cause, names, entries, *more = structure
    return [2, at, run, cause, names, [_entry(entry, body) for entry in entries], *more]


def _entry(entry: Sequence[Any], body: Body) -> Sequence[Any]:
    """Return *entry* in version 2: an entry about a model call, or *entry* as it is."""
    # `[code, path, task, key, ...]`
    if entry[0] != _EFFECT or not str(entry[3]).startswith(("model/", "held/", "granted/", _FAILED)):
        return entry
    _, path, task, key, *rest = entry  # `rest`: line of the result, and number of answers before it
    result: Any = body.get(rest[0]) if rest and rest[0] is not None else None
    found = _of_reply(key, result, body, *rest[1:]) or _of_budget(key, result)  # class, and fields after the task
    if found is None:
        return entry  # a user's effect with a similar name
    kind, *fields = found
    return [CODES[kind], path, task, *fields]


def _of_budget(key: str, result: Any) -> list[Any] | None:
    """Return class and fields of the event that an effect about reservations, grants or failures becomes, or None.

    The *result*, decoded, is the number of failed attempts after which replies were discarded; a list of reservations,
    empty once they were released; or the owner of a budget (`of`) and the amounts that a person granted (`more`).
    """
    # `issubclass` of the type in place of `isinstance`: type checkers do not narrow by it, and *result* stays Any.
    if key == _FAILED and type(result) is int:
        return [events.RepliesDiscarded, result]
    if issubclass(type(result), list) and (found := _HELD.fullmatch(key)):
        call = [found[2], int(found[1])]
        if not result:
            return [events.BudgetReleased, *call]
        return [events.BudgetHeld, *call, [list(one) for one in result]]
    if issubclass(type(result), dict) and (found := _GRANTED.fullmatch(key)):
        return [events.BudgetGranted, found[1], result["of"], list(result["more"])]
    return None


def _of_reply(key: str, result: Any, body: Body, answers: int | None = None) -> list[Any] | None:
    """Return class and fields of the event that an effect about replies or usage becomes, or None.

    A *result* with a `text` is a model's reply. One whose key ends with `/spent/` and a number is usage that was
    recorded without a reply; numbers begin at 0 there, and at 1 in the event. *answers* is how many answers the task
    had then.
    """
    if not issubclass(type(result), dict) or not key.startswith("model/"):
        return None
    counts, model = result.get("usage"), result.get("model")
    spent = _USAGE.fullmatch(key) if counts is not None else None
    found = _REPLY.fullmatch(key) if "text" in result else None
    if spent is None and found is None:  # an effect that a user named so: nothing is known of its result
        return None
    usage = None if counts is None else USAGE.put(body, Usage(**counts))  # in stored form, as all fields here
    if spent is not None:
        return [events.UsageRecorded, spent[2], int(spent[1]), int(spent[3]) + 1, usage, model]
    if found is not None:
        text = result["text"]
        reply = {
            "parts": [{"kind": "text", "text": text}] if text else [],
            **{name: value for name, value in result.items() if name not in ("text", "usage", "model")},
        }
        line = body.line(body.codec.dump(reply))
        return [events.ModelReplied, found[2], int(found[1]), line, usage, model, answers]
    return None


UPCASTERS: Final[Mapping[int, Callable[[Any, Body], Any]]] = {1: _model_calls}
"""Version to the function that converts its structure to the next version."""


def upcast(structure: Any, body: Body, upcasters: Mapping[int, Callable[[Any, Body], Any]] = UPCASTERS) -> Any:
    """Convert *structure*, of an older version, to the present form, one version at a time.

    Args:
        structure: Line 0 of the body, decoded.
        body: The rest of the body, to read values from and to add lines to.
        upcasters: As `UPCASTERS`; tests pass others.

    Raises:
        StoreError: Its version is newer than this graphrt, or unknown.
    """
    version = structure[0]
    while version != VERSION:
        step = upcasters.get(version) if isinstance(version, int) else None
        if step is None:
            raise JOURNAL_NEWER(version=str(version)[:20], newest=VERSION)
        structure = step(structure, body)
        version = structure[0]
    return structure
