"""`app`: the server as an ASGI application. The only module that imports starlette.

A request passes the bounds and `authorize`; then its verb runs on a worker thread of the application:

    headers ──> authorize ──> right ──> query, body ──> thread of the graph ──> key ──> handler ──> document

Nothing depends on the ASGI lifespan, so a program that mounts the application need not run it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from contextvars import copy_context
from functools import partial
from hashlib import sha256
from inspect import isawaitable
from itertools import takewhile
from typing import Any, Final, TypeVar, cast, final

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from graphrt._arguments import mistake
from graphrt.errors import GraphrtError, InputError, RunFailedError, WaitTimeoutError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.serving import (
    BAD_REQUEST_PART,
    BODY_TOO_SLOW,
    FORBIDDEN,
    REQUEST_TOO_LARGE,
    SERVER_STOPPING,
    TOO_MANY_REQUESTS,
    TOO_MANY_WAITS,
    UNAUTHENTICATED,
    UNKNOWN_PATH,
)
from graphrt.errors._codes.threads import THREAD_WITHOUT_STORE, UNKNOWN_THREAD
from graphrt.errors._page import sections
from graphrt.runtime import Runtime
from graphrt.serve import _chat_page
from graphrt.serve._access import Authorize, Caller, Right, check_origin, checked_origins
from graphrt.serve._bodies import POSITION, Following, Part, Turns, Waiting, json_of
from graphrt.serve._bounds import Bounds, OpenRequests, RunningThreads
from graphrt.serve._chat import (
    ChatForm,
    ChatProtocol,
    UiMessageChat,
    begin_of_run,
    begin_of_turn,
    decided,
    page_of_messages,
    title_of,
)
from graphrt.serve._events import OVER, EventStream, Form, JournalForm, OpenStreams
from graphrt.serve._keys import Keys
from graphrt.serve._openapi import document
from graphrt.serve._problems import MEDIA_TYPE, problem, retry_after_s, status_of
from graphrt.serve._verbs import VERBS, Call, Reply, Verb, check_free, present, state_document
from graphrt.stores import TenantStore, ThreadFilter
from graphrt.wires.chat_events import Seen
from graphrt.wires.conversation import goes_on

T = TypeVar("T")

log: Final = logging.getLogger("graphrt.serve")

_WORKER_THREADS: Final = 16
"""Worker threads for store calls. Commits that wait for the disk at the same time share a sync."""
_TENANTS: Final = 1_000
"""Maximum number of tenants whose runtimes are cached."""
_CHECKED_S: Final = 2.0
"""Seconds after which the response begins if there was no item and no error yet: a thread may sleep for days."""
_READY_S: Final = 1.0
"""Seconds for which a result of the store's readiness check is reused."""
_ALLOWED_HEADERS: Final = ("authorization", "content-type", "idempotency-key", "last-event-id")
_OF_CHATS: Final = {verb.name: verb for verb in VERBS if verb.name in ("run", "answer", "retry")}
"""The verbs behind chat messages."""
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


def app(
    runtimes: Runtime[Any, Any] | Iterable[Runtime[Any, Any]],
    *,
    authorize: Authorize,
    cors: Sequence[str] = (),
    mounts: Mapping[str, ASGIApp | ChatProtocol] | None = None,
    bounds: Bounds | None = None,
    ready: Sequence[Callable[[], bool]] = (),
) -> Application:
    """Return an ASGI application that serves the threads of *runtimes* over HTTP. It mounts anywhere.

    It drives no threads; a `Worker` does, in this process or another.

    Args:
        runtimes: A runtime, or several with graphs of different names. Each needs a store.
        authorize: A function of the request, sync or async, that returns the `Caller`, or None for a request without
            valid credentials. `authorize=anyone` lets every request do everything.
        cors: Origins of pages that may call the application from a browser, such as "https://app.example"; "*" for all.
            By default, the list is empty.
        mounts: Further endpoints by path. A `UiMessageChat` is a chat for `useChat`, and an `AgUiAgent` an agent for
            AG-UI front ends. An ASGI application, such as `graphrt.viewer.app(...)`, gets the requests of callers with
            the right to read, with the `Caller` as `scope["graphrt.caller"]` and complete bodies. Paths in its
            attribute `public_paths` (below the mount, such as "/") are served without credentials and without a caller,
            so that a browser can load a page. WebSockets are refused.
        bounds: Limits of the application and of each caller.
        ready: More conditions of readiness, such as `lambda: worker.health().ok`.

    Raises:
        InputError: A runtime has no store, two have graphs of one name, or another argument is wrong.
    """
    return Application(
        checked_runtimes(runtimes),
        authorize=authorize,
        cors=checked_origins(cors),
        mounts=dict(mounts or {}),
        bounds=bounds or Bounds(),
        ready=tuple(ready),
    )


def checked_runtimes(runtimes: Any) -> dict[str, Runtime[Any, Any]]:
    """Return the runtimes by graph name."""
    items: list[Any] = [runtimes] if hasattr(runtimes, "graph") else list(runtimes)
    by_name: dict[str, Runtime[Any, Any]] = {}
    for item in items:
        if not isinstance(item, Runtime):
            raise INVALID_ARGUMENT(argument="runtimes", value=item, wanted="a Runtime, or several")
        runtime: Runtime[Any, Any] = cast("Any", item)
        name = runtime.graph.name
        if runtime.store is None:
            raise THREAD_WITHOUT_STORE(what="a server needs one")
        if name in by_name:
            raise INVALID_ARGUMENT(argument="runtimes", value=name, wanted="runtimes whose graphs have different names")
        by_name[name] = runtime
    if not by_name:
        raise INVALID_ARGUMENT(argument="runtimes", value=(), wanted="a Runtime, or several")
    return by_name


@final
class Application:
    """The ASGI application that `app` returns."""

    def __init__(
        self,
        runtimes: dict[str, Runtime[Any, Any]],
        *,
        authorize: Authorize,
        cors: tuple[str, ...],
        mounts: dict[str, ASGIApp | ChatProtocol],
        bounds: Bounds,
        ready: tuple[Callable[[], bool], ...],
    ) -> None:
        function: Any = authorize
        if not callable(function):
            raise INVALID_ARGUMENT(argument="authorize=", value=function, wanted="a function of the request")
        self._runtimes: Final = runtimes
        self._authorize: Final = authorize
        self._cors: Final = cors
        self._bounds: Final = bounds
        self._ready: Final = ready
        self._pool: Final = ThreadPoolExecutor(_WORKER_THREADS, thread_name_prefix="graphrt-serve")
        self._keys: Final = {name: Keys(runtime) for name, runtime in runtimes.items()}
        self._tenants: Final[OrderedDict[tuple[str, str], tuple[Runtime[Any, Any], Keys]]] = OrderedDict()
        self._running: Final = RunningThreads(bounds)
        self._open: Final = OpenRequests(bounds.streams, bounds.streams_per_caller, TOO_MANY_REQUESTS)
        self._waits: Final = OpenRequests(bounds.waits, bounds.waits_per_caller, TOO_MANY_WAITS)
        self._streams: Final = OpenStreams(bounds)
        self._draining = False
        self._readiness: tuple[float, asyncio.Future[bool]] | None = None
        """Event-loop time of the last check of the store, and its result."""
        middleware = [
            Middleware(CORSMiddleware, allow_origins=cors, allow_methods=_METHODS, allow_headers=_ALLOWED_HEADERS)
        ]
        self._routes: Final[ASGIApp] = Starlette(
            routes=self._table(mounts),
            middleware=middleware if cors else [],
            exception_handlers={
                HTTPException: self._unrouted,
                ClientDisconnect: self._left,
                GraphrtError: self._failed,
                Exception: self._failed,
            },
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            root = scope.get("root_path", "")
            size = sum(len(name) + len(value) for name, value in scope["headers"])
            if size > self._bounds.header_bytes:
                error = REQUEST_TOO_LARGE(part="header", limit=f"{self._bounds.header_bytes} bytes")
                await _problem(error, root, 431)(scope, receive, send)
                return
            try:
                check_origin(scope["method"], Headers(scope=scope), self._cors)
            except InputError as error:
                await _problem(error, root)(scope, receive, send)
                return
        await self._routes(scope, receive, send)

    @property
    def draining(self) -> bool:
        """Whether the server is about to stop: `/ready` fails, and no event stream begins."""
        return self._draining

    def drain(self) -> None:
        """End the open event streams, and begin no more; clients reconnect to another replica. Thread-safe."""
        self._draining = True
        for stream in self._streams:
            stream.stop()

    def openapi(self, root: str = "") -> dict[str, Any]:
        """Return the OpenAPI document, for an application that is mounted at *root*."""
        return document([runtime.graph for runtime in self._runtimes.values()], root)

    # -- routes ----------------------------------------------------------------------------------------------------

    def _table(self, mounts: dict[str, ASGIApp | ChatProtocol]) -> list[Any]:
        """Return the routes of the verbs, the few other routes, and the mounted ones."""
        paths: dict[str, dict[str, Verb]] = {}
        for verb in VERBS:
            paths.setdefault(f"/graphs/{{graph}}{verb.path}", {})[verb.method] = verb
        return [
            Route("/health", self._health),
            Route("/ready", self._is_ready),
            Route("/problems/{code}", self._explain),
            Route("/openapi.json", self._describe),
            Route("/graphs", self._graphs),
            *[
                Route(path, partial(self._serve, verbs), methods=[*verbs])
                for path, verbs in paths.items()
            ],
            *[route for path, inner in mounts.items() for route in self._mounted(path, inner)],
        ]  # fmt: skip

    def _mounted(self, path: str, inner: ASGIApp | ChatProtocol) -> list[Any]:
        """Return the routes mounted at *path*."""
        if not isinstance(inner, ChatProtocol):
            return [Mount(path, _Guarded(self, inner))]
        if inner.graph not in self._runtimes:
            known = ", ".join(self._runtimes)
            raise INVALID_ARGUMENT(argument="The graph of a chat", value=inner.graph, wanted=f"one of {known}")
        routes = [
            Route(path, partial(self._chat, inner), methods=["POST"]),
            Route(f"{path}/{{thread}}/stream", partial(self._chat_again, inner)),
        ]
        if not isinstance(inner, UiMessageChat):
            return routes
        routes.append(Route(f"{path}/{{thread}}/messages", partial(self._chat_messages, inner)))
        if not inner.page:
            return routes

        async def page(request: Request) -> Response:
            root = request.scope.get("root_path", "")
            text = _chat_page.document(inner.graph, root=root, path=path, bounds=self._bounds)
            return Response(text, 200, _chat_page.HEADERS, "text/html")

        async def asset(request: Request) -> Response:
            name = request.path_params["name"]
            if name not in _chat_page.ASSETS:
                raise UNKNOWN_PATH(path=repr(request.url.path))
            return Response(_chat_page.asset(name), 200, _chat_page.HEADERS, _chat_page.ASSETS[name])

        return [Route(f"{path}/page/{{name}}", asset), Route(path, page), *routes]

    async def _health(self, _request: Request) -> Response:
        return _json({"status": "ok"})

    async def _is_ready(self, _request: Request) -> Response:
        """Answer whether the replica can work. It needs no credentials, so all callers share one check of the store."""
        loop = asyncio.get_running_loop()
        last_check = self._readiness
        if last_check is None or last_check[1].get_loop() is not loop or last_check[0] + _READY_S < loop.time():
            if last_check is not None and last_check[1].get_loop() is loop and not last_check[1].done():
                last_check = loop.time(), last_check[1]  # the store is slow: do not start a second check meanwhile
            else:
                last_check = loop.time(), loop.create_task(self._look())
            self._readiness = last_check
        ok = not self._draining and await asyncio.shield(last_check[1])
        return _json({"status": "ready" if ok else "not ready"}, 200 if ok else 503)

    async def _look(self) -> bool:
        """Return whether the stores answer and the other readiness checks pass."""

        def look() -> bool:
            for runtime in self._runtimes.values():
                if runtime.store is not None:
                    runtime.store.query(ThreadFilter(), limit=1)
            return all(check() for check in self._ready)

        try:
            return await self._aside(look)
        except Exception as error:  # noqa: BLE001 - whatever is wrong, this replica cannot work now
            log.warning("Not ready: %s", type(error).__name__)
            return False

    async def _explain(self, request: Request) -> Response:
        section = sections().get(request.path_params["code"])
        if section is None:
            raise UNKNOWN_PATH(path=f"code {request.path_params['code']!r}")
        return Response(f"# {request.path_params['code']}\n\n{section}\n", media_type="text/markdown")

    async def _describe(self, request: Request) -> Response:
        await self.admit(request, "read")
        return _json(self.openapi(request.scope.get("root_path", "")))

    async def _graphs(self, request: Request) -> Response:
        await self.admit(request, "read")
        graphs = [{"graph": name, "version": runtime.graph.version} for name, runtime in self._runtimes.items()]
        return _json({"graphs": graphs})

    async def _unrouted(self, request: Request, error: Exception) -> Response:
        """Answer a request for which there is no route."""
        refusal = cast("HTTPException", error)
        path = repr(request.url.path)
        problem = UNKNOWN_PATH(path=f"{request.method} {path}")
        response = _problem(problem, request.scope.get("root_path", ""), refusal.status_code)
        response.headers.update(refusal.headers or {})  # `Allow`, which RFC 9110 requires with the status 405
        return response

    async def _failed(self, request: Request, error: Exception) -> Response:
        """Answer a request that raised."""
        if isinstance(error, GraphrtError) and status_of(error) >= 500:  # the server logs all others
            log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        response = _problem(error, request.scope.get("root_path", ""))
        # Any other error reaches the server, which then closes the connection. The rest of a refused body keeps
        # arriving.
        is_last = not isinstance(error, GraphrtError) or error.code == REQUEST_TOO_LARGE.code
        if is_last and request.scope.get("http_version") == "1.1":
            response.headers["connection"] = "close"
        return response

    async def _left(self, _request: Request, _error: Exception) -> Response:
        """End a request whose client has disconnected: the response has no reader."""
        return Response(status_code=400)

    # -- a request -------------------------------------------------------------------------------------------------

    async def admit(self, request: Request, right: Right) -> Caller:
        """Return the caller of the request.

        Raises:
            InputError: It has no valid credentials (`unauthenticated`), or the caller lacks *right* (`forbidden`).
        """
        caller = await self._who(request)
        _check_right(caller, right)
        return caller

    async def _who(self, request: Request) -> Caller:
        """Return the sender of the request, with any rights."""
        try:
            result: Any = self._authorize(request)
            caller: Any = await result if isawaitable(result) else result
        except InputError as error:
            if error.code in (UNAUTHENTICATED.code, FORBIDDEN.code):
                raise
            # A mistake in that function, such as an unknown right, not in the request.
            raise RuntimeError("authorize= raised an InputError") from error
        except HTTPException as error:  # as a dependency of FastAPI raises it
            if error.status_code == 401:
                raise UNAUTHENTICATED() from None
            if error.status_code == 403:
                raise FORBIDDEN(right="make this request") from None
            raise RuntimeError("authorize= raised an HTTPException") from error
        if caller is None:
            raise UNAUTHENTICATED()
        if not isinstance(caller, Caller):
            raise TypeError(f"authorize= returned a {type(caller).__name__} instead of a Caller, or None")
        return caller

    async def _serve(self, verbs: Mapping[str, Verb], request: Request) -> ASGIApp:
        """Answer a request to a verb of a graph."""
        verb = verbs["GET" if request.method == "HEAD" else request.method]
        caller = await self.admit(request, verb.right)
        name = request.path_params["graph"]
        if name not in self._runtimes:
            raise UNKNOWN_PATH(path=f"graph {name!r}")
        query = _checked(verb.query, "query", _query_of(request, verb.query))
        raw = b"" if verb.body is None else await self._json_body(request, self._bounds.body_bytes)
        body = None if verb.body is None else _checked(verb.body, "body", _parsed(raw))
        runtime, keys = self._of(name, caller)
        call = Call(
            runtime=runtime,
            caller=caller,
            thread=request.path_params.get("thread", ""),
            name=request.path_params.get("name", ""),
            query=query,
            body=body,
            key=request.headers.get("idempotency-key") if verb.keyed else None,
        )
        if verb.handle is None:
            return await self._events(call, request)
        call.digest = sha256(b"\0".join((verb.name.encode(), request.url.path.encode(), raw))).hexdigest()
        waits = verb.waits and query.wait_s > 0
        # Counted before the write, so that a refused request has no effect.
        with self._waits.held(caller) if waits else nullcontext():
            reply = await self._aside(lambda: self._handled(call, verb, keys))
            if waits:
                reply = await self._ended(call, query, reply)
        if not waits and verb.name == "result" and reply.data["status"] != "running":
            reply = Reply(await self._aside(lambda: state_document(runtime, call.thread, stored=query.stored)))
        where = f"{request.scope.get('root_path', '')}/graphs/{name}{reply.location}" if reply.location else ""
        return _json(reply.data, reply.status, {"location": where} if where and reply.status > 200 else {})

    def _of(self, name: str, caller: Caller) -> tuple[Runtime[Any, Any], Keys]:
        """Return the runtime of a graph on behalf of the caller, and the idempotency keys of its store."""
        runtime, keys = self._runtimes[name], self._keys[name]
        if caller.tenant is not None:
            cached = self._tenants.get((name, caller.tenant))
            if cached is None:
                store: Any = runtime.store
                tenant_runtime = runtime.with_store(TenantStore(store, caller.tenant))
                cached = tenant_runtime, Keys(tenant_runtime)
                self._tenants[name, caller.tenant] = cached
                if len(self._tenants) > _TENANTS:
                    self._tenants.popitem(last=False)
            self._tenants.move_to_end((name, caller.tenant))
            runtime, keys = cached
        return (runtime.as_user(caller.user) if caller.user else runtime), keys

    def _handled(self, call: Call, verb: Verb, keys: Keys) -> Reply:
        """Call the handler, once for each idempotency key. Runs on a worker thread."""
        assert verb.handle is not None  # noqa: S101 - event streams do not come here
        if call.thread and not verb.makes_thread:
            call.head()
        new_thread: str | None = getattr(call.body, verb.makes) if verb.makes else None
        if call.key is None or (verb.keyed != "record" and new_thread is None):
            self._count(call, verb)
            return verb.handle(call)
        record = cast("str", call.derived(verb.name))
        thread = call.thread if new_thread is None else new_thread
        acting = keys.begin(record, call.digest, call.position(thread), waits=partial(call.has_input, thread))
        if acting is None:
            return present(call, thread)
        try:
            self._count(call, verb)
            reply = verb.handle(call)
        except GraphrtError as error:
            if status_of(error) < 500:  # the request changed nothing
                keys.forget(acting)
            raise
        keys.end(record)
        return reply

    def _count(self, call: Call, verb: Verb) -> None:
        """Count the run that the call may begin.

        Raises:
            InputError: Too many threads are running (`too-many-requests`).
        """
        if verb.begins:
            store = self._runtimes[call.graph].store
            assert store is not None  # noqa: S101 - the server has refused a runtime without one
            self._running.enter(store, call.runtime, call.caller)

    async def _ended(self, call: Call, query: Waiting, reply: Reply) -> Reply:
        """Wait for the end of the run, and return the thread; *reply* if the run is still in progress."""
        thread = reply.data["thread"]
        try:
            await call.runtime.await_(thread, timeout_s=min(query.wait_s, self._bounds.wait_s))
        except WaitTimeoutError:
            return reply
        except RunFailedError:  # the document describes the failure
            pass
        return Reply(await self._aside(lambda: state_document(call.runtime, thread, stored=query.stored)))

    async def _events(self, call: Call, request: Request) -> ASGIApp:
        """Return the event stream of a thread.

        Raises:
            InputError: There is no such thread or position, or the caller has too many streams.
        """
        query: Following = call.query
        last = request.headers.get("last-event-id")
        if last is not None and re.fullmatch(POSITION, last) is None:
            raise BAD_REQUEST_PART(part="header Last-Event-ID", problem="it is not the id of an event of this stream")
        await self._aside(call.head)

        async def end() -> Any:
            head = await self._aside(call.head)
            return {"thread": call.thread, "status": head.status, "seq": head.seq}

        after = query.after if last is None else last
        with self.slot(call.caller) as slot:
            return await self._follow(call, slot, JournalForm(end), after, query.live, had=last is not None)

    def slot(self, caller: Caller) -> ExitStack:
        """Count one more stream of the caller, until the stack is closed.

        Raises:
            InputError: The caller has too many (`too-many-requests`).
        """
        slot = ExitStack()
        slot.enter_context(self._open.held(caller))
        return slot

    async def _follow(
        self,
        call: Call,
        slot: ExitStack,
        form: Form,
        after: int | str,
        live: bool | None,  # noqa: FBT001 - passed on
        *,
        had: bool,
    ) -> ASGIApp:
        """Return a stream of the thread in a *form*.

        Args:
            call: Supplies the runtime, the caller and the thread.
            slot: The stream's place in the count, owned by the stream from here on.
            form: How items are written.
            after: The position to begin at, as for `Runtime.follow`.
            live: Whether to read live items; None if the store supports it.
            had: Whether the client had a stream before. If so, it is notified if nothing more will come.

        Raises:
            InputError: There is no such position.
        """
        if self._draining:
            raise SERVER_STOPPING()
        if live is None:
            live = "live" in call.store.offers
        items = call.runtime.afollow(call.thread, after=after, live=live)
        first: asyncio.Future[Any] = asyncio.ensure_future(cast("Any", anext(items, OVER)))

        counted = slot.pop_all()

        def closed(stream: EventStream) -> None:
            self._streams.discard(stream)
            counted.close()

        stream = EventStream(items, first, form=form, bounds=self._bounds, closed=closed)
        self._streams.add(stream)
        try:
            await asyncio.wait([first], timeout=_CHECKED_S)
            # A browser reconnects to a stream that ended, unless it gets 204.
            if first.done() and first.result() is OVER and had:
                await stream.close()
                return Response(status_code=204)
        except BaseException:
            await stream.close()
            raise
        return cast("ASGIApp", stream)

    # -- chats -----------------------------------------------------------------------------------------------------

    async def _chat(self, chat: ChatProtocol, request: Request) -> ASGIApp:
        """Accept a message to a chat, and stream the run that it begins or continues. Repetitions count once."""
        if self._draining:
            raise SERVER_STOPPING()
        caller = await self._who(request)
        body = await self._json_body(request, self._bounds.chat_body_bytes)
        turn = await self._aside(lambda: chat.turn_of(body))
        self._bounds.check_files(turn.files)
        may = partial(_check_right, caller)
        may(_OF_CHATS[turn.verb or "run"].right)
        runtime, keys = self._of(chat.graph, caller)
        call = Call(runtime=runtime, caller=caller, thread=turn.thread)

        def perform() -> tuple[int, int]:
            """Perform the request, and return the start of the turn and the position that the client has."""
            if turn.verb == "run":
                check_free(call, call.thread)
            else:
                call.head()
            remaining = decided(turn, runtime, may)
            if remaining.verb:
                verb = _OF_CHATS[remaining.verb]
                may(verb.right)
                fields: dict[str, Any] = {}
                if remaining.answers:
                    fields["answers"] = remaining.answers
                elif remaining.verb == "run":
                    fields["input"] = chat.input_of(remaining.request)
                if remaining.abandons:
                    fields["if_exists"] = "abandon"
                call.body = verb.body and cast("Any", verb.body).model_construct(_fields_set=set(fields), **fields)
                call.key = sha256(json.dumps(remaining.key).encode()).hexdigest() if remaining.key else None
                if (title := title_of(remaining)) and call.position(call.thread) == 0:
                    call.body.title = title
                call.digest = sha256(json.dumps(turn.answers or turn.request).encode()).hexdigest()
                self._handled(call, verb, keys)
            begin = begin_of_turn(runtime, call.thread, call.store.head(call.thread).seq)
            return begin, begin if remaining.whole else begin_of_run(runtime, call.thread, begin)

        with self.slot(caller) as slot:  # counted before the write, so that a refused request has no effect
            begin, at = await self._aside(perform)
            return await self._chat_stream(chat, call, slot, begin, at - 1, turn.seen)

    async def _chat_again(self, chat: ChatProtocol, request: Request) -> ASGIApp:
        """Stream the turn in progress from its beginning, if any; or the whole thread, if the protocol supports it."""
        caller = await self.admit(request, "read")
        runtime, _ = self._of(chat.graph, caller)
        call = Call(runtime=runtime, caller=caller, thread=request.path_params["thread"])
        try:
            head = await self._aside(call.head)
        except InputError as error:
            if error.code != UNKNOWN_THREAD.code:
                raise
            return Response(status_code=204)  # the page of a new chat also requests it
        if not chat.replays and not await self._aside(lambda: goes_on(runtime.state(call.thread))):
            return Response(status_code=204)
        with self.slot(caller) as slot:
            begin = 1 if chat.replays else await self._aside(lambda: begin_of_turn(runtime, call.thread, head.seq))
            return await self._chat_stream(chat, call, slot, begin, begin - 1)

    async def _chat_messages(self, chat: UiMessageChat, request: Request) -> Response:
        """Answer with the messages of a chat: those of the last turns, or of the turns before an earlier page."""
        caller = await self.admit(request, "read")
        query: Turns = _checked(Turns, "query", _query_of(request, Turns))
        runtime, _ = self._of(chat.graph, caller)
        call = Call(runtime=runtime, caller=caller, thread=request.path_params["thread"])

        def read() -> Any:
            try:
                seq = call.head().seq
            except InputError as error:
                if error.code != UNKNOWN_THREAD.code:
                    raise
                return {"id": call.thread, "messages": [], "before": None}  # the page of a new chat also requests it
            return page_of_messages(runtime, call.thread, min(query.before or seq + 1, seq + 1), query.limit)

        return _json(await self._aside(read))

    async def _chat_stream(
        self, chat: ChatProtocol, call: Call, slot: ExitStack, begin: int, after: int, seen: Seen | None = None
    ) -> ASGIApp:
        """Return the stream of the turn that begins at an entry, without the part that the client has."""

        def known() -> ChatForm:
            entries = call.runtime.entries(call.thread, after=begin - 1) if after >= begin else ()
            projection = chat.projection(call.runtime, call.caller, call.thread)
            entries = takewhile(lambda entry: entry.seq <= after, entries)
            is_whole_turn = after < begin and not chat.replays
            retried_at = begin_of_run(call.runtime, call.thread, begin) if is_whole_turn else 0
            return ChatForm(chat, projection, entries, seen or Seen(), retried_at=retried_at, aside=self._aside)

        return await self._follow(call, slot, await self._aside(known), after, None, had=False)

    async def _json_body(self, request: Request, max_bytes: int) -> bytes:
        """Return the body, which must have the type JSON or be empty; raises as `body`."""
        body = await self.body(request, max_bytes)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != "application/json":
            raise BAD_REQUEST_PART(part="header Content-Type", problem="it is not application/json")
        return body

    async def body(self, request: Request, most: int | None = None) -> bytes:
        """Return the body, of at most *most* bytes, by default as many as the bounds allow.

        Raises:
            InputError: It is too long or too slow (`request-too-large`).
        """
        most = self._bounds.body_bytes if most is None else most
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            raise REQUEST_TOO_LARGE(part="body", limit=f"{most} bytes")

        async def read() -> bytes:
            content = bytearray()
            async for piece in request.stream():
                content += piece
                if len(content) > most:
                    raise REQUEST_TOO_LARGE(part="body", limit=f"{most} bytes")
            return bytes(content)

        try:
            return await asyncio.wait_for(read(), self._bounds.body_s)
        except TimeoutError:
            raise BODY_TOO_SLOW(most=self._bounds.body_s) from None

    async def _aside(self, call: Callable[[], T]) -> T:
        """Return the result of *call*, made on a worker thread of the application."""
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(call))


@final
class _Guarded:
    """A mounted application. It gets the requests of callers who may read; each counts as an open stream."""

    def __init__(self, server: Application, inner: ASGIApp) -> None:
        self._server = server
        self._inner = inner
        self._public: Final = frozenset(getattr(inner, "public_paths", ()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # `authorize` accepts only HTTP requests
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        if scope["path"].removeprefix(scope["root_path"]) in self._public and request.method in ("GET", "HEAD"):
            await self._inner(scope, receive, send)
            return
        caller = await self._server.admit(request, "read")
        with self._server.slot(caller):
            body = await self._server.body(request)
            unread = [{"type": "http.request", "body": body, "more_body": False}]

            async def rest() -> Any:
                return unread.pop() if unread else await receive()

            await self._inner({**scope, "graphrt.caller": caller}, rest, send)


def _check_right(caller: Caller, right: Right) -> None:
    if right not in caller.rights:
        raise FORBIDDEN(right=right)


def _query_of(request: Request, model: type[Part]) -> dict[str, Any]:
    """Return the query parameters: those that may be repeated as lists, the others by their last value."""
    params = request.query_params
    repeatable = {name for name, field in model.model_fields.items() if field.annotation == list[str]}
    return {name: params.getlist(name) if name in repeatable else params[name] for name in params}


def _parsed(raw: bytes) -> Any:
    """Return the JSON value of a body; an empty object without one."""
    try:
        return json_of(raw) if raw else {}
    except ValueError as error:
        raise BAD_REQUEST_PART(part="body", problem=f"it is not JSON ({error})") from None


def _checked(model: type[Part], part: str, data: Any) -> Any:
    """Return *data* as the model.

    Raises:
        InputError: It does not fit (`bad-request-part`).
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        text = mistake(first["msg"])
        raise BAD_REQUEST_PART(part=part, problem=f"{place}: {text}" if place else text) from None


def _json(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response in ASCII, which can also carry texts that are not valid in UTF-8."""
    body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, "application/json")


def _problem(error: BaseException, root: str, status: int | None = None) -> Response:
    """Return the response for *error*."""
    data = problem(error, root)
    if status is not None:
        data["status"] = status
    headers = {"cache-control": "no-store"}
    if data["status"] == 401:
        headers["www-authenticate"] = "Bearer"
    if (after := retry_after_s(error)) is not None:
        headers["retry-after"] = str(after)
    return Response(json.dumps(data).encode(), data["status"], headers, MEDIA_TYPE)
