"""What a reader was shown of open tasks, and when it is told that this is *withdrawn*.

The text that a reader has of a task is to be that of its present attempt. A writer says itself when an attempt is given
up, unless its process died, or the task paused and begins anew (R17). So a reader is also told when a task starts anew
of which it has something, and when another run goes on with the thread: then the tasks run again that the run before
was running. Those that workers of queues run go on meanwhile.

A nested graph goes on from its last commit: of it, only tasks that run again are withdrawn.

A reader that goes on may have a part of a task's text, of which the rest is lost because the task has ended meanwhile.
It is told so when the journal says that the task succeeded: the journal has all of it. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, final

from graphrt._flows.live import Live
from graphrt._runs.live_items import Heading, LiveItem, Sent
from graphrt._runs.live_positions import Position
from graphrt.events import (
    Entry,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    SuperstepAbandoned,
    SuperstepCommitted,
    TaskSucceeded,
)

if TYPE_CHECKING:
    from graphrt._plan.tables import Plan

_CLOSING: Final = (RunStarted, SuperstepCommitted, SuperstepAbandoned, RunCompleted)


def closes(entry: Entry) -> bool:
    """Return whether no superstep of the outermost graph is open after *entry*, nor any task that has shown something."""
    return not entry.path and isinstance(entry.event, _CLOSING)


class _Open(NamedTuple):
    """An open task of which the reader has items."""

    started: Live
    """The item that said that it started."""
    by: Heading
    """The heading of the batch with that item, which names the writer."""
    ended: str = ""
    """How its attempt has ended, as the value of a `Live` item *ended*; empty if it goes on. After a success its outcome is
    kept, and its text stays valid."""


@final
class ShownTasks:
    """What one reader was shown of the open tasks.

    Args:
        plan: The reader's graph.
        has_open: Whether it may have been shown something, before it went on, of tasks that are open still.
    """

    def __init__(self, plan: Plan, *, has_open: bool) -> None:
        self._plan = plan
        self._unsure = has_open
        """Whether the reader may have items of open tasks from before it went on."""
        self._goes_on: Heading | None = None
        """A heading of the writer of which the reader goes on to read items, once one was read."""
        self._open: dict[str, _Open] = {}
        """Open tasks by their ids."""

    def items(self, seq: int, sent: Sent) -> Iterator[LiveItem]:
        """Yield the items for *sent*, an item that was read and is given after the entry *seq*."""
        item, writer = sent.item, sent.heading.writer
        if type(item) is Live:
            match item.what:
                case "started":
                    known = item.task_id in self._open
                    if (known or self._unsure) and not self._is_nested(item):
                        yield _withdrawn(item, seq, Position(seq, writer, sent.number - 1, sent.last))
                    self._open[item.task_id] = _Open(item, sent.heading)
                case "withdrawn" | "step":
                    self._close(item.task_id)
                case "ended" if item.task_id in self._open:
                    self._open[item.task_id] = self._open[item.task_id]._replace(ended=str(item.value))
                case _:
                    pass
        position = str(Position(seq, writer, sent.number, sent.last))
        yield LiveItem(mode=sent.mode, item=item, seq=seq, task_id=sent.task_id, position=position, missed=sent.missed)

    def go_on(self, heading: Heading) -> None:
        """Note that the reader goes on to read items of the writer of a batch, which it had left."""
        if self._goes_on is None and heading.task:
            self._open.setdefault(heading.task, _Open(_started(heading.task), heading))
        self._goes_on = heading

    def _close(self, task_id: str) -> None:
        """Note that nothing of a task is open any more, nor of tasks of its nested graph."""
        inside = f"{task_id}/"
        for id_ in [id_ for id_ in self._open if id_ == task_id or id_.startswith(inside)]:
            del self._open[id_]

    def passed(self, entry: Entry) -> Iterator[LiveItem]:
        """Yield what is withdrawn, now that the reader has *entry*."""
        event, again = entry.event, set[str]()
        if entry.path:
            return
        match event:
            case TaskSucceeded() if self._unsure and not self._has_all(event):
                yield _withdrawn(_started(event.task), entry.seq, Position(entry.seq))
            case SuperstepCommitted():  # its tasks are in the journal
                self._open.clear()
                self._unsure = False
            case SuperstepAbandoned():
                again = {*self._open, *(event.tasks if self._unsure else ())}
            case RunStarted() | RunResumed():  # the tasks run again that the run before was running
                again = {id_ for id_, shown in self._open.items() if self._runs_again(shown, entry.run)}
            case (
                RunCancelled() | RunFailed()
            ):  # workers of queues end their tasks, and the reader may have left by then
                again = {id_ for id_, shown in self._open.items() if shown.by.task and not shown.ended}
            case _:
                pass
        for id_ in sorted(again):
            known = self._open.pop(id_, None)
            started = known.started if known is not None else _started(id_)
            yield _withdrawn(started, entry.seq, Position(entry.seq))

    def _has_all(self, event: TaskSucceeded) -> bool:
        """Return whether the reader was given all that a task of the outermost graph has shown, or goes on to be."""
        if event.task in self._open or self._goes_on is None:
            return event.task in self._open
        if self._goes_on.task:
            return event.task == self._goes_on.task
        return all(node.policy.queue is None for node in self._plan.nodes if node.name == event.node)

    def _runs_again(self, shown: _Open, run: str) -> bool:
        """Return whether an open task runs again, now that *run* goes on with the thread."""
        by_driver = not shown.by.task and shown.by.writer != run
        return by_driver and not (shown.ended == "success" or self._is_nested(shown.started))

    def _is_nested(self, item: Live) -> bool:
        """Return whether the task of *item* runs a nested graph."""
        plan: Plan | None = self._plan
        for name in [*(id_.partition(":")[2] for id_ in item.path.split("/") if id_), item.node]:
            plan = next((node.child for node in plan.nodes if node.name == name), None) if plan is not None else None
        return plan is not None


def _started(task_id: str) -> Live:
    """Return the item that says that a task started, for a reader that was given it before it went on."""
    path, _, name = task_id.rpartition("/")
    return Live(path=path, node=name.partition(":")[2], task_id=task_id, what="started")


def _withdrawn(started: Live, seq: int, position: Position) -> LiveItem:
    """Return the item that takes back what the reader was shown of a task since it *started*."""
    taken_back = replace(started, what="withdrawn", value=None)
    return LiveItem(mode="live", item=taken_back, seq=seq, task_id=started.task_id, position=str(position))
