"""The resources of a request, a caller and a connection are bounded, and other callers are not affected."""

from __future__ import annotations

import contextlib
import os
import socket
from contextlib import ExitStack

import pytest

from graphrt import InputError
from graphrt.serve import Bounds, _server


def connect(served) -> socket.socket:
    host, port = served.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


@pytest.mark.parametrize("told", [True, False])
def test_long_body_is_refused_with_or_without_its_length(serve, told):
    served = serve(drives=False, bounds=Bounds(body_bytes=1_000))
    body = b'{"input": {"topic": "' + b"x" * 5_000 + b'"}}'
    content = body if told else iter([body[:2_500], body[2_500:]])

    answer = served.http.post("/graphs/papers/threads", content=content, headers={"content-type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (413, "request-too-large")
    assert served("GET", "/threads").json()["threads"] == []


def test_body_of_a_gigabyte_is_refused_before_it_is_sent(serve):
    served = serve(drives=False)
    with connect(served) as raw:
        raw.sendall(b"POST /graphs/papers/threads HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n")

        assert raw.recv(1_000).startswith(b"HTTP/1.1 413 ")


def test_a_body_without_a_length_is_refused_while_it_is_sent(serve):
    served = serve(drives=False)
    sent = 0
    with connect(served) as raw, contextlib.suppress(ConnectionError):
        raw.sendall(
            b"POST /graphs/papers/threads HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        while sent < 2**30:
            raw.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            sent += 65_536

    assert sent < 100_000_000
    assert served("GET", "/threads").json()["threads"] == []


def test_body_that_does_not_arrive_times_out(serve):
    served = serve(drives=False, bounds=Bounds(body_s=0.1))
    with connect(served) as raw:
        raw.sendall(b"POST /graphs/papers/threads HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")

        assert raw.recv(1_000).startswith(b"HTTP/1.1 413 ")


def test_long_headers_are_refused(serve):
    served = serve(drives=False, bounds=Bounds(header_bytes=1_000))

    answer = served("GET", "/threads", filler="x" * 2_000)

    assert (answer.status_code, answer.json()["code"]) == (431, "request-too-large")
    assert served("GET", "/threads").status_code == 200


@pytest.mark.parametrize("bomb", [b"X-Bomb: " + b"x" * 10_000_000, b"x: y\r\n" * 1_000_000], ids=["long", "many"])
def test_endless_headers_are_refused_before_they_have_arrived(serve, bomb):
    served = serve(drives=False)
    with connect(served) as raw:
        raw.sendall(b"GET /graphs HTTP/1.1\r\nHost: x\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError):
            for begin in range(0, len(bomb), 100_000):
                raw.sendall(bomb[begin : begin + 100_000])
                sent = begin
        with contextlib.suppress(ConnectionError):
            assert raw.recv(1_000)[:12] in (b"", b"HTTP/1.1 400")

    assert sent < len(bomb) - 1_000_000
    assert served("GET", "/threads").status_code == 200


def test_running_threads_of_a_caller_are_bounded(serve):
    served = serve(drives=False, bounds=Bounds(running_per_caller=3))
    body = {"input": {"topic": "tea"}}

    answers = [served("POST", "/threads", body).status_code for _ in range(5)]

    assert answers == [202, 202, 202, 429, 429]
    assert len(served("GET", "/threads").json()["threads"]) == 3


def test_connections_without_a_request_make_room_for_others(serve, monkeypatch):
    monkeypatch.setattr(_server, "_WAITING", 20)
    served = serve(drives=False)
    with ExitStack() as stack:
        half_open = [stack.enter_context(connect(served)) for _ in range(100)]
        for one in half_open[:50]:
            one.sendall(b"GET /graphs HTTP/1.1\r\nHost: x\r\nX-Slow: ")

        assert served("GET", "/threads").status_code == 200
        assert len(_server._Protocol.waiting) <= 20


@pytest.mark.slow
def test_thousands_of_half_open_connections_are_bounded(serve):
    """With the default settings of the server, at most a thousand of them stay open, and requests are still answered."""
    served = serve(drives=False)
    with ExitStack() as stack:
        for number in range(10_000 if os.environ.get("GRAPHRT_FULL") == "1" else 2_000):
            raw = stack.enter_context(connect(served))
            if number % 2:
                raw.sendall(b"GET /graphs HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            if number % 500 == 0:
                assert served("GET", "/threads").status_code == 200

        assert len(_server._Protocol.waiting) <= _server._WAITING
        assert served("GET", "/threads").status_code == 200


def test_connection_that_sends_half_a_request_is_closed(serve, monkeypatch):
    monkeypatch.setattr(_server, "_HEAD_S", 0.1)
    served = serve(drives=False)
    with connect(served) as raw:
        raw.sendall(b"GET /graphs HTTP/1.1\r\n")
        raw.settimeout(30)
        with contextlib.suppress(ConnectionError):
            while raw.recv(1_000):
                pass  # what the server answers before it closes the connection


@pytest.mark.parametrize("wrong", [{"body_bytes": 0}, {"streams": -1}, {"wait_s": "long"}, {"streams": True}])
def test_limit_must_be_a_positive_number(wrong):
    with pytest.raises(InputError):
        Bounds(**wrong)
