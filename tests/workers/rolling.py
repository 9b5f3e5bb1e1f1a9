"""Builds of one graph, and a worker of one of them in a separate process (`BUILD` in its environment). No test.

Each build adds a check before the end. "back" is the code of the second build, released again with a higher version.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

from typing_extensions import TypedDict

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.reducers import append
from graphrt.workers import Worker

WORK: Final = 5
"""Nodes that every build has, before its checks."""
BUILDS: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "1": ((), 0),
    "2": (("check-2",), 0),
    "3": (("check-2", "check-3"), 0),
    "back": (("check-2",), 1),
}
"""Build to its checks and its version."""


class State(TypedDict, total=False):
    visits: Annotated[list[list[str]], append]
    """Each visit as node and build."""


def graph(build: str) -> Any:
    checks, version = BUILDS[build]
    g = GraphBuilder(State, name="rolling", version=version)
    names = [*(f"work-{at}" for at in range(WORK)), *checks]

    def visit(name: str) -> Any:
        def node(state: State, ctx: Context) -> State:
            if name in ("work-1", "work-3"):
                ctx.sleep(0.1)  # the thread was released, and any worker may continue it
            return {"visits": [[name, build]]}

        return node

    for name in names:
        g.add_node(name, visit(name))
    return g.add_sequence([START, *names, END]).compile()


def main(url: str, lease_s: float) -> None:
    runtime = Runtime(graph(os.environ["BUILD"]), store=url, lease_s=lease_s)
    worker = Worker(runtime, concurrency=4, poll_s=0.05, max_tries=1000)
    print("working", flush=True)  # noqa: T201 - the test waits for it
    worker.serve(grace_s=2.0)
    runtime.close()
