"""A process that reads a long text with models behind HTTP: `python -m tests.nodes.recursive.reading_process DB URL SIZE`.

It runs the thread, or continues it if it is there, and prints the answer.
"""

from __future__ import annotations

import sys
from typing import Any

from graphrt import CompiledGraph, Runtime
from graphrt.harness.litellm import LiteLLMModel
from graphrt.nodes import RecursiveLimits

from .support import State, book, graph_of_models

LIMITS = RecursiveLimits(concurrency=4)
THREAD = "t"


def graph(url: str) -> CompiledGraph[State, Any]:
    reader, piece = (LiteLLMModel(f"openai/{name}", api_base=url, api_key="none") for name in ("reader", "piece"))
    return graph_of_models(reader, piece, limits=LIMITS)


def main() -> None:
    path, url, size = sys.argv[1:]
    with Runtime(graph(url), store=f"sqlite:///{path}", lease_s=1) as runtime:
        known = THREAD in [one.thread for one in runtime.threads()]
        result = runtime.retry(THREAD) if known else runtime.run({"book": book(int(size)).text}, thread=THREAD)
    sys.stdout.write(result.state.answer or result.state.error)


if __name__ == "__main__":
    main()
