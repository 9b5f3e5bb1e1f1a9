"""The overhead of LiteLLMModel over a litellm call: a local server, alternating calls of both kinds, medians.

python -m benchmarks.micro.model_call              # some seconds, a table
python -m benchmarks.micro.model_call --calls 500
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from graphrt.harness import LiteLLMModel
from graphrt.harness.litellm import _client
from graphrt.harness.request import ModelRequest
from graphrt.testing import FakeChatServer

KEY = "none-needed"
FIRST = """
import time
start = time.perf_counter()
import graphrt.harness
imported = time.perf_counter()
import asyncio, sys
from graphrt.harness import LiteLLMModel
from graphrt.harness.request import ModelRequest
model = LiteLLMModel("openai/fake", api_base=sys.argv[1], api_key="k")
request = ModelRequest.build("hi", {})
began = time.perf_counter()
asyncio.run(model.invoke(request))
first = time.perf_counter()
asyncio.run(model.invoke(request))
print(imported - start, first - began, time.perf_counter() - first)
"""


def first_call(server: FakeChatServer, rounds: int) -> None:
    """A fresh interpreter each round: import of the package, first call, second call."""
    found: list[list[float]] = []
    for _ in range(rounds):
        server.add("one", "two")
        done = subprocess.run([sys.executable, "-c", FIRST, server.url], capture_output=True, text=True, check=True)
        found.append([float(part) for part in done.stdout.split()])
    names = ("import graphrt.harness", "first call (imports litellm)", "second call")
    for name, times in zip(names, zip(*found, strict=True), strict=True):
        print(f"| {name} | {statistics.median(times) * 1000:,.1f} ms |")


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await call()
    return time.perf_counter() - start


async def take_turns(kinds: dict[str, Callable[[], Awaitable[Any]]], calls: int) -> dict[str, list[float]]:
    """Seconds of each call. Bare calls run, and are timed, on our loop: litellm breaks with several loops."""
    times: dict[str, list[float]] = {name: [] for name in kinds}
    order = list(kinds)
    for turn in range(calls + 5):
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            work = timed(kinds[name])
            took = await (_client.loop.call(work) if name.startswith("litellm") else work)
            if turn >= 5:
                times[name].append(took)
    return times


def overhead(server: FakeChatServer, wire: str, calls: int) -> None:
    litellm = _client.on_loop(_client.load)
    address = server.url if wire == "openai" else server.anthropic_url
    server.add(*["hello there"] * (4 * (calls + 5)))
    model = LiteLLMModel(f"{wire}/fake", api_base=address, api_key=KEY)
    request = ModelRequest.build("hi", {})
    bare = {
        "model": f"{wire}/fake", "messages": [{"role": "user", "content": "hi"}], "api_base": address, "api_key": KEY,
        "max_retries": 0, "num_retries": 0,
    }  # fmt: skip

    async def bare_stream() -> None:
        stream = await litellm.acompletion(**bare, stream=True, stream_options={"include_usage": True})
        async for _ in stream:
            pass

    async def ours_stream() -> None:
        async for _ in model.stream(request):
            pass

    kinds: dict[str, Callable[[], Awaitable[Any]]] = {
        "litellm.acompletion": lambda: litellm.acompletion(**bare),
        "LiteLLMModel.invoke": lambda: model.invoke(request),
        "litellm.acompletion, stream": bare_stream,
        "LiteLLMModel.stream": ours_stream,
    }
    times = asyncio.run(take_turns(kinds, calls))
    for name, values in times.items():
        print(f"| {wire}: {name} | {statistics.median(values) * 1000:.2f} ms |")
    for bare_name, name in (list(kinds)[:2], list(kinds)[2:]):
        added = [ours - theirs for theirs, ours in zip(times[bare_name], times[name], strict=True)]
        print(f"| {wire}: {name} adds, median of differences | {statistics.median(added) * 1000:+.2f} ms |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("| What | Median |\n|---|---|")
    with FakeChatServer(strict=False) as server:
        first_call(server, given.rounds)
        for wire in ("openai", "anthropic"):
            overhead(server, wire, given.calls)


if __name__ == "__main__":
    main()
