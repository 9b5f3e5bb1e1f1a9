"""The cost of threads over HTTP: starts per second, streamed tokens, and idle streams.

    python -m benchmarks.serving                            all three, on a SQLite file
    python -m benchmarks.serving --only starts --threads 4000
    python -m benchmarks.serving --only idle --streams 1000

The server is a separate process that includes a worker; its processor time and memory are read from the system, without
the clients. A streamed token is compared with that of a bare ASGI application with a hand-written loop over the same
model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Any, Final, TypedDict, final

import uvicorn

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.events import Usage
from graphrt.harness import Agent, ModelProfile, TextDelta
from graphrt.harness.protocol import ModelResponse
from graphrt.serve import Bounds, anyone, app
from graphrt.workers import Worker

TOKENS: Final = 400
"""Tokens of a reply."""
PAUSE_S: Final = 0.01
"""Seconds between two tokens; a fast provider sends a hundred per second."""
ROUNDS: Final = 3
"""Number of rounds in which both servers stream replies in turn, because the speed of the machine varies."""
READERS: Final = 20
"""Replies that are streamed concurrently, each to its own client."""
CONNECTIONS: Final = 16
"""Connections on which threads are started."""
WATCHED_S: Final = 32.0
"""Seconds of watching idle streams: each gets two comments in this time."""


class State(TypedDict, total=False):
    """What the thread does: end at once, emit text, or wait."""

    does: str
    said: str


@final
class Speaker:
    """A model that emits one word after another."""

    profile = ModelProfile(name="speaker")

    async def invoke(self, request: Any, /) -> ModelResponse:
        """Return the whole text at once."""
        return ModelResponse(text="word " * TOKENS, usage=Usage(input_tokens=1, output_tokens=TOKENS, calls=1))

    async def stream(self, request: Any, /) -> AsyncIterator[Any]:
        """Stream it word by word."""
        for _ in range(TOKENS):
            await asyncio.sleep(PAUSE_S)
            yield TextDelta(text="word ")
        yield await self.invoke(request)


def graph() -> Any:
    """Return the graph that is served."""
    agent = Agent(Speaker(), name="speaker")

    async def act(state: State, ctx: Context) -> State:
        if state["does"] == "wait":
            await asyncio.sleep(3_600)
        if state["does"] == "speak":
            return {"said": (await ctx.bind(agent).run("Speak.")).text}
        return {}

    g = GraphBuilder(State, name="sample")
    g.add_node("act", act)
    g.add_sequence([START, "act", END])
    return g.compile()


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Stream the words of the model as events, with hand-written code."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for item in Speaker().stream(None):
        if type(item) is TextDelta:
            text = json.dumps({"type": "text-delta", "text": item.text})
            await send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def serve(database: str, port: int) -> None:
    """Serve until the process is ended: the bare application without a *database*."""
    options: dict[str, Any] = {"port": port, "log_level": "warning", "access_log": False, "lifespan": "off"}
    if not database:
        uvicorn.run(bare, **options)
        return
    with Runtime(graph(), store=database) as runtime, Worker(runtime, concurrency=READERS):
        bounds = Bounds(streams=5_000, streams_per_caller=5_000, running_per_caller=100_000)
        uvicorn.run(app(runtime, authorize=anyone, bounds=bounds), **options)


@final
class Server:
    """A server process, and its resources."""

    def __init__(self, database: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=serve, args=(database, self.port), daemon=True)
        self.process.start()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                time.sleep(0.05)
            else:
                break

    def processor_s(self) -> float:
        """Return the processor time so far, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Return the resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()


async def request(
    port: int, method: str, path: str, body: Any = None, *, on: Any = None
) -> tuple[Any, asyncio.StreamReader]:
    """Send a request on a connection, by default a new one; return connection and reader, after the headers."""
    reader, writer = on or await asyncio.open_connection("127.0.0.1", port)
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    return (reader, writer), reader


async def answered(reader: asyncio.StreamReader) -> Any:
    """Return the JSON body of a response."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length:")[2].partition("\r\n")[0])
    body = await reader.readexactly(length)
    assert " 20" in head.partition("\r\n")[0], (head, body)
    return json.loads(body)


async def started(port: int, does: str, on: Any = None) -> tuple[str, Any]:
    """Start a thread, and return its id and the connection."""
    on, reader = await request(port, "POST", "/graphs/sample/threads", {"input": {"does": does}}, on=on)
    return (await answered(reader))["thread"], on


async def starts(server: Server, threads: int) -> str:
    """Start threads that end at once, as fast as the server accepts them, while its worker drives them."""
    left = iter(range(threads))

    async def starter() -> None:
        on: Any = None
        for _ in left:
            _, on = await started(server.port, "nothing", on)

    began, used = time.perf_counter(), server.processor_s()
    await asyncio.gather(*[starter() for _ in range(CONNECTIONS)])
    took = time.perf_counter() - began
    cost = (server.processor_s() - used) / threads
    return (
        f"starts: {threads / took:.0f} a second, {cost * 1e3:.2f} ms of processor time each, with the driving meanwhile"
    )


async def heard(port: int, path: str) -> int:
    """Read an event stream to its end, and return the number of words."""
    _, reader = await request(port, "GET", path)
    words = 0
    while line := await reader.readline():
        if b"TextDelta" in line or b"text-delta" in line:  # no entry, and not the whole reply at the end
            words += line.count(b"word ")
        if line == b"0\r\n" or b"event: end" in line:
            return words
    return words


async def tokens(server: Server, plain: Server) -> str:
    """Stream replies to one reader each, of threads and of the bare application; return the cost of a token for both."""

    async def of_thread() -> int:
        thread, _ = await started(server.port, "speak")
        return await heard(server.port, f"/graphs/sample/threads/{thread}/events")

    async def of_bare() -> int:
        return await heard(plain.port, "/")

    both = ((plain, of_bare), (server, of_thread))
    for _, read in both:
        await read()  # excludes imports and connections of the first reply
    costs: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for place, (one, read) in enumerate(both):
            used = one.processor_s()
            words = sum(await asyncio.gather(*[read() for _ in range(READERS)]))
            assert words == READERS * TOKENS, words
            costs[place].append((one.processor_s() - used) / (READERS * TOKENS) * 1e6)
    by_hand, here = map(median, costs)
    more = [round(mine - other) for other, mine in zip(*costs, strict=True)]
    return (
        f"a token: {here:.0f} us of processor time, {by_hand:.0f} by hand: {median(more):.0f} more"
        f" ({min(more)} to {max(more)} in {ROUNDS} rounds)"
    )


async def idle(server: Server, streams: int) -> str:
    """Keep streams of a waiting thread open, and watch the server."""
    thread, _ = await started(server.port, "wait")

    async def opened() -> Any:
        on, reader = await request(server.port, "GET", f"/graphs/sample/threads/{thread}/events")
        await reader.readuntil(b"\r\n\r\n")
        return on

    connections = await asyncio.gather(*[opened() for _ in range(streams)])
    assert len(connections) == streams
    await asyncio.sleep(2)
    used = server.processor_s()
    await asyncio.sleep(WATCHED_S)
    part = (server.processor_s() - used) / WATCHED_S
    return f"idle: {streams} streams take {server.megabytes():.0f} MB and {part:.1%} of a processor"


async def measure(only: str, threads: int, streams: int) -> None:
    """Print the requested figures."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/runs.db"
        if only in ("", "starts"):
            with Server(url) as server:
                print(await starts(server, threads), flush=True)
        if only in ("", "tokens"):
            with Server(url) as server, Server("") as plain:
                print(await tokens(server, plain), flush=True)
        if only in ("", "idle"):
            with Server(url) as server:
                print(await idle(server, streams), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("starts", "tokens", "idle"), default="")
    parser.add_argument("--threads", type=int, default=2_000)
    parser.add_argument("--streams", type=int, default=1_000)
    options = parser.parse_args()
    asyncio.run(measure(options.only, options.threads, options.streams))
