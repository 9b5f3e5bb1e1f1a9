"""`app`: the viewer as an ASGI application. The only module that imports starlette.

The page and its files contain no data of a thread, so that a browser may load them without credentials
(`public_paths`). The page's requests for data need the right to read. Its other requests need the right for the verb, a
header that no form and no page of another origin can send, and the server's own origin.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from graphrt._arguments import is_mapping
from graphrt.commands import UNSET
from graphrt.errors import GraphrtError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.serving import (
    BAD_REQUEST_PART,
    FORBIDDEN,
    FOREIGN_REQUEST,
    REQUEST_TOO_LARGE,
    TOO_MANY_REQUESTS,
    UNAUTHENTICATED,
    UNKNOWN_PATH,
)
from graphrt.runtime import Runtime
from graphrt.serve._access import Authorize, Caller, Right, check_origin
from graphrt.serve._asgi import _json, _problem
from graphrt.serve._bodies import POSITION, json_of
from graphrt.serve._bounds import Bounds as ServerBounds
from graphrt.serve._bounds import OpenRequests
from graphrt.serve._events import OVER, EventStream
from graphrt.serve._problems import status_of
from graphrt.viewer import _page
from graphrt.viewer._library import Libraries, Library
from graphrt.viewer._live import LiveForm
from graphrt.viewer._values import Bounds

T = TypeVar("T")
Acting: TypeAlias = Literal["off", "start", "drive"]
"""How a person's actions on the page are handled: not offered; stored for a worker to continue; or continued in this
process."""
Handler: TypeAlias = Callable[[Library, Caller, Mapping[str, str]], Any]

log: Final = logging.getLogger("graphrt.viewer")
_WORKER_THREADS: Final = 8
"""Number of worker threads for requests, and the same number for threads that are driven here."""
_BODY_BYTES: Final = 1_048_576
"""Maximum length of a request body."""
_RIGHTS: Final[Mapping[str, Right]] = {"answer": "answer", "retry": "run", "cancel": "run"}
"""Maps a verb to the right that it needs."""
_NO_PROMPTS: Final = "This viewer does not run nodes again to rebuild prompts: it was made without prompts=True."


def app(
    threads: Runtime[Any, Any] | Any,
    *,
    authorize: Authorize | None = None,
    acting: Acting = "off",
    prompts: bool = False,
    coverage: str | PathLike[str] | None = None,
    target: str = "",
) -> Viewer:
    """Return an ASGI application with a page that shows threads. It mounts anywhere.

    Viewing writes nothing to the store, except that readers of a run in progress register interest in live items.

    Args:
        threads: A runtime, or several with graphs of different names: the threads of these graphs. Or a store or its
            URL: its threads, without features that need the code of their graphs, such as reducers.
        authorize: A function of the request that returns the `graphrt.serve.Caller`, as for `graphrt.serve.app`. None
            for an application mounted in a server, which passes the caller.
        acting: How answers, retries and cancellations are handled. "off" offers none. "start" stores them, for a worker
            to continue. "drive" continues in this process.
        prompts: Whether a caller with the right to run may rebuild prompts, which runs nodes again because journals do
            not store prompts.
        coverage: File written by `pytest --graphrt-cov`, to show over the graphs.
        target: The command line's target for the threads, for commands to copy.

    Raises:
        InputError: A runtime has no store, two have graphs of one name, or another argument is wrong.
    """
    chosen: Any = acting
    if chosen not in ("off", "start", "drive"):
        raise INVALID_ARGUMENT(argument="acting=", value=chosen, wanted="'off', 'start' or 'drive'")
    bounds = Bounds()
    libraries = Libraries(threads, bounds=bounds, coverage=None if coverage is None else Path(coverage))
    return Viewer(libraries, bounds, authorize, acting, prompts=prompts, target=target)


@final
class Viewer:
    """The ASGI application that `app` returns."""

    def __init__(
        self,
        libraries: Libraries,
        bounds: Bounds,
        authorize: Authorize | None,
        acting: Acting,
        *,
        prompts: bool,
        target: str,
    ) -> None:
        self._bounds: Final = bounds
        self._stream_bounds: Final = ServerBounds()
        self._libraries: Final = libraries
        self._authorize: Final = authorize
        self._acting: Final = acting
        self._prompts: Final = prompts
        self._target: Final = target
        self._pool: Final = ThreadPoolExecutor(_WORKER_THREADS, thread_name_prefix="graphrt-viewer")
        self._drivers: Final = ThreadPoolExecutor(_WORKER_THREADS, thread_name_prefix="graphrt-viewer-drive")
        self._open: Final = OpenRequests(
            self._stream_bounds.streams, self._stream_bounds.streams_per_caller, TOO_MANY_REQUESTS
        )
        self._streams: Final[set[EventStream]] = set()
        self._draining = False
        self._routes: Final[ASGIApp] = Starlette(
            routes=[
                Route("/", self._index),
                Route("/page/{name:path}", self._asset),
                Route("/api/live", self._live),
                Route("/api/act", self._act, methods=["POST"]),
                *[Route(f"/api/{name}", partial(self._answer, handle)) for name, handle in self._handlers().items()],
            ],
            exception_handlers={HTTPException: self._unrouted, GraphrtError: self._failed, Exception: self._failed},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._routes(scope, receive, send)

    @property
    def public_paths(self) -> frozenset[str]:
        """Paths below the mount that need no credentials: the page and its files, which contain no data of a thread."""
        return frozenset({"", "/", *(f"/page/{name}" for name in _page.names())})

    def drain(self) -> None:
        """End the open event streams, and begin no more. May be called from any thread."""
        self._draining = True
        for stream in tuple(self._streams):
            stream.stop()

    def _handlers(self) -> dict[str, Handler]:
        """Return the handlers of requests for documents, by the name of the path."""
        return {
            "head": self._head,
            "graph": lambda look, _, query: look.graph(_named(query, "graph")),
            "threads": lambda look, _, query: look.threads(query),
            "inbox": lambda look, _, query: look.inbox(query),
            "thread": lambda look, _, query: look.thread(*_thread(query)),
            "rows": lambda look, _, query: look.rows(
                *_thread(query), _number(query, "from"), _number(query, "limit", 500)
            ),
            "entries": lambda look, _, query: look.entries(
                *_thread(query), _number(query, "after"), _number(query, "limit", 200)
            ),
            "state": lambda look, _, query: look.state(*_thread(query), _at(query)),
            "call": self._call,
            "prompt": self._prompt,
            "conversation": lambda look, _, query: look.conversation(*_thread(query)),
            "value": lambda look, _, query: look.value(*_thread(query), _named(query, "ref")),
            "compare": lambda look, _, query: look.compare(*_thread(query), _named(query, "other")),
            "audit": lambda look, _, query: look.audit(*_thread(query)),
            "coverage": lambda look, _, query: look.coverage(_named(query, "graph")),
            "case": lambda look, _, query: look.case(*_thread(query), _at(query)),
        }

    # -- the page --------------------------------------------------------------------------------------------------

    async def _index(self, _request: Request) -> Response:
        return Response(_page.index(), 200, _page.HEADERS, "text/html")

    async def _asset(self, request: Request) -> Response:
        asset = _page.asset(request.path_params["name"])
        if asset is None:
            raise UNKNOWN_PATH(path=repr(request.url.path))
        return Response(asset[0], 200, _page.HEADERS, asset[1])

    # -- documents -------------------------------------------------------------------------------------------------

    async def _answer(self, handle: Handler, request: Request) -> Response:
        """Answer with a document."""
        if request.url.path.endswith("/prompt"):  # because it runs nodes
            _check_own(request)
        caller = await self._admitted(request, "read")
        query = dict(request.query_params)
        return _json(await self._aside(lambda: handle(self._libraries.of(caller.tenant), caller, query)))

    def _head(self, look: Library, caller: Caller, _asked: Mapping[str, str]) -> Any:
        verbs = [verb for verb, right in _RIGHTS.items() if right in caller.rights]
        return look.head(
            time.time(),
            user=caller.user,
            acting=[] if self._acting == "off" or not look.runtimes else verbs,
            prompts=self._prompts and "run" in caller.rights and bool(look.runtimes),
            target=self._target,
        )

    def _call(self, look: Library, _caller: Caller, query: Mapping[str, str]) -> Any:
        return look.call(*_thread(query), _number(query, "seq"), "" if self._prompts else _NO_PROMPTS)

    def _prompt(self, look: Library, caller: Caller, query: Mapping[str, str]) -> Any:
        if not self._prompts or "run" not in caller.rights:
            raise FORBIDDEN(right="have prompts rebuilt")
        return look.prompt(*_thread(query), _number(query, "seq"))

    async def _live(self, request: Request) -> ASGIApp:
        """Return the event stream of a thread."""
        caller = await self._admitted(request, "read")
        query = dict(request.query_params)
        graph, thread = _thread(query)
        look = self._libraries.of(caller.tenant)
        after = query.get("after") or "0"
        if re.fullmatch(POSITION, after) is None:
            raise BAD_REQUEST_PART(part="after", problem="it is not the id of an event of this stream")
        code, live = await self._aside(lambda: look.use(graph, thread, _how_to_follow))
        if self._draining:
            return Response(status_code=503, headers={"retry-after": "1"})
        items = look.runtime(graph).afollow(thread, after=after, live=live, raw=not code)

        async def end() -> Any:
            document = await self._aside(lambda: look.thread(graph, thread))
            return {"status": document["status"], "seq": document["seq"]}

        self._open.enter(caller)
        first: asyncio.Future[Any] = asyncio.ensure_future(cast("Any", anext(items, OVER)))

        def closed(stream: EventStream) -> None:
            self._streams.discard(stream)
            self._open.leave(caller)

        form = LiveForm(end, self._bounds, code=code)
        stream = EventStream(items, first, form=form, bounds=self._stream_bounds, closed=closed)
        self._streams.add(stream)
        return cast("ASGIApp", stream)

    # -- acting ----------------------------------------------------------------------------------------------------

    async def _act(self, request: Request) -> Response:
        """Answer, retry or cancel."""
        _check_own(request)
        caller = await self._admitted(request, "read")
        body = await _body(request)
        verb = body.get("verb")
        if self._acting == "off" or not isinstance(verb, str) or verb not in _RIGHTS:
            raise BAD_REQUEST_PART(part="body", problem=f"this viewer does not {str(verb)[:40]}")
        if _RIGHTS[verb] not in caller.rights:
            raise FORBIDDEN(right=_RIGHTS[verb])
        return _json(await self._aside(lambda: self._acted(self._libraries.of(caller.tenant), caller, body)))

    def _acted(self, look: Library, caller: Caller, body: Mapping[str, Any]) -> Any:
        graph, thread = _thread(body)
        look.use(graph, thread, _how_to_follow)  # refuses a thread that the caller may not see
        runtime = look.runtimes.get(graph)
        if runtime is None:
            raise UNKNOWN_PATH(path=f"code of graph {graph!r}")
        runtime = runtime.as_user(caller.user) if caller.user else runtime
        if body["verb"] == "cancel":
            runtime.cancel(thread)
        else:
            answers: Any = body.get("answers")
            if body["verb"] == "answer" and not isinstance(answers, dict):
                raise BAD_REQUEST_PART(part="body", problem="it has no answers")
            runtime.start(thread=thread, answers=answers if body["verb"] == "answer" else UNSET)
            if self._acting == "drive":
                self._drivers.submit(_drive, runtime, thread)
        document = look.thread(graph, thread)
        return {name: document[name] for name in ("thread", "status", "seq")}

    # -- a request -------------------------------------------------------------------------------------------------

    async def _admitted(self, request: Request, right: Right) -> Caller:
        """Return the caller of the request.

        Raises:
            InputError: It has no valid credentials (`unauthenticated`), or the caller lacks *right* (`forbidden`).
        """
        caller: Any = request.scope.get("graphrt.caller")
        if self._authorize is not None:
            authorized: Any = self._authorize(request)
            caller = await authorized if isawaitable(authorized) else authorized
        if not isinstance(caller, Caller):
            raise UNAUTHENTICATED()
        if right not in caller.rights:
            raise FORBIDDEN(right=right)
        return caller

    async def _unrouted(self, request: Request, error: Exception) -> Response:
        status = cast("HTTPException", error).status_code
        path = repr(request.url.path)
        error = UNKNOWN_PATH(path=f"{request.method} {path}")
        return _problem(error, "", status)

    async def _failed(self, request: Request, error: Exception) -> Response:
        if status_of(error) >= 500 and isinstance(error, GraphrtError):  # the server logs all others
            log.error("%s failed", request.url.path, exc_info=error)
        return _problem(error, "")

    async def _aside(self, call: Callable[[], T]) -> T:
        """Return the result of *call*, made on a worker thread of the application."""
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(call))


def _how_to_follow(thread: Any, head: Any) -> tuple[bool, bool]:
    """Return whether the thread's code is available, and whether live items are read (only for a run in progress)."""
    goes_on = head.owned or head.status in ("running", "new")
    return thread.code, goes_on and "live" in thread.runtime.store.offers


def _drive(runtime: Runtime[Any, Any], thread: str) -> None:
    try:
        runtime.drive(thread)
    except GraphrtError as error:  # the thread records it itself
        log.info("Thread %s: %s", thread, error.what)
    except Exception:
        log.exception("Thread %s could not be driven", thread)


def _check_own(request: Request) -> None:
    """Check that a request which changes or runs something comes from the page itself and not from another site.

    Raises:
        InputError: It does not.
    """
    headers = request.headers
    if headers.get("x-graphrt-viewer") != "1":
        raise FOREIGN_REQUEST(problem="no header x-graphrt-viewer, which the page sends")
    check_origin("POST", headers, ())


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        InputError: The body is too long, or not a JSON object.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BAD_REQUEST_PART(part="header Content-Type", problem="it is not application/json")
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > _BODY_BYTES:
            raise REQUEST_TOO_LARGE(part="body", limit=f"{_BODY_BYTES} bytes")
    try:
        document: Any = json_of(bytes(raw))
    except ValueError as error:
        raise BAD_REQUEST_PART(part="body", problem=f"it is not JSON ({error})") from None
    if not is_mapping(document):
        raise BAD_REQUEST_PART(part="body", problem="it is not an object")
    return dict(document)


def _thread(params: Mapping[str, Any]) -> tuple[str, str]:
    return _named(params, "graph"), _named(params, "thread")


def _named(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise BAD_REQUEST_PART(part=name, problem="it is missing")
    return value


def _at(query: Mapping[str, str]) -> int | None:
    return _number(query, "at") if query.get("at") else None


def _number(query: Mapping[str, str], name: str, otherwise: int = 0) -> int:
    text = query.get(name) or str(otherwise)
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise BAD_REQUEST_PART(part=name, problem="it is not a number")
    return int(text)
