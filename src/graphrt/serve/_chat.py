"""Chats: protocols of front ends in which a chat is a thread, and a message of its user is the input of a run.

`ChatProtocol` is what the server needs of one; `UiMessageChat` (the AI SDK) and `AgUiAgent` (AG-UI) are entries of
`mounts=`. The response is a stream of `graphrt.wires`:

    POST /                  a message of the user, or their answers: the stream of the run
    GET  /{thread}/stream   the turn that goes on, or the whole thread, and then what comes; 204 if there is nothing
    GET  /{thread}/messages of the AI SDK: the messages so far, as `useChat({ messages })` takes them
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
from graphrt.serve._events import HEADERS
from graphrt.serve._problems import problem
from graphrt.wires import ag_ui, conversation, ui_messages
from graphrt.wires.conversation import Seen, line

T = TypeVar("T")
InputOf: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Makes the input of a run of a request; see the protocol for what it is given."""
Shows: TypeAlias = "Collection[str] | Callable[[Caller], Collection[str]]"
"""Names of fields of the state that are shown: the same for all, or as a function of the caller."""
Aside: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Makes a call that may block, off the event loop."""
_TITLE: Final = 60
"""Characters of the first message of a chat that are its title."""
_PAGE: Final = 64
"""Entries that are read at once while the beginning of a turn is looked for, from the end."""


class Turn(NamedTuple):
    """What a request of a chat asks for."""

    verb: Literal["run", "answer", "retry", ""]
    """Which verb of a thread does it; empty if nothing is left to do."""
    thread: str
    request: Mapping[str, Any]
    """What `input_of` is given."""
    key: tuple[str, ...] = ()
    """Names the request: one that is sent again is taken once. Empty: it is taken each time."""
    answers: Mapping[str, Any] = {}
    """Answers by the ids of the questions."""
    dropped: tuple[str, ...] = ()
    """Ids of questions that the user does not want to answer: an approval is refused, else the run is cancelled."""
    said: tuple[str, ...] = ()
    """Ids of the messages of the user. If the thread failed in the turn that they began, it is retried."""
    seen: Seen = Seen()
    """What the page has of the turn that the request continues."""
    title: str = ""
    """By which a new thread is found: what the user said; empty for none."""
    files: tuple[int, ...] = ()
    """Sizes in bytes of the files that the messages of the user hold, which the server bounds."""
    whole: bool = False
    """Whether the response begins with the whole turn, and not where the run began or went on."""


class Projection(Protocol):
    """The stream of a thread: a fold over its entries, with live items between them. Pure, but for states that it reads."""

    @property
    def over(self) -> bool:
        """Whether nothing may follow, because what was written does not hold any more."""
        ...

    def reads(self, entry: Entry) -> bool:
        """Return whether `entry` may wait for the store."""
        ...

    def entry(self, entry: Entry) -> list[dict[str, Any]]:
        """Return what is sent of an entry."""
        ...

    def had(self, seen: Seen) -> None:
        """Do not write what the client has *seen* of the present turn. Comes before the first entry."""
        ...

    def known(self, entry: Entry) -> None:
        """Take an entry that the client has already."""
        ...

    def live(self, mode: str, item: Any, missed: int = 0) -> list[dict[str, Any]]:
        """Return what is sent of a live item."""
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
        """What comes after the last event of a response; may be empty."""
        ...

    @property
    def replays(self) -> bool:
        """Whether a page that is loaded again is given the whole thread, and not the turn that goes on alone."""
        ...

    def turn_of(self, body: bytes) -> Turn:
        """Return what the body of a request asks for.

        Raises:
            InputError: It is not a request that a thread can take.
        """
        ...

    def input_of(self, request: Mapping[str, Any], /) -> Any:
        """Return the input of a run."""
        ...

    def projection(self, runtime: Runtime[Any, Any], caller: Caller, thread: str) -> Projection:
        """Return the stream of a thread, as the caller may see it."""
        ...

    def failure(self, detail: str, code: str) -> dict[str, Any]:
        """Return the event that says that the stream broke."""
        ...


def _parsed(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        ValueError: It is not JSON, which has no NaN and no infinity.
    """

    def refused(_text: str) -> float:
        raise ValueError

    def finite(text: str) -> float:
        number = float(text)
        return number if isfinite(number) else refused(text)

    return json.loads(body, parse_constant=refused, parse_float=finite)


# -- the AI SDK ------------------------------------------------------------------------------------------------------


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message of the AI SDK."""
    return "".join(str(part.get("text", "")) for part in message["parts"] if part.get("type") == "text")


def as_messages(message: Mapping[str, Any]) -> Any:
    """Return the input of a graph whose state has a field `messages`: the texts and files of the message, in order.

    Raises:
        InputError: A file is no `data:` URL (`bad-request-part`), or not what its media type says (`bad-media`).
    """
    content: list[Content] = []
    for part in message["parts"]:
        if part.get("type") == "text":
            content.append(str(part.get("text", "")))
        elif part.get("type") == "file":
            content.append(_file(part.get("url"), part.get("mediaType"), part.get("filename")))
    return {"messages": [_user_message(content, message["id"])]}


def _user_message(content: list[Content], id: str) -> UserMessage:
    """Return a message of the user. Adjoining texts are one, as the page shows them."""
    if all(isinstance(one, str) for one in content):
        return UserMessage(text="".join(map(str, content)), id=id)
    return UserMessage(content=content, id=id)


def _file(url: Any, media_type: Any, name: Any) -> MediaPart:
    """Return a file of a message of the user.

    An http URL is refused: it would be the user who chooses what a provider, or a model in the server's own network, fetches.

    Raises:
        InputError: It is no `data:` URL (`bad-request-part`), or not what its media type says (`bad-media`).
    """
    if not (isinstance(url, str) and url[:5].lower() == "data:"):
        raise BAD_REQUEST_PART(part="body", problem="a file of a message is not a data: URL")
    head, comma, body = url[5:].partition(",")
    told = str(media_type or "") or head.partition(";")[0]
    if told in ("", _UNKNOWN) and head.endswith(";base64"):  # a browser does not know it: its bytes and its name do
        told, url = "", f"data:;base64{comma}{body}"
    kind = told.partition("/")[0].lower()
    cls = Image if kind == "image" else Audio if kind == "audio" else Document
    return cls(url=url, media_type=told or None, name=str(name) if name else None)


_UNKNOWN: Final = "application/octet-stream"


def _size(url: Any) -> int:
    """Return about how many bytes a `data:` URL holds, by its length."""
    return len(str(url)) * 3 // 4


@final
class UiMessageChat:
    """A chat for `useChat` of the AI SDK: `app(..., mounts={"/chat": UiMessageChat("support")})`.

    Args:
        graph: Name of the graph.
        input_of: Makes the input of a run of a message of the user, which is as the AI SDK sends it: `id`, `role`,
            `parts`. By default the field `messages` gets its texts and files, as a `UserMessage`.
        page: Whether a browser is given a page to chat in. Like any page it is loaded without credentials, which it
            asks for: it holds the name of the graph, and nothing of a thread.
    """

    headers: Mapping[str, str] = ui_messages.HEADERS
    end: str = ui_messages.DONE
    replays: bool = False

    def __init__(self, graph: str, *, input_of: InputOf = as_messages, page: bool = False) -> None:
        self.graph: Final = graph
        self.input_of: Final = input_of
        self.page: Final = page

    def turn_of(self, body: bytes) -> Turn:
        """Return what the body of a request asks for; see `ChatProtocol`."""
        try:
            asked = _parsed(body)
            thread, last = asked["id"], asked["messages"][-1]
            role: str = last["role"]
            parts: list[dict[str, Any]] = [{**part} for part in last["parts"]]
            message: dict[str, Any] = {"id": str(last["id"]), "role": role, "parts": parts}
            decided: list[Any] = [
                part.get("approval") or {} for part in parts if part.get("state") == "approval-responded"
            ]
            answers = {str(approval["id"]): _decision(approval) for approval in decided if "id" in approval}
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            raise BAD_REQUEST_PART(part="body", problem="it is not what useChat of the AI SDK sends") from None
        if asked.get("trigger") == "regenerate-message":  # a thread that has completed refuses it: it can be forked
            return Turn("retry", thread, message, whole=True)
        key = (message["id"], *([json.dumps(answers, sort_keys=True)] if answers else []))
        if role == "user":
            files = [part for part in parts if part.get("type") == "file"]
            title = text_of(message) or next((str(one["filename"]) for one in files if one.get("filename")), "")
            return Turn("run", thread, message, key, title=title, files=tuple(_size(one.get("url")) for one in files))
        if answers:
            return Turn("answer", thread, message, key, answers, seen=_seen_parts(parts))
        raise BAD_REQUEST_PART(part="body", problem="the last message has neither a text nor a decision of the user")

    def projection(self, runtime: Runtime[Any, Any], caller: Caller, thread: str) -> Projection:  # noqa: ARG002 - as the protocol
        """Return the stream of a thread."""
        return ui_messages.UiMessages()

    def failure(self, detail: str, code: str) -> dict[str, Any]:  # noqa: ARG002 - as the protocol
        """Return the chunk that says that the stream broke."""
        return {"type": "error", "errorText": detail}


def _seen_parts(parts: Iterable[Mapping[str, Any]]) -> Seen:
    """Return what a page has of a message of the AI SDK."""
    tools = [one for one in parts if "toolCallId" in one]
    return Seen(
        texts=tuple(
            (one["type"], str(one.get("text", ""))) for one in parts if one.get("type") in ("text", "reasoning")
        ),
        calls=frozenset(str(one["toolCallId"]) for one in tools),
        results=frozenset(str(one["toolCallId"]) for one in tools if str(one.get("state", "")).startswith("output-")),
        files=tuple(str(one.get("url", "")) for one in parts if one.get("type") == "file"),
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
    """Return the input of a graph whose state has a field `messages`: the last messages of the user.

    Raises:
        InputError: One has a part that is neither a text nor a file with its data, or there is none
            (`bad-request-part`); or a file is not what its media type says (`bad-media`).
    """
    said = _said(request)
    if not said:
        raise BAD_REQUEST_PART(part="body", problem="the last message is not one of the user")
    return {"messages": [_user_message([*map(_content, _parts_of(one))], str(one["id"])) for one in said]}


@final
class AgUiAgent:
    """An agent for front ends that speak AG-UI 1.0: `app(..., mounts={"/ag-ui/support": AgUiAgent("support")})`.

    Args:
        graph: Name of the graph.
        input_of: Makes the input of a run of a request, which is a `RunAgentInput` as JSON data. By default the field
            `messages` gets the last messages of the user, as `UserMessage`s.
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
        """Return what the body of a request asks for; see `ChatProtocol`."""
        try:
            asked = _parsed(body)
            thread, run = str(asked["threadId"]), str(asked["runId"])
            said = tuple(str(one["id"]) for one in _said(asked))
            parts = [part for one in _said(asked) for part in _parts_of(one) if part.get("type") in _FILES]
            files = tuple(_size(part["source"]["value"]) for part in parts)
            seen = _seen_messages(asked["messages"])
            resumed: list[Any] = [*(asked.get("resume") or ())]
            answers = {str(one["interruptId"]): one.get("payload") for one in resumed if one["status"] == "resolved"}
            dropped = tuple(str(one["interruptId"]) for one in resumed if one["status"] == "cancelled")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise BAD_REQUEST_PART(part="body", problem="it is not a RunAgentInput of AG-UI") from None
        if len(answers) + len(dropped) < len(resumed):
            raise BAD_REQUEST_PART(part="body", problem="an entry of resume is neither resolved nor cancelled")
        verb: Literal["run", "answer"] = "answer" if resumed else "run"
        return Turn(verb, thread, asked, ("run", run), answers, dropped, said, seen, files=files)

    def projection(self, runtime: Runtime[Any, Any], caller: Caller, thread: str) -> Projection:
        """Return the stream of a thread, with the fields of the state that the caller may see."""
        shows = self._shows(caller) if callable(self._shows) else self._shows
        return ag_ui.AgUi(state_at=lambda seq: runtime.state(thread, at=seq), shows=shows)

    def failure(self, detail: str, code: str) -> dict[str, Any]:
        """Return the event that says that the stream broke."""
        return {"type": "RUN_ERROR", "message": detail, "code": code}


def _said(request: Mapping[str, Any]) -> list[Any]:
    """Return the messages of the user at the end of a request."""
    found: list[Any] = []
    for one in reversed(request["messages"]):
        if one["role"] != "user":
            break
        found.insert(0, one)
    return found


def _seen_messages(messages: Iterable[Mapping[str, Any]]) -> Seen:
    """Return what a page has of the turn: its messages after the last one of the user."""
    texts: list[tuple[Any, str]] = []
    calls, results, files = set[str](), set[str](), list[str]()
    for one in messages:
        match one["role"]:
            case "user":
                texts, calls, results, files = [], set[str](), set[str](), []
            case "assistant" | "reasoning" as role:
                text = one.get("content") or ""
                texts += [("text" if role == "assistant" else role, str(text))] if text else []
                calls |= {str(call["id"]) for call in one.get("toolCalls") or ()}
            case "tool":
                results.add(str(one["toolCallId"]))
            case "activity" if one.get("activityType") == "file":
                source = one["content"]["source"]
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
    """Return a content part of a message of the user."""
    kind = part.get("type")
    if kind == "text":
        return str(part.get("text", ""))
    if kind not in _FILES:
        raise BAD_REQUEST_PART(part="body", problem="a message of the user has a part that is neither text nor a file")
    source: Any = part["source"]
    about: Any = part.get("metadata")
    name = about.get("filename") if hasattr(about, "get") else None
    url = _data_url(source) if source.get("type") == "data" else None
    return _file(url, source.get("mimeType"), name)


def _data_url(source: Mapping[str, Any]) -> str:
    """Return a source of AG-UI with data as a `data:` URL."""
    return f"data:{source.get('mimeType', '')};base64,{source['value']}"


# -- what is done ----------------------------------------------------------------------------------------------------


def title_of(turn: Turn) -> str:
    """Return the title of a new chat: the beginning of what the user said, as one line."""
    line = "".join(one if one.isprintable() else " " for one in turn.title[: 4 * _TITLE])
    return " ".join(line.split())[:_TITLE].rstrip()


def decided(turn: Turn, runtime: Runtime[Any, Any], may: Callable[[Any], None]) -> Turn:
    """Return what is to be done of *turn*, now that its thread is looked at. May cancel a paused thread.

    Args:
        turn: What the request asks for.
        runtime: As the caller uses it.
        may: Checks a right of the caller.

    Raises:
        InputError: The caller lacks the right to cancel (`forbidden`).
    """
    if turn.dropped:
        found = runtime.state(turn.thread)
        kinds = {one.id: one.kind for one in found.interrupts if one.id in turn.dropped}
        if kinds and all(kind == "approval" for kind in kinds.values()):
            return turn._replace(answers={**turn.answers, **dict.fromkeys(kinds, False)})
        if kinds and found.status == "interrupted":
            may("run")
            runtime.cancel(turn.thread)
        is_new = turn.said and turn.said != _began_with(runtime, turn.thread, found.seq)
        return turn._replace(verb="run" if is_new else "", answers={})
    if turn.verb == "answer":
        return turn._replace(answers=_new_answers(turn.answers, runtime, turn.thread))
    if turn.verb == "run" and turn.said and _failed_after(runtime, turn.thread) == turn.said:
        return turn._replace(verb="retry", key=())
    return turn


def _new_answers(answers: Mapping[str, Any], runtime: Runtime[Any, Any], thread: str) -> Mapping[str, Any]:
    """Return *answers* without those that the thread has already: a page sends a message with all its decisions."""
    found = runtime.state(thread)
    open_ = {one.id for one in found.interrupts}
    if open_.isdisjoint(answers) or open_.issuperset(answers):
        return answers
    begin = begin_of_turn(runtime, thread, found.seq)
    turn = (one.event for one in runtime.entries(thread, after=begin - 1))
    known = {one.id: one.answer for one in turn if isinstance(one, events.InterruptAnswered)}
    return {id_: one for id_, one in answers.items() if id_ in open_ or id_ not in known or not _same(known[id_], one)}


def _same(known: Any, answer: Any) -> bool:
    """Return whether a question has this answer. Pages leave out the reason of a decision."""
    return known == answer or (isinstance(known, Mapping) and cast("Any", known).get("approve") is answer)


def goes_on(runtime: Runtime[Any, Any], thread: str) -> bool:
    """Return whether a run of *thread* goes on, or will without a person: after a time, a child thread or a queue."""
    found = runtime.state(thread)
    kinds = {one.kind for one in found.interrupts}
    sleeps = "task" in kinds or bool(kinds and kinds <= {"timer", "thread"})
    return found.status == "running" or (found.status == "interrupted" and sleeps)


def _failed_after(runtime: Runtime[Any, Any], thread: str) -> tuple[str, ...]:
    """Return the ids of the messages of the user that began the turn in which the thread failed; empty if it did not."""
    try:
        head = runtime.state(thread)
    except InputError as error:
        if error.code != UNKNOWN_THREAD.code:
            raise
        return ()
    return _began_with(runtime, thread, head.seq) if head.status == "failed" else ()


def _began_with(runtime: Runtime[Any, Any], thread: str, seq: int) -> tuple[str, ...]:
    begin = begin_of_turn(runtime, thread, seq)
    entry = next(iter(runtime.entries(thread, after=begin - 1)))
    began = next(
        (one for one in conversation.Conversation().entry(entry) if isinstance(one, conversation.RunBegan)), None
    )
    return () if began is None else tuple(one.id or "" for one in began.said)


def begin_of_turn(runtime: Runtime[Any, Any], thread: str, seq: int) -> int:
    """Return the position of the last input up to the entry *seq*: where its turn begins. Reads from the end."""
    size = _PAGE
    while True:
        after = max(0, seq - size)
        found = conversation.last_input(takewhile(lambda one: one.seq <= seq, runtime.entries(thread, after=after)))
        if found is not None or after == 0:
            return found or 1
        size *= 4


def begin_of_run(runtime: Runtime[Any, Any], thread: str, turn: int) -> int:
    """Return the position at which the run began, or went on, that is the last of the turn which begins at *turn*."""
    seen = conversation.Conversation()
    for number, entry in enumerate(runtime.entries(thread, after=turn - 1)):
        if number and isinstance(entry.event, events.RunStarted) and not entry.path:  # the next turn
            break
        seen.entry(entry)
    return seen.began_at or turn


@final
class ChatForm:
    """The stream of a chat.

    Args:
        protocol: How it is written.
        projection: What is written.
        known: Entries that the client has already.
        seen: What the client has of the turn beside those.
        aside: Makes calls that may block.
    """

    over: bool = False

    def __init__(
        self, protocol: ChatProtocol, projection: Projection, known: Iterable[Entry], seen: Seen, *, aside: Aside
    ) -> None:
        self.headers: Mapping[str, str] = {**HEADERS, **protocol.headers}
        self._protocol = protocol
        self._made = projection
        self._aside = aside
        projection.had(seen)
        for entry in known:
            projection.known(entry)

    async def item(self, item: Entry | LiveItem) -> bytes:
        """Return what is sent of an entry, or of a live item."""
        made = self._made
        if isinstance(item, LiveItem):
            found = made.live(item.mode, item.item, item.missed)
        elif made.reads(item):
            found = await self._aside(lambda: made.entry(item))
        else:
            found = made.entry(item)
        self.over = made.over
        return ("".join(map(line, found)) + (self._protocol.end if made.over else "")).encode()

    async def end(self) -> bytes:
        """Return the end of the stream."""
        return self._protocol.end.encode()

    def problem(self, error: Exception) -> bytes:
        """Return the event of an error, and the end of the stream."""
        told = problem(error)
        return f"{line(self._protocol.failure(told['detail'], told['code']))}{self._protocol.end}".encode()
