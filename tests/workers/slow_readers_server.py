"""A server-sent events server in a separate process: `python -m tests.workers.slow_readers_server URL`. No test.

It prints its port.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import uvicorn

from graphrt import Runtime
from graphrt.runtime import LiveItem

from .graphs import large


def main(url: str) -> None:
    runtime = Runtime(large(), store=url)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        after = next((int(value) for name, value in scope["headers"] if name == b"last-event-id"), 0)
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        async for one in runtime.afollow("t", after=after, live=True):
            if isinstance(one, LiveItem):
                text = f"event: {one.mode}\ndata: {json.dumps(repr(one.item))}\n\n"
            else:
                text = f"id: {one.seq}\ndata: {json.dumps(getattr(one.event, 'update', None))}\n\n"
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    with config.bind_socket() as listening:
        listening.listen()
        print(listening.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
