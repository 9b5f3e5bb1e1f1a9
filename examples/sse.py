"""A run behind an HTTP endpoint, as server-sent events, and a client that disconnects in the middle and reconnects.

Run it with `python -m examples.sse`: it is server and client at once, on a port of this machine. The server is
hand-written and needs no installation; with a framework, `events(stream)` is the body of a streaming response.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from http.client import HTTPConnection
from typing import Annotated, Any, Final

from pydantic import BaseModel

from graphrt import END, START, ConflictError, Context, GraphBuilder, InputError, Runtime
from graphrt.harness import TextDelta
from graphrt.reducers import append
from graphrt.runtime import AsyncStream

MODES: Final = ("custom", "live", "result")


class State(BaseModel):
    """The known facts about a topic."""

    topic: str
    sources: Annotated[list[str], append] = []
    summary: str = ""
    approved: bool | None = None


g = GraphBuilder(State, name="research")


@g.node
def find(state: State) -> dict[str, Any]:
    return {"sources": [f"{state.topic} {number}" for number in range(1, 31)]}


@g.node
async def read(state: State, ctx: Context) -> dict[str, Any]:
    for source in state.sources:
        ctx.emit({"read": source, "of": len(state.sources)})
        await asyncio.sleep(0.01)  # here a model reads the source
    return {"summary": f"{len(state.sources)} sources on {state.topic}"}


@g.node
def approve(state: State, ctx: Context) -> dict[str, Any]:
    return {"approved": ctx.interrupt({"send": state.summary}, key="approve", answer_type=bool)}


graph = g.add_sequence([START, find, read, approve, END]).compile()


# ------------------------------------------------------------------------------------------------------- the server


async def opened(runtime: Runtime[Any, Any], thread: str, asked: dict[str, Any]) -> AsyncStream[tuple[str, Any], Any]:
    """Open the requested run. Problems of the request are raised here, before a node runs."""
    if "answer" in asked:
        return await runtime.astream(thread=thread, answer=asked["answer"], modes=MODES)
    if asked:
        return await runtime.astream(asked, thread=thread, modes=MODES)
    return await runtime.astream(thread=thread, modes=MODES)  # continue from its current state


async def events(stream: AsyncStream[tuple[str, Any], Any]) -> AsyncIterator[bytes]:
    """Each item of *stream* as a server-sent event."""
    async for mode, item in stream:
        data = item
        if mode == "live":
            data = {"node": item.node, "what": item.what}
        elif mode == "messages":  # the text of a model, word by word; of the other items only their kind
            data = {"text": item.item.text} if isinstance(item.item, TextDelta) else {"what": type(item.item).__name__}
        elif mode == "result":
            data = {"status": item.status, "questions": [question.payload for question in item.interrupts]}
        yield f"event: {mode}\ndata: {json.dumps(data)}\n\n".encode()


async def respond(runtime: Runtime[Any, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request: `POST /<thread>` with an input, an answer, or an empty object to continue."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.lower().splitlines()
    headers = dict(line.split(": ", 1) for line in lines if line)
    asked = json.loads(await reader.readexactly(int(headers["content-length"])))
    try:
        stream = await opened(runtime, first.split()[1].strip("/"), asked)
    except (InputError, ConflictError) as error:
        status = "409 Conflict" if isinstance(error, ConflictError) else "400 Bad Request"
        writer.write(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n{error.what}".encode())
    else:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        await send(stream, reader, writer)
    finally:
        writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def send(
    stream: AsyncStream[tuple[str, Any], Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send each event as it arrives, until the run ends or the client disconnects."""
    watching = asyncio.create_task(close_when_left(reader, stream))
    try:
        async with stream:
            async for event in events(stream):
                writer.write(event)
                await writer.drain()
    except ConnectionError:
        pass  # the client disconnected while an event was being sent
    finally:
        watching.cancel()


async def close_when_left(reader: asyncio.StreamReader, stream: AsyncStream[Any, State]) -> None:
    """End the run as soon as the client closes its connection, even while a node works and nothing is written."""
    with suppress(ConnectionError):
        await reader.read()
    await stream.aclose()


@asynccontextmanager
async def serving(runtime: Runtime[Any, Any]) -> AsyncGenerator[tuple[int, set[asyncio.Task[None]]], None]:
    """Serve on a free port; yields the port and the tasks of all requests."""
    answering: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(asyncio.create_task(respond(runtime, reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], answering


# ------------------------------------------------------------------------------------------------------- the client


def post(port: int, thread: str, leave_after: int | None = None, **asked: Any) -> tuple[int, list[str]]:
    """Status and lines of the response; with *leave_after*, the connection is closed after that many events."""
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("POST", f"/{thread}", body=json.dumps(asked))
    answer = connection.getresponse()
    found: list[str] = []
    for line in answer:
        if line.strip():
            found.append(line.decode().strip())
        if len(found) == 2 * (leave_after or -1):
            break
    answer.close()
    connection.close()
    return answer.status, found


async def main() -> None:
    """Start a run, disconnect, reconnect, get refused, and answer."""
    with Runtime(graph, store="memory:") as runtime:
        async with serving(runtime) as (port, answering):
            status, lines = await asyncio.to_thread(post, port, "tea", topic="tea", leave_after=6)
            print(status, "left at", lines[-1])
            await asyncio.wait(answering)
            left = runtime.state("tea")
            print("then it is", left.status, "before", *left.next)

            status, lines = await asyncio.to_thread(post, port, "tea")
            print(status, "came back to", lines[1], "...", lines[-1])

            status, lines = await asyncio.to_thread(post, port, "tea", topic="coffee")
            print(status, *lines)

            status, lines = await asyncio.to_thread(post, port, "tea", answer=True)
            print(status, lines[-1])
            await asyncio.wait(answering)


if __name__ == "__main__":
    asyncio.run(main())
