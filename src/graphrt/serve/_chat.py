"""Chat protocols of front ends: a chat is a thread, and a user message is the input of a run.

`ChatProtocol` is the interface that the server needs; `UiMessageChat` (the AI SDK) and `AgUiAgent` (AG-UI) are entries
of `mounts=`. The response is a stream of `graphrt.wires`:

    POST /                  a message of the user, or their answers: the stream of the run
    GET  /{thread}/stream   the turn in progress, or the whole thread, and then what comes; 204 if there is nothing
    GET  /{thread}/messages of the AI SDK: the last messages, as `useChat({ messages })` takes them, and those before
    GET  /                  of the AI SDK, with `page=True`: a page to chat in
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from itertools import takewhile
from math import isfinite
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast, final, runtime_checkable

from graphrt import events
from graphrt.errors import InputError
from graphrt.errors._codes.serving import BAD_REQUEST_PART
from graphrt.errors._codes.threads import UNKNOWN_THREAD
from graphrt.events import Entry
from graphrt.harness.media import Audio, Document, Image
from graphrt.harness.messages import Content, MediaPart, UserMessage
from graphrt.runtime import LiveItem, Runtime
from graphrt.serve._access import Caller
from graphrt.serve._bodies import refuse_doubles
from graphrt.serve._events import HEADERS
from graphrt.serve._problems import problem
from graphrt.wires import ag_ui, ui_history, ui_messages
from graphrt.wires.chat_events import RunBegan, Seen
from graphrt.wires.conversation import Conversation, inputs, line

T = TypeVar("T")
InputOf: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Makes the input of a run from a request; each protocol documents its argument."""
Shows: TypeAlias = "Collection[str] | Callable[[Caller], Collection[str]]"
"""Names of the state fields to show: for all callers, or as a function of the caller."""
Aside: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call that may block off the event loop."""
_TITLE: Final = 60
"""Number of characters of a chat's first message that become its title."""
_PAGE: Final = 64
"""Entries to read at a time while searching backwards for the beginning of a turn."""
_ENDED_EARLY: Final = (events.RunFailed, events.RunCancelled)
"""The ends of runs that can be retried."""
_MOST_ENTRIES: Final = 4_096
"""Entries of a page of messages, unless one turn has more."""


class Turn(NamedTuple):
    """The request of a chat."""

    verb: Literal["run", "answer", "retry", ""]
    """The verb that performs the request; empty if nothing is left to do."""
    thread: str
    request: Mapping[str, Any]
    """The argument of `input_of`."""
    key: tuple[str, ...] = ()
    """Identifies the request, so that a repetition counts once; empty to accept it each time."""
    answers: Mapping[str, Any] = {}
    """Answers by the ids of the questions."""
    dropped: tuple[str, ...] = ()
    """Ids of questions that the user declines: an approval is refused; for any other question the run is cancelled."""
    said: tuple[str, ...] = ()
    """Ids of the user's messages. If the thread failed in the turn that they began, it is retried."""
    seen: Seen = Seen()
    """The page's part of the turn that the request continues."""
    title: str = ""
    """Title of a new thread, from the user's message; empty for none."""
    files: tuple[int, ...] = ()
    """Sizes in bytes of the files in the user's messages, which the server limits."""
    whole: bool = False
    """Whether the response begins with the whole turn instead of where the run began or continued."""
    abandons: bool = False
    """Whether the run gives up what is left of an earlier turn, in which the thread failed."""


class Projection(Protocol):
    """The stream of a thread: a fold over its entries, with live items between them. Pure except for reading states."""

    @property
    def over(self) -> bool:
        """Whether nothing may follow, because the written events are no longer valid."""
        ...

    def reads(self, entry: Entry) -> bool:
        """Return whether `entry` may wait for the store."""
        ...

    def entry(self, entry: Entry) -> list[dict[str, Any]]:
        """Return the bytes to send for an entry."""
        ...

    def had(self, seen: Seen) -> None:
        """Skip the part of the current turn that the client has *seen*. Called before the first entry."""
        ...

    def known(self, entry: Entry) -> None:
        """Fold an entry that the client already has."""
        ...

    def live(self, mode: str, item: Any, missed: int = 0) -> list[dict[str, Any]]:
        """Return the bytes to send for a live item."""
        ...


@runtime_checkable
class ChatProtocol(Protocol):
    """A protocol that front ends speak, for `app(mounts=)`."""

    @property
    def graph(self) -> str:
        """Name of the graph."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the response."""
        ...

    @property
    def end(self) -> str:
        """The text after the last event of a response; may be empty."""
        ...

    @property
    def replays(self) -> bool:
        """Whether a reloaded page receives the whole thread instead of only the turn in progress."""
        ...

    def turn_of(self, body: bytes) -> Turn:
        """Parse the body of a request.

        Raises:
            InputError: It is not a request that a thread can accept.
        """
        ...

    def input_of(self, request: Mapping[str, Any], /) -> Any:
        """Return the input of a run."""
        ...

    def projection(self, runtime: Runtime[Any, Any], caller: Caller, thread: str) -> Projection:
        """Return the stream of a thread, as the caller may see it."""
        ...

    def failure(self, detail: str, code: str) -> dict[str, Any]:
        """Return the event that reports a broken stream."""
        ...


def _parsed(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        ValueError: It is not JSON, which has no NaN and no infinity, or an object has a key twice.
    """

    def refused(_text: str) -> float:
        raise ValueError

    def finite(text: str) -> float:
        number = float(text)
        return number if isfinite(number) else refused(text)

    return json.loads(body, parse_constant=refused, parse_float=finite, object_pairs_hook=refuse_doubles)


# -- the AI SDK ------------------------------------------------------------------------------------------------------


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message of the AI SDK."""
    return "".join(str(part.get("text", "")) for part in message["parts"] if part.get("type") == "text")


def as_messages(message: Mapping[str, Any]) -> Any:
    """Return the input of a graph whose state has a field `messages`: the texts and files of the message, in order.

    Raises:
        InputError: The message has a part that is neither a text nor a file, or is empty, or a file is no `data:` URL
            (`bad-request-part`); or a file is not what its media type says (`bad-media`).
    """
    content: list[Content] = []
    for part in message["parts"]:
        if part.get("type") == "file":
            content.append(_file(part.get("url"), part.get("mediaType"), part.get("filename")))
        else:
            content.append(_text(part))
    return {"messages": [_user_message(content, message["id"])]}


def _text(part: Mapping[str, Any]) -> str:
    """Return the text of a part of a user message, which is not a file.

    Raises:
        InputError: It is not a text either (`bad-request-part`).
    """
    if part.get("type") != "text":
        raise BAD_REQUEST_PART(part="body", problem="a message of the user has a part that is neither text nor a file")
    text: Any = part.get("text")
    if not isinstance(text, str):
        raise BAD_REQUEST_PART(part="body", problem="a text of a message of the user is not a string")
    return text


def _user_message(content: list[Content], id: str) -> UserMessage:
    """Return a user message. Adjacent texts are joined, as the page shows them.

    Raises:
        InputError: It is empty (`bad-request-part`).
    """
    if not any(content):
        raise BAD_REQUEST_PART(part="body", problem="a message of the user has neither a text nor a file")
    if all(isinstance(part, str) for part in content):
        return UserMessage(text="".join(map(str, content)), id=id)
    return UserMessage(content=content, id=id)


def _file(url: Any, media_type: Any, name: Any) -> MediaPart:
    """Return a file of a user message.

    An http URL is refused: otherwise a user could choose what a provider, or a model in the server's own network,
    fetches.

    Raises:
        InputError: It is no `data:` URL (`bad-request-part`), or not what its media type says (`bad-media`).
    """
    if not (isinstance(url, str) and url[:5].lower() == "data:"):
        raise BAD_REQUEST_PART(part="body", problem="a file of a message is not a data: URL")
    head, comma, body = url[5:].partition(",")
    declared_type = str(media_type or "") or head.partition(";")[0]
    if declared_type in ("", _UNKNOWN) and head.endswith(";base64"):  # the browser does not know the type
        declared_type, url = "", f"data:;base64{comma}{body}"
    kind = declared_type.partition("/")[0].lower()
    cls = Image if kind == "image" else Audio if kind == "audio" else Document
    return cls(url=url, media_type=declared_type or None, name=str(name) if name else None)


_UNKNOWN: Final = "application/octet-stream"


def _size(url: Any) -> int:
    """Estimate the number of bytes in a `data:` URL from its length."""
    return len(str(url)) * 3 // 4


@final
class UiMessageChat:
    """A chat for `useChat` of the AI SDK: `app(..., mounts={"/chat": UiMessageChat("support")})`.

    Args:
        graph: Name of the graph.
        input_of: Makes the input of a run from a user message in the AI SDK's form: `id`, `role`, `parts`. By default
            the field `messages` gets its texts and files, as a `UserMessage`.
        page: Whether to serve a chat page to browsers. The page is loaded without credentials and then asks for them.
            It contains the name of the graph, but no data of a thread.
    """

    headers: Mapping[str, str] = ui_messages.HEADERS
    end: str = ui_messages.DONE
    replays: bool = False

    def __init__(self, graph: str, *, input_of: InputOf = as_messages, page: bool = False) -> None:
        self.graph: Final = graph
        self.input_of: Final = input_of
        self.page: Final = page

    def turn_of(self, body: bytes) -> Turn:
        """Parse the body of a request; see `ChatProtocol`."""
        try:
            request = _parsed(body)
            thread, last = request["id"], request["messages"][-1]
            role: str = last["role"]
            parts: list[dict[str, Any]] = [{**part} for part in last["parts"]]
            message: dict[str, Any] = {"id": str(last["id"]), "role": role, "parts": parts}
            approvals: list[Any] = [
                part.get("approval") or {} for part in parts if part.get("state") == "approval-responded"
            ]
            answers = {str(approval["id"]): _decision(approval) for approval in approvals if "id" in approval}
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            raise BAD_REQUEST_PART(part="body", problem="it is not what useChat of the AI SDK sends") from None
        trigger = request.get("trigger", "submit-message")
        if trigger not in ("submit-message", "regenerate-message"):
            problem = 'its trigger is neither "submit-message" nor "regenerate-message"'
            raise BAD_REQUEST_PART(part="body", problem=problem)
        if trigger == "regenerate-message":  # a completed thread refuses it, but can be forked
            return Turn("retry", thread, message, whole=True)
        key = (message["id"], *([json.dumps(answers, sort_keys=True)] if answers else []))
        if role == "user":
            files = [part for part in parts if part.get("type") == "file"]
            title = text_of(message) or next((str(file["filename"]) for file in files if file.get("filename")), "")
            return Turn("run", thread, message, key, title=title, files=tuple(_size(file.get("url")) for file in files))
        if answers:
            return Turn("answer", thread, message, key, answers, seen=_seen_parts(parts))
        raise BAD_REQUEST_PART(part="body", problem="the last message has neither a text nor a decision of the user")

    def projection(self, runtime: Runtime[Any, Any], caller: Caller, thread: str) -> Projection:  # noqa: ARG002 - as the protocol
        """Return the stream of a thread."""
        return ui_messages.UiMessages()

    def failure(self, detail: str, code: str) -> dict[str, Any]:  # noqa: ARG002 - as the protocol
        """Return the chunk that reports a broken stream."""
        return {"type": "error", "errorText": detail}


def _seen_parts(parts: Iterable[Mapping[str, Any]]) -> Seen:
    """Parse a message of the AI SDK as the page sent it."""
    tools = [part for part in parts if "toolCallId" in part]
    return Seen(
        texts=tuple(
            (part["type"], str(part.get("text", ""))) for part in parts if part.get("type") in ("text", "reasoning")
        ),
        calls=frozenset(str(tool["toolCallId"]) for tool in tools),
        results=frozenset(
            str(tool["toolCallId"]) for tool in tools if str(tool.get("state", "")).startswith("output-")
        ),
        files=tuple(str(part.get("url", "")) for part in parts if part.get("type") == "file"),
    )


def _decision(approval: dict[str, Any]) -> Any:
    """Return the answer to an approval."""
    agreed = bool(approval.get("approved"))
    reason = approval.get("reason")
    return {"approve": agreed, "reason": str(reason)} if reason else agreed


# -- AG-UI -----------------------------------------------------------------------------------------------------------

_FILES: Final = ("image", "audio", "video", "document")
"""Types of content parts that are files."""


def as_user_messages(request: Mapping[str, Any]) -> Any:
    """Return the input of a graph whose state has a field `messages`: the user's last messages.

    Raises:
        InputError: A message has a part that is neither a text nor a file with its data, or is empty
            (`bad-request-part`); or a file does not match its media type (`bad-media`).
    """
    messages = _said(request)
    if not messages:
        raise BAD_REQUEST_PART(part="body", problem="the last message is not one of the user")
    return {
        "messages": [_user_message([*map(_content, _parts_of(message))], str(message["id"])) for message in messages]
    }


@final
class AgUiAgent:
    """An agent for front ends that speak AG-UI 1.0: `app(..., mounts={"/ag-ui/support": AgUiAgent("support")})`.

    Args:
        graph: Name of the graph.
        input_of: Makes the input of a run from a request, which is a `RunAgentInput` as JSON data. By default the field
            `messages` gets the user's last messages, as `UserMessage`s.
        shows: Names of the fields of the state that a page may see, or a function of the `Caller` that returns them. By
            default no state is sent.
    """

    headers: Mapping[str, str] = ag_ui.HEADERS
    end: str = ""
    replays: bool = True

    def __init__(self, graph: str, *, input_of: InputOf = as_user_messages, shows: Shows = ()) -> None:
        self.graph: Final = graph
        self.input_of: Final = input_of
        self._shows: Final = shows

    def turn_of(self, body: bytes) -> Turn:
        """Parse the body of a request; see `ChatProtocol`."""
        try:
            request = _parsed(body)
            thread, run = str(request["threadId"]), str(request["runId"])
            message_ids = tuple(str(message["id"]) for message in _said(request))
            parts = [part for message in _said(request) for part in _parts_of(message) if part.get("type") in _FILES]
            files = tuple(_size(part["source"]["value"]) for part in parts)
            seen = _seen_messages(request["messages"])
            resumed: list[Any] = [*(request.get("resume") or ())]
            answers = {
                str(entry["interruptId"]): entry.get("payload") for entry in resumed if entry["status"] == "resolved"
            }
            dropped = tuple(str(entry["interruptId"]) for entry in resumed if entry["status"] == "cancelled")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise BAD_REQUEST_PART(part="body", problem="it is not a RunAgentInput of AG-UI") from None
        if len(answers) + len(dropped) < len(resumed):
            raise BAD_REQUEST_PART(part="body", problem="an entry of resume is neither resolved nor cancelled")
        verb: Literal["run", "answer"] = "answer" if resumed else "run"
        return Turn(verb, thread, request, ("run", run), answers, dropped, message_ids, seen, files=files)

    def projection(self, runtime: Runtime[Any, Any], caller: Caller, thread: str) -> Projection:
        """Return the stream of a thread, with the fields of the state that the caller may see."""
        shows = self._shows(caller) if callable(self._shows) else self._shows
        return ag_ui.AgUi(state_at=lambda seq: runtime.state(thread, at=seq), shows=shows)

    def failure(self, detail: str, code: str) -> dict[str, Any]:
        """Return the event that reports a broken stream."""
        return {"type": "RUN_ERROR", "message": detail, "code": code}


def _said(request: Mapping[str, Any]) -> list[Any]:
    """Return the user messages at the end of a request."""
    messages: list[Any] = []
    for message in reversed(request["messages"]):
        if message["role"] != "user":
            break
        messages.insert(0, message)
    return messages


def _seen_messages(messages: Iterable[Mapping[str, Any]]) -> Seen:
    """Return the page's part of the turn: its messages after the last user message."""
    texts: list[tuple[Any, str]] = []
    calls, results, files = set[str](), set[str](), list[str]()
    for message in messages:
        match message["role"]:
            case "user":
                texts, calls, results, files = [], set[str](), set[str](), []
            case "assistant" | "reasoning" as role:
                text = message.get("content") or ""
                texts += [("text" if role == "assistant" else role, str(text))] if text else []
                calls |= {str(call["id"]) for call in message.get("toolCalls") or ()}
            case "tool":
                results.add(str(message["toolCallId"]))
            case "activity" if message.get("activityType") == "file":
                source = message["content"]["source"]
                is_data = source["type"] == "data"
                files.append(_data_url(source) if is_data else str(source["value"]))
            case _:
                pass
    return Seen(texts=tuple(texts), calls=frozenset(calls), results=frozenset(results), files=tuple(files))


def _parts_of(message: Mapping[str, Any]) -> list[Any]:
    """Return the content parts of a message of AG-UI."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*content]


def _content(part: Mapping[str, Any]) -> Content:
    """Return a content part of a user message."""
    kind = part.get("type")
    if kind not in _FILES:
        return _text(part)
    source: Any = part["source"]
    metadata: Any = part.get("metadata")
    name = metadata.get("filename") if hasattr(metadata, "get") else None
    url = _data_url(source) if source.get("type") == "data" else None
    return _file(url, source.get("mimeType"), name)


def _data_url(source: Mapping[str, Any]) -> str:
    """Return a source of AG-UI with data as a `data:` URL."""
    return f"data:{source.get('mimeType', '')};base64,{source['value']}"


# -- performing requests -----------------------------------------------------------------------------------------------


def title_of(turn: Turn) -> str:
    """Return the title of a new chat: the beginning of the user's message, as one line."""
    text = "".join(char if char.isprintable() else " " for char in turn.title[: 4 * _TITLE])
    return " ".join(text.split())[:_TITLE].rstrip()


def decided(turn: Turn, runtime: Runtime[Any, Any], may: Callable[[Any], None]) -> Turn:
    """Return the part of *turn* that is left to do, given the state of its thread. May cancel a paused thread.

    Args:
        turn: The request.
        runtime: The caller's runtime.
        may: Checks a right of the caller.

    Raises:
        InputError: The caller lacks the right to cancel (`forbidden`).
    """
    if turn.dropped:
        state = runtime.state(turn.thread)
        kinds = {question.id: question.kind for question in state.interrupts if question.id in turn.dropped}
        if kinds and all(kind == "approval" for kind in kinds.values()):
            return turn._replace(answers={**turn.answers, **dict.fromkeys(kinds, False)})
        if kinds and state.status == "interrupted":
            may("run")
            runtime.cancel(turn.thread)
        is_new = turn.said and turn.said != _began_with(runtime, turn.thread, state.seq)
        return turn._replace(verb="run" if is_new else "", answers={}, abandons=state.status == "failed")
    if turn.verb == "answer":
        return turn._replace(answers=_new_answers(turn.answers, runtime, turn.thread))
    failed_messages = _failed_after(runtime, turn.thread) if turn.verb == "run" else None
    if failed_messages is None:
        return turn
    if failed_messages and failed_messages == turn.said:
        return turn._replace(verb="retry", key=())
    return turn._replace(abandons=True)


def _new_answers(answers: Mapping[str, Any], runtime: Runtime[Any, Any], thread: str) -> Mapping[str, Any]:
    """Return *answers* without those that the thread already has: a page sends a message with all its decisions."""
    state = runtime.state(thread)
    open_ = {question.id for question in state.interrupts}
    if open_.isdisjoint(answers) or open_.issuperset(answers):
        return answers
    begin = begin_of_turn(runtime, thread, state.seq)
    turn_events = (entry.event for entry in runtime.entries(thread, after=begin - 1))
    recorded = {event.id: event.answer for event in turn_events if isinstance(event, events.InterruptAnswered)}
    return {
        id_: answer
        for id_, answer in answers.items()
        if id_ in open_ or id_ not in recorded or not _same(recorded[id_], answer)
    }


def _same(known: Any, answer: Any) -> bool:
    """Return whether a question has this answer. Pages leave out the reason of a decision."""
    return known == answer or (isinstance(known, Mapping) and cast("Any", known).get("approve") is answer)


def _failed_after(runtime: Runtime[Any, Any], thread: str) -> tuple[str, ...] | None:
    """Return the ids of the user messages that began the turn in which the thread failed; None if it did not fail."""
    try:
        head = runtime.state(thread)
    except InputError as error:
        if error.code != UNKNOWN_THREAD.code:
            raise
        return None
    return _began_with(runtime, thread, head.seq) if head.status == "failed" else None


def _began_with(runtime: Runtime[Any, Any], thread: str, seq: int) -> tuple[str, ...]:
    begin = begin_of_turn(runtime, thread, seq)
    entry = next(iter(runtime.entries(thread, after=begin - 1)))
    began = next((event for event in Conversation().entry(entry) if isinstance(event, RunBegan)), None)
    return () if began is None else tuple(message.id or "" for message in began.said)


def begin_of_turn(runtime: Runtime[Any, Any], thread: str, seq: int) -> int:
    """Return the position of the last input up to the entry *seq*, where its turn begins. Reads backwards."""
    return next(iter(begins_of_turns(runtime, thread, seq, 1)), 1)


def begins_of_turns(runtime: Runtime[Any, Any], thread: str, seq: int, number: int) -> list[int]:
    """Return the positions of the last inputs up to the entry *seq*, newest first.

    There are *number* of them, or fewer: at the beginning of the thread, or where turns are long.
    """
    size = _PAGE
    while True:
        after = max(0, seq - size)
        positions = inputs(takewhile(lambda entry: entry.seq <= seq, runtime.entries(thread, after=after)))
        if len(positions) >= number or after == 0 or (positions and size >= _MOST_ENTRIES):
            return positions[::-1][:number]
        size *= 4


def page_of_messages(runtime: Runtime[Any, Any], thread: str, before: int, turns: int) -> dict[str, Any]:
    """Return the messages of the last turns whose input comes before the entry *before*: *turns*, or fewer long ones.

    `before` of the page requests the previous page; None if there is none.
    """
    begins = begins_of_turns(runtime, thread, before - 1, turns)
    first = next((begin for begin in reversed(begins) if before - begin <= _MOST_ENTRIES), begins[0] if begins else 1)
    entries = takewhile(lambda entry: entry.seq < before, runtime.entries(thread, after=first - 1, live=True))
    return {"id": thread, "messages": ui_history.messages(entries), "before": first if first > 1 else None}


def begin_of_run(runtime: Runtime[Any, Any], thread: str, turn: int) -> int:
    """Return the position at which the last run of the turn that begins at *turn* began or continued."""
    conversation = Conversation()
    for number, entry in enumerate(runtime.entries(thread, after=turn - 1)):
        if number and isinstance(entry.event, events.RunStarted) and not entry.path:  # the next turn
            break
        conversation.entry(entry)
    return conversation.began_at or turn


@final
class ChatForm:
    """The stream of a chat.

    Args:
        protocol: The protocol to write in.
        projection: The content to write.
        known: Entries that the client already has.
        seen: The client's part of the turn besides those.
        retried_at: Entry at which the last run of the turn began or continued, to leave out failures before it; 0 for
            none.
        aside: Runs calls that may block.
    """

    over: bool = False

    def __init__(
        self,
        protocol: ChatProtocol,
        projection: Projection,
        known: Iterable[Entry],
        seen: Seen,
        *,
        retried_at: int,
        aside: Aside,
    ) -> None:
        self.headers: Mapping[str, str] = {**HEADERS, **protocol.headers}
        self._protocol = protocol
        self._made = projection
        self._retried_at = retried_at
        self._aside = aside
        projection.had(seen)
        for entry in known:
            projection.known(entry)

    async def item(self, item: Entry | LiveItem) -> bytes:
        """Return the text to send for an entry or a live item."""
        projection = self._made
        if isinstance(item, LiveItem):
            payloads = projection.live(item.mode, item.item, item.missed)
        elif item.seq < self._retried_at and isinstance(item.event, _ENDED_EARLY) and not item.path:
            projection.known(item)  # the AI SDK reads nothing after an error
            payloads = []
        elif projection.reads(item):
            payloads = await self._aside(lambda: projection.entry(item))
        else:
            payloads = projection.entry(item)
        self.over = projection.over
        return ("".join(map(line, payloads)) + (self._protocol.end if projection.over else "")).encode()

    async def end(self) -> bytes:
        """Return the end of the stream."""
        return self._protocol.end.encode()

    def problem(self, error: Exception) -> bytes:
        """Return the event of an error, and the end of the stream."""
        details = problem(error)
        return f"{line(self._protocol.failure(details['detail'], details['code']))}{self._protocol.end}".encode()
