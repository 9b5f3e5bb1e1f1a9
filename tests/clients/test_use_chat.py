"""`useChat` of the AI SDK in a browser: the page of the guide, against the server."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually
from tests.serve.test_chat import Chat

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.events import Usage
from graphrt.harness import Agent, ModelProfile, TextDelta, ToolCall, tool
from graphrt.harness.protocol import ModelResponse

DOCUMENT = (
    b'<!doctype html><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="page.js"></script>'
)


@tool(approval=True, effect="once")
def order(item: str) -> str:
    """Order something."""
    return f"ordered: {item}"


class Speaker:
    """A model that emits half of its answer, and the rest when the gate opens."""

    profile = ModelProfile(name="speaker")

    def __init__(self) -> None:
        self.gate = threading.Event()

    async def invoke(self, request: Any, /) -> ModelResponse:
        raise AssertionError("workers stream models")

    async def stream(self, request: Any, /) -> AsyncIterator[Any]:
        said, usage = request.messages[-1], Usage(input_tokens=1, output_tokens=1, calls=1)
        if said.text == "Tea, please":
            calls = (ToolCall(id="1", name="order", arguments={"item": "tea"}),)
            yield TextDelta(text="I shall order it.")
            yield ModelResponse(text="I shall order it.", tool_calls=calls, usage=usage)
            return
        half, rest = ("It is ", said.text) if said.text.startswith("ordered") else ("Half of it, ", "and the rest.")
        yield TextDelta(text=half)
        while not self.gate.is_set():  # noqa: ASYNC110 - the test is another thread
            await asyncio.sleep(0.01)
        yield TextDelta(text=rest)
        yield ModelResponse(text=half + rest, usage=usage)


class Page:
    """The document and the bundle. A browser loads them without credentials."""

    public_paths = ("/", "/page.js")

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_script = scope["path"].endswith(".js")
        kind = b"text/javascript" if is_script else b"text/html"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": self._bundle.read_bytes() if is_script else DOCUMENT})


@pytest.mark.slow  # npm unpacks 80 MB, and a browser starts
@pytest.mark.needs("playwright", "chromium")
def test_use_chat_streams_reloads_approves_and_stops(serve: Any, page: Any, clients: Path) -> None:
    from graphrt.serve import UiMessageChat

    bundle = clients / "page.js"
    options = ["--bundle", "--format=esm", '--define:process.env.NODE_ENV="production"', f"--outfile={bundle}"]
    command = ["npx", "esbuild", "use_chat.mjs", *options]
    subprocess.run(command, cwd=clients, check=True, capture_output=True)
    model, clerk, g = Speaker(), Agent("none", name="clerk", tools=[order]), GraphBuilder(Chat, name="chat")

    @g.node
    async def talk(state: Chat, ctx: Context) -> Chat:
        reply = await ctx.bind(clerk).run(state["messages"])
        return {"messages": list(reply.new_messages)}

    g.add_sequence([START, talk, END])
    runtime = Runtime(g.compile(), store="memory:", models={"clerk": model})
    served = serve(runtime, mounts={"/chat": UiMessageChat("chat"), "/page": Page(bundle)})

    def say(text: str) -> None:
        page.get_by_text("ready", exact=True).wait_for()
        page.get_by_label("Message").fill(text)
        page.keyboard.press("Enter")

    page.goto(f"{served.url}/page/?chat=c1")
    say("Hello")
    page.get_by_text("Half of it,", exact=True).wait_for()
    page.reload()  # in the middle of the answer
    page.get_by_text("Half of it,", exact=True).wait_for()
    served.application.drain()  # a server that stops ends its streams; another one answers
    served.application._draining = False
    model.gate.set()
    page.get_by_text("Half of it, and the rest.", exact=True).wait_for()
    say("Tea, please")
    page.get_by_role("button", name="Approve").wait_for()
    page.get_by_text("ready", exact=True).wait_for()
    page.reload()  # while the question is open
    page.get_by_text("I shall order it.", exact=True).wait_for()
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("order: ordered: tea", exact=True).wait_for()
    page.get_by_text("It is ordered: tea", exact=True).wait_for()
    page.get_by_text("ready", exact=True).wait_for()
    page.reload()  # after the answer
    page.get_by_text("It is ordered: tea", exact=True).wait_for()
    model.gate.clear()
    say("And now?")
    page.get_by_text("Half of it,", exact=True).wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("ready", exact=True).wait_for()

    eventually(lambda: served("GET", "/threads/c1", graph="chat").json()["status"] == "cancelled")
    assert page.locator("#error").inner_text() == ""
    assert page.locator(".text, .tool").all_inner_texts()[:6] == [
        *["Hello", "Half of it, and the rest.", "Tea, please"],
        *["I shall order it.", "order: ordered: tea", "It is ordered: tea"],
    ]
    assert page.evaluate("new Set([...document.querySelectorAll('article')].map((one) => one.innerText)).size") == 6
