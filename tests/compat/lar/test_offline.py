"""D18, "offline_mode: disables external API calls": a real server on this machine receives nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from graphrt.compat.lar import AddValueNode, BatchNode, FunctionalNode, GraphExecutor, LLMNode, ToolNode
from graphrt.errors import InputError
from graphrt.harness import LiteLLMModel

from .support import echo, path, run


class Counting(ThreadingHTTPServer):
    """Counts connections as they are accepted, in their order, before any data is read."""

    accepted = 0

    def get_request(self) -> Any:
        request = super().get_request()
        self.accepted += 1
        return request


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server:
    """An HTTP server of this machine."""

    def __init__(self) -> None:
        self._http = Counting(("127.0.0.1", 0), Hello)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/"
        self._loop = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._loop.start()

    @property
    def connections(self) -> int:
        """The number of connections. One more is made first, since connections are accepted in order."""
        assert fetch(self.url) == "hello"
        self._http.accepted -= 1
        return self._http.accepted

    def close(self) -> None:
        self._http.shutdown()
        self._loop.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as response:
        return response.read().decode()


def in_a_thread(url: str) -> str:
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(fetch(url))
        except InputError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[0], InputError):
        raise found[0]
    return found[0]


pools: list[ThreadPoolExecutor] = []


@pytest.fixture(autouse=True)
def older_thread() -> Iterator[None]:
    """A pool whose worker thread is older than the run."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        pools.append(pool)
        yield
        pools.pop()


def in_an_older_thread(url: str) -> str:
    return pools[-1].submit(fetch, url).result()


def by_datagram(url: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(b"hello", ("127.0.0.1", int(url.rpartition(":")[2].strip("/"))))
    return "sent"


def by_name(url: str) -> str:
    return str(socket.getaddrinfo("localhost", 80))


async def on_a_loop(url: str) -> str:
    port = int(url.rpartition(":")[2].strip("/"))
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await writer.wait_closed()
    return "connected"


ALL: list[Callable[[str], Any]] = [fetch, in_a_thread, in_an_older_thread, by_datagram, by_name, on_a_loop]


@pytest.mark.parametrize("way", ALL, ids=lambda way: way.__name__)
def test_offline_run_reaches_no_server(way: Callable[[str], Any], server: Server) -> None:
    start = ToolNode(way, ["url"], "page", AddValueNode("after", True))

    outcome = run(start, {"url": server.url}, offline_mode=True)

    assert path(outcome) == [("ToolNode", "error")]
    assert "offline_mode" in outcome.records[0]["error"]
    assert server.connections == 0


@pytest.mark.parametrize("way", ALL, ids=lambda way: way.__name__)
def test_same_run_reaches_the_server_when_it_is_not_offline(way: Callable[[str], Any], server: Server) -> None:
    outcome = run(ToolNode(way, ["url"], "page", None), {"url": server.url})

    assert path(outcome) == [("ToolNode", "success")]
    assert way in (by_datagram, by_name) or server.connections == 1


def test_branches_on_worker_threads_are_also_offline(server: Server) -> None:
    batch = BatchNode([ToolNode(fetch, ["url"], f"page{n}", None) for n in range(4)])

    outcome = run(batch, {"url": server.url}, offline_mode=True)

    assert outcome.outcome == "error"
    assert "4 of 4 branches failed" in outcome.records[0]["error"]
    assert server.connections == 0


def test_missing_model_is_not_called() -> None:
    outcome = run(LLMNode("openai/gpt-4o", "Say it.", "said"), offline_mode=True)

    assert outcome.records[0]["outcome"] == "error"
    assert outcome.records[0]["error_type"] == "InputError"
    with pytest.raises(InputError) as caught:
        outcome.raise_for_error()
    assert caught.value.code == "offline"


@pytest.mark.needs("litellm")
def test_passed_model_with_an_address_reaches_no_server(server: Server) -> None:
    real = LiteLLMModel("openai/m", api_base=server.url, api_key="sk-none")

    outcome = run(LLMNode("m", "Say it.", "said", max_retries=0), model=real, offline_mode=True)

    assert outcome.records[0]["outcome"] == "error"
    assert server.connections == 0


def test_scripted_model_answers_offline() -> None:
    assert run(LLMNode("m", "Say it.", "said"), model=echo(), offline_mode=True).state == {"said": "SAY IT."}


def test_network_is_restored_after_the_run_and_after_a_reader_that_stopped(server: Server) -> None:
    run(FunctionalNode(lambda state: None), offline_mode=True)
    for _ in GraphExecutor(offline_mode=True).run_step_by_step(AddValueNode("a", 1, AddValueNode("b", 2)), {}):
        break

    assert fetch(server.url) == "hello"


def test_local_sockets_that_are_not_network_work_offline() -> None:
    def pair(state: Any) -> dict[str, Any]:
        one, other = socket.socketpair()
        with one, other:
            one.sendall(b"hello")
            return {"got": other.recv(5)}

    assert run(FunctionalNode(pair), offline_mode=True).state == {"got": b"hello"}
