"""The search data that a commit passes to the store: the thread's labels, and its open questions (decision 0150).

Labels are title, tags and priority. An open question is an interrupt that waits for an answer. Both are derived from
the journal, and stores also keep them in an index, so that an inbox or a worker finds threads with one query. The
writer computes them for the commits whose events can change them. Reindexing and erasure compute them for whole
threads. Only this module writes and reads the body of a listed question.

Kinds of questions that matter here: `SIGNAL`, which a signal answers (mail by name, from any process), and `TASK`, with
which a task waits for a worker of its node's queue. Workers find their tasks in this index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from pydantic_core import from_json

from graphrt import events
from graphrt._arguments import is_mapping
from graphrt._engine.emit_events import Logged
from graphrt._engine.open_interrupt import SIGNAL, TASK, OpenInterrupt
from graphrt.commands import UNSET
from graphrt.errors import StoreError
from graphrt.stores.values import Commit, Labels, Question

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.engine import Engine


def labels_after(logged: Sequence[Logged]) -> Labels | None:
    """Return the labels of a thread after *logged*, pairs of path and event; None if no event sets them."""
    labels: Labels | None = None
    for path, event in logged:
        if isinstance(event, events.ThreadLabelled) and not path:
            # An erased title is read as an `Erased`, which is not a label.
            title: Any = event.title
            labels = Labels(title if isinstance(title, str) else None, frozenset(event.tags), event.priority)
    return labels


def open_questions(engine: Engine, status: str) -> list[OpenInterrupt]:
    """Return the questions to list: those that a person, a timer or a child thread answers, and tasks of queues.

    A thread that waits for a signal becomes due through its mail, so the question is listed only for its timeout. A
    cancelled thread lists nothing, because `retry` asks again. A failed or completed thread lists no tasks, because
    workers only run tasks of running and paused threads.
    """
    if status == "cancelled":
        return []
    tasks = status in ("running", "interrupted")
    return [
        question
        for question in engine.open_interrupts()
        if (tasks or question.kind != TASK) and (question.kind != SIGNAL or question.expires_at is not None)
    ]


def listed(
    engine: Engine,
    status: str,
    *,
    asked_at: float | Callable[[str], float],
) -> list[Question]:
    """Return the open questions of a thread as the store lists them.

    Args:
        engine: The thread, folded.
        status: Its status.
        asked_at: When they were asked, in seconds since the epoch: one time for all, or a function of the question's
            id.
    """
    questions: list[Question] = []
    for question in open_questions(engine, status):
        at = asked_at(question.id) if callable(asked_at) else asked_at
        questions.append(
            Question(
                # Ids are `thread/task#key`, and ids of threads have no slash. A copy of the thread has another id.
                place=question.id.partition("/")[2],
                kind=question.kind,
                node=question.node,
                graph=engine.plan.name,
                asked_at=at,
                expires_at=question.expires_at,
                stale=question.stale,
                body=_body(question, engine.plan.codec),
            )
        )
    return questions


@final
class Listing:
    """The store's listing of one thread while it is driven, computed for the commits that can change it.

    Args:
        engine: The thread, which changes while it is driven.
    """

    __slots__ = ("_asks", "_engine")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Only tasks of an open superstep ask. A worker's report closes the question of a task when it is loaded, while
        # the store still lists it; `Engine.questions` has closed ones, too.
        self._asks = bool(engine.tasks or engine.unrouted) and (
            bool(engine.open_interrupts()) or any(question.kind == TASK for question in engine.questions.values())
        )
        """Whether the store may list open questions, so that an empty list must be written once none is left."""

    def completed(self, commit: Commit, logged: Sequence[Logged]) -> Commit:
        """Return *commit*, which sets a status or labels, with what the store lists after it.

        Questions are asked, answered and abandoned when a run begins, pauses or ends, and by edits. All of these
        commits set the status. For a thread that never asks, no list is written.
        """
        commit = commit._replace(labels=labels_after(logged))
        if commit.status is None:
            return commit
        asks = bool(open_questions(self._engine, commit.status))
        if not asks and not self._asks:
            return commit
        self._asks = asks
        return commit._replace(questions=listed(self._engine, commit.status, asked_at=commit.at))


def _body(question: OpenInterrupt, codec: Codec) -> bytes:
    """Return the parts of a question that the index shows: payload, type of the answer, and the default, if it has one.

    `asked` reads it.
    """
    parts = {"payload": question.payload, "answer_type": question.answer_type}
    if question.default is not UNSET:
        parts["default"] = question.default
    return codec.dump(parts)


def asked(thread: str, question: Question, codec: Codec) -> OpenInterrupt:
    """Return the question of *thread* that was listed as *question*, for an inbox, which does not fold the thread.

    Values of classes that *codec* does not know, because another graph asked, are returned as their stored plain data.
    """
    data: Any
    try:
        data = codec.load(question.body)
    except StoreError as error:
        if error.code != "unknown-type":
            raise
        data = from_json(question.body)
    parts: Mapping[Any, Any] = data if is_mapping(data) else {}
    key = question.place.partition("#")[2]  # the place is `task#key`
    result = OpenInterrupt(f"{thread}/{question.place}", key, question.node, parts.get("payload"), kind=question.kind)
    result.answer_type, result.expires_at, result.stale = parts.get("answer_type"), question.expires_at, question.stale
    result.default = parts.get("default", UNSET)
    return result
