"""A server in the test process, over real HTTP, with a worker that drives its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from importlib.util import find_spec
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.reducers import append
from graphrt.workers import Worker

if any(find_spec(name) is None for name in ("starlette", "uvicorn", "httpx")):
    collect_ignore_glob = ["test_*.py"]  # an interpreter with only the extra `test` has no server
else:
    import httpx
    import uvicorn

    from graphrt.serve import Application, anyone, app
    from graphrt.serve._server import _Protocol

SECRET = "sesame-7731"


class Paper(BaseModel):
    topic: str
    notes: Annotated[list[str], append] = []
    approved: bool | None = None


def papers(name: str = "papers"):
    """Writes a note, fails on the topic "bad", waits for a signal on "far", and asks a person."""
    g = GraphBuilder(Paper, name=name)

    @g.node
    def search(state: Paper, ctx: Context) -> dict[str, Any]:
        ctx.emit({"progress": 0.5})
        if state.topic == "bad":
            raise ValueError(f"{SECRET} is in the state")
        if state.topic == "far":
            return {"notes": [str(ctx.receive("go"))]}
        return {"notes": [f"on {state.topic}"]}

    @g.node
    def approve(state: Paper, ctx: Context) -> dict[str, Any]:
        return {"approved": ctx.interrupt({"notes": len(state.notes)}, key="approve", answer_type=bool)}

    g.add_sequence([START, search, approve, END])
    return g.compile()


class Served:
    """A server and a client of it."""

    def __init__(self, application: Application, url: str, client: httpx.Client) -> None:
        self.application = application
        self.url = url
        self.http = client

    def __call__(self, method: str, path: str, body: Any = None, *, graph: str = "papers", **headers: str) -> Any:
        """Send a request to a graph; headers are given with underscores."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.request(method, f"/graphs/{graph}{path}", json=body, headers=names)

    def paused(self, **new: Any) -> str:
        """Start a thread, and return its id when it waits for a person."""
        found = self("POST", "/threads?wait_s=10", {"input": {"topic": "tea"}, **new}).json()
        assert found["status"] == "interrupted", found
        thread: str = found["thread"]
        return thread


@pytest.fixture
def running() -> Generator[Callable[[Any], str]]:
    """Run ASGI applications under uvicorn, in threads of this process, and return their URLs."""
    with ExitStack() as stack:

        def run(application: Any) -> str:
            config = uvicorn.Config(
                application, port=0, http=_Protocol, ws="none", lifespan="off", log_level="critical", access_log=False
            )
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, daemon=True)
            thread.start()

            def stop() -> None:
                server.should_exit = server.force_exit = True
                thread.join()

            stack.callback(stop)
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.002)
            return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

        yield run


@pytest.fixture
def serve(running: Callable[[Any], str]) -> Generator[Callable[..., Served]]:
    """Serve runtimes; without any, that of `papers` in memory. `drives` adds a worker for each."""
    with ExitStack() as stack:

        def start(*runtimes: Runtime, drives: bool = True, **options: Any) -> Served:
            own = runtimes or (stack.enter_context(Runtime(papers(), store="memory:")),)
            options.setdefault("authorize", anyone)
            application = app(own, **options)
            url = running(application)
            stack.callback(application.drain)
            if drives:
                for one in own:
                    stack.enter_context(Worker(one, poll_s=0.01))
            client = stack.enter_context(closing(httpx.Client(base_url=url, timeout=30)))
            return Served(application, url, client)

        yield start


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """`papers` in memory, with a worker."""
    return serve()
