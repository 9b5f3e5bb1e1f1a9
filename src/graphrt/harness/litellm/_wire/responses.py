"""OpenAI's Responses, as OpenAI speaks it and the servers that follow it.

An answer is a list of output items. A stream describes them piece by piece, and once more when they are complete;
servers leave much of that out. litellm (1.110, `completion_extras/litellm_responses_transformation`) reads only the
pieces, and so loses texts and arguments that arrive in one go. It has no place for refusals, for the thoughts of open
models and for items of hosted tools, and fails at citations of files, at unknown items and at empty pieces.

It therefore always gets the same simple form of an answer: thoughts, messages with only text, and calls,
in pieces that add up to the whole. Everything else is noted in `Seen`.

Source:
    https://platform.openai.com/docs/api-reference/responses and /docs/api-reference/responses-streaming
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, ClassVar, Final

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._failures import Failure, ReportedError, failure_of, unusable
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import mapping, mappings, parsed, text, usage
from graphrt.harness.messages import ProviderPart, ThinkingBlock
from graphrt.harness.protocol import FinishReason

_PROVIDER: Final = "openai"
_CALLS: Final[Mapping[str, str]] = {"function_call": "arguments", "custom_tool_call": "input"}
"""Types of items that are calls of the client's tools, with the field of their arguments."""
_READ: Final = frozenset({"message", "reasoning", *_CALLS})
"""Types of items that have a place in a reply; all others become parts in the provider's form."""
_PIECES: Final[Mapping[str, tuple[str, str]]] = {
    "output_text": ("message", "text"),
    "refusal": ("message", "refusal"),
    "reasoning_summary_text": ("reasoning", "summary"),
    "reasoning_summary": ("reasoning", "summary"),
    "reasoning_text": ("reasoning", "content"),
    "reasoning": ("reasoning", "content"),  # the name that some open servers use
    "function_call_arguments": ("function_call", "arguments"),
    "custom_tool_call_input": ("custom_tool_call", "arguments"),
}
"""Maps SUBJECT in `response.SUBJECT.delta` and `.done` to the type of the item and the lane of the text."""
_LANES: Final[Mapping[str, str]] = {
    "output_text": "text",
    "text": "text",  # of some open servers
    "refusal": "refusal",
    "summary_text": "summary",
    "reasoning_text": "content",
}
"""Maps the type of a part of a message or of reasoning to the lane of its text."""
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_INCOMPLETE: Final[Mapping[str, FinishReason]] = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""Maps the reason of an incomplete response to our finish reason; all others are "unknown"."""
_NOT_READY: Final = frozenset({"queued", "in_progress", "cancelled"})
"""Statuses of a response that has no answer yet, or will never have one."""
_STATUSES: Final = _NOT_READY | {"completed", "incomplete", "failed"}
_KEPT: Final = ("id", "object", "created_at", "model", "service_tier")
"""Fields of a response that litellm gets. Most others repeat the request, and litellm fails at unusual values."""
_BETWEEN: Final = "\n\n"
"""Separator of two parts of the thinking. litellm uses a blank in whole answers, and often none in streams."""
_NO_ITEM: Final[Mapping[str, Any]] = {}
_NUMBERED: Final = re.compile(r"call_\d+")
"""A call's number within its response, which some servers send as its id."""


class Responses(Api):
    """POST /v1/responses."""

    name: ClassVar[str | None] = "responses"
    paths: ClassVar[tuple[str, ...]] = ("/responses",)

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._items: Final[list[_Item]] = []
        """The items of a stream, in the order in which they began."""
        self._current: Final[dict[int | str, _Item]] = {}
        """The latest item at each place of the output."""
        self._thought: tuple[int, str, int] | None = None
        """Item, lane and place of the part that the latest piece of the thinking belongs to."""

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        if "output" not in body and text(body.get("status")) not in _STATUSES:
            return super().document(body)  # not a response
        return self._complete(body, [dict(item) for item in mappings(body.get("output"))])

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        events = super().event(event, value)
        data = mapping(value)
        kind = text(data.get("type")) or event.name
        if not data or not kind.startswith("response."):
            return events
        if kind in _ENDS:
            return list(self._end(mapping(data.get("response"))))
        if kind == "response.created":
            return [_event(kind, response=_response(mapping(data.get("response"))))]
        subject, _, step = kind.removeprefix("response.").rpartition(".")
        return list(self._read(subject, step, data))

    def end(self) -> Iterable[Event]:
        if self.seen.ended:
            return ()
        # For a truncated stream, litellm raises an error with a made-up status. Our own reader judges all streams.
        return [_event("response.completed", response=_response({}, _simple([])))]

    # ---------------------------------------------------------------------------------------------------- streams

    def _read(self, subject: str, step: str, value: Mapping[str, Any]) -> Iterator[Event]:
        """Read an event about an item."""
        if subject == "output_item":
            body = dict(mapping(value.get("item")))
            item = self._item(value, _type(body), begins=step == "added")
            if step == "done":
                yield from self._settle(item, body)
                return
            item.body = body
            if item.kind in _CALLS:
                yield from self._begin_call(item)
                yield from self._settle_part(item, "arguments", 0, _arguments(body))
        elif subject in _PIECES:
            kind, lane = _PIECES[subject]
            item, place = self._item(value, kind), _place(value)
            if step == "delta":
                yield from self._add(item, lane, place, text(value.get("delta")))
            elif step == "done":
                whole = next((value[name] for name in ("text", "refusal", "arguments", "input") if name in value), None)
                item.is_whole = item.is_whole or whole is not None
                yield from self._settle_part(item, lane, place, _as_text(whole))
        elif subject == "output_text.annotation" and step == "added":
            self._item(value, "message").annotations.append(dict(mapping(value.get("annotation"))))

    def _item(self, value: Mapping[str, Any], kind: str, *, begins: bool = False) -> _Item:
        """Return the item of type *kind* that an event is about; a new one if it *begins* or none has begun."""
        index = value.get("output_index")
        place = index if isinstance(index, int) else text(value.get("item_id"))
        item = self._current.get(place)
        if begins or item is None or item.kind != kind:
            item = self._current[place] = self._new(kind)
        return item

    def _new(self, kind: str) -> _Item:
        item = _Item(kind, len(self._items))
        self._items.append(item)
        return item

    def _add(self, item: _Item, lane: str, place: int, piece: str) -> Iterator[Event]:
        """Add a piece to a lane of an item, in the part at *place*; yield it for litellm."""
        if not piece:
            return  # litellm fails on empty arguments
        item.pieces.setdefault((lane, place), []).append(piece)
        at = {"item_id": f"item_{item.number}", "output_index": item.number, "delta": piece}
        match lane:
            case "text":
                yield _event("response.output_text.delta", **at, content_index=0)
            case "summary" | "content":
                part = (item.number, lane, place)
                if self._thought not in (None, part):
                    at["delta"] = _BETWEEN + piece
                self._thought = part
                yield _event("response.reasoning_summary_text.delta", **at, summary_index=0)
            case "arguments" if item.is_begun:
                yield _event("response.function_call_arguments.delta", **at)
            case "arguments":
                yield from self._begin_call(item)
            case _:
                pass

    def _begin_call(self, item: _Item) -> Iterator[Event]:
        """Announce a call to litellm once its name is known, with the arguments that have arrived."""
        if not item.is_begun and item.body.get("name"):
            item.is_begun = True
            call = {**_call(item.body, item.number), "arguments": ""}
            yield _event("response.output_item.added", output_index=item.number, item=call)
            for piece in item.pieces.get(("arguments", 0), ()):
                at = {"item_id": f"item_{item.number}", "output_index": item.number}
                yield _event("response.function_call_arguments.delta", **at, delta=piece)

    def _settle(self, item: _Item, body: dict[str, Any]) -> Iterator[Event]:
        """Process the complete *body* of an item, and yield its missing parts."""
        item.body, item.is_whole = body, True
        if item.kind in _CALLS:
            yield from self._begin_call(item)
            yield from self._settle_part(item, "arguments", 0, _arguments(body))
        lanes = _lanes(body)
        for lane in ("summary", "content"):
            for place, whole in enumerate(lanes.get(lane, ())):
                yield from self._settle_part(item, lane, place, whole)
        if item.kind == "message":
            arrived, whole = item.arrived("text"), "".join(lanes.get("text", ()))
            if whole.startswith(arrived):
                yield from self._add(item, "text", 0, whole[len(arrived) :])
            if not item.is_closed:
                item.is_closed = True  # with an output schema, litellm drops the text of all later messages
                yield _event("response.output_item.done", output_index=item.number, item=_message("", item.number))

    def _settle_part(self, item: _Item, lane: str, place: int, whole: str) -> Iterator[Event]:
        """Process the *whole* text of a part, and yield its missing pieces.

        Raises:
            ReportedError: The arguments of a call differ from their pieces, which litellm already has.
        """
        arrived = "".join(item.pieces.get((lane, place), ()))
        if whole.startswith(arrived):
            yield from self._add(item, lane, place, whole[len(arrived) :])
        elif lane == "arguments" and whole and parsed(arrived) != parsed(whole):
            raise unusable(f"the call of {text(item.body.get('name'))!r} differs from the pieces that the stream had")

    def _end(self, response: Mapping[str, Any]) -> Iterator[Event]:
        """Process the response at the end of a stream, and yield its missing parts."""
        output = [dict(body) for body in mappings(response.get("output"))]
        for item, body in self._matched(output):
            yield from self._settle(item, body)
        complete = self._complete(response, output or [item.assembled() for item in self._items])
        kind = "response.incomplete" if complete["status"] == "incomplete" else "response.completed"
        yield _event(kind, response=complete)

    def _matched(self, output: Iterable[dict[str, Any]]) -> Iterator[tuple[_Item, dict[str, Any]]]:
        """Yield each item of *output* with the streamed item that it completes: matched by ids, else by type and order.

        Some servers give an item another id in each event.
        """
        remaining = list(self._items)
        for body in output:
            kind = _type(body)
            same_kind = [item for item in remaining if item.kind == kind]
            same_ids = (item for item in same_kind if _ids(item.body) & _ids(body))
            item = next(same_ids, None) or next(iter(same_kind), None)
            if item is None:
                item = self._new(kind)
            else:
                remaining.remove(item)
            yield item, body

    # ----------------------------------------------------------------------------------------------- whole answers

    def _complete(self, response: Mapping[str, Any], output: list[dict[str, Any]]) -> dict[str, Any]:
        """Note the facts in a response that has ended, and return it in the form for litellm.

        Raises:
            ReportedError: It failed, or cannot be used.
        """
        seen, status = self.seen, text(response.get("status"))
        seen.usage = _usage(mapping(response.get("usage")))
        seen.model = text(response.get("model")) or None
        seen.service_tier = text(response.get("service_tier")) or None
        _check_status(response, status, output)
        cause = text(mapping(response.get("incomplete_details")).get("reason"))
        seen.ended, seen.reason = True, cause or status or "completed"
        calls = [body for body in output if _type(body) in _CALLS]
        if cause or status == "incomplete":
            seen.finish = _INCOMPLETE.get(cause, "unknown")
        elif status in ("completed", ""):
            seen.finish = "tool_calls" if calls else "stop"
        else:
            seen.finish = "unknown"
        if seen.finish != "length" and not all(body.get("name") for body in calls):
            raise unusable("the answer calls a tool without a name")
        seen.refusal = "".join(part for body in output for part in _lanes(body).get("refusal", ()))
        seen.blocks[:] = _blocks(output)
        seen.parts[:] = _provider_parts(output)
        return _response(response, _simple(output), is_cut=seen.finish in ("length", "content_filter"))


@dataclass(slots=True)
class _Item:
    """An output item of a stream, which may have arrived in part."""

    kind: str
    """Its type."""
    number: int
    """Its place among the items."""
    body: dict[str, Any] = field(default_factory=dict[str, Any])
    """The item in the latest event that has it."""
    pieces: dict[tuple[str, int], list[str]] = field(default_factory=dict[tuple[str, int], list[str]])
    """The pieces of its texts, by lane and by place of the part."""
    annotations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    is_begun: bool = False
    """Whether litellm knows of the call."""
    is_whole: bool = False
    """Whether an event marked the item, or its text, as complete."""
    is_closed: bool = False
    """Whether litellm knows that the message is complete."""

    def arrived(self, lane: str) -> str:
        """Return the text that has arrived in a lane."""
        return "".join("".join(pieces) for (name, _), pieces in sorted(self.pieces.items()) if name == lane)

    def assembled(self) -> dict[str, Any]:
        """Return the item, of a stream whose end does not repeat it.

        Raises:
            ReportedError: It is a call that is not complete.
        """
        body = {**self.body, "type": self.kind}
        if self.kind in _CALLS:
            arrived = self.arrived("arguments")
            if not self.is_whole and parsed(arrived) is None:
                raise unusable(f"the call of {text(body.get('name'))!r} is not complete")
            return {**body, _CALLS[self.kind]: arrived}
        if self.is_whole and (body.get("content") or body.get("summary")):
            return body
        parts: dict[str, list[dict[str, Any]]] = {"summary": [], "content": []}
        for (lane, _), pieces in sorted(self.pieces.items()):
            kind = next(name for name, lane_name in _LANES.items() if lane_name == lane)
            key = "refusal" if lane == "refusal" else "text"
            parts["summary" if lane == "summary" else "content"].append({"type": kind, key: "".join(pieces)})
        if self.annotations:
            parts["content"].append({"type": "output_text", "text": "", "annotations": self.annotations})
        return {**body, **{name: values for name, values in parts.items() if values}}


# --------------------------------------------------------------------------------------------------- reading of items


def _check_status(response: Mapping[str, Any], status: str, output: list[dict[str, Any]]) -> None:
    """Check that a response has an answer.

    Raises:
        ReportedError: It has none.
    """
    error = mapping(response.get("error"))
    if status == "failed" or (error and not output):
        failure = failure_of(error)
        raise ReportedError(failure if failure.text or failure.names else Failure(text="the response failed"))
    if status in _NOT_READY and not output:
        raise unusable(f"the response is not ready (its status is {status!r}); background mode is not supported")


def _lanes(body: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the texts of the parts of a message or of reasoning, 0..n for each lane."""
    lanes: dict[str, list[str]] = {}
    if _type(body) not in ("message", "reasoning"):
        return lanes
    content = body.get("content")
    parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else mappings(content)
    for part in (*mappings(body.get("summary")), *parts):
        if lane := _lane(part, _type(body)):
            lanes.setdefault(lane, []).append(_text_of(part))
    return lanes


def _lane(part: Mapping[str, Any], kind: str) -> str:
    """Return the lane of the text of a part of an item of type *kind*; empty if it has none."""
    lane = _LANES.get(_type(part), "")
    return "content" if lane == "text" and kind == "reasoning" else lane


def _type(body: Mapping[str, Any]) -> str:
    return text(body.get("type"))


def _text_of(part: Mapping[str, Any]) -> str:
    return text(part.get("refusal")) or text(part.get("text"))


def _thoughts(body: Mapping[str, Any]) -> list[str]:
    """Return the parts of the thinking in an item that are readable: 0..n."""
    if _type(body) != "reasoning":
        return []
    lanes = _lanes(body)
    return [part for part in (*lanes.get("summary", ()), *lanes.get("content", ())) if part]


def _arguments(body: Mapping[str, Any]) -> str:
    return _as_text(body.get(_CALLS.get(_type(body), "")))


def _as_text(value: Any) -> str:
    """Return a text unchanged, and arguments that a server sent as an object as JSON text."""
    return text(value) if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _call_id(body: Mapping[str, Any]) -> str:
    """Return the id of a call. Its number within the response is not one, since later responses have the same."""
    id_ = text(body.get("call_id"))
    return id_ if id_ and not _NUMBERED.fullmatch(id_) else text(body.get("id")) or id_


def _ids(body: Mapping[str, Any]) -> set[str]:
    return {text(body.get("id")), text(body.get("call_id"))} - {""}


def _blocks(output: list[dict[str, Any]]) -> Iterator[ThinkingBlock]:
    """Yield the items of reasoning as blocks.

    A thought that precedes a call other than the first names the call in its data.
    """
    is_called = False
    for body, successor in zip_longest(output, output[1:], fillvalue=_NO_ITEM):
        is_called = is_called or _type(body) in _CALLS
        if _type(body) != "reasoning":
            continue
        call_data = {"call_id": _call_id(successor)} if is_called and _type(successor) in _CALLS else {}
        yield ThinkingBlock(
            provider=_PROVIDER,
            id=text(body.get("id")),
            text=_BETWEEN.join(_thoughts(body)),
            signature=text(body.get("encrypted_content")),
            data={name: value for name, value in body.items() if name != "encrypted_content"} | call_data,
        )


def _provider_parts(output: Iterable[Mapping[str, Any]]) -> Iterator[ProviderPart]:
    """Yield parts without another place in a reply, in order: hosted tool items, citations, parts that are not text."""
    for body in output:
        if _type(body) not in _READ:
            yield ProviderPart(provider=_PROVIDER, type=_type(body), data=body)
        elif _type(body) == "message":
            for part in mappings(body.get("content")):
                if _type(part) not in _LANES:
                    yield ProviderPart(provider=_PROVIDER, type=_type(part), data=part)
                for note in mappings(part.get("annotations")):
                    yield ProviderPart(provider=_PROVIDER, type=_type(note), data=note)


def _usage(reported: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the usage that was reported, in the form of chat completions; None if none was."""
    if not reported:
        return None
    return usage(
        sent=reported.get("input_tokens"),
        written=reported.get("output_tokens"),
        cached=mapping(reported.get("input_tokens_details")).get("cached_tokens"),
        reasoning=mapping(reported.get("output_tokens_details")).get("reasoning_tokens"),
    )


def _place(value: Mapping[str, Any]) -> int:
    """Return the place of the part that an event is about."""
    places = (value[name] for name in ("content_index", "summary_index") if isinstance(value.get(name), int))
    return next(places, 0)


# --------------------------------------------------------------------------------------------------- what litellm gets


def _event(kind: str, **fields: Any) -> Event:
    return Event("", kind).with_value({"type": kind, "sequence_number": 0, **fields})


def _simple(output: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the items of an answer that litellm reads: the whole thinking first, then messages and calls."""
    items: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for number, body in enumerate(output):
        thoughts += _thoughts(body)
        if _type(body) == "message":
            items.append(_message("".join(_lanes(body).get("text", ())), number))
        elif _type(body) in _CALLS:
            items.append(_call(body, number))
    if not items:
        items.append(_message("", 0))  # litellm takes an answer without messages and calls for an error
    if thoughts:
        summary = {"type": "summary_text", "text": _BETWEEN.join(thoughts)}
        items.insert(0, {"type": "reasoning", "id": "thoughts", "summary": [summary]})
    return items


def _message(message_text: str, number: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": message_text, "annotations": list[Any]()}]
    return {"type": "message", "id": f"item_{number}", "role": "assistant", "status": "completed", "content": content}


def _call(body: Mapping[str, Any], number: int) -> dict[str, Any]:
    id_ = _call_id(body) or f"item_{number}"
    arguments = {"name": text(body.get("name")), "arguments": _arguments(body)}
    return {"type": "function_call", "id": id_, "call_id": id_, "status": "completed", **arguments}


def _response(
    response: Mapping[str, Any], output: Iterable[dict[str, Any]] = (), *, is_cut: bool = False
) -> dict[str, Any]:
    """Return a response with only the fields that litellm needs."""
    copied = {name: response[name] for name in _KEPT if isinstance(response.get(name), (str, int, float))}
    return {
        "id": "resp",
        "created_at": 0,
        **copied,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": list(output),
        "usage": _counts(mapping(response.get("usage"))),
    }


def _counts(reported: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the usage with only counts; None if input and output have no counts of tokens."""
    counts: dict[str, Any] = {name: reported.get(name) for name in ("input_tokens", "output_tokens")}
    if not all(type(count) is int for count in counts.values()):
        return None
    details = {
        name: {key: count for key, count in mapping(reported.get(name)).items() if type(count) is int}
        for name in ("input_tokens_details", "output_tokens_details")
    }
    return {**counts, "total_tokens": sum(counts.values()), **details}
