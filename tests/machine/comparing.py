"""The comparisons after every call: results, status of a thread, its entries, and the bytes of its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from laws.description import Graph
from laws.model import FailedError

from .parts import Outside
from .replicas import Replica, outcome
from .thread import RefusedError, Shown, ThreadModel


class Comparing:
    """The comparisons of the machine."""

    graph: Graph
    replicas: list[Replica]
    threads: dict[str, ThreadModel]
    compared: dict[str, int]
    done: Counter[str]

    def same(self, call: Callable[[Replica], Any]) -> tuple[Any, ...]:
        """The result of *call*, which has to be the same on every store."""
        found = {replica.name: outcome(lambda replica=replica: call(replica)) for replica in self.replicas}
        first = next(iter(found.values()))
        for name, each in found.items():
            equal(each, first, f"{name} is not as {next(iter(found))}")
        return first

    def compare_end(self, thread: ThreadModel, seen: tuple[Any, ...], expected: Any, outside: Outside) -> None:
        """Compare the end of a drive."""
        if isinstance(expected, RefusedError):
            equal(seen, ("InputError", expected.code), "the refusal")
        elif isinstance(expected, FailedError):
            kinds = {failure.kind for failure in expected.failures}
            assert seen[0] in kinds, f"{seen} instead of {kinds}"
            if len(thread.undecided) > 1:
                thread.decide(self.replicas[0].runtime().state(thread.id).next)
        else:
            flow = thread.flow
            asked = tuple(f"{thread.id}/{question.id}" for question in flow.questions())
            asked = asked if expected == "interrupted" else ()
            equal(seen, ("ok", (expected, thread.shown_live, asked, thread.steps)), "the result")

    def take(self, thread: ThreadModel) -> None:
        """Use *thread* as the model of its id, and check that every store agrees."""
        if thread.status == "new":
            self.threads.pop(thread.id, None)
            seen = self.same(lambda replica: replica.runtime().state(thread.id))
            equal(seen, ("InputError", "unknown-thread"), "a thread that is not there")
            return
        self.threads[thread.id] = thread
        self.compare(thread)

    def compare(self, thread: ThreadModel) -> None:
        """Compare the state of the thread, and the entries since the last comparison."""
        seen = self.same(lambda replica: look(replica, thread.id, None))
        equal(seen, ("ok", self.expected(thread, thread.shown())), f"thread {thread.id}")
        after = max(self.compared.get(thread.id, 0), thread.first - 1)
        told = self.same(lambda replica: [shown(e) for e in replica.runtime().entries(thread.id, after=after)])
        kinds = [(entry["event"], entry["path"]) for entry in told[1]]
        expected = [(kind_of(entry.kind), entry.path.rstrip("/")) for entry in thread.entries[after:]]
        equal(kinds, expected, f"entries of thread {thread.id} after {after}")
        self.compare_bytes(thread.id, after)
        self.compared[thread.id] = thread.seq

    def compare_bytes(self, thread: str, after: int) -> None:
        """Records of durable stores have the same bytes, including seals and salts."""
        stored = {
            replica.name: list(replica.store.records(thread, after=after))
            for replica in self.replicas
            if replica.store.durable
        }
        first = next(iter(stored.values()))
        for name, records in stored.items():
            equal(records, first, f"records of {name}")

    def expected(self, thread: ThreadModel, shown: Shown) -> tuple[Any, ...]:
        asked = tuple((f"{thread.id}/{id_}", node) for id_, node in shown.questions)
        return shown.seq, shown.status, shown.values, shown.next, asked

    def check_done(self, outside: Outside, *, dies: bool) -> Counter[str]:
        """Compare the effects on the world, which have to be the same for each store."""
        counts = {replica.name: Counter(replica.world.done) for replica in self.replicas}
        first = next(iter(counts.values()))
        for name, count in counts.items():
            equal(count, first, f"effects on {name}")
        if not dies:
            equal(first, self.done + outside.done, "effects")
        return first


def kind_of(kind: str) -> str:
    """The event's name: a handled failure counts as a failure."""
    return "task-failed" if kind == "task-handled" else kind


def shown(entry: Any) -> dict[str, Any]:
    """An entry as plain data. A stored error is a different object, and is compared by its name and text.

    A fork of a superstep that `interrupt_after` holds has the outcomes of its tasks in its first entry.
    """
    data: dict[str, Any] = entry.to_dict()
    state = data.get("state", {})
    for told in (data, *state.get("held", ())):
        told.pop("exception", None)
    for holder in (data, state):
        if "errors" in holder:
            holder["errors"] = sorted(holder["errors"])
    return data


def look(replica: Replica, thread: str, at: int | None) -> tuple[Any, ...]:
    """All observable data of a thread."""
    snapshot = replica.runtime().state(thread, at=at)
    asked = tuple((info.id, info.node) for info in snapshot.interrupts)
    return snapshot.seq, snapshot.status, replica.plain(snapshot.values), snapshot.next, asked


def equal(seen: object, expected: object, what: str) -> None:
    assert seen == expected, f"{what}: {seen} instead of {expected}"
