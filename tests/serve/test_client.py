"""`Client` has the verbs of `Runtime`: each returns and raises the same as the runtime, sync and async."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from pydantic import BaseModel, Field, computed_field
from tests.ports import Port

from graphrt import END, START, ConflictError, GraphBuilder, InputError, Runtime, StoreError
from graphrt.errors import RunFailedError, WaitTimeoutError
from graphrt.harness import Image, Message, UserMessage
from graphrt.reducers import messages, untracked
from graphrt.serve import Client, RemoteEntry, RemoteLiveItem, _client

from .conftest import Paper, papers

GRAPH = papers()


class Sync:
    """Calls the sync verbs."""

    def __init__(self, client: Client[Paper]) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def follow(self, thread: str, **options: Any) -> list[Any]:
        return list(self.client.follow(thread, **options))


class Async:
    """Calls the async twins, each in a new event loop."""

    def __init__(self, client: Client[Paper]) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        twin = getattr(self.client, "await_" if name == "wait" else f"a{name}")

        async def call(*args: Any, **options: Any) -> Any:
            try:
                return await twin(*args, **options)
            finally:
                await self.client.aclose()

        return lambda *args, **options: asyncio.run(call(*args, **options))

    def follow(self, thread: str, **options: Any) -> list[Any]:
        async def read() -> list[Any]:
            try:
                return [one async for one in self.client.afollow(thread, **options)]
            finally:
                await self.client.aclose()

        return asyncio.run(read())


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def client(request, served):
    with Client(served.url, GRAPH) as made:
        yield request.param(made)


def test_run_pauses_is_answered_and_completes(client):
    paused = client.run({"topic": "tea"}, thread="t", title="Tea", tags=["a"])
    done = client.resume("t", answer=True)

    assert (paused.status, paused.values, paused.title) == ("interrupted", Paper(topic="tea", notes=["on tea"]), "Tea")
    assert [(one.payload, one.answer_schema) for one in paused.interrupts] == [({"notes": 1}, {"type": "boolean"})]
    assert (done.status, done.values.approved, done.output) == ("completed", True, done.values)
    assert client.state("t") == done
    assert client.run(Paper(topic="milk"), thread="t").values.notes == ["on tea", "on milk"]


def test_run_is_answered_by_id_and_started_without_waiting(client):
    thread = client.start({"topic": "tea"}, key="k")
    paused = client.wait(thread, timeout_s=10)

    assert client.start({"topic": "tea"}, key="k") == thread
    assert client.start(thread=thread, answers={paused.interrupts[0].id: False}) == thread
    assert client.wait(thread).values.approved is False


def test_threads_and_questions_are_listed(client):
    for name in ("one", "two"):
        client.run({"topic": "tea"}, thread=name, tags={name, "tea"})
    client.label("one", title="Best", remove_tags=["tea"])

    assert [one.thread for one in client.threads(tags=["tea"])] == ["two"]
    assert [(one.thread, one.title) for one in client.threads(newest_first=True, limit=5)] == [
        ("two", None),
        ("one", "Best"),
    ]
    assert [(one.thread, one.kind) for one in client.inbox(node="approve")] == [
        ("one", "question"),
        ("two", "question"),
    ]


def test_thread_is_edited_forked_cancelled_and_deleted(client):
    client.run({"topic": "tea"}, thread="t")
    edited = client.update("t", {"notes": ["mine"]}, key="e")
    client.update("t", {"notes": ["mine"]}, key="e")
    copy = client.fork("t", at=client.history("t", limit=1)[0].seq)

    assert edited.values.notes == ["on tea", "mine"]
    assert client.cancel(copy) is True
    assert client.retry(copy).status == "interrupted"
    client.update(copy, {"approved": True}, as_node="approve", goto=END)
    assert client.wait(copy).values.approved is True
    client.delete_thread(copy)
    assert [one.thread for one in client.threads()] == ["t"]


def test_signal_is_sent_once_for_each_id(client):
    client.start({"topic": "far"}, thread="t")

    assert (client.signal("t", "go", 7, id="s"), client.signal("t", "go", 7, id="s")) == (True, False)
    with pytest.raises(InputError) as refused:
        client.signal("t", "go", 8, id="s")
    assert refused.value.code == "key-reused"
    assert client.wait("t").values.notes == ["7"]


def test_journal_is_read_and_followed(client):
    client.run({"topic": "tea"}, thread="t")

    entries = client.entries("t")
    followed = client.follow("t")
    steps = client.steps_of("t")

    assert followed == list(entries)
    assert [one.seq for one in entries] == [*range(1, len(entries) + 1)]
    assert client.follow("t", after=entries[-2].seq, live=False) == [entries[-1]]
    assert [one["node"] for one in steps] == ["search", "approve"]


@pytest.mark.needs("cronsim")
def test_schedules_are_added_listed_and_removed(served):
    with Client(served.url, GRAPH) as client:
        made = client.schedules.add("daily", "0 9 * * *", {"topic": "tea"}, tags=["a"])

        assert client.schedules.list() == (made,)
        assert (made.name, made.input, made.tags) == ("daily", {"topic": "tea"}, ("a",))
        client.schedules.remove("daily")
        assert asyncio.run(_once(client.schedules.alist, client)) == ()


async def _once(call, client):
    try:
        return await call()
    finally:
        await client.aclose()


# -- errors --------------------------------------------------------------------------------------------------------


def test_errors_equal_those_of_the_runtime(client):
    client.run({"topic": "tea"}, thread="t")

    def code(call) -> str:
        with pytest.raises(InputError) as raised:
            call()
        assert raised.value.fix
        return raised.value.code

    assert code(lambda: client.state("none")) == "unknown-thread"
    assert code(lambda: client.run({"colour": 1})) == "unknown-key"
    assert code(lambda: client.run({"topic": "x"}, thread="t")) == "wrong-verb"
    assert code(lambda: client.resume("t", answer="perhaps")) == "bad-answer"
    assert code(client.start) == "input-or-answers"
    assert code(lambda: client.follow("none")) == "unknown-thread"
    with pytest.raises(RunFailedError, match="ValueError"):
        client.run({"topic": "bad"})


def test_wait_ends_at_its_timeout(serve):
    with Client(serve(drives=False).url, GRAPH) as client:
        thread = client.start({"topic": "tea"})

        with pytest.raises(WaitTimeoutError):
            client.wait(thread, timeout_s=0.1)


def test_conflict_is_raised_as_a_conflict(serve):
    with Runtime(GRAPH, store="memory:") as runtime, Client(serve(runtime, drives=False).url, GRAPH) as client:
        thread = client.start({"topic": "tea"})
        claim = runtime.store.claim(thread, create=False, lease_s=30, at=0.0)

        with pytest.raises(ConflictError):
            client.update(thread, {"notes": ["x"]})
        runtime.store.release(claim)


def test_unavailable_or_foreign_server_is_a_store_error(running):
    port = Port()

    async def page(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    for url in (f"http://127.0.0.1:{port.number}", running(page)):
        with Client(url, "papers") as client, pytest.raises(StoreError) as raised:
            client.signal("t", "go")
        assert raised.value.code == "server-unreachable"


class Breaking(httpx.BaseTransport):
    """A network that delivers requests and loses the first responses."""

    def __init__(self, losses: int) -> None:
        self._inner = httpx.HTTPTransport()
        self._losses = losses

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._inner.handle_request(request)
        if self._losses and request.method == "POST":
            self._losses -= 1
            answer.read()
            raise httpx.ReadError("the answer is lost")
        return answer

    def close(self) -> None:
        self._inner.close()


def test_write_with_a_key_is_retried_when_its_response_is_lost_and_one_without_is_not(served):
    thread = served.paused()
    with Client(served.url, GRAPH, transport=Breaking(1)) as client:
        kept = client.update(thread, {"notes": ["mine"]}, key="k")
    with Client(served.url, GRAPH, transport=Breaking(1)) as client, pytest.raises(StoreError):
        client.update(thread, {"notes": ["again"]})

    assert kept.values.notes == ["on tea", "mine"]
    assert served("GET", f"/threads/{thread}").json()["state"]["notes"] == ["on tea", "mine", "again"]


@pytest.mark.parametrize("twin", [Sync, Async])
def test_write_waits_while_another_process_has_its_key(monkeypatch, twin):
    """The record of a key outlives its process, and blocks the retry for a minute."""
    monkeypatch.setattr(_client, "_IN_PROGRESS_PAUSE_S", 0.0)
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["idempotency-key"])
        if len(asked) <= 6:
            return httpx.Response(409, json={"code": "key-in-progress", "status": 409})
        return httpx.Response(202, json={"thread": "t", "kept": True})

    transport: Any = httpx.MockTransport(answer)
    with Client("http://server", "papers", transport=transport, async_transport=transport) as client:
        twin(client).signal("t", "go", key="k")
        assert asked == ["k"] * 7

        asked.clear()
        monkeypatch.setattr(_client, "_IN_PROGRESS_S", 0.0)
        with pytest.raises(InputError) as raised:
            twin(client).signal("t", "go", key="k")
        assert raised.value.code == "key-in-progress"


def test_follower_continues_when_its_server_is_replaced(serve):
    """Two replicas behind one address, of which the first one stops while it is followed."""
    with Runtime(GRAPH, store="memory:") as runtime:
        first, second = serve(runtime, drives=False), serve(Runtime(GRAPH, store=runtime.store), drives=False)

        class Balancer(httpx.HTTPTransport):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                if first.application.draining:
                    request.url = request.url.copy_with(port=httpx.URL(second.url).port)
                return super().handle_request(request)

        with Client(first.url, GRAPH, transport=Balancer()) as client:
            thread = client.start({"topic": "tea"})
            found: list[RemoteEntry | RemoteLiveItem] = []
            for one in client.follow(thread, live=False):
                found.append(one)
                if len(found) == 2:
                    first.application.drain()
                    threading.Thread(target=runtime.drive, args=[thread]).start()

            entries = client.entries(thread)
    assert found == list(entries)
    assert entries[-1].event == "run-interrupted"


# -- its signatures ------------------------------------------------------------------------------------------------


def test_async_verbs_may_be_called_on_several_event_loops(served):
    client = Client(served.url, GRAPH)

    async def threads() -> Any:
        return await client.athreads()

    with asyncio.Runner() as one, asyncio.Runner() as other:
        found = [runner.run(threads()) for runner in (one, other, one)]
        for runner in (one, other):
            runner.run(client.aclose())

    assert len(found) == 3


def test_each_verb_has_an_async_twin_with_the_same_signature():
    verbs = {name for name, value in vars(Client).items() if inspect.isfunction(value) and not name.startswith("_")}
    sync = {name for name in verbs if f"a{name}" in verbs} | {"wait"}

    assert verbs - sync - {f"a{name}" for name in sync} == {"await_"}
    for name in sync - {"close"}:
        twin = getattr(Client, "await_" if name == "wait" else f"a{name}")
        assert list(inspect.signature(twin).parameters.values()) == list(
            inspect.signature(getattr(Client, name)).parameters.values()
        )


def test_client_has_the_verbs_of_the_runtime():
    verbs = {name for name, value in vars(Client).items() if inspect.isfunction(value) and not name.startswith("_")}

    assert verbs - set(dir(Runtime)) == {"aclose"}


class Album(BaseModel):
    messages: Annotated[list[Message], messages] = []
    name: bytes = b""


def test_media_and_bytes_arrive_unchanged(serve):
    g: Any = GraphBuilder(Album, name="album")
    g.add_node("look", lambda state: {})
    g.add_edge(START, "look")
    graph = g.compile()
    message = UserMessage(content=["What is this?", Image.from_bytes(b"\x89PNG\r\n\x1a\n")])

    with Runtime(graph, store="memory:") as runtime, Client(serve(runtime).url, graph) as client:
        client.run({"messages": [message], "name": b"cat"}, thread="t")
        stored = runtime.state("t").values

        assert (stored.messages[0].parts, stored.name) == (message.parts, b"cat")


class Reading(BaseModel):
    raw: bytes = b""
    count: int = Field(0, alias="Count")
    unit: str = Field("", serialization_alias="Unit")
    anything: Any = None

    @computed_field
    @property
    def twice(self) -> int:
        return 2 * self.count


class Keys(TypedDict, total=False):
    raw: bytes
    anything: Any


@dataclass
class Parts:
    raw: bytes = b""
    anything: Any = None
    lock: Annotated[Any, untracked] = field(default_factory=threading.Lock, repr=False)


@pytest.mark.parametrize("state", [Reading, Keys, Parts])
def test_states_equal_those_of_the_runtime(serve, state):
    """JSON lacks bytes, tuples and infinities, and knows one of the names of a field only."""
    g: Any = GraphBuilder(state, name="readings")
    g.add_node("read", lambda state: {"raw": b"\xff\x00", "anything": [(1, math.inf), {b"\xfe"}]})
    g.add_edge(START, "read")
    graph = g.compile()

    with Runtime(graph, store="memory:") as runtime, Client(serve(runtime).url, graph) as client:
        ended = client.run({}, thread="t").values
        past = client.history("t")[-1].values
        stored = runtime.state("t").values

    assert repr(ended) == repr(stored)
    assert (type(ended), type(past)) == (type(stored), type(stored))


def test_model_is_an_input_with_all_its_fields_whatever_their_aliases(serve):
    g: Any = GraphBuilder(Reading, name="readings")
    g.add_node("read", lambda state: None)
    g.add_edge(START, "read")
    graph = g.compile()

    with Runtime(graph, store="memory:") as runtime, Client(serve(runtime).url, graph) as client:
        ended = client.run(Reading(raw=b"cat", Count=41, unit="m"), thread="t").values

    assert (ended.raw, ended.count, ended.unit) == (b"cat", 41, "m")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda client: client.start({"topic": "x"}, tags="vip"), "bad-label"),
        (lambda client: client.start({"topic": "x"}, title=object()), "input"),
        (lambda client: client.label("t", add_tags="vip"), "bad-label"),
        (lambda client: client.threads(tags="vip"), "bad-label"),
        (lambda client: client.state(".."), "bad-thread"),
        (lambda client: client.state("t/entries"), "bad-thread"),
        (lambda client: client.history(5), "bad-thread"),
        (lambda client: client.delete_thread(""), "bad-thread"),
        (lambda client: client.start({"topic": "x"}, thread="a b"), "bad-thread"),
        (lambda client: client.wait("t", timeout_s="5"), "input"),
        (lambda client: client.wait("t", timeout_s=-1), "input"),
        (lambda client: client.start({"topic": "x"}, key="\xe9"), "input"),
        (lambda client: client.resume("t", answer=True, key=5), "input"),
    ],
)
def test_wrong_argument_is_refused_before_anything_is_sent(served, client, call, code):
    served.paused(thread="t", tags=["a"])
    before = client.threads()

    with pytest.raises(InputError) as caught:
        call(client)

    assert (caught.value.code, client.threads()) == (code, before)


@pytest.mark.parametrize("options", [{"token": "\xe9"}, {"headers": {"x-user": 5}}, {"timeout_s": -1}])
def test_client_refuses_options_that_no_request_can_have(options):
    with pytest.raises(InputError):
        Client("http://127.0.0.1:9", GRAPH, **options)


@pytest.mark.parametrize("value", [object(), {"nested": [lambda: None]}, "\ud800", b"\xff", math.nan])
def test_value_that_json_lacks_is_not_sent(client, value):
    with pytest.raises(InputError, match="sent to the server") as caught:
        client.start({"topic": value})

    assert caught.value.code == "input"
    assert not client.threads()
