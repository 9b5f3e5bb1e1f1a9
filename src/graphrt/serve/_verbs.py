"""The endpoints: a table of verbs. Each calls a verb of `Runtime` and answers with a document.

A row gives the path of a verb, the right that it needs, and its input and output. Routes and the OpenAPI document are
generated from the table. Handlers are plain functions of a `Call`. They run on worker threads of the server, so they
may wait for the store. None of them drives a thread: workers do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from graphrt.commands import END
from graphrt.errors import GraphrtError, InputError
from graphrt.errors._codes.schedules import UNKNOWN_SCHEDULE
from graphrt.errors._codes.serving import BAD_REQUEST_PART, KEY_REUSED
from graphrt.errors._codes.threads import THREAD_EXISTS, UNKNOWN_THREAD
from graphrt.runtime import Runtime
from graphrt.serve import _bodies
from graphrt.serve._access import Caller, Right
from graphrt.serve._keys import derived_id
from graphrt.stores import Head, MailFilter, Store, ThreadFilter
from graphrt.stores.filters import BEGINS
from graphrt.wires import document_schemas as schemas
from graphrt.wires import plain_data
from graphrt.wires.conversation import goes_on

Document: TypeAlias = dict[str, Any]
Keyed: TypeAlias = Literal["", "itself", "record"]
"""How a write is made idempotent: it is so by nature, its key is part of it, or the key has a record."""


@final
@dataclass(slots=True, kw_only=True)
class Call:
    """One request to one verb, checked."""

    runtime: Runtime[Any, Any]
    """The caller's runtime: in the store of their tenant, under their name."""
    caller: Caller
    thread: str = ""
    """From the path; empty if it names no thread."""
    name: str = ""
    """Name of a schedule, from the path."""
    query: Any = None
    """A model of `_bodies`."""
    body: Any = None
    """A model of `_bodies`."""
    key: str | None = None
    """The idempotency key."""
    digest: str = ""
    """Digest of the request, which detects a key that is reused for another request."""

    @property
    def graph(self) -> str:
        """Name of the graph."""
        return self.runtime.graph.name

    @property
    def store(self) -> Store:
        """The store of the caller's tenant."""
        store = self.runtime.store
        assert store is not None  # noqa: S101 - the server has refused a runtime without one
        return store

    def head(self) -> Head:
        """Return the head of the thread.

        Raises:
            InputError: There is no such thread of this graph (`unknown-thread`).
        """
        head = self.store.head(self.thread)
        if head.graph != self.graph:  # a caller may have rights on this graph only
            raise UNKNOWN_THREAD(thread=self.thread)
        return head

    def position(self, thread: str) -> int:
        """Return the number of the last entry of *thread*; 0 if there is no such thread."""
        try:
            return self.store.head(thread).seq
        except InputError as error:
            if error.code != UNKNOWN_THREAD.code:
                raise
            return 0

    def has_input(self, thread: str) -> bool:
        """Return whether an input waits for the current run of *thread* to end; it is not an entry yet."""
        store = self.store
        if "mail" not in store.offers:
            return False
        return any(mail.id.startswith(BEGINS) for mail in store.query(MailFilter(thread=thread)))

    def derived(self, verb: str) -> str | None:
        """Return an id derived from the key; None without a key."""
        if self.key is None:
            return None
        return derived_id(self.caller, f"{self.graph}/{self.thread}/{verb}", self.key)

    def derived_thread(self, verb: str) -> str | None:
        """Return the id of the thread that the call creates, from its key and its request; None without a key.

        Raises:
            InputError: The key came with another request (`key-reused`): a thread has an id of this key.
        """
        of_key = self.derived(verb)
        if of_key is None:
            return None
        id_ = f"{of_key}-{self.digest[:16]}"
        if any(head.thread != id_ for head in self.store.query(ThreadFilter(prefix=f"{of_key}-"), limit=2)):
            raise KEY_REUSED(key="The idempotency key")
        return id_


class Reply(NamedTuple):
    """The answer of a handler."""

    data: Any
    status: int = 200
    location: str = ""
    """Path of the new resource, below the graph."""


Handler: TypeAlias = Callable[[Call], Reply]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One row of the table."""

    name: str
    """Unique; part of the `operationId`."""
    method: str
    path: str
    """Below `/graphs/{graph}`."""
    right: Right
    summary: str
    handle: Handler | None = None
    """None for the event stream, which is not a document."""
    query: type[_bodies.Part] = _bodies.Nothing
    body: type[_bodies.Part] | None = None
    gives: dict[str, Any]
    """JSON schema of the document."""
    status: int = 200
    keyed: Keyed = ""
    makes: str = ""
    """Field of the body with the id of the new thread. If it is set, the id cannot be derived from the key, so the key
    has a record."""
    begins: bool = False
    """Whether a run may begin, so that the running threads are counted."""
    makes_thread: bool = False
    """Whether the thread of the path need not exist."""

    @property
    def waits(self) -> bool:
        """Whether the request may wait for the end of the run."""
        return self.query is _bodies.Waiting


# -- documents -----------------------------------------------------------------------------------------------------

STARTED: Final = schemas.object_of({"thread": schemas.TEXT, "status": schemas.TEXT, "seq": schemas.WHOLE})
STORED: Final = {"type": "object", "additionalProperties": schemas.TEXT}
"""Fields of a state in their stored form, as JSON texts."""
STATE: Final = schemas.object_of(
    schemas.SNAPSHOT,
    state=schemas.ANY,
    output=schemas.ANY,
    goes_on=schemas.TRUTH,
    stopped=schemas.list_of(schemas.TEXT),
    title=schemas.TEXT_OR_NULL,
    tags=schemas.list_of(schemas.TEXT),
    stored=STORED,
)
GRAPH: Final = schemas.object_of(
    {
        "graph": schemas.TEXT,
        "version": schemas.WHOLE,
        "fingerprint": schemas.TEXT,
        "nodes": schemas.list_of(schemas.TEXT),
        "topology": {"type": "object"},
    }
)


def state_document(runtime: Runtime[Any, Any], thread: str, at: int | None = None, *, stored: bool = False) -> Document:
    """Return the thread in its present state, or in its state after the entry *at*; *stored* as in queries."""
    snapshot = runtime.state(thread, at=at)
    data: Document = {
        **_past_document(runtime, snapshot, stored=stored),
        "goes_on": goes_on(snapshot),
        "stopped": list(snapshot.stopped),
        "title": snapshot.title,
        "tags": sorted(snapshot.tags),
    }
    graph = runtime.graph
    if graph.output_type is not graph.state_type and snapshot.status == "completed":
        names = getattr(graph.output_type, "__annotations__", {})
        shown: dict[str, Any] = data["state"]
        data["output"] = {name: value for name, value in shown.items() if name in names}
    return data


def _past_document(runtime: Runtime[Any, Any], snapshot: Any, *, stored: bool) -> Document:
    data = plain_data.snapshot(snapshot)
    return {**data, "stored": runtime.graph.__graphrt_dump_state__(snapshot.values)} if stored else data


def _started(call: Call, thread: str, status: int = 202) -> Reply:
    call.thread = thread
    head = call.store.head(thread)  # the head has no graph yet if another request is creating the thread
    return Reply({"thread": thread, "status": head.status, "seq": head.seq}, status, f"/threads/{thread}")


def present(call: Call, thread: str) -> Reply:
    """Answer a repeated write with the current position of its thread."""
    return _started(call, thread, 200)


# -- handlers ------------------------------------------------------------------------------------------------------


def describe(call: Call) -> Reply:
    graph = call.runtime.graph
    data = {"graph": graph.name, "version": graph.version, "fingerprint": graph.fingerprint}
    return Reply({**data, "nodes": list(graph.nodes), "topology": graph.topology()})


def start(call: Call) -> Reply:
    body: _bodies.NewThread = call.body
    thread, if_exists = body.thread, body.if_exists
    if thread is None and call.key is not None:
        thread, if_exists = call.derived_thread("start"), "return"
    if thread is not None:
        check_free(call, thread)
    started_thread = call.runtime.start(
        body.input, thread=thread, if_exists=if_exists, title=body.title, tags=body.tags, priority=body.priority
    )
    return _started(call, started_thread)


def check_free(call: Call, thread: str) -> None:
    """Refuse the id of another graph's thread. A thread that does not exist is new."""
    call.thread = thread
    try:
        head = call.store.head(thread)
    except InputError as error:
        if error.code != UNKNOWN_THREAD.code:
            raise
        return
    if head.graph != call.graph and head.seq:  # another process has just created the thread, still without entries
        raise THREAD_EXISTS(thread=thread)


def run(call: Call) -> Reply:
    body: _bodies.NewRun = call.body
    check_free(call, call.thread)
    started_thread = call.runtime.start(
        body.input,
        thread=call.thread,
        if_exists=body.if_exists,
        while_running=body.while_running,
        title=body.title,
        tags=body.tags,
        priority=body.priority,
    )
    return _started(call, started_thread)


def answer(call: Call) -> Reply:
    body: _bodies.Answers = call.body
    fields = body.model_fields_set
    if len(fields) != 1:
        raise BAD_REQUEST_PART(part="body", problem="it takes either `answers` or `answer`")
    answers: dict[str, Any] = {name: getattr(body, name) for name in fields}
    return _started(call, call.runtime.start(thread=call.thread, **answers))


def retry(call: Call) -> Reply:
    return _started(call, call.runtime.start(thread=call.thread))


def list_threads(call: Call) -> Reply:
    query: _bodies.Listed = call.query
    threads = call.runtime.threads(
        status=query.status,
        graph=call.graph,
        prefix=query.prefix,
        tags=query.tag,
        title=query.title,
        updated_after=query.updated_after,
        updated_before=query.updated_before,
        after=query.after,
        newest_first=query.newest_first,
        limit=query.limit,
    )
    return Reply({"threads": [plain_data.thread(thread) for thread in threads]})


def state(call: Call) -> Reply:
    query: _bodies.At = call.query
    return Reply(state_document(call.runtime, call.thread, query.at, stored=query.stored))


def history(call: Call) -> Reply:
    query: _bodies.Past = call.query
    snapshots = call.runtime.history(call.thread, limit=query.limit, before=query.before)
    return Reply({"history": [_past_document(call.runtime, snapshot, stored=query.stored) for snapshot in snapshots]})


def steps(call: Call) -> Reply:
    query: _bodies.After = call.query
    later_steps = (step for step in call.runtime.steps_of(call.thread) if step["seq"] > query.after)
    return Reply({"steps": [plain_data.plain(step) for step in islice(later_steps, query.limit)]})


def entries(call: Call) -> Reply:
    query: _bodies.After = call.query
    later_entries = call.runtime.entries(call.thread, after=query.after)
    return Reply({"entries": [plain_data.entry(entry) for entry in islice(later_entries, query.limit)]})


def result(call: Call) -> Reply:
    return _started(call, call.thread)


def update(call: Call) -> Reply:
    body: _bodies.Edit = call.body
    goto: Any = body.goto
    if goto is not None:
        names = [goto] if isinstance(goto, str) else goto
        for name in names:
            if name != END.value and name not in call.runtime.graph.nodes:
                raise BAD_REQUEST_PART(part="body", problem=f"goto names {name!r}, which is not a node")
        targets = [END if name == END.value else name for name in names]
        goto = targets[0] if isinstance(body.goto, str) else targets
    check_free(call, call.thread)
    call.runtime.update(call.thread, body.values, as_node=body.as_node, goto=goto)
    return _started(call, call.thread, 200)


def label(call: Call) -> Reply:
    body: _bodies.Labels = call.body
    changes: dict[str, Any] = {name: getattr(body, name) for name in body.model_fields_set}
    call.runtime.label(call.thread, **changes)
    return _started(call, call.thread, 200)


def fork(call: Call) -> Reply:
    body: _bodies.NewFork = call.body
    to = call.derived_thread("fork") if body.to is None else body.to
    try:
        new_thread = call.runtime.fork(call.thread, at=body.at, to=to, keep_effects=body.keep_effects)
    except GraphrtError as error:
        if error.code != "thread-exists" or body.to is not None or to is None:
            raise
        new_thread = to  # the first request with this key has created it
    return _started(call, new_thread, 201)


def delete(call: Call) -> Reply:
    call.runtime.delete_thread(call.thread)
    return Reply({"thread": call.thread})


def cancel(call: Call) -> Reply:
    cancelled = call.runtime.cancel(call.thread)
    return Reply({"thread": call.thread, "cancelled": cancelled, "status": call.head().status})


def signal(call: Call) -> Reply:
    body: _bodies.NewSignal = call.body
    id_ = call.derived("signal") if body.id is None else body.id
    return Reply({"thread": call.thread, "kept": call.runtime.signal(call.thread, body.name, body.value, id=id_)})


def inbox(call: Call) -> Reply:
    query: _bodies.Asked = call.query
    questions = call.runtime.inbox(
        kind=query.kind, tags=query.tag, graph=call.graph, node=query.node, after=query.after, limit=query.limit
    )
    return Reply({"questions": [plain_data.inbox_item(question, typed=True) for question in questions]})


def list_schedules(call: Call) -> Reply:
    return Reply({"schedules": [plain_data.schedule(schedule) for schedule in call.runtime.schedules.list()]})


def add_schedule(call: Call) -> Reply:
    body: _bodies.NewSchedule = call.body
    schedule = call.runtime.schedules.add(
        call.name,
        body.cron,
        body.input,
        timezone=body.timezone,
        missed=body.missed,
        title=body.title,
        tags=body.tags,
        replace=body.replace,
    )
    return Reply(plain_data.schedule(schedule))


def remove_schedule(call: Call) -> Reply:
    names = [schedule.name for schedule in call.runtime.schedules.list()]
    if call.name not in names:  # or belongs to another graph
        raise UNKNOWN_SCHEDULE(name=call.name, names=names)
    call.runtime.schedules.remove(call.name)
    return Reply({"name": call.name})


_T: Final = "/threads/{thread}"

VERBS: Final = (
    Verb(name="graph", method="GET", path="", right="read", handle=describe, gives=GRAPH,
         summary="Describe the graph."),
    Verb(name="start", method="POST", path="/threads", right="run", handle=start, body=_bodies.NewThread,
         query=_bodies.Waiting, gives=STATE, status=202, keyed="itself", makes="thread", begins=True,
         summary="Start a run on a new thread."),
    Verb(name="threads", method="GET", path="/threads", right="read", handle=list_threads, query=_bodies.Listed,
         gives=schemas.object_of({"threads": schemas.list_of(schemas.THREAD)}),
         summary="List and find threads."),
    Verb(name="state", method="GET", path=_T, right="read", handle=state, query=_bodies.At, gives=STATE,
         summary="Show a thread: its state, what is next, its questions."),
    Verb(name="label", method="PATCH", path=_T, right="run", handle=label, body=_bodies.Labels, gives=STARTED,
         summary="Change title, tags and priority of a thread."),
    Verb(name="delete", method="DELETE", path=_T, right="operate", handle=delete,
         gives=schemas.object_of({"thread": schemas.TEXT}), summary="Delete a thread."),
    Verb(name="run", method="POST", path=f"{_T}/runs", right="run", handle=run, body=_bodies.NewRun,
         query=_bodies.Waiting, gives=STATE, status=202, keyed="record", begins=True, makes_thread=True,
         summary="Give a thread an input, even while a run of it is in progress."),
    Verb(name="retry", method="POST", path=f"{_T}/retry", right="run", handle=retry, query=_bodies.Waiting,
         gives=STATE, status=202, keyed="record", begins=True,
         summary="Continue a thread that failed or was cancelled."),
    Verb(name="answer", method="POST", path=f"{_T}/answers", right="answer", handle=answer, body=_bodies.Answers,
         query=_bodies.Waiting, gives=STATE, status=202, keyed="record",
         summary="Answer open questions, and continue the thread."),
    Verb(name="result", method="GET", path=f"{_T}/result", right="read", handle=result, query=_bodies.Waiting,
         gives=STATE, status=202, summary="Wait for the end of the run, and show the thread."),
    Verb(name="history", method="GET", path=f"{_T}/history", right="read", handle=history, query=_bodies.Past,
         gives=schemas.object_of({"history": schemas.list_of(schemas.object_of(schemas.SNAPSHOT, state=schemas.ANY, stored=STORED))}),
         summary="List the past states of a thread, newest first."),
    Verb(name="steps", method="GET", path=f"{_T}/steps", right="read", handle=steps, query=_bodies.After,
         gives=schemas.object_of({"steps": schemas.list_of({"type": "object"})}),
         summary="List the steps of a thread, oldest first."),
    Verb(name="entries", method="GET", path=f"{_T}/entries", right="read", handle=entries, query=_bodies.After,
         gives=schemas.object_of({"entries": schemas.list_of(schemas.ENTRY)}),
         summary="List the journal of a thread, oldest entry first."),
    Verb(name="events", method="GET", path=f"{_T}/events", right="read", query=_bodies.Following, gives=schemas.ENTRY,
         summary="Follow a thread: its entries as they are stored, and what shows between them."),
    Verb(name="update", method="POST", path=f"{_T}/update", right="operate", handle=update, body=_bodies.Edit,
         gives=STARTED, keyed="record", makes_thread=True, summary="Fold values into the state of a thread."),
    Verb(name="fork", method="POST", path=f"{_T}/fork", right="operate", handle=fork, body=_bodies.NewFork,
         gives=STARTED, status=201, keyed="itself", makes="to",
         summary="Create a thread from an entry of another thread."),
    Verb(name="cancel", method="POST", path=f"{_T}/cancel", right="run", handle=cancel,
         gives=schemas.object_of({"thread": schemas.TEXT, "cancelled": schemas.TRUTH, "status": schemas.TEXT}),
         summary="Cancel the run of a thread, or a paused thread."),
    Verb(name="signal", method="POST", path=f"{_T}/signals", right="run", handle=signal, body=_bodies.NewSignal,
         gives=schemas.object_of({"thread": schemas.TEXT, "kept": schemas.TRUTH}), keyed="itself",
         summary="Send a signal to a thread."),
    Verb(name="inbox", method="GET", path="/inbox", right="read", handle=inbox, query=_bodies.Asked,
         gives=schemas.object_of({"questions": schemas.list_of(schemas.INBOX_ITEM)}),
         summary="List the open questions of all threads of the graph, oldest first."),
    Verb(name="schedules", method="GET", path="/schedules", right="read", handle=list_schedules,
         gives=schemas.object_of({"schedules": schemas.list_of(schemas.SCHEDULE)}),
         summary="List the schedules of the graph."),
    Verb(name="add_schedule", method="PUT", path="/schedules/{name}", right="operate", handle=add_schedule,
         body=_bodies.NewSchedule, gives=schemas.SCHEDULE,
         summary="Start a thread at each time that a cron expression names."),
    Verb(name="remove_schedule", method="DELETE", path="/schedules/{name}", right="operate", handle=remove_schedule,
         gives=schemas.object_of({"name": schemas.TEXT}), summary="Delete a schedule."),
)  # fmt: skip
"""All verbs below a graph."""
