"""A process that reads a long text and dies on the way: `main(folder, size, deaths)`.

It runs the thread, or continues an existing one, and prints the answer. Each request is a line of a file, as a provider
would count it; at the requests whose numbers are in *deaths* the process kills itself while others are under way.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from graphrt import CompiledGraph, Runtime
from graphrt.harness import FunctionModel, ModelRequest
from graphrt.nodes import RecursiveLimits
from graphrt.nodes._recursive.limits import size_of_prompt

from .support import State, book, clerk, graph_of_models, librarian

LIMITS = RecursiveLimits(concurrency=4)
THREAD = "t"


class Provider:
    """Answers by rules, and writes down what it was asked, also in earlier processes."""

    def __init__(self, path: Path, deaths: set[int]) -> None:
        self._path = path
        self._deaths = deaths
        self._count = len(path.read_bytes().splitlines()) if path.exists() else 0

    async def answer(self, name: str, request: ModelRequest) -> Any:
        line = {"model": name, "chars": size_of_prompt(request.messages), "messages": request.messages}
        with self._path.open("ab") as file:
            file.write(to_json(line) + b"\n")
        self._count += 1
        if self._count in self._deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0)  # other calls begin meanwhile
        return clerk(request) if name == "piece" else librarian(request)


def graph(provider: Provider) -> CompiledGraph[State, Any]:
    reader = FunctionModel(lambda request: provider.answer("reader", request))
    piece = FunctionModel(lambda request: provider.answer("piece", request))
    return graph_of_models(reader, piece, limits=LIMITS)


def main(folder: str, size: int, deaths: tuple[int, ...]) -> None:
    provider = Provider(Path(folder) / "requests", set(deaths))
    with Runtime(graph(provider), store=f"sqlite:///{folder}/runs.db", lease_s=1) as runtime:
        known = THREAD in [one.thread for one in runtime.threads()]
        result = runtime.retry(THREAD) if known else runtime.run({"book": book(size).text}, thread=THREAD)
    sys.stdout.write(result.state.answer or result.state.error)
