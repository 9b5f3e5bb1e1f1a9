"""Compares a killed thread with an undisturbed one: each breach is one sentence.

Pure functions over the reports of processes and the log of the world; nothing runs here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from . import outside

Look = dict[str, Any]
Line = dict[str, Any]
_NEW = ("seq", "at", "run", "cause", "thread", "event_thread", "source")
"""Fields that differ between runs."""


@dataclass(frozen=True)
class Reference:
    """An undisturbed life."""

    entries: list[dict[str, Any]]
    values: list[Any]
    """States after each commit."""
    questions: frozenset[str]
    points: list[str]


def reference(found: dict[str, Any]) -> Reference:
    """The reference of an undisturbed life."""
    last = found["looks"][-1]
    questions = {outside.local(question["id"]) for look in found["looks"] for question in look["interrupts"]}
    return Reference(
        told(last["entries"]), [one["values"] for one in last["history"]], frozenset(questions), found["points"]
    )


def told(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """*entries* without the parts that a kill may add or change: resumptions, numbers, times, questions about lost
    outcomes.

    An effect that was started again on request was started more often.
    """
    found: list[dict[str, Any]] = []
    asked_more = False
    for entry in entries:
        kept = {name: value for name, value in entry.items() if name not in _NEW}
        if isinstance(kept.get("id"), str):
            kept["id"] = outside.local(kept["id"])
        kept.pop("starts", None)
        kept.pop("answers", None)  # answers of a person about a lost outcome count as well
        kept.pop("nth", None)
        kind = kept["event"]
        if kind == "run-resumed" or outside.UNKNOWN in str(kept.get("id", "")):
            continue
        if kind == "run-interrupted":
            all_ = kept["interrupts"]
            kept["interrupts"] = [outside.local(id_) for id_ in all_ if outside.UNKNOWN not in id_]
            if not kept["interrupts"] or (asked_more and found[-1] == kept):
                continue  # it paused again, for a question about a lost outcome
            asked_more = len(kept["interrupts"]) < len(all_)
        found.append(kept)
    return found


def breaches(wanted: Reference, lives: list[dict[str, Any]], lines: list[Line], *, patient: bool) -> list[str]:
    """The problems of a thread that went through *lives*, of which only the last one ended.

    Args:
        patient: Whether a dead owner's last statement may still be under way when the next process looks.
    """
    errors = [f"process {at} failed: {life['error']}" for at, life in enumerate(lives) if "error" in life]
    if errors:
        return errors
    last = lives[-1]
    began = {line["task"] for line in lines if line["what"] == "began"}
    found = [*_end(wanted, last, began), *outside.breaches(lines)]
    for at, look in enumerate(last["looks"]):
        found += [f"look {at} of the last process: {why}" for why in _readable(wanted, look)]
    found += _kept(lines, last["looks"])
    if last["again"] and not patient:
        found.append(f"refused although the owner was dead: {last['again']}")
    return found


def _end(wanted: Reference, life: dict[str, Any], began: set[str]) -> list[str]:
    look = life["looks"][-1]
    found: list[str] = []
    if look["status"] != "completed":
        found.append(f"the thread is {look['status']}")
    if look["values"] != wanted.values[-1]:
        found.append(f"final state {_short(look['values'])}, not {_short(wanted.values[-1])}")
    entries = told(look["entries"])
    if entries != wanted.entries:
        at = next((n for n, (a, b) in enumerate(zip(entries, wanted.entries, strict=False)) if a != b), "the end")
        found.append(
            f"the journal differs at {at} ({len(entries)} and {len(wanted.entries)} entries): "
            f"{_short(entries[at]) if isinstance(at, int) else ''}"
            f", not {_short(wanted.entries[at]) if isinstance(at, int) else ''}"
        )
    ended = Counter(entry["task"] for entry in look["entries"] if entry["event"] == "task-succeeded")
    if set(ended.values()) != {1} or any(task not in ended for task in began):
        found.append(f"tasks succeeded {dict(ended)}, and {began} ran")
    numbers = [entry["seq"] for entry in look["entries"]]
    if numbers != list(range(1, len(numbers) + 1)):
        found.append(f"entries are numbered {numbers}")
    if life["staged_at_the_end"]:
        found.append(f"still staged: {life['staged_at_the_end']}")
    return found


def _readable(wanted: Reference, look: Look) -> list[str]:
    """Every read state is one of the reference."""
    found: list[str] = []
    entries = told(look["entries"])
    if entries != wanted.entries[: len(entries)]:
        found.append("the journal is no beginning of the reference's")
    commits = sum(
        entry["event"] in ("run-started", "superstep-committed") and not entry["path"] for entry in look["entries"]
    )
    if [one["values"] for one in look["history"]] != wanted.values[:commits]:
        found.append(f"the history is not that of the first {commits} commits")
    if commits and look["values"] != wanted.values[commits - 1]:
        found.append(f"the state is not that after {commits} commits")
    if commits and look["replayed"] != look["values"]:
        found.append("the replay came to something else")
    strange = {outside.local(q["id"]) for q in look["interrupts"] if outside.UNKNOWN not in q["id"]} - wanted.questions
    if strange:
        found.append(f"nobody asks {strange} in the reference")
    if look["seq"] != len(look["entries"]):
        found.append(f"seq is {look['seq']}, and there are {len(look['entries'])} entries")
    return found


def _kept(lines: list[Line], looks: list[Look]) -> list[str]:
    """Entries acknowledged before the last process began are visible to it."""
    first = looks[0]["seq"]
    begin = max(at for at, line in enumerate(lines) if line["what"] == "born")
    before = lines[:begin]
    acked = max((line["seq"] for line in before if line["what"] == "acked"), default=0)
    return [] if acked <= first else [f"entry {acked} was acknowledged, and the thread stands at {first}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 500 else f"{text[:497]}..."
