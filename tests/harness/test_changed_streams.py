"""Streams that servers, proxies and networks change: the same answer or a typed error, on every wire."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest
from tests.harness.raw_server import RawServer, raw_server
from tests.harness.wires import ask, request

from graphrt.errors import BadResponseError, HarnessError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import AgentReply, LiteLLMModel, ToolCall, ToolSpec
from graphrt.harness.litellm import _http_exchange
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

FULL: Final = os.environ.get("GRAPHRT_FULL") == "1"
ANSWER: Final = ChatAnswer(
    text='It rains in Åndalsnes, "as ever".\n\nTake 🌂.',
    tool_calls=(
        ToolCall(id="call_a", name="look", arguments={"at": "sky \u2028 æ"}),
        ToolCall(id="call_b", name="now"),
    ),
    thinking="Clouds, I think.",
    usage=Usage(input_tokens=11, output_tokens=7),
    pieces=3,
)


@dataclass(frozen=True)
class Wire:
    """How to call a server that speaks one API."""

    model: str
    path: str
    """Path of a request for a stream, after the address of the server."""
    base: str = ""
    """What the `api_base` has after the address."""


WIRES: Final = {
    "chat": Wire("openai/gpt-x", "/v1/chat/completions", "/v1"),
    "groq": Wire("groq/llama", "/v1/chat/completions", "/v1"),
    "openrouter": Wire("openrouter/x/y", "/v1/chat/completions", "/v1"),
    "responses": Wire("openai/responses/gpt-5", "/v1/responses", "/v1"),
    "messages": Wire("anthropic/claude-sonnet-4-5", "/v1/messages"),
    "gemini": Wire("gemini/gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
}


@pytest.fixture(scope="module")
def streams() -> dict[str, bytes]:
    """The stream of the one answer on each wire."""
    found: dict[str, bytes] = {}
    asked = {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
        "input": [{"role": "user", "content": "hi"}],
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }
    for name, wire in WIRES.items():
        with FakeChatServer([ANSWER], check_calls=False) as server:
            post = Request(server.anthropic_url + wire.path, json.dumps(asked).encode())
            with urlopen(post) as answer:
                found[name] = answer.read()
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.full if name == "openrouter" else ()) for name in WIRES])
def wire(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def reply_to(server: RawServer, wire: str, body: bytes, **how: Any) -> AgentReply:
    server.answers(body, media_type="text/event-stream", **how)
    model = LiteLLMModel(WIRES[wire].model, api_base=server.url + WIRES[wire].base, api_key="k", timeout_s=10)
    return asyncio.run(ask(model, "stream", request(tools=[ToolSpec(name="look"), ToolSpec(name="now")])))


def outcome(server: RawServer, wire: str, body: bytes, **how: Any) -> AgentReply | HarnessError:
    try:
        return reply_to(server, wire, body, **how)
    except HarnessError as error:
        return error


def essence(reply: AgentReply) -> AgentReply:
    """The reply without the random parts of litellm: ids that a provider did not send."""
    calls = [
        replace(call, id=call.id if call.id.startswith("call_") and len(call.id) < 10 else "")
        for call in reply.tool_calls
    ]
    blocks = tuple(block for block in reply.thinking_blocks if not block.id)
    return replace(reply, tool_calls=tuple(calls), thinking_blocks=blocks)


def events_of(body: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in body.split(b"\n\n") if event]


def over_lines(body: bytes) -> bytes:
    """Write each document over several `data:` lines."""

    def spread(found: re.Match[bytes]) -> bytes:
        try:
            lines = json.dumps(json.loads(found[1]), indent=1, ensure_ascii=False).encode().split(b"\n")
        except ValueError:
            return found[0]
        return b"\n".join(b"data: " + line for line in lines)

    return re.sub(rb"(?m)^data: (.*)$", spread, body)


CHANGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "none": lambda body: body,
    "crlf": lambda body: body.replace(b"\n", b"\r\n"),
    "cr": lambda body: body.replace(b"\n", b"\r"),
    "bom": lambda body: b"\xef\xbb\xbf" + body,
    "comments": lambda body: b"".join(b": keep-alive\n\n" + event + b":\n" for event in events_of(body)),
    "fields": lambda body: b"".join(b"id: 7\nretry: 100\n" + event for event in events_of(body)),
    "no space": lambda body: body.replace(b"data: ", b"data:"),
    "several lines": over_lines,
    "blank lines": lambda body: body.replace(b"\n\n", b"\n\n\n\n"),
    "no last line": lambda body: body.rstrip(b"\n"),
}


@pytest.fixture(scope="module")
def wholes() -> dict[str, AgentReply]:
    """The answer as it is read from the unchanged stream on each wire, as far as it was asked for."""
    return {}


@pytest.fixture
def whole(server: RawServer, streams: dict[str, bytes], wholes: dict[str, AgentReply], wire: str) -> AgentReply:
    if wire not in wholes:
        wholes[wire] = essence(reply_to(server, wire, streams[wire]))
    return wholes[wire]


@pytest.mark.parametrize("change", CHANGES)
def test_reformatted_stream_gives_the_same_answer(
    server: RawServer, streams: dict[str, bytes], wire: str, whole: AgentReply, change: str
) -> None:
    assert (whole.text, [call.name for call in whole.tool_calls]) == (ANSWER.text, ["look", "now"])
    assert whole.usage is not None
    assert essence(reply_to(server, wire, CHANGES[change](streams[wire]))) == whole


@pytest.mark.parametrize("piece", [1, pytest.param(3, marks=pytest.mark.full), pytest.param(7, marks=pytest.mark.full)])
def test_stream_in_chunks_of_a_few_bytes_gives_the_same_answer(
    server: RawServer, streams: dict[str, bytes], wire: str, whole: AgentReply, piece: int
) -> None:
    for change in ("none", "crlf"):
        assert essence(reply_to(server, wire, CHANGES[change](streams[wire]), piece=piece)) == whole


def cuts(body: bytes) -> Sequence[int]:
    """Cuts after each event, and in the middle of each."""
    ends: list[int] = []
    for event in events_of(body):
        begun = ends[-1] if ends else 0
        ends += [begun + len(event) // 2, begun + len(event)]
    return ends[:-1]


@pytest.mark.parametrize("reset", [False, True], ids=["clean", "reset"])
def test_truncated_answer_is_never_accepted_as_whole(
    server: RawServer, streams: dict[str, bytes], wire: str, whole: AgentReply, reset: bool
) -> None:
    """A connection that is closed after an event, or reset in the middle of one; either at both with GRAPHRT_FULL=1."""
    ends = cuts(streams[wire])
    ends = ends if FULL else ends[0 if reset else 1 :: 2]
    failed = 0

    for end in ends:
        found = outcome(server, wire, streams[wire][:end], reset=reset)
        if isinstance(found, HarnessError):
            assert type(found) in (TransientModelError, BadResponseError), end
            failed += 1
        else:  # only the part after the answer is missing: its usage, or the mark of the end
            assert essence(replace(found, usage=whole.usage)) == whole, end
            assert found.usage in (None, whole.usage)

    assert failed >= len(ends) - 5


@pytest.mark.parametrize("end", ["reset", "stays_open"])
def test_answer_is_whole_if_its_connection_breaks_or_stays_open_after_it(
    server: RawServer,
    streams: dict[str, bytes],
    wire: str,
    whole: AgentReply,
    end: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_http_exchange, "_END_WAIT_S", 0.05)

    assert essence(reply_to(server, wire, streams[wire], **{end: True})) == whole
