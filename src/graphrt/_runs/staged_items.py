"""Output of tasks before the questions of their superstep, as live items that any process builds from stored data.

While a thread is driven, its writers show the output of its open tasks (`live_relay`). Once it has paused, failed or
been cancelled, no process does. The replies of its models and the results of their tools are staged with their tasks
until the superstep commits (decision 0020). They are shown to readers that the writers have not shown them to (decision
0314). After an answer they remain where they were: the new run repeats them, and `shown_tasks` leaves that out
(decision 0315).

The items are a function of the journal and of what is staged, so every process makes the same ones, with the same
positions. An item comes before the entries with which the run stopped, such as its questions. A superstep may stop
several times. A reply, and the result of a tool, says after how many answers of its task it came (`answers`), so it
comes before the first stop after that answer.

The commit of the superstep puts the same replies and results into the journal, behind the answers. A reader from before
the questions is then given them where they were, by the same rules, out of the entries that follow.

While the thread waits, the items of tasks that have ended or wait come before its last stop at the latest. Of a task
that runs again, and of all tasks while the thread is driven, only what was said before a stop is shown: the rest is shown
by its writer. Left out is what a task has said that runs again from its beginning without an answer: its attempt was
given up, and live items took back what it had shown. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, final

from graphrt import events
from graphrt._arguments import is_mapping
from graphrt._engine.open_interrupt import TASK, task_of
from graphrt._flows.live import Live, MessageItem
from graphrt._runs.entries import entries, staged_rows
from graphrt._runs.live_items import Heading, LiveItem, Sent
from graphrt._runs.live_positions import Position
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt._runs.shown_tasks import STAGED, closes
from graphrt.events import Entry

if TYPE_CHECKING:
    from graphrt.harness.messages import ToolCall
    from graphrt.stores.values import Head

_WAITING: Final = ("interrupted", "failed", "cancelled")
"""Statuses of a thread that no process drives, although a superstep may be open."""
_STOPS: Final = (events.RunInterrupted, events.RunFailed, events.RunCancelled)
_SETTLING: Final = (events.InterruptAnswered, events.InterruptWithdrawn, events.InterruptExpired)
_TOOL: Final = "tool/"
_TOOL_SLASHES: Final = 2
"""How the keys of the results of tools begin, and slashes in them: `tool/name/digest#1`. Keys of what an agent that is a
tool asks and does begin with that of its call."""
_PAGE: Final = 64
"""Number of entries read at once when searching backwards for the beginning of the open superstep."""


def stops(entry: Entry) -> bool:
    """Return whether a run ended with *entry* although a superstep may be open."""
    return not entry.path and isinstance(entry.event, _STOPS)


def waits(head: Head) -> bool:
    """Return whether no process drives the thread with this head, although a superstep may be open."""
    return not head.owned and head.status in _WAITING


def staged_items(config: RunConfig, thread: str) -> list[Sent]:
    """Return what the open tasks of the thread have said, in order; of one that is driven, what they said before a stop.

    The items of one task follow each other, unless the superstep stopped between them.
    """
    loaded = the_store(config).load(thread)
    head = loaded.head
    if not loaded.staged:
        return []
    outputs = [output for output in _tasks(staged_rows(config, loaded)) if output.replies and not output.has_failed]
    if not outputs:
        return []
    stops = _Stops(_since_last_commit(config, thread, head.seq, head.first))
    outputs = [output for output in outputs if output.task not in stops.journalled]
    is_waiting = waits(head)
    return _sent(
        stops, [pair for output in outputs for pair in output.items(stops, stands=is_waiting and output.stands(stops))]
    )


def _sent(stops: _Stops, placed: list[tuple[int, Live | MessageItem]]) -> list[Sent]:
    """Return items with their places, given task after task, in the order in which they are given to a reader."""
    placed.sort(key=lambda pair: pair[0])  # stable: within a stop, task after task
    writer = f"{STAGED}{stops.last}"  # what follows the last stop, such as a label, changes no item
    return [
        Sent(Heading(writer, task), number, place, "live" if type(item) is Live else "messages", item, item.task_id, 0)
        for number, (place, item) in enumerate(placed, 1)
        if (task := item.task_id.partition("/")[0])
    ]


def entries_and_items(config: RunConfig, thread: str, *, after: int, raw: bool) -> Iterator[Entry | LiveItem]:
    """Iterate over the entries of the thread, as `entries`, and over what tasks had said before questions between them.

    Of a superstep that was committed, the journal has it behind the answers.
    """
    staged = [sent for sent in staged_items(config, thread) if sent.seq >= after]
    before: list[Entry] = []  # entries up to *after* of the superstep that is open there
    if after and not raw:
        before = _since_last_commit(config, thread, after, the_store(config).head(thread).first)
    since: list[Entry] = []  # entries of the superstep that is open after them
    for entry in entries(config, thread, after=after, raw=raw):
        since.append(entry)
        if closes(entry):
            is_commit = isinstance(entry.event, events.SuperstepCommitted)
            items = _committed_items([*before, *since]) if is_commit and not raw else ()
            yield from _merged(since, [sent for sent in items if sent.seq >= after])
            before.clear()
            since, staged = [], [sent for sent in staged if sent.seq >= entry.seq]  # the thread may have continued
    yield from _merged(since, staged)


def _merged(log: Sequence[Entry], items: Sequence[Sent]) -> Iterator[Entry | LiveItem]:
    """Yield entries, and before each the items that come before it."""
    rest = deque(items)
    for entry in log:
        while rest and rest[0].seq < entry.seq:
            sent = rest.popleft()
            position = str(Position(sent.seq, sent.heading.writer, sent.number))
            yield LiveItem(mode=sent.mode, item=sent.item, seq=sent.seq, task_id=sent.task_id, position=position)
        yield entry


def committed_items(config: RunConfig, thread: str, seq: int, first: int) -> list[Sent] | None:
    """Return what tasks had said before the questions of the superstep that has the entry *seq*; None if it is open.

    Args:
        config: The configuration of the runtime.
        thread: The thread.
        seq: An entry of the superstep.
        first: Number of the oldest entry that is left.
    """
    later: list[Entry] = []
    for entry in entries(config, thread, after=seq - 1):
        later.append(entry)
        if closes(entry):
            is_commit = isinstance(entry.event, events.SuperstepCommitted)
            return _committed_items([*_since_last_commit(config, thread, seq - 1, first), *later]) if is_commit else []
    return None


def _committed_items(since: Sequence[Entry]) -> list[Sent]:
    """Return what the tasks of a committed superstep had said before its last questions, given its entries."""
    if not any(isinstance(entry.event, events.RunInterrupted) and not entry.path for entry in since):
        return []
    stops = _Stops(since)
    started = _tasks([("", [entry.event for entry in since])])
    outputs = [output for output in started if output.replies and output.has_succeeded]
    return _sent(stops, [pair for output in outputs for pair in output.items(stops, stands=False)])


def _tasks(rows: Iterable[tuple[str, Sequence[events.Event]]]) -> list[_Said]:
    """Return the staged data of each task, including in nested graphs, in the order of their ids."""
    tasks: dict[str, _Said] = {}
    for key, staged in rows:
        for event in staged:
            # A task that has ended or paused has all in a row of its own. When it runs again, it may fail.
            if ("#" not in key or isinstance(event, events.RepliesDiscarded)) and (task := _task_of(event)):
                tasks.setdefault(task, _Said(task)).add(event)
    return [tasks[id_] for id_ in sorted(tasks, key=_order)]


def _task_of(event: events.Event) -> str:
    """Return the task that a staged event is about; of a question, the one inside that asks, and not those around it."""
    if isinstance(event, (events.InterruptRaised, *_SETTLING)):
        return task_of(event.id)
    return str(getattr(event, "task", ""))


def _order(task: str) -> list[tuple[int, ...]]:
    """Return a key that sorts tasks: supersteps and places of the graphs, from the outermost one inwards."""
    return [tuple(map(int, part.partition(":")[0].split("."))) for part in task.split("/")]


def _is_after(task: str, other: str) -> bool:
    """Return whether a task began after *other* had ended, which is of an earlier superstep of their nested graph."""
    for position, before in zip(_order(task), _order(other), strict=False):
        if position != before:
            return before[0] < position[0]
    return False


def _since_last_commit(config: RunConfig, thread: str, last: int, first: int) -> list[Entry]:
    """Return the entries up to *last* from the one on that closed the superstep before. Reads from the end.

    Args:
        config: The configuration of the runtime.
        thread: The thread.
        last: Number of the last entry.
        first: Number of the oldest entry that is left.
    """
    size = _PAGE
    while True:
        after = max(last - size, first - 1)
        log: list[Entry] = []
        has_begin = False
        for entry in entries(config, thread, after=after, raw=True):
            if entry.seq > last:
                break
            if closes(entry):
                has_begin = True
                log.clear()
            log.append(entry)
        if has_begin or after < first:
            return log
        size *= 4


def _is_result(key: str) -> bool:
    """Return whether an effect is the result of a tool that an agent of the node itself called."""
    return key.startswith(_TOOL) and key.count("/") == _TOOL_SLASHES


def _place_of(id_: str) -> str:
    """Return the id of a question without its thread: the entries of a copy name the thread that was copied."""
    return id_.partition("/")[2]


@final
class _Stops:
    """Where the runs stopped that worked on the open superstep.

    Args:
        since: The entries since the superstep before it was closed.
    """

    def __init__(self, since: Sequence[Entry]) -> None:
        self._stops: list[tuple[int, frozenset[str]]] = []
        """For each stop, the last entry before its questions, and the tasks that waited for a worker of their queue."""
        self._answers: dict[tuple[str, int], int] = {}
        """Task and number of an answer to the entry that has the answer."""
        self._settled_at: dict[str, int] = {}
        """Task to the entry with which the last of its questions was settled."""
        self.settled: set[str] = set()
        """Questions that were answered, withdrawn or expired."""
        self.journalled: set[str] = set()
        """Tasks of a nested graph whose task has failed: the journal has their outcomes."""
        self.last: int = 0
        """The entry of the last stop."""
        has_failed = False  # tasks may have been cut off, and have said later what they have said
        first_question = 0  # the first entry with a question, since the run began or continued
        queued: dict[str, str] = {}  # open questions of tasks that wait for their queue
        for entry in since:
            event = entry.event
            if entry.path:
                if isinstance(event, events.TaskSucceeded):
                    self.journalled.add(event.task)
            elif isinstance(event, events.InterruptRaised):
                first_question = first_question or entry.seq
                if event.kind == TASK:
                    queued[event.id] = task_of(event.id)
            elif isinstance(event, events.TasksRouted):  # an `interrupt_after` stopped before its superstep opened
                self._stops.clear()
            elif isinstance(event, _STOPS):
                if has_failed:
                    self._stops.clear()
                has_failed = not isinstance(event, events.RunInterrupted)
                self._stops.append(((first_question or entry.seq) - 1, frozenset(queued.values())))
                self.last, first_question = entry.seq, 0
            elif isinstance(event, _SETTLING):
                self.settled.add(_place_of(event.id))
                self._settled_at[task_of(event.id)] = entry.seq
                queued.pop(event.id, None)
                if isinstance(event, events.InterruptAnswered):
                    self._answers[task_of(event.id), event.nth] = entry.seq
        self._has_failed = has_failed

    def after(self, task: str, answers: int, *, stands: bool) -> int | None:
        """Return the last entry before the first stop after *task* had been given so many answers, and had run.

        None if there was no such stop; the last stop of the task that *stands*, which is described at `_Said.stands`.
        """
        if self._has_failed and not stands:
            return None
        begin = self._answers.get((task, answers), self.last if answers else 0)
        began = [seq for other, seq in self._settled_at.items() if _is_after(task, other)]
        begin = max([begin, *began])
        last = self._stops[-1][0] if self._stops and stands else None
        return next((before for before, queued in self._stops if before >= begin and task not in queued), last)

    def waited(self, task: str) -> bool:
        """Return whether the task waited at the last stop for something that it has by now."""
        return self._settled_at.get(task, 0) > self.last


@final
class _Said:
    """What is staged of one task."""

    def __init__(self, task: str) -> None:
        self.task: str = task
        self._attempt = 1
        self._failed_attempts = 0
        self._replied: dict[tuple[int, str], events.ModelReplied] = {}
        self._effects: dict[str, events.EffectRecorded] = {}
        self._asked: dict[str, events.InterruptRaised] = {}
        self._settled: set[str] = set()
        self.has_succeeded: bool = False
        """Whether it has ended with an outcome."""
        self.has_failed: bool = False
        """Whether it has failed for good."""

    def add(self, event: events.Event) -> None:
        """Take a staged event. One may come twice: as a row of the task, and in a commit of its nested graph."""
        match event:
            case events.ModelReplied(key=key) if not key.startswith(_TOOL):
                self._replied.setdefault((event.failed_attempts, key), event)
            case events.RepliesDiscarded(failed_attempts=failed):
                self._failed_attempts = max(self._failed_attempts, failed)
            case events.TaskRetried(attempt=attempt):
                self._attempt = attempt + 1
            case events.EffectRecorded(key=key) if _is_result(key) and isinstance(event.result, Mapping):
                self._effects.setdefault(key, event)
            case events.InterruptRaised():
                self._asked[_place_of(event.id)] = event
            case events.InterruptAnswered() | events.InterruptWithdrawn() | events.InterruptExpired():
                self._settled.add(_place_of(event.id))
            case events.TaskSucceeded():
                self.has_succeeded = True
            case events.TaskFailed():
                self.has_failed = True
            case _:
                pass

    @property
    def replies(self) -> list[events.ModelReplied]:
        """The replies that the current attempt receives or received, in order; none if one was erased."""
        replied = [event for (failed, _), event in self._replied.items() if failed == self._failed_attempts]
        replies: list[Any] = [event.reply for event in replied]  # an erased one is not a mapping
        return replied if all(isinstance(reply, Mapping) for reply in replies) else []

    def stands(self, stops: _Stops) -> bool:
        """Return whether the task's output will not be repeated from the beginning, because it has ended or waits."""
        open_ = [question.kind for id_, question in self._asked.items() if id_ not in self._settled | stops.settled]
        return self.has_succeeded or (bool(open_) and TASK not in open_)  # a task of a queue shows itself

    def items(self, stops: _Stops, *, stands: bool) -> Iterator[tuple[int, Live | MessageItem]]:
        """Yield the items that are shown, each with the entry after which it comes."""
        shown = [(place, item) for place, item in self._shown(stops, stands) if place is not None]
        shown.sort(key=lambda pair: pair[0])
        if shown:
            yield shown[0][0], self._live("started", self._attempt)
        for number, (place, item) in enumerate(shown):
            yield place, MessageItem(node=self._node, task_id=self.task, item=item)
            if number + 1 == len(shown):
                has_ended = self.has_succeeded and not stops.waited(self.task)
                yield place, self._live("ended", "success" if has_ended else "interrupted")
            elif shown[number + 1][0] > place:
                yield place, self._live("ended", "interrupted")

    def _shown(self, stops: _Stops, stands: bool) -> Iterator[tuple[int | None, Any]]:  # noqa: FBT001 - as `items` has it
        """Yield each reply and the results of its tool calls, with the entries after which they come; None for the last."""
        from graphrt.harness._reply_data import reply_from  # imported late: few threads have an agent
        from graphrt.harness.agent.events import ToolEnded, ToolStarted
        from graphrt.harness.protocol import TextDelta, ThinkingDelta

        replies = [(event.answers, reply_from(event.reply, event.usage, event.model)) for event in self.replies]
        places = [stops.after(self.task, answers, stands=stands) for answers, _ in replies]
        ids = {call.id for _, reply in replies for call in reply.tool_calls}
        results = _Results(self._effects, self._asked.values(), ids)
        taken = [[(call, *results.take(call)) for call in reply.tool_calls] for _, reply in replies]
        for (_, reply), place, next_, calls in zip(replies, places, [*places[1:], None], taken, strict=True):
            # As a stream of one piece, for readers that show pieces alone.
            if reply.thinking:
                yield place, ThinkingDelta(text=reply.thinking)
            if reply.text:
                yield place, TextDelta(text=reply.text)
            yield place, reply
            for call, is_asked, result in calls:
                if result is not None:
                    result_place = stops.after(self.task, result.answers, stands=stands)
                    data: Any = result.result
                    text, content = str(data.get("text", "")), tuple(data.get("content", ()))
                    yield result_place if is_asked else place, ToolStarted(call=call)
                    yield result_place, ToolEnded(call=call, text=text, content=content, error=bool(data.get("error")))
                elif not is_asked and (next_ is not None or results.asks_inside):
                    # It was refused without a person, or goes on: an agent that is a tool asks.
                    yield place, ToolStarted(call=call)

    @property
    def _node(self) -> str:
        return self.task.rpartition("/")[2].partition(":")[2]

    def _live(self, what: Any, value: Any) -> Live:
        return Live(path=self.task.rpartition("/")[0], node=self._node, task_id=self.task, what=what, value=value)


@final
class _Results:
    """The results of the tool calls of one task. They are staged under keys that do not name the call.

    Args:
        effects: The recorded effects, by key.
        asked: The questions of the task. One about a tool call has the key of its result.
        ids: Ids of all its calls. A result of another id is one that an earlier attempt made, or a person gave.
    """

    def __init__(
        self,
        effects: Mapping[str, events.EffectRecorded],
        asked: Iterable[events.InterruptRaised],
        ids: Container[str],
    ) -> None:
        self._by_key = dict(effects)
        self._ids = ids
        self._asked: list[tuple[str, Any, Any]] = []
        """Questions about tool calls that no call was found for yet: key of the result, name and arguments."""
        for question in asked:
            payload: Any = question.payload
            if question.kind == "approval" and is_mapping(payload) and "tool" in payload:
                version = f":{question.version}" if question.version > 1 else ""
                key = question.key.removeprefix("key=").removesuffix(version)
                self._asked.append((key, payload["tool"], payload.get("arguments")))
        of_people = {key for key, _, _ in self._asked}
        self._by_name: defaultdict[str, list[events.EffectRecorded]] = defaultdict(list)
        """Maps the name of a tool to the results of those calls that no person was asked about, in the order of the calls."""
        for key, effect in effects.items():
            if key not in of_people:
                self._by_name[key.split("/")[1]].append(effect)

    @property
    def asks_inside(self) -> bool:
        """Whether a question is about no call of the task, now that all were taken: an agent that is a tool asks it."""
        return bool(self._asked)

    def take(self, call: ToolCall) -> tuple[bool, events.EffectRecorded | None]:
        """Return whether a person was asked about *call*, the next one of the task, and its result; None without one."""
        for question in self._asked:
            if question[1:] == (call.name, call.arguments):
                self._asked.remove(question)
                return True, self._by_key.get(question[0])
        results = self._by_name[call.name]
        own = (effect for effect in results if _call_of(effect) == call.id)
        of_others = (effect for effect in results if _call_of(effect) not in self._ids)
        result = next(chain(own, of_others), None)
        if result is not None:
            results.remove(result)
        return False, result


def _call_of(effect: events.EffectRecorded) -> Any:
    """Return the id of the tool call that made a result; None if a person gave it."""
    result: Any = effect.result
    return result.get("call")
