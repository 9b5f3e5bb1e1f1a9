"""LiteLLMModel and compressed answers over real HTTP: limits apply to the decompressed size and to the time."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from functools import cache
from typing import Any, Final

import pytest
from tests.harness.wires import EVENTS, ask, model_for, request
from tests.patience import with_more_time

from graphrt.errors import BadResponseError, HarnessError, RateLimitError, TransientModelError
from graphrt.harness.litellm import _http_exchange
from graphrt.testing import ChatAnswer, ChatRequest, FakeChatServer, _anthropic_wire
from graphrt.testing._openai_wire import OPENAI

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

BOMB_BYTES: Final = 128 * 2**20
MOST_BYTES: Final = 64 * 2**20
"""Far below the bomb, and above the bound of 16 MiB plus the client's other memory."""
ASKED: Final = ChatRequest(method="POST", path="/", headers={}, body={})


def gzipped(begin: bytes, filler: bytes) -> bytes:
    """*begin* and 128 MiB of *filler*, compressed incrementally."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = filler * (2**20 // len(filler))
    parts = [packer.compress(begin), *(packer.compress(block) for _ in range(BOMB_BYTES // len(block)))]
    return b"".join([*parts, packer.flush()])


KINDS: Final = {
    "document": (b'{"choices": "', b"x"),
    "line": (b"data: ", b"x"),
    "events": (b"", b'data: {"choices": []}\n\n'),
    "comments": (b"", b": still here\n\n"),
}


@cache
def bomb(kind: str) -> bytes:
    return gzipped(*KINDS[kind])


def encoded(body: bytes, coding: str, **more: Any) -> ChatAnswer:
    return ChatAnswer(raw=body, headers={"Content-Encoding": coding, **EVENTS}, **more)


def failure_of(wire: str, way: str, answer: ChatAnswer, **arguments: Any) -> HarnessError:
    with FakeChatServer([answer, "fine again"]) as server:
        model = model_for(wire, server, **arguments)

        async def go() -> HarnessError:
            with pytest.raises(HarnessError) as caught:
                await ask(model, way, request())
            assert (await ask(model, way, request())).text == "fine again"
            return caught.value

        return asyncio.run(go())


def written(wire: str, text: str) -> bytes:
    document = {"openai": OPENAI.document, "anthropic": _anthropic_wire.document}[wire]
    return document(ChatAnswer(text=text), ASKED)


def test_no_compression_is_requested(wire: str, way: str) -> None:
    with FakeChatServer(["fine"]) as server:
        asyncio.run(ask(model_for(wire, server), way, request()))

    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("kind", KINDS)
def test_bomb_ends_near_the_limit_in_little_memory(wire: str, way: str, kind: str) -> None:
    with FakeChatServer(["warm up"]) as server:  # imports, tables and clients are not measured
        asyncio.run(ask(model_for(wire, server), way, request()))
    tracemalloc.start()
    try:
        error = failure_of(wire, way, encoded(bomb(kind), "gzip"), timeout_s=120)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert type(error) is BadResponseError
    assert ("16,777,216 bytes" if way == "invoke" else "compressed (gzip)") in error.what
    assert peak < MOST_BYTES


def test_timeout_applies_while_a_bomb_is_decompressed(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop runs between two chunks, and a timeout may end the call."""
    monkeypatch.setattr(_http_exchange, "_WHOLE_BYTES", 10**12)

    def asked(limit_s: float) -> None:  # the request has to arrive in this time, and the decompression takes longer
        with FakeChatServer([encoded(bomb("line"), "gzip")]) as server, pytest.raises(TransientModelError) as caught:
            asyncio.run(ask(model_for(wire, server, timeout_s=limit_s), "invoke", request()))
        assert caught.value.code == "model-timeout"

    with_more_time(asked, 0.05, 0.1, 0.2, 0.4)


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP", "deflate"])
@pytest.mark.parametrize("pieces", [1, 50])
def test_unrequested_compression_is_decompressed(wire: str, coding: str, pieces: int) -> None:
    body = written(wire, "naïve 日本語 " * 500)
    packed = zlib.compress(body) if coding == "deflate" else gzip.compress(body)
    answer = encoded(packed, coding, pieces=pieces, gap_s=0.0 if pieces == 1 else 0.00001)
    with FakeChatServer([answer]) as server:
        reply = asyncio.run(ask(model_for(wire, server), "invoke", request()))

    assert reply.text == "naïve 日本語 " * 500


def test_gzip_of_several_members_is_read_to_its_end(wire: str) -> None:
    body = written(wire, "one two three four")
    half = len(body) // 2
    answer = encoded(gzip.compress(body[:half]) + gzip.compress(body[half:]), "gzip")
    with FakeChatServer([answer]) as server:
        reply = asyncio.run(ask(model_for(wire, server), "invoke", request()))

    assert reply.text == "one two three four"


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "what"])
def test_answer_with_another_compression_is_a_bad_response(wire: str, way: str, coding: str) -> None:
    error = failure_of(wire, way, encoded(b"\x1b\x03\x00", coding))

    assert type(error) is BadResponseError
    assert coding in error.what


def test_damaged_gzip_is_a_bad_response(wire: str) -> None:
    error = failure_of(wire, "invoke", encoded(b"\x1f\x8b not gzip at all", "gzip"))

    assert type(error) is BadResponseError
    assert "cannot be decompressed" in error.what


def test_status_of_a_failure_counts_although_its_body_cannot_be_read(wire: str, way: str) -> None:
    error = failure_of(wire, way, ChatAnswer(status=503, raw=b"\x1b\x03", headers={"Content-Encoding": "br"}))

    assert (type(error), error.status_code) == (TransientModelError, 503)


def test_compressed_failure_is_read(wire: str, way: str) -> None:
    body = gzip.compress(b'{"error": {"message": "the quota is used up", "type": "error", "code": null}}')
    error = failure_of(wire, way, ChatAnswer(status=429, raw=body, headers={"Content-Encoding": "gzip"}))

    assert type(error) is RateLimitError
    assert "the quota is used up" in error.what


def test_stream_of_endless_events_is_not_read_to_its_end(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http_exchange, "_STREAM_LINES", 1000)
    error = failure_of(wire, "stream", ChatAnswer(raw=b": still here\n\n" * 501, headers=EVENTS))

    assert type(error) is BadResponseError
