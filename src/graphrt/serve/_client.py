"""`Client`: the verbs of `Runtime`, on a `graphrt.serve` server. The only module that imports httpx.

The steps of a verb are written once, as a flow: a generator that yields requests and is sent their documents. The sync
verb and its async twin differ only in how the requests are sent.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Generic, TypeAlias, TypeVar, Unpack, cast, final, overload
from urllib.parse import quote
from weakref import WeakKeyDictionary

import httpx
import typing_extensions as te
from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_jsonable_python

from graphrt.commands import UNSET
from graphrt.errors import ConflictError, GraphrtError, InputError, StoreError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.serving import BAD_SERVER_ANSWER, KEY_IN_PROGRESS, SERVER_UNREACHABLE
from graphrt.errors._codes.threads import INPUT_OR_ANSWERS, NOT_ENDED_YET, RUN_FAILED_ELSEWHERE
from graphrt.graph import CompiledGraph
from graphrt.harness.media import Audio, Document, Image
from graphrt.runtime import Schedule
from graphrt.serve._client_values import (
    QuestionsWanted,
    RemoteEntry,
    RemoteLiveItem,
    RemoteQuestion,
    RemoteState,
    RemoteThread,
    ScheduleOptions,
    StartOptions,
    ThreadsWanted,
    header_of,
    question_of,
    seconds_of,
    state_of,
    tags_of,
    thread_of,
)
from graphrt.stores.ids import check_id

S = te.TypeVar("S", default=dict[str, Any])
T = TypeVar("T")

_WAIT_S: Final = 25.0
"""Seconds for which one request waits for the end of a run: less than proxies wait for an answer."""
_TRIES: Final = 4
"""Maximum number of tries for a repeatable request, and of consecutive attempts to reopen a stream."""
_PAUSE_S: Final = 0.2
"""Seconds before the second try; twice as many before each further one."""
_IN_PROGRESS_S: Final = 90.0
_IN_PROGRESS_PAUSE_S: Final = 1.0
"""Seconds for which a request is repeated while another process handles its key, and seconds between two tries."""
_CONFLICTS: Final = frozenset({"conflict", "lost-lease"})


class ClientOptions(te.TypedDict, total=False):
    """Options of a `Client`, which documents them."""

    token: str | None
    headers: Mapping[str, str] | None
    timeout_s: float
    transport: httpx.BaseTransport | None
    async_transport: httpx.AsyncBaseTransport | None


class _Request:
    """A request of a flow. It may be repeated if it only reads, or has a key."""

    __slots__ = ("body", "key", "method", "path", "query")

    def __init__(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.body = body
        self.query = {name: value for name, value in (query or {}).items() if value is not None}
        self.key = None if key is None else header_of("key=", key)

    @property
    def tries(self) -> int:
        """Maximum number of tries."""
        return _TRIES if self.method == "GET" or self.key is not None else 1

    @property
    def headers(self) -> dict[str, str]:
        """Its own headers."""
        return {} if self.key is None else {"idempotency-key": self.key}


Flow: TypeAlias = Generator[_Request, Any, T]
"""The steps of a verb: yields requests, receives the status and document of each, and returns the result."""


@final
class Client(Generic[S]):
    """The threads of one graph on a server, with the verbs of `Runtime` and their async twins.

    Args:
        url: Address of the server, with the path that the application is mounted at.
        graph: The graph, or its name. With a graph, states are those of `Runtime`; with a name, dicts of JSON data.
        token: Sent as `Authorization: Bearer TOKEN`.
        headers: More headers, such as other credentials.
        timeout_s: Seconds for an answer of the server, in addition to the time that it is asked to wait for a run.
        transport: Replaces the network, for tests; *async_transport* does so for the async verbs.

    Writes take *key*, an idempotency key: the write takes effect once, and is repeated if its answer was lost.
    """

    @overload
    def __init__(self, url: str, graph: CompiledGraph[S, Any, Any], **options: Unpack[ClientOptions]) -> None: ...
    @overload
    def __init__(self: Client[dict[str, Any]], url: str, graph: str, **options: Unpack[ClientOptions]) -> None: ...
    def __init__(
        self,
        url: str,
        graph: CompiledGraph[Any, Any, Any] | str,
        **options: Unpack[ClientOptions],
    ) -> None:
        token = options.get("token")
        name = graph if isinstance(graph, str) else graph.name
        self._url: Final = f"{url.rstrip('/')}/graphs/{quote(name)}"
        self._graph: Final = None if isinstance(graph, str) else graph
        self._shown: Final = {} if isinstance(graph, str) else {"stored": "true"}
        """Query of the requests whose documents have states. JSON lacks much of Python, and the stored form nothing."""
        self._headers: Final = {
            **({} if token is None else {"authorization": f"Bearer {header_of('token=', token)}"}),
            **{name: header_of("A header", value) for name, value in (options.get("headers") or {}).items()},
        }
        self._verify: Final = not url.startswith("http://")  # a TLS context costs 30 ms, and plain HTTP needs none
        self._timeout_s: Final = seconds_of("timeout_s=", options.get("timeout_s", 30.0), "seconds from 0")
        self._transport: Final = options.get("transport")
        self._async_transport: Final = options.get("async_transport")
        self._http: httpx.Client | None = None
        self._ahttp: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]()
        """Connections of the async verbs by event loop, because no other loop can use them."""
        self.schedules: Final = RemoteSchedules(self)
        """The schedules of the graph."""

    # -- runs ------------------------------------------------------------------------------------------------------

    def run(self, input: Any, *, thread: str | None = None, **options: Unpack[StartOptions]) -> RemoteState[S]:
        """Start a run, and wait until it has ended: completed, interrupted or cancelled; see `Runtime.run`.

        Raises:
            RunFailedError: The run failed.
            InputError: The server refused the input, or the caller.
        """
        return self._drive(self._run(self._start(input, thread, UNSET, UNSET, options)))

    async def arun(self, input: Any, *, thread: str | None = None, **options: Unpack[StartOptions]) -> RemoteState[S]:
        """Start a run, and wait until it has ended; see `run`."""
        return await self._adrive(self._run(self._start(input, thread, UNSET, UNSET, options)))

    def resume(
        self, thread: str, answers: Any = UNSET, *, answer: Any = UNSET, key: str | None = None
    ) -> RemoteState[S]:
        """Answer the open questions of a thread, and wait until its run has ended; see `Runtime.resume`."""
        return self._drive(self._run(self._answer(thread, answers, answer, key)))

    async def aresume(
        self, thread: str, answers: Any = UNSET, *, answer: Any = UNSET, key: str | None = None
    ) -> RemoteState[S]:
        """Answer the open questions of a thread; see `resume`."""
        return await self._adrive(self._run(self._answer(thread, answers, answer, key)))

    def retry(self, thread: str, *, key: str | None = None) -> RemoteState[S]:
        """Continue a failed or cancelled thread, and wait until its run has ended; see `Runtime.retry`."""
        return self._drive(self._run(self._retry(thread, key)))

    async def aretry(self, thread: str, *, key: str | None = None) -> RemoteState[S]:
        """Continue a failed or cancelled thread; see `retry`."""
        return await self._adrive(self._run(self._retry(thread, key)))

    def start(
        self,
        input: Any = UNSET,
        *,
        thread: str | None = None,
        answers: Any = UNSET,
        answer: Any = UNSET,
        **options: Unpack[StartOptions],
    ) -> str:
        """Begin or continue a run, and return the id of its thread at once; see `Runtime.start`."""
        return self._drive(self._start(input, thread, answers, answer, options))

    async def astart(
        self,
        input: Any = UNSET,
        *,
        thread: str | None = None,
        answers: Any = UNSET,
        answer: Any = UNSET,
        **options: Unpack[StartOptions],
    ) -> str:
        """Begin or continue a run; see `start`."""
        return await self._adrive(self._start(input, thread, answers, answer, options))

    def wait(self, thread: str, *, timeout_s: float | None = None) -> RemoteState[S]:
        """Wait until the run of the thread has ended; see `Runtime.wait`.

        Raises:
            RunFailedError: The run failed.
            WaitTimeoutError: *timeout_s* is over. The run continues.
        """
        return self._drive(self._wait(thread, timeout_s))

    async def await_(self, thread: str, *, timeout_s: float | None = None) -> RemoteState[S]:
        """Wait until the run of the thread has ended; see `wait`."""
        return await self._adrive(self._wait(thread, timeout_s))

    def cancel(self, thread: str) -> bool:
        """Cancel the run of a thread, or a paused thread; see `Runtime.cancel`."""
        return self._drive(self._field("cancelled", bool, _Request("POST", f"{_at(thread)}/cancel")))

    async def acancel(self, thread: str) -> bool:
        """Cancel the run of a thread; see `cancel`."""
        return await self._adrive(self._field("cancelled", bool, _Request("POST", f"{_at(thread)}/cancel")))

    def signal(
        self, thread: str, name: str, value: Any = None, *, id: str | None = None, key: str | None = None
    ) -> bool:
        """Send a signal to a thread, and return whether it is kept; see `Runtime.signal`."""
        return self._drive(self._field("kept", bool, _signal(thread, name, value, id, key)))

    async def asignal(
        self, thread: str, name: str, value: Any = None, *, id: str | None = None, key: str | None = None
    ) -> bool:
        """Send a signal to a thread; see `signal`."""
        return await self._adrive(self._field("kept", bool, _signal(thread, name, value, id, key)))

    # -- inspecting ----------------------------------------------------------------------------------------------------

    def state(self, thread: str, *, at: int | None = None) -> RemoteState[S]:
        """Return the thread in its present state, or in its state after the entry *at*; see `Runtime.state`."""
        return self._drive(self._state(thread, at))

    async def astate(self, thread: str, *, at: int | None = None) -> RemoteState[S]:
        """Return the thread in its present state; see `state`."""
        return await self._adrive(self._state(thread, at))

    def history(self, thread: str, *, limit: int = 20, before: int | None = None) -> tuple[RemoteState[S], ...]:
        """Return past states of the thread, newest first; see `Runtime.history`."""
        return self._drive(self._history(thread, limit, before))

    async def ahistory(self, thread: str, *, limit: int = 20, before: int | None = None) -> tuple[RemoteState[S], ...]:
        """Return past states of the thread; see `history`."""
        return await self._adrive(self._history(thread, limit, before))

    def steps_of(self, thread: str, *, after: int = 0, limit: int = 100) -> tuple[dict[str, Any], ...]:
        """Return steps of the thread, oldest first, in the form of `Step.to_dict`; see `Runtime.steps_of`."""
        return self._drive(self._page("steps", dict, f"{_at(thread)}/steps", {"after": after, "limit": limit}))

    async def asteps_of(self, thread: str, *, after: int = 0, limit: int = 100) -> tuple[dict[str, Any], ...]:
        """Return steps of the thread; see `steps_of`."""
        return await self._adrive(self._page("steps", dict, f"{_at(thread)}/steps", {"after": after, "limit": limit}))

    def entries(self, thread: str, *, after: int = 0, limit: int = 100) -> tuple[RemoteEntry, ...]:
        """Return entries of the journal, oldest first; see `Runtime.entries`."""
        query = {"after": after, "limit": limit}
        return self._drive(self._page("entries", RemoteEntry, f"{_at(thread)}/entries", query))

    async def aentries(self, thread: str, *, after: int = 0, limit: int = 100) -> tuple[RemoteEntry, ...]:
        """Return entries of the journal; see `entries`."""
        query = {"after": after, "limit": limit}
        return await self._adrive(self._page("entries", RemoteEntry, f"{_at(thread)}/entries", query))

    def follow(
        self, thread: str, *, after: int | str = 0, live: bool | None = None
    ) -> Iterator[RemoteEntry | RemoteLiveItem]:
        """Iterate over the entries of a thread as they are stored, until its run has ended; see `Runtime.follow`.

        A connection that breaks is opened again, and the iteration continues after the last entry or live item.

        Args:
            thread: The thread.
            after: Where to continue: the `seq` of an entry, the `position` of a live item, or 0 for the beginning.
            live: Whether live items come between the entries; None: if the server's store can.
        """
        reader = _EventReader(after)
        while not reader.over:
            try:
                with self._sync.stream("GET", **self._events(thread, reader, live)) as response:
                    if response.status_code != 200:
                        response.read()
                        self._opened(response, reader)
                    else:
                        for line in response.iter_lines():
                            if (item := reader.feed(line)) is not None:
                                yield item
            except httpx.TransportError as error:
                reader.broke(self._url, error)
            if not reader.over:
                time.sleep(reader.pause_s())

    async def afollow(
        self, thread: str, *, after: int | str = 0, live: bool | None = None
    ) -> AsyncIterator[RemoteEntry | RemoteLiveItem]:
        """Iterate over the entries of a thread as they are stored; see `follow`."""
        reader = _EventReader(after)
        while not reader.over:
            try:
                async with self._async.stream("GET", **self._events(thread, reader, live)) as response:
                    if response.status_code != 200:
                        await response.aread()
                        self._opened(response, reader)
                    else:
                        async for line in response.aiter_lines():
                            if (item := reader.feed(line)) is not None:
                                yield item
            except httpx.TransportError as error:
                reader.broke(self._url, error)
            if not reader.over:
                await asyncio.sleep(reader.pause_s())

    def threads(self, **which: Unpack[ThreadsWanted]) -> tuple[RemoteThread, ...]:
        """List threads of the graph, in order of creation; see `Runtime.threads`. The default limit is 100."""
        return self._drive(self._page("threads", thread_of, "/threads", _renamed(which)))

    async def athreads(self, **which: Unpack[ThreadsWanted]) -> tuple[RemoteThread, ...]:
        """List threads of the graph; see `threads`."""
        return await self._adrive(self._page("threads", thread_of, "/threads", _renamed(which)))

    def inbox(self, **which: Unpack[QuestionsWanted]) -> tuple[RemoteQuestion, ...]:
        """List the open questions of all threads of the graph, the oldest first; see `Runtime.inbox`."""
        return self._drive(self._page("questions", question_of, "/inbox", _renamed(which)))

    async def ainbox(self, **which: Unpack[QuestionsWanted]) -> tuple[RemoteQuestion, ...]:
        """List the open questions of all threads; see `inbox`."""
        return await self._adrive(self._page("questions", question_of, "/inbox", _renamed(which)))

    # -- editing ---------------------------------------------------------------------------------------------------

    def update(
        self,
        thread: str,
        values: Any = None,
        *,
        as_node: str | None = None,
        goto: Any = None,
        key: str | None = None,
    ) -> RemoteState[S]:
        """Fold *values* into the state of a thread, and return it; see `Runtime.update`."""
        return self._drive(self._update(thread, values, as_node, goto, key))

    async def aupdate(
        self,
        thread: str,
        values: Any = None,
        *,
        as_node: str | None = None,
        goto: Any = None,
        key: str | None = None,
    ) -> RemoteState[S]:
        """Fold *values* into the state of a thread; see `update`."""
        return await self._adrive(self._update(thread, values, as_node, goto, key))

    def fork(
        self,
        thread: str,
        *,
        at: int | None = None,
        to: str | None = None,
        keep_effects: bool = False,
        key: str | None = None,
    ) -> str:
        """Create a thread from an entry of another thread, and return its id; see `Runtime.fork`."""
        return self._drive(self._field("thread", str, _fork(thread, at, to, keep_effects, key)))

    async def afork(
        self,
        thread: str,
        *,
        at: int | None = None,
        to: str | None = None,
        keep_effects: bool = False,
        key: str | None = None,
    ) -> str:
        """Create a thread from an entry of another thread; see `fork`."""
        return await self._adrive(self._field("thread", str, _fork(thread, at, to, keep_effects, key)))

    def label(
        self,
        thread: str,
        *,
        title: str | None = UNSET,
        add_tags: Any = UNSET,
        remove_tags: Any = UNSET,
        priority: int = UNSET,
    ) -> None:
        """Change title, tags and priority of a thread; see `Runtime.label`."""
        self._drive(self._field("thread", str, _label(thread, title, add_tags, remove_tags, priority)))

    async def alabel(
        self,
        thread: str,
        *,
        title: str | None = UNSET,
        add_tags: Any = UNSET,
        remove_tags: Any = UNSET,
        priority: int = UNSET,
    ) -> None:
        """Change title, tags and priority of a thread; see `label`."""
        await self._adrive(self._field("thread", str, _label(thread, title, add_tags, remove_tags, priority)))

    def delete_thread(self, thread: str) -> None:
        """Delete a thread; see `Runtime.delete_thread`."""
        self._drive(self._field("thread", str, _Request("DELETE", _at(thread))))

    async def adelete_thread(self, thread: str) -> None:
        """Delete a thread; see `delete_thread`."""
        await self._adrive(self._field("thread", str, _Request("DELETE", _at(thread))))

    # -- flows -----------------------------------------------------------------------------------------------------

    def _start(self, input: Any, thread: str | None, answers: Any, answer: Any, options: StartOptions) -> Flow[str]:
        """Begin or continue a run, as `Runtime.start` does."""
        body: dict[str, Any] = dict(options)
        key = body.pop("key", None)
        if input is UNSET:
            if thread is None:
                raise INPUT_OR_ANSWERS(problem="There is neither an input nor a thread.")
            has_answers = answers is not UNSET or answer is not UNSET
            return (yield from self._answer(thread, answers, answer, key) if has_answers else self._retry(thread, key))
        if "tags" in body:
            body["tags"] = tags_of("tags", body["tags"])
        body = {**_plain(body), "input": _fields(input)}
        path = "/threads" if thread is None else f"{_at(thread)}/runs"
        return (yield from self._field("thread", str, _Request("POST", path, body=body, key=key)))

    def _answer(self, thread: str, answers: Any, answer: Any, key: str | None) -> Flow[str]:
        """Answer questions: a mapping is of ids to answers, and anything else is the only answer."""
        if answers is UNSET and answer is UNSET:
            return (yield from self._retry(thread, key))
        by_id = answer is UNSET and isinstance(answers, Mapping)
        body = {"answers": _plain(answers)} if by_id else {"answer": _plain(answers if answer is UNSET else answer)}
        return (yield from self._field("thread", str, _Request("POST", f"{_at(thread)}/answers", body=body, key=key)))

    def _retry(self, thread: str, key: str | None) -> Flow[str]:
        return (yield from self._field("thread", str, _Request("POST", f"{_at(thread)}/retry", key=key)))

    def _run(self, begin: Flow[str]) -> Flow[RemoteState[S]]:
        """Wait for the end of the run that *begin* begins."""
        thread = yield from begin
        return (yield from self._wait(thread, None))

    def _wait(self, thread: str, timeout_s: float | None) -> Flow[RemoteState[S]]:
        wanted = "seconds from 0, such as timeout_s=30, or None to wait without a limit"
        until = None if timeout_s is None else time.monotonic() + seconds_of("timeout_s=", timeout_s, wanted)
        while True:
            wait_s = _WAIT_S if until is None else max(0.0, min(_WAIT_S, until - time.monotonic()))
            status, document = yield _Request("GET", f"{_at(thread)}/result", query={"wait_s": wait_s, **self._shown})
            if status == 200:
                break
            if until is not None and time.monotonic() >= until:
                driver = "the server does not say who drives it"
                raise NOT_ENDED_YET(thread=thread, timeout_s=timeout_s, seq=document["seq"], driver=driver)
        if document["status"] == "failed":
            error, _, message = (document["error"] or "an error").partition(": ")
            message = message.rstrip(".")
            raise RUN_FAILED_ELSEWHERE(
                thread=thread, error=error, message=message, node=None, seq=document["seq"], done=""
            )
        return self._made(document)

    def _state(self, thread: str, at: int | None) -> Flow[RemoteState[S]]:
        _, document = yield _Request("GET", _at(thread), query={"at": at, **self._shown})
        return self._made(document)

    def _history(self, thread: str, limit: int, before: int | None) -> Flow[tuple[RemoteState[S], ...]]:
        query = {"limit": limit, "before": before, **self._shown}
        return (yield from self._page("history", self._made, f"{_at(thread)}/history", query))

    def _update(
        self, thread: str, values: Any, as_node: str | None, goto: Any, key: str | None
    ) -> Flow[RemoteState[S]]:
        targets: Any = goto
        names: Any = [_name(target) for target in targets] if isinstance(goto, list | tuple) else _name(goto)
        body = {**_plain({"as_node": as_node, "goto": names}), "values": _fields(values)}
        yield _Request("POST", f"{_at(thread)}/update", body=body, key=key)
        return (yield from self._state(thread, None))

    def _field(self, name: str, _kind: type[T], request: _Request) -> Flow[T]:
        """Send *request*, and return one member of the resulting document, whose type is known."""
        _, document = yield request
        value: T = document[name]
        return value

    def _page(self, name: str, make: Callable[[Any], T], path: str, query: Mapping[str, Any]) -> Flow[tuple[T, ...]]:
        """Return the items of a listing."""
        _, document = yield _Request("GET", path, query=query)
        return tuple(make(item) for item in document[name])

    def _made(self, document: Any) -> RemoteState[S]:
        """Return a state from its document; its values are an instance of the state class, if that is known."""
        values: Any = (
            document["state"] if self._graph is None else self._graph.__graphrt_load_state__(document["stored"])
        )
        return state_of(document, values)

    # -- sending ---------------------------------------------------------------------------------------------------

    def _drive(self, flow: Flow[T]) -> T:
        """Send the requests of a flow, and return its result."""
        try:
            request = next(flow)
            while True:
                request = flow.send(self._send(request))
        except StopIteration as end:
            return cast("T", end.value)

    async def _adrive(self, flow: Flow[T]) -> T:
        """Send the requests of a flow on the running event loop; see `_drive`."""
        try:
            request = next(flow)
            while True:
                request = flow.send(await self._asend(request))
        except StopIteration as end:
            return cast("T", end.value)

    def _send(self, request: _Request) -> tuple[int, Any]:
        sending = _Sending(self._url, request)
        while True:
            try:
                return self._read(self._sync.request(request.method, **self._parts(request)))
            except (httpx.TransportError, InputError) as error:
                time.sleep(sending.pause_s(error))

    async def _asend(self, request: _Request) -> tuple[int, Any]:
        sending = _Sending(self._url, request)
        while True:
            try:
                return self._read(await self._async.request(request.method, **self._parts(request)))
            except (httpx.TransportError, InputError) as error:
                await asyncio.sleep(sending.pause_s(error))

    def _parts(self, request: _Request) -> dict[str, Any]:
        wait_s = request.query.get("wait_s", 0.0)
        return {
            "url": f"{self._url}{request.path}",
            "params": request.query,
            "headers": request.headers,
            "timeout": self._timeout_s + wait_s,
            **({} if request.body is None else {"json": request.body}),
        }

    def _events(self, thread: str, reader: _EventReader, live: bool | None) -> dict[str, Any]:  # noqa: FBT001 - passed on
        """Return the request of an event stream that continues where *reader* is."""
        query = {} if live is None else {"live": str(live).lower()}
        headers = {"last-event-id": str(reader.position)}
        return {"url": f"{self._url}{_at(thread)}/events", "params": query, "headers": headers, "timeout": 60.0}

    def _opened(self, response: httpx.Response, reader: _EventReader) -> None:
        """Handle a response that is not a stream: the stream is over, the server is stopping, or the request is wrong."""
        if response.status_code == 204:
            reader.over = True
        elif response.status_code in (429, 502, 503, 504):
            reader.broke(self._url, RuntimeError(f"status {response.status_code}"))
        else:
            self._read(response)

    def _read(self, response: httpx.Response) -> tuple[int, Any]:
        """Return status and document of a response.

        Raises:
            GraphrtError: The response is a problem, raised as `Runtime` would have raised it; or it is not from a graphrt
                server.
        """
        try:
            document: Any = response.json()
        except ValueError:
            document = None
        if document.__class__ is not dict or (response.status_code >= 400 and "code" not in document):
            raise BAD_SERVER_ANSWER(url=self._url, status_code=response.status_code)
        if response.status_code >= 400:
            raise _raised(document)
        return response.status_code, document

    @property
    def _sync(self) -> httpx.Client:
        if self._http is None:
            self._http = httpx.Client(headers=self._headers, transport=self._transport, verify=self._verify)
        return self._http

    @property
    def _async(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._ahttp.get(loop)
        if client is None:
            client = httpx.AsyncClient(headers=self._headers, transport=self._async_transport, verify=self._verify)
            self._ahttp[loop] = client
        return client

    def close(self) -> None:
        """Close the connections of the sync verbs."""
        if self._http is not None:
            self._http.close()
            self._http = None

    async def aclose(self) -> None:
        """Close the connections of the sync verbs, and those of the async ones on this event loop."""
        self.close()
        client = self._ahttp.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def __enter__(self) -> te.Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> te.Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"Client({self._url!r})"


@final
class RemoteSchedules:
    """The schedules of a graph on a server, as `Runtime.schedules`: `Client.schedules`."""

    __slots__ = ("_client",)

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    def add(self, name: str, cron: str, input: Any, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Start a thread with *input* at each time that *cron* names; see `Schedules.add`."""
        return self._client._drive(_add_schedule(name, cron, input, options))

    async def aadd(self, name: str, cron: str, input: Any, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Start a thread at each time that *cron* names; see `add`."""
        return await self._client._adrive(_add_schedule(name, cron, input, options))

    def list(self) -> tuple[Schedule, ...]:
        """Return the schedules of the graph."""
        return self._client._drive(self._client._page("schedules", _schedule, "/schedules", {}))

    async def alist(self) -> tuple[Schedule, ...]:
        """Return the schedules of the graph; see `list`."""
        return await self._client._adrive(self._client._page("schedules", _schedule, "/schedules", {}))

    def remove(self, name: str) -> None:
        """Delete a schedule. Threads that it started continue."""
        self._client._drive(self._client._field("name", str, _Request("DELETE", _schedule_at(name))))

    async def aremove(self, name: str) -> None:
        """Delete a schedule; see `remove`."""
        await self._client._adrive(self._client._field("name", str, _Request("DELETE", _schedule_at(name))))


class _Sending:
    """Decides whether a request is repeated."""

    def __init__(self, url: str, request: _Request) -> None:
        self._url = url
        self._tries = request.tries
        self._failures = 0
        self._until = time.monotonic() + _IN_PROGRESS_S

    def pause_s(self, error: httpx.TransportError | InputError) -> float:
        """Return the seconds to wait before the request is repeated after *error*.

        Raises:
            InputError: *error* itself, if a repetition would not help. StoreError: The server cannot be reached
            (`server-unreachable`).
        """
        if isinstance(error, InputError):
            # The record of a key outlives its process by a minute.
            if error.code != KEY_IN_PROGRESS.code or time.monotonic() > self._until:
                raise error
            self._failures = 0
            return _IN_PROGRESS_PAUSE_S
        self._failures += 1
        if self._failures >= self._tries:
            raise SERVER_UNREACHABLE(url=self._url, error=error) from error
        return _PAUSE_S * 2.0 ** (self._failures - 1)


@final
class _EventReader:
    """Reads the lines of an event stream, over any number of connections."""

    def __init__(self, after: int | str) -> None:
        self.position = after
        """The position of the last entry or live item."""
        self.over = False
        self._event = ""
        self._data = ""
        self._failures = 0

    def feed(self, line: str) -> RemoteEntry | RemoteLiveItem | None:
        """Process a line, and return the item that it completes.

        Raises:
            GraphrtError: The server reports that the stream broke.
        """
        if line:
            name, _, value = line.partition(": ")
            if name == "event":
                self._event = value
            elif name == "data":
                self._data = value
            return None
        event, data, self._event, self._data = self._event, self._data, "", ""
        if not event:
            return None  # after a comment
        document: Any = json.loads(data)
        self._failures = 0
        match event:
            case "entry":
                entry = RemoteEntry(document)
                self.position = entry.seq
                return entry
            case "live":
                names = ("mode", "item", "seq", "task_id", "position", "missed")
                item = RemoteLiveItem(**{name: document[name] for name in names})
                self.position = item.position or self.position
                return item
            case "problem":
                raise _raised(document)
            case "end":
                self.over = True
            case _:  # of a newer server
                pass
        return None

    def broke(self, url: str, error: Exception) -> None:
        """Record that a connection broke, or was refused temporarily.

        Raises:
            StoreError: That happened too many times in a row.
        """
        self._event = self._data = ""
        self._failures += 1
        if self._failures >= _TRIES:
            raise SERVER_UNREACHABLE(url=url, error=error) from error

    def pause_s(self) -> float:
        """Return how many seconds to wait before the next connection."""
        return _PAUSE_S * 2.0 ** max(0, self._failures - 1)


# -- requests ------------------------------------------------------------------------------------------------------


def _at(thread: str) -> str:
    """Return the path of a thread."""
    return f"/threads/{quote(check_id(thread), safe='@:+=~')}"


def _schedule_at(name: str) -> str:
    """Return the path of a schedule."""
    return f"/schedules/{quote(check_id(name))}"


def _signal(thread: str, name: str, value: Any, id: str | None, key: str | None) -> _Request:
    body = _plain({"name": name, "value": value, "id": id})
    return _Request("POST", f"{_at(thread)}/signals", body=body, key=key)


def _fork(thread: str, at: int | None, to: str | None, keep_effects: bool, key: str | None) -> _Request:  # noqa: FBT001 - passed on
    body = _plain({"at": at, "to": to, "keep_effects": keep_effects})
    return _Request("POST", f"{_at(thread)}/fork", body=body, key=key)


def _label(thread: str, title: Any, add_tags: Any, remove_tags: Any, priority: Any) -> _Request:
    labels = {"title": title, "add_tags": add_tags, "remove_tags": remove_tags, "priority": priority}
    changed = {name: value for name, value in labels.items() if value is not UNSET}
    body = {name: tags_of(name, value) if "tags" in name else value for name, value in changed.items()}
    return _Request("PATCH", _at(thread), body=_plain(body))


def _add_schedule(name: str, cron: str, input: Any, options: ScheduleOptions) -> Flow[Schedule]:
    fields: dict[str, Any] = dict(options)
    if "tags" in fields:
        fields["tags"] = tags_of("tags", fields["tags"])
    body = {**_plain({"cron": cron, **fields}), "input": _fields(input)}
    _, document = yield _Request("PUT", _schedule_at(name), body=body)
    return _schedule(document)


def _schedule(document: Any) -> Schedule:
    names = ("name", "graph", "cron", "timezone", "input", "missed", "title", "due_at")
    return Schedule(**{name: document[name] for name in names}, tags=tuple(document["tags"]))


def _renamed(which: Mapping[str, Any]) -> dict[str, Any]:
    """Return filters as query parameters."""
    query = {name: str(value).lower() if isinstance(value, bool) else value for name, value in which.items()}
    if "tags" in query:
        query["tag"] = tags_of("tags", query.pop("tags"))
    return query


def _name(target: Any) -> Any:
    """Return a target of `goto` in the server's form."""
    return getattr(target, "value", target)


def _not_sent(value: Any) -> InputError:
    """Return the error for a *value* that JSON cannot hold."""
    wanted = "what JSON can hold, or a model or dataclass"
    return INVALID_ARGUMENT(argument="A value that is sent to the server", value=value, wanted=wanted)


def _plain(value: Any) -> Any:
    """Return a value as JSON data: of a model or dataclass, its fields; of media, their bytes; of bytes, their text.

    Raises:
        InputError: It has something that JSON lacks.
    """
    try:
        data = to_jsonable_python(value, fallback=_media)
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()  # as httpx does, which only raises a ValueError
        return data
    except ValueError as error:  # a lone surrogate, bytes that are not UTF-8, a reference cycle, a number such as NaN
        raise _not_sent(value) from error


def _fields(value: Any) -> Any:
    """Return an input or an update as `_plain` does; of a model, its fields under their own names.

    A field may be written under one alias and read under another, and nothing reads a computed field.
    """
    data: Any = _plain(value)
    if not isinstance(value, BaseModel) or data.__class__ is not dict:
        return data
    cls = type(value)
    names = {info.serialization_alias or name: name for name, info in cls.model_fields.items()}
    computed = {info.alias or name for name, info in cls.model_computed_fields.items()}
    return {names.get(key, key): item for key, item in data.items() if key not in computed}


def _media(value: Any) -> Any:
    """Return media as data that validates as them again; pydantic asks for all values that JSON lacks."""
    if isinstance(value, Image | Audio | Document):
        return TypeAdapter(type(value)).dump_python(value, mode="json")
    raise _not_sent(value)


def _raised(problem: Mapping[str, Any]) -> GraphrtError:
    """Return the error described by a problem document, in the class that `Runtime` would have raised."""
    code, status = str(problem["code"]), int(problem.get("status", 500))
    kind: type[GraphrtError] = InputError if status < 500 or status == 501 else StoreError
    if code in _CONFLICTS:
        kind = ConflictError
    details: dict[str, Any] = {"fix": problem.get("fix", ""), "thread": problem.get("thread"), "status_code": status}
    return kind(str(problem.get("detail", code)), code=code, **details)
