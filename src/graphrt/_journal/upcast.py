"""Upcasters: old forms of the journal, converted to the present form. One function for each past version.

The rest of graphrt reads the present form only. Old forms are converted in memory when they are read; what is stored
stays as it was. An upcaster makes one event of one event, because the number of an entry is its place in the journal.

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
_CALL: Final = r"[0-9a-f]{16}\.\d+/.*"
"""Key of a call in version 1: the digest of its run, the number of the run, and what follows. No effect of a user's had
such a name, so `model/...` alone does not tell a reply from an effect that a user named so."""
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
    """Return *entry* in version 2."""
    if entry[0] != _EFFECT or not str(entry[3]).startswith(("model/", "held/", "granted/", _FAILED)):
        return entry
    _, path, task, key, *rest = entry
    result: Any = body.get(rest[0]) if rest and rest[0] is not None else None
    found = _of_reply(key, result, body, *rest[1:]) or _of_budget(key, result)
    if found is None:
        return entry  # an effect of the user's, whose name looks alike
    kind, *fields = found
    return [CODES[kind], path, task, *fields]


def _of_budget(key: str, result: Any) -> list[Any] | None:
    """Return class and fields of the event that an effect about reservations, grants or failures becomes, or None."""
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
    """Return class and fields of the event that an effect about replies or usage becomes, or None."""
    if not issubclass(type(result), dict) or not key.startswith("model/"):
        return None
    told, model = result.get("usage"), result.get("model")
    usage = None if told is None else USAGE.put(body, Usage(**told))
    if usage is not None and (found := _USAGE.fullmatch(key)):
        return [events.UsageRecorded, found[2], int(found[1]), int(found[3]) + 1, usage, model]
    if "text" in result and (found := _REPLY.fullmatch(key)):
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
    """Convert *structure* to the present form.

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
