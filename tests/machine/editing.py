"""The machine, second half: rules that edit, fork, copy, prune and read."""

from __future__ import annotations

import copy
import re
from typing import Any

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import rule

from graphrt.events import ThreadUpdated
from laws import observe
from laws.model import FailedError

from .comparing import equal, look
from .machine import EDIT, NUMBER, WHICH, Machine, room_for_another, some_thread
from .replicas import Replica
from .thread import RefusedError, ThreadModel


def differing(found: Any) -> str:
    """Where two threads differ; an unregistered error is compared by name if stored, and by identity in memory."""
    return re.sub(r"RecordedError\('(\w+)', ('[^']*')\)", r"\1(\2)", repr(found))


class Threads(Machine):
    """The machine with all its rules."""

    # ---------------------------------------------------------------------------------------------------------- editing

    @some_thread
    @rule(which=WHICH, edit=EDIT)
    def update(self, which: int, edit: Any) -> None:
        thread = self.pick(which)
        values, as_node = self.edit_of(edit)
        self.edited(thread, [(values, as_node)], bulk=False)

    @room_for_another
    @rule(number=st.one_of(st.none(), NUMBER))
    def write_first(self, number: int | None) -> None:
        """An edit of a thread that does not exist creates it."""
        _, as_node = self.edit_of(([], number))
        self.edited(ThreadModel(self.new_id(), self.graph), [(observe.given(self.graph), as_node)], bulk=False)

    @some_thread
    @rule(which=WHICH, edits=st.lists(EDIT, min_size=1, max_size=3))
    def bulk_update(self, which: int, edits: list[Any]) -> None:
        thread = self.pick(which)
        self.edited(thread, [self.edit_of(edit) for edit in edits], bulk=True)

    def edit_of(self, edit: Any) -> tuple[dict[str, Any], str | None]:
        writes, number = edit
        names = [node.name for node in self.graph.nodes]
        return self.values(writes), None if number is None else names[number % len(names)]

    def edited(self, thread: ThreadModel, edits: list[tuple[dict[str, Any], str | None]], *, bulk: bool) -> None:
        expected: tuple[str, ...] = ("ok",)
        before = copy.deepcopy(thread)
        try:
            thread.update(edits)
        except FailedError as failed:
            expected = tuple(failure.kind for failure in failed.failures)
        except RefusedError as refused:
            expected = (refused.code,)

        def really(replica: Replica) -> Any:
            runtime = replica.runtime()
            if bulk:
                runtime.bulk_update(thread.id, edits)
            else:
                values, as_node = edits[0]
                runtime.update(thread.id, values, as_node=as_node)

        seen = self.same(really)
        assert seen[1 if seen[0] == "InputError" else 0] in expected, f"update: {seen} instead of {expected}"
        self.take(self.with_its_superstep(before, thread, edits) if seen[0] == "ok" else thread)

    def with_its_superstep(self, before: ThreadModel, thread: ThreadModel, edits: Any) -> ThreadModel:
        """Edit again if the journal says otherwise about an open superstep: a cancelled task may have staged something."""
        kinds = [entry.kind for entry in thread.entries[before.seq :]]
        first = before.seq + kinds.index("thread-updated")
        stored = next(iter(self.replicas[0].runtime().entries(thread.id, after=first)))
        assert isinstance(stored.event, ThreadUpdated)
        if stored.event.open is thread.entries[first].data["open"]:
            return thread
        before.flow.open_jobs() if stored.event.open else before.flow.close_jobs()
        before.update(edits)
        return before

    # more threads, and fewer ------------------------------------------------------------------------------------------

    @some_thread
    @room_for_another
    @rule(which=WHICH, at=st.one_of(st.none(), st.integers(0, 60)))
    def fork(self, which: int, at: int | None) -> None:
        source = self.pick(which)
        at = None if at is None else at % (source.seq + 2)
        self.forked(source, at)

    @some_thread
    @room_for_another
    @rule(which=WHICH)
    def fork_at_its_end(self, which: int) -> None:
        source = self.pick(which)
        self.forked(source, source.seq)

    def forked(self, source: ThreadModel, at: int | None) -> None:
        id_ = self.new_id()
        expected: tuple[Any, ...] = ("ok", id_)
        made: ThreadModel | None = None
        try:
            made = source.fork(id_, at)
        except RefusedError as refused:
            expected = ("InputError", refused.code)
        seen = self.same(lambda replica: replica.runtime().fork(source.id, at=at, to=id_))
        equal(seen, expected, f"fork of {source.id} at {at}")
        event(f"fork: {seen[0]}")
        self.compare(source)
        if made is not None:
            self.take(made)
            self.same(lambda replica: differing(replica.runtime().diff(made.id, source.id)))

    @some_thread
    @room_for_another
    @rule(which=WHICH)
    def copy_thread(self, which: int) -> None:
        source = self.pick(which)
        id_ = self.new_id()
        seen = self.same(lambda replica: replica.runtime().copy_thread(source.id, id_))
        equal(seen, ("ok", id_), "copy_thread")
        self.take(source.copied(id_))
        if source.first == 1:
            seen = self.same(lambda replica: replica.runtime().diff(id_, source.id))
            equal(seen, ("ok", None), "the difference of a copy")
        taken = self.same(lambda replica: replica.runtime().copy_thread(source.id, id_))
        equal(taken, ("InputError", "thread-exists"), "a copy over a thread")

    @some_thread
    @rule(which=WHICH, sure=st.integers(0, 3))
    def delete_thread(self, which: int, sure: int) -> None:
        if sure != 3:
            return
        thread = self.pick(which)
        seen = self.same(lambda replica: replica.runtime().delete_thread(thread.id))
        equal(seen, ("ok", None), "delete_thread")
        self.gone(thread)

    def gone(self, thread: ThreadModel) -> None:
        del self.threads[thread.id]
        self.compared.pop(thread.id, None)
        seen = self.same(lambda replica: look(replica, thread.id, None))
        equal(seen, ("InputError", "unknown-thread"), "a deleted thread")

    @some_thread
    @rule(which=WHICH, before=st.one_of(st.none(), st.integers(1, 60)))
    def prune(self, which: int, before: int | None) -> None:
        thread = self.pick(which)
        before = None if before is None else 1 + before % (thread.seq + 1)
        if before is None and thread.status in ("interrupted", "cancelled") and thread.was_edited_open():
            return  # the questions are journalled again: tests/threads/test_keeping.py compares such threads
        expected = thread.prune(before)
        seen = self.same(lambda replica: replica.runtime().prune(thread.id, before=before))
        equal(seen, ("ok", expected), f"prune of {thread.id} before {before}")
        self.compared[thread.id] = max(self.compared.get(thread.id, 0), thread.first - 1)
        self.take(thread)

    @rule(status=st.sampled_from([None, None, "interrupted", "running"]), sure=st.integers(0, 5))
    def sweep(self, status: Any, sure: int) -> None:
        if sure != 5:
            return
        wanted = ("completed", "failed", "cancelled") if status is None else (status,)
        # A running task is due: no process owns it, and the next driver continues it.
        swept = [thread for thread in self.threads.values() if thread.status in wanted and thread.status != "running"]
        seen = self.same(lambda replica: replica.runtime().sweep(older_than_s=1e9, status=status))
        equal(seen, ("ok", 0), "a sweep of what is old")
        seen = self.same(lambda replica: replica.runtime().sweep(older_than_s=0, status=status))
        equal(seen, ("ok", len(swept)), f"a sweep of {wanted}")
        for thread in swept:
            self.gone(thread)

    # looking ----------------------------------------------------------------------------------------------------------

    @some_thread
    @rule(which=WHICH, at=st.integers(0, 60))
    def look_back(self, which: int, at: int) -> None:
        """The state after any entry."""
        thread = self.pick(which)
        at %= thread.seq + 2
        expected: tuple[Any, ...]
        try:
            expected = ("ok", self.expected(thread, thread.shown_at(at)))
        except RefusedError as refused:
            expected = ("InputError", refused.code)
        seen = self.same(lambda replica: look(replica, thread.id, at))
        equal(seen, expected, f"state of {thread.id} at {at}")

    @some_thread
    @rule(which=WHICH)
    def look_at_history(self, which: int) -> None:
        """All commits, newest first."""
        thread = self.pick(which)
        seen = self.same(
            lambda replica: [
                (snapshot.seq, snapshot.status, replica.plain(snapshot.values))
                for snapshot in replica.runtime().history(thread.id)
            ]
        )
        numbers = thread.history()
        expected = [thread.shown_at(at) for at in numbers]
        equal(seen, ("ok", [(one.seq, one.status, one.values) for one in expected]), f"history of {thread.id}")

    @some_thread
    @rule(which=WHICH)
    def replay(self, which: int) -> None:
        """A replay reaches the present state."""
        thread = self.pick(which)
        seen = self.same(lambda replica: replica.plain(replica.runtime().replay(thread.id).values))
        equal(seen, ("ok", thread.shown().values), f"replay of {thread.id}")

    @rule(number=NUMBER)
    def list_threads(self, number: int) -> None:
        """All threads, with the data that is known without reading them."""
        seen = self.same(lambda replica: [(info.thread, info.status, info.seq) for info in replica.runtime().threads()])
        expected = sorted((thread.id, thread.status, thread.seq) for thread in self.threads.values())
        equal(sorted(seen[1]), expected, "threads")
        judged = self.same(
            lambda replica: [(verdict.thread, verdict.kind) for verdict in replica.runtime().check_threads()]
        )
        equal(
            sorted(judged[1]),
            [(id_, "identical") for id_, status, _ in expected if status != "completed"],
            "check_threads",
        )
