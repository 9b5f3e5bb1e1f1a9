"""`UiMessageChat`: a chat for `useChat` of the AI SDK, as an entry of `mounts=`.

A chat is a thread, and a message of its user is the input of a run. The response is the stream of `wires.ui_messages`:

    POST /                  the last message: of the user, or with their decisions about tool calls
    GET  /{chat}/stream     the message that is being made, from its beginning; 204 if there is none
    GET  /{chat}/messages   the messages so far, as `useChat({ messages })` takes them
    GET  /                  with `page=True`, a page to chat in
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from graphrt.errors._codes.serving import BAD_REQUEST_PART
from graphrt.events import Entry
from graphrt.harness.messages import UserMessage
from graphrt.runtime import LiveItem, Runtime
from graphrt.serve._events import HEADERS
from graphrt.serve._problems import problem
from graphrt.wires import ui_messages

InputOf: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Makes the input of a run of a message of the user, which is as the AI SDK sends it: `id`, `role`, `parts`."""
_PAGE: Final = 64
"""Entries that are read at once while the beginning of a message is looked for, from the end."""


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message of the AI SDK."""
    return "".join(str(part.get("text", "")) for part in message["parts"] if part.get("type") == "text")


def as_messages(message: Mapping[str, Any]) -> Any:
    """Return the input of a graph whose state has a field `messages`."""
    return {"messages": [UserMessage(text=text_of(message), id=message["id"])]}


@final
class UiMessageChat:
    """A chat for `useChat`: `app(..., mounts={"/chat": UiMessageChat("support")})`.

    Args:
        graph: Name of the graph.
        input_of: Makes the input of a run of a message of the user. By default the field `messages` gets the text, as a
            `UserMessage`.
        page: Whether a browser is given a page to chat in. Like any page it is loaded without credentials, which it
            asks for: it holds the name of the graph, and nothing of a thread.
    """

    def __init__(self, graph: str, *, input_of: InputOf = as_messages, page: bool = False) -> None:
        self.graph: Final = graph
        self.input_of: Final = input_of
        self.page: Final = page


class Turn(NamedTuple):
    """What a request of a chat asks for."""

    verb: Literal["run", "answer", "retry"]
    """Which verb of a thread does it."""

    thread: str
    message: Mapping[str, Any]
    """The last message."""
    answers: dict[str, Any]
    """Decisions about tool calls, by the ids of the questions."""


def turn_of(raw: bytes) -> Turn:
    """Return what the body of a request asks for.

    Raises:
        InputError: It is not a request of `useChat` that a thread can take (`bad-request-part`).
    """
    try:
        body: Any = json.loads(raw)
        thread, last = body["id"], body["messages"][-1]
        role: str = last["role"]
        parts: list[dict[str, Any]] = [{**part} for part in last["parts"]]
        message: dict[str, Any] = {"id": str(last["id"]), "role": role, "parts": parts}
        decided: list[Any] = [part.get("approval") or {} for part in parts if part.get("state") == "approval-responded"]
        answers = {str(approval["id"]): _decision(approval) for approval in decided if "id" in approval}
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise BAD_REQUEST_PART(part="body", problem="it is not what useChat of the AI SDK sends") from None
    if body.get("trigger") == "regenerate-message":  # a thread that has completed refuses it: it can be forked
        return Turn("retry", thread, message, {})
    if role == "user":
        return Turn("run", thread, message, {})
    if answers:
        return Turn("answer", thread, message, answers)
    raise BAD_REQUEST_PART(part="body", problem="the last message has neither a text nor a decision of the user")


def _decision(approval: dict[str, Any]) -> Any:
    """Return the answer to an approval."""
    agreed = bool(approval.get("approved"))
    reason = approval.get("reason")
    return {"approve": agreed, "reason": str(reason)} if reason else agreed


def begin_of_turn(runtime: Runtime[Any, Any], thread: str, seq: int) -> int:
    """Return the position of the last input up to the entry *seq*: where its message begins. Reads from the end."""
    size = _PAGE
    while True:
        after = max(0, seq - size)
        found = ui_messages.last_input(takewhile(lambda one: one.seq <= seq, runtime.entries(thread, after=after)))
        if found is not None or after == 0:
            return found or 1
        size *= 4


@final
class ChatForm:
    """The stream of a chat.

    Args:
        known: Entries of the message that the client has already.
    """

    headers: Mapping[str, str] = {**HEADERS, **ui_messages.HEADERS}

    def __init__(self, known: Iterable[Entry] = ()) -> None:
        self._made = ui_messages.UiMessages()
        self._begun: list[ui_messages.Chunk] = []
        """The first chunk of the message, if the client has its beginning: it says which message goes on."""
        for entry in known:
            chunks = self._made.entry(entry)
            self._begun = self._begun or chunks

    @property
    def over(self) -> bool:
        """Whether the stream was ended, since what was shown does not hold any more."""
        return self._made.over

    def item(self, item: Entry | LiveItem) -> bytes:
        """Return the chunks of an entry, or of a live item."""
        chunks, self._begun = self._begun, []
        if isinstance(item, LiveItem):
            chunks = chunks + self._made.live(item.mode, item.item, item.missed)
        else:
            chunks = chunks + self._made.entry(item)
        last = ui_messages.DONE if self.over else ""
        return ("".join(map(ui_messages.line, chunks)) + last).encode()

    async def end(self) -> bytes:
        """Return the end of the stream."""
        return ui_messages.DONE.encode()

    def problem(self, error: Exception) -> bytes:
        """Return the chunk of an error, and the end of the stream."""
        told = {"type": "error", "errorText": problem(error)["detail"]}
        return f"{ui_messages.line(told)}{ui_messages.DONE}".encode()
