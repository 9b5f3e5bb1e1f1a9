"""A scripted chat server on the loopback interface, for tests of anything that speaks to models over HTTP.

The server, its script and what it recorded live here; it speaks the OpenAI chat completions wire format with the
standard library alone. No harness lives here, and nothing here looks at a request to decide what to answer.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from select import select
from socket import MSG_PEEK, SHUT_RDWR, socket
from typing import Any, Literal, Self, TypeVar

from graphrt.errors import InputError, ScriptError
from graphrt.events import Usage
from graphrt.harness.messages import ToolCall

__all__ = ["ChatAnswer", "ChatRequest", "FakeChatServer"]

T = TypeVar("T", str, bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request that the server got."""

    method: str
    path: str
    headers: Mapping[str, str] = field(hash=False)
    """Names in lower case."""
    body: Mapping[str, Any] = field(hash=False)
    """The JSON document; empty if the body was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """What the server does with one request. The class methods make the usual kinds.

    A request with `"stream": true` gets the same answer as server-sent events, unless it is an error or `raw`.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """0..n calls; `arguments_text` goes out as it is, so that broken arguments can be sent."""
    usage: Usage | Literal["words"] | None = "words"
    """Tokens to report; "words" counts words; None sends no usage at all."""
    finish_reason: str | None = None
    """None: `tool_calls` if there are some, else `stop`."""
    refusal: str | None = None
    status: int = 200
    error: Mapping[str, Any] | None = field(default=None, hash=False)
    """Body of an error: `message`, `type`, `code`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    raw: bytes | None = None
    """Sent as the body instead of everything above."""
    delay_s: float = 0.0
    """Seconds before the first byte."""
    gap_s: float = 0.0
    """Seconds between the pieces of the body."""
    pieces: int = 4
    """Most pieces that a streamed text or the arguments of a streamed call are cut into."""
    drop_after: int | None = None
    """Cut the connection after so many pieces; 0 sends nothing, not even a status line."""

    @classmethod
    def failure(
        cls,
        status: int,
        message: str = "scripted failure",
        *,
        type: str = "error",
        code: str | None = None,
        retry_after: float | str | None = None,
    ) -> ChatAnswer:
        """An error in the wire format's own form; *retry_after* is seconds or an HTTP date."""
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after}"}
        error = {"message": message, "type": type, "code": code, "param": None}
        return cls(status=status, error=error, headers=headers)

    @classmethod
    def malformed(cls) -> ChatAnswer:
        """Status 200 and a body that stops being JSON in the middle."""
        return cls(raw=b'{"id": "chatcmpl-1", "choices": [{"index"')

    @classmethod
    def html(cls) -> ChatAnswer:
        """Status 200 and a page: what a proxy answers that has lost its server."""
        return cls(raw=b"<html><body>Bad gateway</body></html>", headers={"Content-Type": "text/html"})

    @classmethod
    def no_choices(cls) -> ChatAnswer:
        """Status 200 and a document without a single answer in it."""
        body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "fake"}
        return cls(raw=json.dumps({**body, "choices": ()}).encode())

    @classmethod
    def drop(cls, *, after: int = 0) -> ChatAnswer:
        """Cut the connection after *after* pieces."""
        return cls(text="one two three four", drop_after=after)


class FakeChatServer:
    """A chat server that gives scripted answers, one per request and in order, and records every request.

    It is meant to be used as a context manager. A request that the script does not expect gets status 400 and makes
    the end of the `with` block raise, as answers left over do.

    Args:
        script: 0..n answers; a string is the text of one. More may come later by `add`.
        strict: Check at the end of the `with` block that the script was met exactly.

    Source:
        The wire format is that of POST /v1/chat/completions; issue 2.
    """

    def __init__(self, script: Iterable[str | ChatAnswer] = (), *, strict: bool = True) -> None:
        self._script: deque[ChatAnswer] = deque()
        self._strict = strict
        self._requests: list[ChatRequest] = []
        self._unexpected = 0
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._left = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.add(*script)

    def add(self, *answers: str | ChatAnswer) -> None:
        """Append *answers* to the script."""
        with self._lock:
            self._script.extend(ChatAnswer(text=item) if isinstance(item, str) else item for item in answers)

    @property
    def url(self) -> str:
        """The address to give as `api_base`; it ends in `/v1`."""
        if self._server is None:
            raise InputError("The FakeChatServer is not running.", fix="use it in a with block, or call start() first")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def requests(self) -> list[ChatRequest]:
        """0..n requests so far, in the order of their arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def remaining(self) -> int:
        """Answers that nobody has asked for yet."""
        with self._lock:
            return len(self._script)

    def wait_for_requests(self, count: int, *, within_s: float = 10.0) -> bool:
        """Wait until *count* requests have arrived in all, at most *within_s* seconds; whether they have."""
        with self._arrived:
            return self._arrived.wait_for(lambda: len(self._requests) >= count, within_s)

    def hung_up(self, *, within_s: float = 0.0) -> bool:
        """Whether a client left while its answer was waiting; if none has yet, wait at most *within_s* seconds."""
        return self._left.wait(within_s)

    def assert_done(self) -> None:
        """Check that every answer was asked for and that no request was unexpected.

        Raises:
            ScriptError: It was not so.
        """
        with self._lock:
            left, unexpected, got = len(self._script), self._unexpected, len(self._requests)
        if left or unexpected:
            raise ScriptError(
                f"The FakeChatServer has {left} answers left over and got {unexpected} unexpected requests.",
                known=f"{got} requests in all",
                fix="make the script as long as the calls; retries of a client count as calls",
                expected=got - unexpected + left,
                got=got,
            )

    def start(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="fake-chat-server", daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening; answers that still wait are cut off."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.hang_up()
            self._thread.join()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.close()
        if self._strict and kind is None:
            self.assert_done()

    def _take(self, request: ChatRequest) -> ChatAnswer:
        with self._lock:
            self._requests.append(request)
            self._arrived.notify_all()
            if request.method == "POST" and request.path.endswith("/chat/completions") and self._script:
                return self._script.popleft()
            self._unexpected += 1
            what = f"{request.method} {request.path}, request {len(self._requests)}"
        return ChatAnswer.failure(400, f"FakeChatServer: its script does not expect {what}.", type="script")

    def _wait(self, seconds: float, connection: socket) -> None:
        """Wait, but not for a client that has gone."""
        if seconds > 0 and select([connection], [], [], seconds)[0] and not connection.recv(1, MSG_PEEK):
            self._left.set()
            raise ConnectionAbortedError("the client has gone")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # else a client that opens many connections at once waits a second for some

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._open: set[socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections that clients keep open."""
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news: say nothing."""


def _handler_of(owner: FakeChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # with wbufsize: else each answer waits 40 ms for an acknowledgement
        wbufsize = -1

        def do_POST(self) -> None:
            _serve(owner, self)

        def do_GET(self) -> None:
            _serve(owner, self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _serve(owner: FakeChatServer, http: BaseHTTPRequestHandler) -> None:
    data = http.rfile.read(int(http.headers.get("Content-Length") or 0))
    try:
        parsed: Any = json.loads(data or b"{}")
    except ValueError:
        parsed = {}
    body: dict[str, Any] = {} if not _is_object(parsed) else parsed
    headers = {name.lower(): value for name, value in http.headers.items()}
    request = ChatRequest(method=http.command, path=http.path, headers=headers, body=body)
    answer = owner._take(request)  # pyright: ignore[reportPrivateUsage]  # one module, two halves of one server
    pause = owner._wait  # pyright: ignore[reportPrivateUsage]  # as above
    pause(answer.delay_s, http.connection)
    streamed = bool(request.body.get("stream")) and answer.error is None and answer.raw is None
    pieces = list(_events(answer, request) if streamed else _document(answer, request))
    if answer.drop_after == 0:
        http.close_connection = True
        return
    kind = "text/event-stream" if streamed else "application/json"
    http.send_response(answer.status)
    sent = {"Content-Type": kind, **answer.headers}
    sent |= {"Content-Length": str(sum(map(len, pieces)))} if not streamed else {"Transfer-Encoding": "chunked"}
    for name, value in sent.items():
        http.send_header(name, value)
    http.end_headers()
    for count, piece in enumerate(pieces, 1):
        http.wfile.write(piece if not streamed else b"%x\r\n%s\r\n" % (len(piece), piece))
        http.wfile.flush()
        if count == answer.drop_after:
            http.close_connection = True
            return
        pause(answer.gap_s, http.connection)
    if streamed:
        http.wfile.write(b"0\r\n\r\n")


def _usage(answer: ChatAnswer, request: ChatRequest) -> dict[str, Any] | None:
    usage = answer.usage
    if usage is None:
        return None
    if usage == "words":
        asked = sum(len(str(m.get("content") or "").split()) for m in request.body.get("messages", ()))
        told = len(answer.text.split()) + sum(len(call.arguments_text.split()) for call in answer.tool_calls)
        usage = Usage(input_tokens=asked, output_tokens=told)
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _reason(answer: ChatAnswer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.tool_calls else "stop")


def _wire_call(call: ToolCall, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _document(answer: ChatAnswer, request: ChatRequest) -> Iterator[bytes]:
    if answer.raw is not None:
        data = answer.raw
    elif answer.error is not None:
        data = json.dumps({"error": answer.error}).encode()
    else:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.refusal is not None:
            message["refusal"] = answer.refusal
        if answer.tool_calls:
            message["tool_calls"] = [_wire_call(call, call.arguments_text) for call in answer.tool_calls]
        document = _head("chat.completion", request)
        document["choices"] = [{"index": 0, "message": message, "finish_reason": _reason(answer)}]
        if (usage := _usage(answer, request)) is not None:
            document["usage"] = usage
        data = json.dumps(document).encode()
    cuts = answer.pieces if answer.gap_s or answer.drop_after else 1
    yield from _cut(data, cuts)


def _events(answer: ChatAnswer, request: ChatRequest) -> Iterator[bytes]:
    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        document = {**_head("chat.completion.chunk", request), "choices": choices, **more}
        return b"data: %s\n\n" % json.dumps(document).encode()

    def delta(finish_reason: str | None = None, **content: Any) -> bytes:
        return event([{"index": 0, "delta": content, "finish_reason": finish_reason}])

    yield delta(role="assistant", content="")
    for piece in _cut(answer.text, answer.pieces):
        yield delta(content=piece)
    if answer.refusal is not None:
        yield delta(refusal=answer.refusal)
    for index, call in enumerate(answer.tool_calls):
        yield delta(tool_calls=[{"index": index, **_wire_call(call, "")}])
        for piece in _cut(call.arguments_text, answer.pieces):
            yield delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
    yield delta(_reason(answer))
    usage = _usage(answer, request)
    if usage is not None and _wants_usage(request.body.get("stream_options")):
        yield event([], usage=usage)
    yield b"data: [DONE]\n\n"


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _wants_usage(options: Any) -> bool:
    return bool(options and options.get("include_usage"))


def _head(kind: str, request: ChatRequest) -> dict[str, Any]:
    return {"id": "chatcmpl-fake", "object": kind, "created": 1_700_000_000, "model": request.body.get("model", "fake")}


def _cut(value: T, most: int) -> Iterator[T]:
    size = max(1, -(-len(value) // max(1, most)))
    for start in range(0, len(value), size):
        yield value[start : start + size]
