"""What a thread of the corpus says of itself, as plain data: what 0.1 wrote down, and what tests compare it with."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import Any, Final

import pydantic

from graphrt import Runtime
from graphrt._usage.stored_form import amounts_to
from graphrt.events import Amounts

from .world import world

_LONG: Final = 1_000
"""Characters from which on a text is told by its digest."""


def plain(value: Any) -> Any:  # noqa: PLR0911 - a line for each kind
    """*value* as JSON has it, in a form that tells every kind from every other and depends on no code of graphrt's."""
    match value:
        case str() if len(value) > _LONG and not isinstance(value, enum.Enum):
            return f"<{len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()}>"
        case enum.Enum():
            return {"enum": [type(value).__name__, value.name]}
        case None | bool() | int() | str():
            return value
        case pydantic.BaseModel():
            return {type(value).__name__: plain({name: getattr(value, name) for name in type(value).model_fields})}
        case Mapping():
            pairs = [[plain(key), plain(item)] for key, item in value.items()]
            return dict(pairs) if all(isinstance(key, str) for key in value) else {"pairs": pairs}
        case list():
            return [plain(item) for item in value]
        case Amounts():
            return {"tuple": amounts_to(value)}  # amounts that came later count only if they are not 0
        case tuple():
            return {"tuple": [plain(item) for item in value]}
        case set() | frozenset():
            return {type(value).__name__: sorted((plain(item) for item in value), key=repr)}
        case _ if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {type(value).__name__: plain(fields)}
        case _:
            return {type(value).__name__: repr(value)}


def standing(runtime: Runtime[Any], thread: str) -> dict[str, Any]:
    """How the thread stands, to whoever looks."""
    snapshot = runtime.state(thread)
    return {
        "status": snapshot.status,
        "values": plain(snapshot.values),
        "next": list(snapshot.next),
        "questions": [[one.id, one.node, plain(one.payload), one.expires_at] for one in snapshot.interrupts],
        "seq": snapshot.seq,
        "step": snapshot.step,
    }


def past(runtime: Runtime[Any], thread: str) -> list[list[Any]]:
    """Every commit of the thread that can be looked back at, newest first: its number, and a digest of its values."""
    return [[one.seq, digest(plain(one.values))] for one in runtime.history(thread)]


def digest(told: Any) -> str:
    """The SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def journal(runtime: Runtime[Any], thread: str) -> list[Any]:
    """The entries of the thread, as they say themselves."""
    return [plain(entry) for entry in runtime.entries(thread)]


def stored(store: Any, thread: str, *, upto: int | None = None) -> str:
    """One digest of all records of the thread as they are stored: their numbers, bodies and seals."""
    found = store.records(thread, upto=upto)
    return digest([[one.seq, one.count, hashlib.sha256(one.body).hexdigest(), one.seal.hex()] for one in found])


def outcome(runtime: Runtime[Any], thread: str, told: list[str]) -> dict[str, Any]:
    """Where a thread that was gone on with has come to, by which answers of the runtime, and what ran on the way."""
    snapshot = runtime.state(thread)
    ran = dict(sorted(world.ran.items()))
    return {"told": told, "status": snapshot.status, "values": plain(snapshot.values), "ran": ran}


def as_version_1(entry: Any) -> Any:
    """An entry as version 1 of the journal kept it: all that is known of model calls are results of effects there."""
    ((kind, event),) = entry["Entry"]["event"].items()
    call = f"{event.get('failed_attempts')}/{event.get('key')}"
    answers = None
    match kind:
        case "ModelReplied":
            key, answers = f"model/{call}", event["answers"]
            result = {**event["reply"], **_usage(event)}
            result["text"] = "".join(part["text"] for part in result.pop("parts"))
        case "UsageRecorded":
            key, result = f"model/{call}/spent/{event['nth'] - 1}", _usage(event)
        case "RepliesDiscarded":
            key, result = "harness/failed", event["failed_attempts"]
        case "BudgetHeld":
            key, result = f"held/{call}", [one["tuple"] for one in event["reservations"]["tuple"]]
        case "BudgetReleased":
            key, result = f"held/{call}", []
        case "BudgetGranted":
            key, result = f"granted/{event['question']}", {"of": event["of"], "more": event["amounts"]["tuple"]}
        case _:
            return entry
    effect = {"task": event["task"], "key": key, "result": result, "answers": answers}
    return {"Entry": {**entry["Entry"], "event": {"EffectRecorded": effect}}}


def _usage(event: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if event["usage"] is not None:
        counts = event["usage"]["Usage"].items()
        found["usage"] = {name: count for name, count in counts if count not in (0, None)}
    if event["model"] is not None:
        found["model"] = event["model"]
    return found


def is_part_of(old: Any, new: Any) -> bool:
    """Whether *new* says all that *old* said, and perhaps more: fields are only ever added."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and is_part_of(value, new[key]) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(itertools.starmap(is_part_of, zip(old, new, strict=True)))
    return type(old) is type(new) and old == new
