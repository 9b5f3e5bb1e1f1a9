"""The HTTP server: it starts runs, answers their questions, and shows their events. It drives no threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from graphrt import ConflictError, GraphrtError, InputError, Runtime
from graphrt.events import Entry, InterruptRaised, TaskSucceeded

from .graph import State, runtime

CHECKED_S = 2.0
"""Seconds after which a response starts if there was neither an item nor an error."""
KEEP_ALIVE_S = 15.0
"""Seconds without an entry after which the stream sends a comment."""


class Order(BaseModel):
    """The order of a client. Its id makes a repeated request harmless."""

    id: str
    topic: str


def app() -> FastAPI:
    """Return the application."""
    reports: Runtime[State] = runtime()

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        yield
        reports.close()

    server = FastAPI(lifespan=life)

    @server.exception_handler(GraphrtError)
    async def refused(_request: Request, error: GraphrtError) -> JSONResponse:
        unknown = error.code == "unknown-thread"
        status = (
            404
            if unknown
            else 409
            if isinstance(error, ConflictError)
            else 400
            if isinstance(error, InputError)
            else 500
        )
        return JSONResponse({"error": error.code, "message": error.what}, status)

    @server.post("/runs", status_code=202)
    async def start(order: Order) -> dict[str, str]:
        return {"id": await reports.astart({"topic": order.topic}, thread=order.id, if_exists="return")}

    @server.get("/runs/{thread}")
    async def show(thread: str) -> dict[str, Any]:
        found = await reports.astate(thread)
        questions = [question.payload for question in found.interrupts]
        return {"status": found.status, "chapters": len(found.values.chapters), "questions": questions}

    @server.post("/runs/{thread}/answer", status_code=202)
    async def answer(thread: str, request: Request) -> dict[str, str]:
        return {"id": await reports.astart(thread=thread, answer=await request.json())}

    @server.get("/runs/{thread}/events")
    async def events(thread: str, last_event_id: Annotated[str, Header()] = "0") -> StreamingResponse:
        if not last_event_id.isdecimal():
            raise HTTPException(400, "Last-Event-ID is the id of an event, a number")
        entries = reports.afollow(thread, after=int(last_event_id))
        first = asyncio.ensure_future(anext(entries, None))
        # An unknown thread or position is refused while a status can still be sent. Without an entry by then, the
        # response starts anyway: the next entry of a sleeping thread may be days away.
        await asyncio.wait([first], timeout=CHECKED_S)
        if first.done():
            first.result()
        return StreamingResponse(_lines(first, entries), media_type="text/event-stream")

    return server


async def _lines(following: asyncio.Future[Entry | None], entries: AsyncIterator[Entry]) -> AsyncIterator[str]:
    try:
        while True:
            await asyncio.wait([following], timeout=KEEP_ALIVE_S)
            if not following.done():
                yield ": nothing new\n\n"  # a comment, which keeps proxies from closing the connection
                continue
            entry = following.result()
            if entry is None:
                break
            yield _line(entry)
            following = asyncio.ensure_future(anext(entries, None))
        yield "event: end\ndata: {}\n\n"  # the run has ended or paused: the browser need not reconnect
    finally:  # the client left
        following.cancel()
        await asyncio.wait([following])


def _line(entry: Entry) -> str:
    """Return the server-sent event of a journal entry: its number is the position from which to continue."""
    event = entry.event
    data: dict[str, Any] = {"what": type(event).__name__}
    if isinstance(event, TaskSucceeded):
        data["update"] = event.update
    elif isinstance(event, InterruptRaised):
        data["question"] = event.payload
    return f"id: {entry.seq}\nevent: entry\ndata: {json.dumps(data)}\n\n"
