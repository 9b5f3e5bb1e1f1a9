"""`FakeChatServer`: a scripted chat server on the loopback interface, for tests of code that calls models over HTTP.

The path of a request decides the wire format (OpenAI's chat completions or Responses, Anthropic's messages, or Gemini's
generateContent); the script decides the answer. Each request is served on a separate worker thread. Only the standard
library is used.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from select import select
from socket import MSG_PEEK, SHUT_RDWR, socket
from types import ModuleType
from typing import Any, Final, Literal, Self, TypeAlias

from graphrt._arguments import is_list, is_mapping
from graphrt.errors import ScriptError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.testing_doubles import (
    NOT_A_CHAT_REQUEST,
    SERVER_FUNCTION_FAILED,
    SERVER_NOT_RUNNING,
    SERVER_SCRIPT_LEFT_OVER,
)
from graphrt.harness._doubles.schema_check import wrong_call
from graphrt.harness._doubles.script_items import Book
from graphrt.harness._doubles.unused import note
from graphrt.harness.messages import ThinkingBlock
from graphrt.harness.script import Expectation
from graphrt.testing import (
    _anthropic_thinking,
    _anthropic_wire,
    _chat_messages,
    _gemini_contents,
    _gemini_wire,
    _openai_schema,
    _responses_input,
    _responses_wire,
)
from graphrt.testing._chat_dialects import DIALECTS
from graphrt.testing._openai_wire import OPENAI, ChatCompletions, thinking_of
from graphrt.testing._responses_input import SentResponse
from graphrt.testing.chat_answers import (
    Answering,
    ChatAnswer,
    ChatRequest,
    Scripted,
    answer_of,
    any_other,
    cut,
    rules_of,
    script_of,
)

__all__ = ["ChatAnswer", "ChatRequest", "FakeChatServer"]

Dialect: TypeAlias = Literal["openai", "mistral", "groq", "deepseek", "openrouter", "ollama", "llama.cpp"]
"""A server whose chat completions have extra fields."""

_Wire: TypeAlias = ModuleType | ChatCompletions
"""The encoder of answers: a module, or for chat completions an object with a dialect."""

_WIRES: Final[Mapping[str, _Wire]] = {
    "/chat/completions": OPENAI,
    "/responses": _responses_wire,
    "/v1/messages": _anthropic_wire,
    ":generateContent": _gemini_wire,
    ":streamGenerateContent": _gemini_wire,
}
"""Maps the end of a path to the encoder of its answers."""
_MOST_TOLD: Final = 12
"""Maximum number of unused script items that an error lists."""


class FakeChatServer:
    """A chat server that gives scripted answers and records every request.

    A script has two forms, which can be combined. A request that matches a rule does not consume an item of the ordered
    script.

    * *script*, a list: request n gets item n. An item is an answer, a function from the request to an answer, or
      `expect(pattern, reply=...)`, which also checks the request.
    * *rules*, a mapping from pattern to answer, for requests without a fixed order (parallel tasks). A pattern is a
      part of the last message's text, a regular expression for it, or a function of the request, which has `text`,
      `system`, `model` and `body`. The first pattern that matches decides. A single answer serves any number of
      requests, but at least one; a list serves exactly as many as it has items.

    A function instead of the script makes the answer to each request that matches no rule.

    Use it as a context manager. A request that the script does not expect gets status 400. The end of the `with` block
    raises if there was such a request, or if answers are left over.

    A request that the real API would refuse gets status 400 too, and no answer of the script:

    | Format | Refused |
    |---|---|
    | OpenAI's chat completions | a schema that is sent as strict, and that strict mode does not support; a message of the assistant without content and calls; a call without its result, or a result without its call |
    | OpenAI's Responses | the same schemas; calls and results that do not belong to each other; items that lack a field; a reasoning item that was changed, or that comes without the item that followed it; an item with its id, but without the reasoning before it. A reasoning item that is neither stored nor encrypted gets status 404 |
    | Anthropic's messages | thinking blocks that do not come back as they were sent |
    | Gemini's generateContent | calls and responses that do not follow each other; an empty part; a changed signature, or a first call of a step of the current turn without the one it was sent with |

    Args:
        script: 0..n answers, the mapping of rules, or a function from a `ChatRequest` to an answer. A text, a `ToolCall` or an `AgentReply` is made into an answer.
            `add` appends more.
        rules: The rules, if there is an ordered script too.
        strict: Check at the end of the `with` block that the script was used up exactly.
        strict_schemas: Refuse schemas as OpenAI does. Other servers with OpenAI's format accept them.
        check_calls: Count a scripted call of a tool that does not fit the tool's schema in the request as an
            unexpected request. False for a test of such a call.
        dialect: The kind of chat completions: OpenAI's, or those of a server with extra fields.

    | Dialect | What differs from OpenAI |
    |---|---|
    | `mistral` | content is a list of parts if there is thinking or a reference; `num_cached_tokens`; usage in streams unasked; ids of calls have nine letters and digits, others are refused |
    | `groq` | `reasoning`; calls in one piece; usage in streams in `x_groq`; errors in streams as events with the name `error` |
    | `deepseek` | `reasoning_content`, which is refused to be left out where it preceded calls; cache hits and misses |
    | `openrouter` | `reasoning` and `reasoning_details`; `native_finish_reason`; comments; errors in the choice of a whole answer, and beside it in a stream |
    | `ollama` | `reasoning`; never a null content; calls in one piece; usage without details |
    | `llama.cpp` | `timings`; usage without details; the status as code of an error |

    Raises:
        InputError: An item of the script cannot be made into an answer, or there is no such dialect.

    Source:
        The wire formats are those of POST /v1/chat/completions, POST /v1/responses, POST /v1/messages, and POST
        /v1beta/models/{model}:generateContent and :streamGenerateContent?alt=sse.
    """

    def __init__(
        self,
        script: Iterable[Answering | Expectation]
        | Mapping[Any, Answering | Sequence[Answering]]
        | Callable[[ChatRequest], Scripted] = (),
        *,
        rules: Mapping[Any, Answering | Sequence[Answering]] | None = None,
        strict: bool = True,
        strict_schemas: bool = True,
        check_calls: bool = True,
        dialect: Dialect = "openai",
    ) -> None:
        if isinstance(script, Mapping):
            rules, script = {**script, **(rules or {})}, ()
        elif callable(script):
            rules, script = {**(rules or {}), any_other: script}, ()
        self._book: Final = Book("FakeChatServer", script_of(script), None if rules is None else rules_of(rules))
        self._noted = note("FakeChatServer", self._book.left_over)
        self._strict = strict
        self._strict_schemas = strict_schemas
        self._check_calls = check_calls
        self._requests: list[ChatRequest] = []
        if dialect not in DIALECTS:
            raise INVALID_ARGUMENT(argument="dialect", value=dialect, wanted=f"one of {', '.join(map(repr, DIALECTS))}")
        self._dialect: Final = dialect
        self._sealed: list[ThinkingBlock] = []
        self._thought: set[str] = set()
        self._responses: list[SentResponse] = []
        self._parts: list[dict[str, Any]] = []
        self._lock = threading.RLock()  # a rule may read `requests` while it is evaluated
        self._arrived = threading.Condition(self._lock)
        self._left = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def add(self, *answers: Answering | Expectation) -> None:
        """Append *answers* to the script.

        Raises:
            InputError: One of them cannot be made into an answer. Nothing was appended.
        """
        checked = script_of(answers)
        with self._lock:
            self._book.script.extend(checked)

    @property
    def url(self) -> str:
        """The `api_base` for OpenAI's wire formats; it ends in `/v1`."""
        return f"{self.anthropic_url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The `api_base` for Anthropic's wire format; it has no path."""
        if self._server is None:
            raise SERVER_NOT_RUNNING()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def gemini_url(self) -> str:
        """The `api_base` for Gemini's wire format; it ends in `/v1beta`."""
        return f"{self.anthropic_url}/v1beta"

    @property
    def requests(self) -> list[ChatRequest]:
        """Requests so far, in order of arrival: 0..n."""
        with self._lock:
            return list(self._requests)

    @property
    def remaining(self) -> int:
        """Number of unused answers. A rule with a single answer counts until it has matched once."""
        with self._lock:
            return len(self._book.left_over())

    def wait_for_requests(self, count: int, *, within_s: float = 10.0) -> bool:
        """Wait at most *within_s* seconds until *count* requests have arrived in total; return whether they have."""
        with self._arrived:
            return self._arrived.wait_for(lambda: len(self._requests) >= count, within_s)

    def hung_up(self, *, within_s: float = 0.0) -> bool:
        """Wait at most *within_s* seconds until a client disconnects before its answer; return whether one has."""
        return self._left.wait(within_s)

    def assert_done(self) -> None:
        """Check that every answer was used and that no request was unexpected.

        Raises:
            ScriptError: Answers are left over, or a request was unexpected.
        """
        if self._noted is not None:
            self._noted.checked = True
        with self._lock:
            unused, failures, received = self._book.left_over(), list(self._book.failures), len(self._requests)
        if unused or failures:
            items = unused[:_MOST_TOLD]
            items += [f"and {len(unused) - _MOST_TOLD} more"] if len(unused) > _MOST_TOLD else []
            raise SERVER_SCRIPT_LEFT_OVER(
                left=len(unused),
                unexpected=len(failures),
                first=f" The first of these: {failures[0].what}" if failures else "",
                items="".join(f"; {item}" for item in items),
                where=failures[0].where if failures else "",
                expected=received - len(failures) + len(unused),
                got=received,
            ) from (failures[0] if failures else None)

    def start(self) -> Self:
        """Start to listen on a free port of 127.0.0.1, and return the server."""
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="fake-chat-server", daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening, and drop the connections of pending answers."""
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
        """Record *request* and return its answer; status 400 if the API would refuse it or the script has no answer."""
        wire = self._wire_of(request) if request.method == "POST" else None
        item: Any = None
        with self._lock:
            self._requests.append(request)
            self._arrived.notify_all()
            if (refusal := self._refusal(wire, request.body)) is not None:
                return refusal
            self._book.calls.append(request)
            try:
                item = self._book.take(request) if wire is not None else _no_chat(request)
            except Exception as error:  # noqa: BLE001 - a pattern is the user's
                item = _broken("A pattern", error)
        answer = self._answer(item, request)
        if self._check_calls and isinstance(answer, ChatAnswer) and answer.tool_calls:
            answer = wrong_call("FakeChatServer", answer.tool_calls, _schemas(request.body)) or answer
        with self._lock:
            if isinstance(answer, ScriptError):
                self._book.failures.append(answer)
                message = f"FakeChatServer: its script does not expect {request.method} {request.path}: {answer.what}"
                return ChatAnswer.failure(400, message, type="script")
            if wire is _anthropic_wire:
                self._sealed += _anthropic_thinking.blocks_of(answer)
            elif wire is _responses_wire:
                items = _responses_wire.output(answer, request)
                self._responses.append(SentResponse(output=items, stored=request.body.get("store") is not False))
            elif wire is _gemini_wire:
                self._parts += _gemini_wire.sent_parts(answer, request)
            elif isinstance(wire, ChatCompletions) and thinking_of(answer):
                self._thought |= {call.id for call in answer.tool_calls}
        return answer

    def _wire_of(self, request: ChatRequest) -> _Wire | None:
        """Return the encoder of answers to the path of *request*; None for an unknown path."""
        wire = _wire_of(request)
        return DIALECTS[self._dialect] if wire is OPENAI else wire

    def _refusal(self, wire: _Wire | None, body: Mapping[str, Any]) -> ChatAnswer | None:
        """Return the API's error for an invalid request in the format *wire*; None if it would accept it."""
        why = None
        if wire is _gemini_wire:
            why = _gemini_contents.refusal_of(body, self._parts)
            return None if why is None else ChatAnswer.failure(400, why)
        if wire is _anthropic_wire:
            why = _anthropic_thinking.refusal_of(body, self._sealed)
        elif wire in (OPENAI, _responses_wire) and self._strict_schemas:
            why = _openai_schema.refusal_of(body)
        if why is not None:
            return ChatAnswer.failure(400, why, type="invalid_request_error")
        if isinstance(wire, ChatCompletions):
            return _chat_messages.refusal_of(body, self._dialect, self._thought)
        return _responses_input.refusal_of(body, self._responses) if wire is _responses_wire else None

    def _answer(self, item: Any, request: ChatRequest) -> ChatAnswer | ScriptError:
        """Return the answer of the script's *item*. A function is called without the lock, because it may block."""
        if isinstance(item, (ChatAnswer, ScriptError)):
            return item
        try:
            return answer_of(item(request), f"what {getattr(item, '__qualname__', item)}() returned")
        except Exception as error:  # noqa: BLE001 - assert_done() raises it at the end of the test
            return _broken("A function", error)

    def _wait(self, seconds: float, connection: socket) -> None:
        """Wait *seconds*.

        Raises:
            ConnectionAbortedError: The client disconnected in the meantime.
        """
        # The socket becomes readable when the client closes it, but then has no data.
        if seconds > 0 and select([connection], [], [], seconds)[0] and not connection.recv(1, MSG_PEEK):
            raise ConnectionAbortedError("the client has gone")


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a waiting handler must not keep the test process alive
    block_on_close = False
    request_queue_size = 128  # with the default of 5, some of many connections wait for a second

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
        """Close the connections that clients keep open."""
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: the default prints a traceback when a client disconnects, which tests do on purpose."""


def _handler_of(owner: FakeChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Without both, head and body are sent in two packets, and the second one waits 40 ms for the client's delayed
        # acknowledgement.
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            try:
                _serve(owner, self)
            except ConnectionError:  # found while waiting or writing: the client disconnected
                owner._left.set()  # pyright: ignore[reportPrivateUsage]  # one module, two halves of one server
                raise

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _serve(owner: FakeChatServer, http: BaseHTTPRequestHandler) -> None:
    """Read one request and send its answer, in pieces, with the delays and cuts that the answer specifies."""
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
    wire: Any = owner._wire_of(request) or OPENAI  # pyright: ignore[reportPrivateUsage]  # as above
    inside = answer.error is None or answer.error_after is not None  # within an answer, or instead of one
    streamed = _wants_stream(request) and inside and answer.raw is None
    pieces = _events(wire, answer, request) if streamed else _document(wire, answer, request)
    status = 200 if inside and (streamed or _fails_inside(wire)) else answer.status
    if answer.drop_after == 0:
        http.close_connection = True
        return
    kind = "text/event-stream" if streamed else "application/json"
    http.send_response(status)
    sent = {"Content-Type": kind, **answer.headers}
    if wire is _gemini_wire:
        sent.pop("Retry-After", None)  # Gemini has it in the body
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


def _wants_stream(request: ChatRequest) -> bool:
    """Return whether *request* asks for server-sent events: Gemini in the path, all others in the body."""
    if _wire_of(request) is _gemini_wire:
        return _gemini_wire.is_stream(request) and "alt=sse" in request.path.partition("?")[2].split("&")
    return bool(request.body.get("stream"))


def _schemas(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of the tools that a request offers, in any format, with the schemas of their arguments."""
    raw_tools: Any = body.get("tools")
    listed: list[Any] = [tool for tool in raw_tools if is_mapping(tool)] if is_list(raw_tools) else []
    tools: list[Any] = []
    for tool in listed:
        declared: Any = tool.get("functionDeclarations", tool.get("function_declarations"))
        tools += declared if is_list(declared) else [tool.get("function", tool)]
    return {str(tool.get("name")): _schema_of(tool) for tool in tools if is_mapping(tool)}


def _schema_of(tool: Mapping[str, Any]) -> Any:
    keys = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")
    schema: Any = next((tool[key] for key in keys if key in tool), None)
    properties: Any = schema.get("properties") if is_mapping(schema) else None
    if not is_mapping(properties):
        return schema
    # Gemini's own schemas have the names of types in capital letters.
    return {**schema, "properties": {name: _lower_type(declared) for name, declared in properties.items()}}


def _lower_type(schema: Any) -> Any:
    kind: Any = schema.get("type") if is_mapping(schema) else None
    return {**schema, "type": kind.lower()} if isinstance(kind, str) else schema


def _events(wire: Any, answer: ChatAnswer, request: ChatRequest) -> list[bytes]:
    """Return the server-sent events of a streamed answer, each with its comment."""
    if answer.error is None:
        pieces: list[bytes] = list(wire.events(answer, request))
    else:
        pieces = list(wire.events(replace(answer, error=None, unfinished=True), request))[: answer.error_after]
        pieces.append(wire.error_event(answer, request, len(pieces)))
    comment = b": %s\n\n" % answer.comment.encode() if answer.comment else b""
    return [comment + piece for piece in pieces]


def _fails_inside(wire: _Wire) -> bool:
    """Return whether an error in the middle of an answer is part of a document with status 200."""
    return wire.fails_inside if isinstance(wire, ChatCompletions) else wire is _responses_wire


def _document(wire: Any, answer: ChatAnswer, request: ChatRequest) -> list[bytes]:
    """Return the body of an answer that is not streamed; in several pieces if it has a gap or a cut."""
    if answer.raw is not None:
        data = answer.raw
    elif answer.error is None or (answer.error_after is not None and _fails_inside(wire)):
        data = wire.document(answer, request)
    else:
        data = wire.failure(answer)
    return cut(data, answer.pieces if answer.gap_s or answer.drop_after else 1)


def _wire_of(request: ChatRequest) -> _Wire | None:
    """Return the encoder of answers to the path of *request*, without its dialect; None for an unknown path."""
    path = request.path.partition("?")[0]
    return next((wire for end, wire in _WIRES.items() if path.endswith(end)), None)


def _no_chat(request: ChatRequest) -> ScriptError:
    return NOT_A_CHAT_REQUEST(method=request.method, url_path=request.path, paths=" or ".join(_WIRES))


def _broken(source: str, error: Exception) -> ScriptError:
    failure = SERVER_FUNCTION_FAILED(function=source, error=error)
    failure.__cause__ = error
    return failure


def _is_object(value: object) -> bool:
    return isinstance(value, dict)
