"""The items of open tasks that a reader was shown, and when they are *withdrawn*.

A reader's text for a task must be that of the current attempt. A writer announces when an attempt is abandoned, unless
its process died, or the task paused and starts over (R17). So a reader is also notified when a task for which it has
items starts again, and when another run continues the thread, since the tasks of the earlier run then start again.
Tasks that queue workers run continue meanwhile.

A task that paused runs again after the answer and repeats its output without calling models or tools again. The
reader's items of it stay valid, so they are not withdrawn, and the repeated items are skipped (decision 0315). Values
of `ctx.emit` are yielded again.

A nested graph continues from its last commit, so only its tasks that run again are withdrawn.

A reader that continues may have only part of a task's text, because the task has ended meanwhile. It is notified when
the journal records the task's success, since the journal has the full text. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, final

from graphrt._flows.live import Live, MessageItem
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

_STANDS: Final = ("success", "interrupted")
"""Ends of an attempt after which its items stay valid, because its outcome is kept or its output is repeated."""
STAGED: Final = "staged@"
"""Prefix of the writer ids for output that tasks produced before questions; the entry of the last stop follows."""
_CLOSING: Final = (RunStarted, SuperstepCommitted, SuperstepAbandoned, RunCompleted)


def closes(entry: Entry) -> bool:
    """Return whether, after *entry*, no superstep of the top graph and no task with shown items is open."""
    return not entry.path and isinstance(entry.event, _CLOSING)


class _Open(NamedTuple):
    """An open task for which the reader has items."""

    started: Live
    """The item that announced its start."""
    by: Heading
    """The heading of the batch with that item, which names the writer."""
    ended: str = ""
    """How its attempt has ended, as the value of a `Live` item *ended*; empty if it continues."""


class _Name(NamedTuple):
    """The identity that an item of a model or tool call shares with its repeats."""

    what: Literal["reply", "ended", "called", "returned", "event"]
    """*ended*: the end of a call whose reply was recorded, which follows the reply."""
    of: int
    """Hash of the reply's text and calls, of the call's id, or of the item."""
    agent: str = ""
    """Path of sub-agent names to it; empty for the node's agent."""


@final
class ShownTasks:
    """The items of the open tasks that one reader was shown.

    Args:
        plan: The reader's graph.
        has_open: Whether, before continuing, it may have seen items of tasks that are still open.
    """

    def __init__(self, plan: Plan, *, has_open: bool) -> None:
        self._plan = plan
        self._unsure = has_open
        """Whether the reader may have items of open tasks from before it continued."""
        self._goes_on: Heading | None = None
        """A heading from the writer whose items the reader continues to read, once one was read."""
        self._open: dict[str, _Open] = {}
        """Open tasks by their ids."""
        self._told: dict[str, str] = {}
        """Maps tasks of the open superstep, including committed tasks of nested graphs, to the writer that has shown
        them to the reader."""
        self._had: defaultdict[str, Counter[_Name]] = defaultdict(Counter)
        """Maps a task to the names and numbers of its items that the reader has received."""
        self._said: Sequence[Sent] = ()
        """Output of tasks before questions, as far as it was searched for."""
        self._repeats: dict[str, Counter[_Name]] = {}
        """Maps a task that runs again after a pause to those of the names that it will repeat."""
        self._passed = 0
        """Number of the last item that `go_on` has examined."""
        self._missed = 0
        """Number of items missing before the next one yielded."""

    def items(self, seq: int, sent: Sent) -> Iterator[LiveItem]:
        """Yield the items for *sent*, an item that was read and comes after entry *seq*; none if it is a repeat."""
        item, writer = sent.item, sent.heading.writer
        self._missed += sent.missed
        name = _name_in(sent)
        if self._is_repeat(sent, name):
            return
        begins = type(item) is Live and item.what == "started" and not self._is_nested(item)
        if begins and (self._unsure or item.task_id in self._open):
            self._forget(item.task_id)
            yield _withdrawn(item, seq, Position(seq, writer, sent.number - 1, sent.last))
        self._take(sent, name)
        missed, self._missed = self._missed, 0
        position = str(Position(seq, writer, sent.number, sent.last))
        yield LiveItem(mode=sent.mode, item=item, seq=seq, task_id=sent.task_id, position=position, missed=missed)

    def _take(self, sent: Sent, name: _Name | None) -> None:
        """Record that the reader has *sent*, which is not a repeat; *name* is the name of its item."""
        item, task = sent.item, sent.task_id
        if type(item) is MessageItem:
            if name is not None and name.what != "ended":
                self._had[task][name] += 1
        elif type(item) is Live:
            match item.what:
                case "started":
                    self._open[task] = _Open(item, sent.heading)
                    self._told[task] = sent.heading.writer
                case "withdrawn" | "step":
                    self._close(task)
                    if item.what == "withdrawn":
                        self._told.pop(task, None)
                case "ended" if task in self._open:
                    self._open[task] = self._open[task]._replace(ended=str(item.value))
                case _:
                    pass

    def _is_repeat(self, sent: Sent, name: _Name | None) -> bool:
        """Return whether *sent* repeats an item that the reader has from a paused task; if so, mark it as repeated.

        Args:
            sent: The item.
            name: Its name, if it has one.
        """
        item, task = sent.item, sent.task_id
        if sent.heading.writer.startswith(STAGED):  # no writer shows it
            return False
        if type(item) is Live and item.what == "started":
            shown = self._open.get(task)
            if shown is None or shown.ended != "interrupted" or shown.by.writer == sent.heading.writer:
                return False
            if self._is_nested(item):
                return False
            self._open[task], self._told[task] = _Open(item, sent.heading), sent.heading.writer
            self._repeats[task] = self._had[task] | self._said_by(task, sent.seq)
            return True
        repeats = self._repeats.get(task)
        if repeats is None or name is None or not repeats[name]:
            return False
        repeats[name] -= 1
        if name.what == "reply":  # so that its end also counts as a repeat
            repeats[name._replace(what="ended", of=0)] += 1
        return True

    def said(self, items: Sequence[Sent], *, before: int | None = None) -> None:
        """Record the output of tasks before questions, which the reader already has or is about to get.

        Args:
            items: The items.
            before: The entry from which a reader continues, possibly in the middle of repeats of earlier output.
        """
        self._said = items
        if before is not None:
            self._repeats = {task: self._said_by(task, before) for task in {sent.task_id for sent in items}}

    def _said_by(self, task: str, before: int) -> Counter[_Name]:
        """Return the names of the task's output before questions that precede an entry."""
        items = (sent.item for sent in self._said if sent.task_id == task and sent.seq < before)
        names = (_name_of(item.item) for item in items if type(item) is MessageItem)
        return Counter(name for name in names if name is not None)

    def go_on(self, heading: Heading, items: Sequence[Sent]) -> None:
        """Record that the reader resumes reading the writer of a batch after *items*, which it already has.

        Those items show which repeats are finished.
        """
        if self._goes_on is None and heading.task:
            self._open.setdefault(heading.task, _Open(_started(heading.task), heading))
        self._goes_on = heading
        for sent in items:
            if sent.number > self._passed:  # else it came in an earlier batch, too
                self._passed = sent.number
                self._is_repeat(sent, _name_in(sent))

    def lacks(self, sent: Sent) -> bool:
        """Return whether no other writer has shown the reader the task of *sent*, or still does."""
        by = self._told.get(sent.task_id)
        if by is None:
            return self._goes_on is None or not self._has_all(sent.task_id.partition("/")[0])
        return by == sent.heading.writer

    def note(self, sent: Sent) -> None:
        """Record that before it continued, the reader received *sent*, which was output before a question."""
        self._told[sent.task_id] = sent.heading.writer
        self._take(sent, _name_in(sent))

    def _close(self, task_id: str) -> None:
        """Record that a task no longer has open items and its nested graph no longer has open tasks."""
        prefix = f"{task_id}/"
        for id_ in [id_ for id_ in {*self._open, *self._had} if id_ == task_id or id_.startswith(prefix)]:
            self._open.pop(id_, None)
            self._forget(id_)

    def _forget(self, task: str) -> None:
        """Record that the reader has no items of a task that may be repeated."""
        self._had.pop(task, None)
        self._repeats.pop(task, None)
        self._said = [sent for sent in self._said if sent.task_id != task]

    def passed(self, entry: Entry) -> Iterator[LiveItem]:
        """Yield the withdrawals, now that the reader has *entry*."""
        event, again = entry.event, set[str]()
        if entry.path:
            return
        match event:
            case TaskSucceeded() if self._unsure and not self._has_all(event.task):
                yield _withdrawn(_started(event.task), entry.seq, Position(entry.seq))
            case SuperstepCommitted():  # its tasks are in the journal
                for noted in (self._open, self._told, self._had, self._repeats):
                    noted.clear()
                self._said = ()
                self._unsure = False
            case SuperstepAbandoned():
                again = {*self._open, *(event.tasks if self._unsure else ())}
            case RunStarted() | RunResumed():  # the tasks that the previous run was running start again
                again = {id_ for id_, shown in self._open.items() if self._runs_again(shown, entry.run)}
            case RunCancelled() | RunFailed():  # queue workers end their tasks, and the reader may have left by then
                again = {id_ for id_, shown in self._open.items() if shown.by.task and not shown.ended}
            case _:
                pass
        for id_ in sorted(again):
            known = self._open.pop(id_, None)
            self._told.pop(id_, None)
            self._forget(id_)
            started = known.started if known is not None else _started(id_)
            yield _withdrawn(started, entry.seq, Position(entry.seq))

    def _has_all(self, task_id: str) -> bool:
        """Return whether the reader has received, or still receives, all items of a task of the top graph."""
        if task_id in self._open or self._goes_on is None:
            return task_id in self._open
        if self._goes_on.task:
            return task_id == self._goes_on.task
        return all(node.policy.queue is None for node in self._plan.nodes if node.name == task_id.partition(":")[2])

    def _runs_again(self, shown: _Open, run: str) -> bool:
        """Return whether an open task runs again, now that *run* continues the thread."""
        by_driver = not shown.by.task and shown.by.writer != run
        return by_driver and not (shown.ended in _STANDS or self._is_nested(shown.started))

    def _is_nested(self, item: Live) -> bool:
        """Return whether the task of *item* runs a nested graph."""
        plan: Plan | None = self._plan
        for name in [*(id_.partition(":")[2] for id_ in item.path.split("/") if id_), item.node]:
            plan = next((node.child for node in plan.nodes if node.name == name), None) if plan is not None else None
        return plan is not None


def _name_in(sent: Sent) -> _Name | None:
    """Return the name of the item in *sent*, if it has one."""
    return _name_of(sent.item.item) if type(sent.item) is MessageItem else None


def _name_of(item: Any) -> _Name | None:
    """Return the name of an item of the mode `messages`; None if it is never repeated, such as a text piece."""
    name = _names().get(item.__class__)  # called for each token: a chain of `case` clauses took 2.4 us, this 0.5
    return None if name is None else name(item)


@cache
def _names() -> Mapping[type, Callable[[Any], _Name | None]]:
    """Return functions that name items, by class. The classes are imported late, as few threads have an agent."""
    from graphrt.harness.agent import events as agents
    from graphrt.harness.protocol import AgentReply

    def of_sub_agent(item: agents.SubAgentItem) -> _Name | None:
        name = _name_of(item.item)
        return None if name is None else name._replace(agent=f"{item.agent}/{name.agent}")

    return {
        AgentReply: lambda item: _Name(
            "reply", hash((item.text, item.thinking, *(call.id for call in item.tool_calls)))
        ),
        agents.ToolStarted: lambda item: _Name("called", hash(item.call.id)),
        agents.ToolEnded: lambda item: _Name("returned", hash(item.call.id)),
        agents.ModelEnded: lambda item: _Name("ended", 0) if item.source == "journal" else None,
        agents.CheckEnded: lambda item: _Name("event", hash(item)),
        agents.HandedOver: lambda item: _Name("event", hash(item)),
        agents.SubAgentItem: of_sub_agent,
    }


def _started(task_id: str) -> Live:
    """Return the item that announces a task's start, for a reader that received it before continuing."""
    path, _, name = task_id.rpartition("/")
    return Live(path=path, node=name.partition(":")[2], task_id=task_id, what="started")


def _withdrawn(started: Live, seq: int, position: Position) -> LiveItem:
    """Return the item that retracts everything the reader was shown of a task since it *started*."""
    taken_back = replace(started, what="withdrawn", value=None)
    return LiveItem(mode="live", item=taken_back, seq=seq, task_id=started.task_id, position=str(position))
