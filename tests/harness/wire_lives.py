"""A program: an agent on each wire calls a tool, in which the process is killed; a second life continues.

python -m tests.harness.wire_lives FOLDER ADDRESS (first | second)
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from tests.harness.providers import PROVIDERS, Provider

from graphrt import END, START, Budget, Context, GraphBuilder, Runtime
from graphrt.harness import Agent, LiteLLMModel, tool

KILLED: Final = tuple(one for one in PROVIDERS if one.dialect == "openai" and "compatible" not in one.api)
"""The wires of the program: one for each API."""


class Weather(BaseModel):
    said: str = ""


def live(provider: Provider, folder: Path, address: str, *, first: bool, calling: threading.Barrier) -> dict[str, Any]:
    """Run the graph of one wire, or continue its thread; return the result."""

    @tool
    def look(at: str) -> str:
        """Look at something."""
        if first:
            calling.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{at} is grey"

    bases = {"url": f"{address}/v1", "anthropic_url": address, "gemini_url": f"{address}/v1beta"}
    agent = Agent(LiteLLMModel(provider.model, api_base=bases[provider.base], api_key="k"), tools=[look])

    async def ask(state: Weather, ctx: Context) -> dict[str, Any]:
        reply = await ctx.harness.run("How is the weather?", **provider.options)
        return {"said": reply.text}

    builder = GraphBuilder(Weather, name="weather")
    builder.add_node("ask", ask)
    builder.add_sequence([START, "ask", END])
    store = f"sqlite:///{folder / provider.model.replace('/', '-')}.db"
    with Runtime(builder.compile(), harness=agent, store=store, budget=Budget(calls=2)) as runtime:
        result = runtime.run({}, thread="t") if first else runtime.resume("t")
    assert result.usage is not None
    return {"said": result.state.said, "calls": result.usage.calls, "input_tokens": result.usage.input_tokens}


def main() -> None:
    folder, address, which = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    calling, found = threading.Barrier(len(KILLED)), dict[str, Any]()

    def one(provider: Provider) -> None:
        found[provider.model] = live(provider, folder, address, first=which == "first", calling=calling)

    lives = [threading.Thread(target=one, args=(provider,)) for provider in KILLED]
    for life in lives:
        life.start()
    for life in lives:
        life.join()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
