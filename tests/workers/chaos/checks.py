"""Checks after a storm: no work is lost, forked or repeated, and each thread ends like its twin. No tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from graphrt import Runtime
from graphrt.events import (
    Entry,
    InterruptAnswered,
    InterruptRaised,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunHandedOver,
    RunInterrupted,
    RunResumed,
    RunStarted,
    SignalReceived,
    SignalTaken,
    TaskSucceeded,
)

from .graphs import CHILD, DID, TIMED, answered, twin
from .guests import Guest


class Harm(NamedTuple):
    """The disturbances of the hosts.

    Attributes:
        disturbed: How many processes were killed, stopped, ended or cut off.
        at_once: How many threads one process drives at once at most.
    """

    disturbed: int
    at_once: int


def check(
    runtimes: Mapping[int, Runtime[Any]],
    guests: Mapping[str, Guest],
    open_: Collection[str],
    folder: Path,
    harm: Harm,
    done: Counter[str],
) -> list[str]:
    """Return the problems of the threads of *guests*, and add figures to *done*."""
    wrong = [f"lost: {thread} has not ended" for thread in sorted(open_)]
    outside = folder / "outside.txt"
    notes = Counter(outside.read_text().splitlines() if outside.exists() else ())
    robbed = takings = 0
    for thread, guest in guests.items():
        runtime = runtimes[guest.seed]
        seen = Journal(thread, list(runtime.entries(thread)))
        takings += seen.taken
        robbed += seen.robbed
        wrong += seen.repeated()
        wrong += seen.early()
        if thread not in open_:
            wrong += of_end(runtime, seen, guest, notes)
        done["timers"] += seen.timers
    wrong += of_children(runtimes[CHILD], guests, open_, notes, done)
    if robbed > (most := harm.disturbed * harm.at_once):
        wrong.append(f"taken too often: {robbed} runs had not ended, and at most {most} were disturbed")
    for runtime in runtimes.values():
        report = runtime.verify(replay=True)
        if not report.ok:
            wrong.append(f"forked or damaged: {report}")
    done["takings"], done["taken over"], done["repeated"] = takings, robbed, sum(notes.values()) - len(notes)
    return wrong


def of_children(
    runtime: Runtime[Any],
    guests: Mapping[str, Guest],
    open_: Collection[str],
    notes: Counter[str],
    done: Counter[str],
) -> list[str]:
    """Return the problems of the child threads, and add their number to *done*."""
    wrong: list[str] = []
    found: Counter[str] = Counter()
    for info in runtime.threads():
        parent, dot, _ = info.thread.partition(".")
        if not dot:
            continue
        done["children"] += 1
        found[parent] += 1
        seen = Journal(info.thread, list(runtime.entries(info.thread)))
        wrong += seen.repeated()
        wrong += seen.early()
        if info.status == "cancelled" and guests[parent].asked:
            done["cancelled children"] += 1
        elif parent not in open_:
            about = Guest(CHILD, 1, "", [])
            label = runtime.state(info.thread).values.thread
            wrong += of_end(runtime, seen, about, notes, label)
    for parent, guest in guests.items():
        wanted = twin(guest.seed, guest.runs).children
        if found[parent] > wanted:
            wrong.append(f"applied twice: {parent} has {found[parent]} child threads, not {wanted}")
        # One that was cancelled, or whose second input may have been lost, has fewer.
        elif found[parent] < wanted and not (
            parent in open_ or guest.unsure or (guest.asked and guest.cancel == "end")
        ):
            wrong.append(f"lost: {parent} has {found[parent]} child threads, not {wanted}")
    return wrong


class Journal:
    """The entries of one thread, and the checks that need no other data."""

    def __init__(self, thread: str, entries: list[Entry]) -> None:
        self.thread = thread
        self.entries = entries
        self.top = [entry for entry in entries if not entry.path]
        self.runs = self._count(RunStarted)
        self.taken = self._count(RunResumed)
        self.robbed = self._robbed()
        self.timers = sum(by == "timer" for _, by in answered(entries).elements())

    def _count(self, kind: type) -> int:
        return sum(isinstance(entry.event, kind) for entry in self.top)

    def _robbed(self) -> int:
        """Return how many runs were taken over before they ended, for example from a process that died."""
        found, goes_on = 0, False
        for entry in self.top:
            match entry.event:
                case RunResumed():
                    found, goes_on = found + goes_on, True
                case RunStarted():
                    goes_on = True
                case RunHandedOver() | RunInterrupted() | RunCancelled() | RunCompleted() | RunFailed():
                    goes_on = False
                case _:
                    pass
        return found

    def repeated(self) -> list[str]:
        """Return entries that are duplicated or out of order."""
        wrong: list[str] = []
        if [entry.seq for entry in self.entries] != list(range(1, len(self.entries) + 1)):
            wrong.append(f"forked: {self.thread} has entries {[entry.seq for entry in self.entries]}")
        once: Counter[str] = Counter()
        for entry in self.entries:
            match entry.event:
                case TaskSucceeded(task=task):
                    once[f"end of {entry.path}/{task}"] += 1
                case SignalReceived(id=id_):
                    once[f"signal {id_} received"] += 1
                case SignalTaken(id=id_):
                    once[f"signal {id_} taken"] += 1
                case InterruptAnswered(id=id_, by=by) if by in TIMED:
                    once[f"{by} of {entry.path} {id_}"] += 1
                case InterruptRaised(id=id_, kind="timer"):
                    once[f"moment of {entry.path} {id_}"] += 1
                case _:
                    pass
        wrong += [f"applied twice: {self.thread}, {what}" for what, number in once.items() if number > 1]
        return wrong

    def early(self) -> list[str]:
        """Return timers that fired early, by the clock of the process that fired them."""
        due: dict[str, float] = {}
        wrong: list[str] = []
        for entry in self.top:
            match entry.event:
                case InterruptRaised(id=id_, expires_at=float(moment)):
                    due[id_] = moment
                case InterruptAnswered(id=id_, by=by) if by in TIMED and not due[id_] <= entry.at:
                    wrong.append(f"early: {self.thread}, {id_} by {due[id_] - entry.at:.3f} s")
                case _:
                    pass
        return wrong


def of_end(
    runtime: Runtime[Any], seen: Journal, guest: Guest, notes: Counter[str], label: str | None = None
) -> list[str]:
    """Return how the end of a thread, and the notes of its effects, differ from those of its twin.

    Its effects know it as *label*, or by its id.
    """
    thread, wrong = seen.thread, list[str]()
    least = guest.runs - 1 if guest.unsure else guest.runs
    if not least <= seen.runs <= guest.runs:
        wrong.append(f"lost or applied twice: {thread} has {seen.runs} runs, and {guest.inputs} inputs after the first")
    wanted = twin(guest.seed, max(1, seen.runs))
    found = runtime.state(thread)
    log: list[str] = found.values.log
    if found.status == "cancelled" and guest.cancel == "end":
        # The committed part of a run is a prefix of its twin's run.
        if log != wanted.log[: len(log)]:
            wrong.append(f"differs: {thread} was cancelled with {log}, which is no beginning of {wanted.log}")
    elif (found.status, log, found.values.total) != ("completed", wanted.log, wanted.total):
        wrong.append(f"differs: {thread} is {found.status} with {log} and {found.values.total}, not {wanted}")
    elif not guest.asked and answered(seen.entries) != wanted.answered:
        less, more = wanted.answered - answered(seen.entries), answered(seen.entries) - wanted.answered
        wrong.append(f"lost or applied twice: {thread} lacks {less}, and has {more} more")
    for line in (line for line in log if line.startswith(DID)):
        number = notes[f"{label or thread} {line}"]
        if number == 0:
            wrong.append(f"lost: the effect {line!r} of {thread}")
        # A kill between an effect and its record repeats it: at most once for each time that the thread was claimed.
        if number > 1 + seen.taken:
            wrong.append(f"applied twice: the effect {line!r} of {thread}, {number} times in {seen.taken} runs")
    return wrong
