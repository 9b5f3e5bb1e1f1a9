"""Kill replicas and workers at random while clients talk: `python -m tests.serve.storm --seconds 300 --clients 200`.

Four replicas and two workers share a PostgreSQL database. Clients of four kinds hold conversations of two turns, with a
tool that needs an approval, a sub-agent, a nested graph that asks a question, and files: chats of the AI SDK, agents of
AG-UI, readers of the journal, and pages in Chromium. They reconnect as good clients do: with the id of their message or
run, with an idempotency key, with `Last-Event-ID`. Each has to end like its uninterrupted twin.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from shutil import which
from typing import Any, Final

import httpx
from tests.ports import Port
from tests.serve.test_ag_ui import as_sent
from tests.serve.test_chat_page import BROWSER_OPTIONS
from tests.stores import postgres_server
from tests.wires.chats import PICTURE, desk, fold, line, rules
from tests.wires.test_ag_ui import Page, events_of

from graphrt import Runtime
from graphrt.harness import FunctionModel, UserMessage
from graphrt.harness.protocol import AgentReply
from graphrt.runtime import LiveItem
from graphrt.serve import AgUiAgent, Caller, UiMessageChat, app, serve
from graphrt.wires import plain_data, ui_history
from graphrt.workers import Worker

REPLICAS, WORKERS = 4, 2
SAID: Final = ("A kettle", "And now?")
"""The messages of the user, turn by turn."""
COLOUR: Final = "red"
"""The answer to the question of each turn."""
SHOWS: Final = ("notes", "colour")
PAUSE_S: Final = 0.3
"""Seconds between two attempts of a client."""
PATIENCE_S: Final = 180.0
"""Seconds in which a conversation has to end after the last kill."""
PASSING: Final = {"key-in-progress", "conflict", "too-many-requests", "store-failed"}
"""Codes of refusals after which a client retries; those with a status from 500 on are temporary too."""


# -- the processes -----------------------------------------------------------------------------------------------------


def runtime(store: str) -> Runtime[Any, Any]:
    """The desk, with slow models."""

    def slow(answer: Callable[[Any], Any]) -> FunctionModel:
        async def reply(request: Any) -> Any:
            await asyncio.sleep(random.uniform(0.05, 0.4))
            return answer(request)

        return FunctionModel(reply)

    drawn = AgentReply(text="Red and blue.", media=(PICTURE,))
    models: dict[str, Any] = {
        "clerk": slow(rules),
        "expert": slow(lambda _: "The blue one."),
        "painter": slow(lambda _: drawn),
    }
    return Runtime(desk(), store=store, models=models)


def who(request: Any) -> Caller:
    return Caller(user=request.headers.get("user", "page"))


def replica(store: str, port: int) -> None:
    with runtime(store) as shop:
        mounts: dict[str, Any] = {"/chat": UiMessageChat("desk", page=True), "/ag-ui": AgUiAgent("desk", shows=SHOWS)}
        serve(app(shop, authorize=who, mounts=mounts), port=port)


def worker(store: str) -> None:
    with runtime(store) as shop:
        Worker(shop, concurrency=24, poll_s=0.1, max_tries=1_000).run()


class Fleet:
    """The processes, and the code that kills them."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._reserved = [Port() for _ in range(REPLICAS)]
        self.ports = [port.number for port in self._reserved]
        self._commands = [["replica", store, str(port)] for port in self.ports] + [["worker", store]] * WORKERS
        self._processes: dict[int, asyncio.subprocess.Process] = {}

    async def start(self, number: int) -> None:
        command = [sys.executable, "-m", "tests.serve.storm", *self._commands[number]]
        self._processes[number] = await asyncio.create_subprocess_exec(*command)

    async def begin(self) -> None:
        for number in range(len(self._commands)):
            await self.start(number)
        async with httpx.AsyncClient() as http:
            for port in self.ports:
                while not await _answers(http, port):  # noqa: ASYNC110 - another process has no event
                    await asyncio.sleep(0.1)

    async def kill(self, seconds: float, every_s: float) -> int:
        """Kill one process after another; return their number."""
        kills, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(0.5, 1.5) * every_s)
            number = random.randrange(len(self._commands))
            await self._end(number)
            await self.start(number)
            kills += 1
        return kills

    async def _end(self, number: int) -> None:
        process = self._processes[number]
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        elif process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"{self._commands[number]} ended by itself with {process.returncode}")
        await process.wait()

    async def close(self) -> None:
        for number in self._processes:
            await self._end(number)


async def _answers(http: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await http.get(f"http://127.0.0.1:{port}/ready")).status_code == 200
    except httpx.TransportError:
        return False


# -- the twins ---------------------------------------------------------------------------------------------------------


@cache
def twin() -> dict[str, Any]:
    """The result of an uninterrupted conversation: messages, the page of AG-UI, the state, events by kind."""
    with runtime("memory:") as shop:
        for number, text in enumerate(SAID):
            result = shop.run({"messages": [UserMessage(text=text, id=f"m{number}")]}, thread="t")
            while result.status == "interrupted":
                asked = shop.state("t").interrupts[0]
                result = shop.resume("t", answer=True if asked.kind == "approval" else COLOUR)
        entries = list(shop.entries("t", live=True))  # as a reader who was there for the questions has them
        chat = fold("ag-ui", shop)
        lines = (chat.live(one.mode, one.item) if isinstance(one, LiveItem) else chat.entry(one) for one in entries)
        page = Page(events_of("".join(line(event) for some in lines for event in some)))
        return {
            "chat": of_messages(ui_history.messages(entries), "t"),
            "ag-ui": of_page(page, "t"),
            "state": plain_data.state(shop.state("t").values),
        }


def of_messages(messages: list[Any], thread: str) -> Any:
    """The content of a chat, without the ids of its messages, which are positions, and the name of its thread."""
    told = [{"role": one["role"], "parts": one["parts"]} for one in messages]
    return json.loads(json.dumps(told).replace(thread, "t"))


def of_page(page: Page, thread: str) -> Any:
    """The content of a page of AG-UI, without the name of its thread."""
    return json.loads(json.dumps([page.messages, page.state, page.end], sort_keys=True).replace(thread, "t"))


# -- the clients -------------------------------------------------------------------------------------------------------


class Wrong(Exception):  # noqa: N818 - the finding of a storm
    """A client ended differently from its twin."""


class Client:
    """A conversation, over requests that go to any replica."""

    kind = ""

    def __init__(self, name: str, ports: list[int], http: httpx.AsyncClient, counts: Counter[str]) -> None:
        self.thread = name
        self._ports = ports
        self._http = http
        self._counts = counts
        self._keys = 0
        self.asked: Any = None
        """The last stream that was requested, with the last refusal or event."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{random.choice(self._ports)}{path}"

    async def ask(self, method: str, path: str, body: Any = None, key: str = "") -> httpx.Response:
        """Send a request until it is answered."""
        headers = {"user": self.thread, **({"idempotency-key": key} if key else {})}
        while True:
            try:
                answer = await self._http.request(method, self.url(path), json=body, headers=headers)
            except httpx.TransportError:
                self._counts["requests sent again"] += 1
            else:
                if not passes(answer):
                    return answer
            await asyncio.sleep(PAUSE_S)

    async def chunks(self, method: str, path: str, body: Any = None, **headers: str) -> AsyncIterator[tuple[str, Any]]:
        """Yield the events of a stream, each with its id; a transport error ends it, and so does a temporary refusal."""
        told = {"user": self.thread, **headers}
        self.asked = [method, path, body, None]
        async with self._http.stream(method, self.url(path), json=body, headers=told) as answer:
            self.asked[-1] = answer.status_code
            if answer.status_code == 204:
                raise NothingError
            if answer.status_code != 200:
                await answer.aread()
                self.asked[-1] = answer.text
                if passes(answer):
                    raise httpx.ReadError(answer.text)
                # The thread shows whether the request had its effect
                if answer.json()["code"] == "key-outcome-unknown":
                    self._counts["outcomes looked up"] += 1
                    raise NothingError
                raise Wrong(f"{method} {path}: {answer.status_code} {answer.text}")
            id_, kind = "", ""
            async for one in answer.aiter_lines():
                name, _, value = one.partition(": ")
                id_, kind = (value, kind) if name == "id" else (id_, value) if name == "event" else (id_, kind)
                if name == "data" and value != "[DONE]":
                    self.asked[-1] = value[:200]
                    yield (kind or id_ if kind == "end" else id_), json.loads(value)

    async def head(self) -> dict[str, Any]:
        answer = await self.ask("GET", f"/graphs/desk/threads/{self.thread}")
        if answer.status_code != 200:
            raise Wrong(f"{self.thread}: {answer.status_code} {answer.text}")
        found: dict[str, Any] = answer.json()
        return found

    def key(self) -> str:
        self._keys += 1
        return f"{self.thread}-{self._keys}"

    async def answer(self, asked: dict[str, Any]) -> None:
        """Answer a question by the verb."""
        value = True if asked["kind"] == "approval" else COLOUR
        body = {"answers": {asked["id"]: value}}
        done = await self.ask("POST", f"/graphs/desk/threads/{self.thread}/answers", body, self.key())
        if done.status_code >= 400 and done.json()["code"] not in ("key-outcome-unknown", "unknown-interrupt"):
            raise Wrong(f"{self.thread}: {done.status_code} {done.text}")

    async def talk(self) -> None:
        """Hold the conversation, and compare."""
        raise NotImplementedError

    async def described(self) -> str:
        """Describe where the conversation stands, for a report: its thread, and what was asked last."""
        head = await self.head()
        standing = {name: head.get(name) for name in ("status", "seq", "owner", "due", "interrupts", "next", "error")}
        return f"{json.dumps(standing)}, after {self.asked}"

    def compare(self, what: str, found: Any) -> None:
        wanted = twin()[what]
        if found != wanted:
            raise Wrong(f"{self.thread} ({self.kind}): {json.dumps(found)}\n  instead of {json.dumps(wanted)}")


class NothingError(Exception):
    """No reply is being generated, or the outcome of the request is unknown: read the thread."""


def passes(answer: httpx.Response) -> bool:
    """Whether a refusal is temporary."""
    if answer.status_code < 400:
        return False
    return answer.status_code >= 500 or answer.json().get("code") in PASSING


class Chat(Client):
    """A front end that speaks the UI message stream."""

    kind = "chat"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.messages: list[dict[str, Any]] = []

    async def talk(self) -> None:
        for number, text in enumerate(SAID):
            message = {"id": f"m{number}", "role": "user", "parts": [{"type": "text", "text": text}]}
            self.messages.append(message)
            await self.read(message, anew=True)
            while (found := await self.head())["status"] != "completed":
                if found["status"] == "running":
                    await self.read(None, anew=True)
                    continue
                (asked,) = found["interrupts"]
                if asked["kind"] == "approval":
                    await self.read(self.decision(asked["id"]), anew=False)
                else:
                    await self.answer(asked)
                    await self.read(None, anew=True)
        loaded = (await self.ask("GET", f"/chat/{self.thread}/messages")).json()["messages"]
        self.compare("chat", of_messages(loaded, self.thread))
        self.compare("chat", of_messages(self.messages, self.thread))

    def decision(self, question: str) -> dict[str, Any]:
        """The message with an approved tool call."""
        message = self.messages[-1]
        parts: list[dict[str, Any]] = [*message["parts"]]
        at = next(at for at, one in enumerate(parts) if one.get("approval", {}).get("id") == question)
        approval = {"id": question, "approved": True}
        parts[at] = {**parts[at], "state": "approval-responded", "approval": approval}
        return {**message, "parts": parts}

    async def read(self, message: dict[str, Any] | None, *, anew: bool) -> None:
        """Post *message*, or join the stream, and read to the end of the current reply."""
        body = {"id": self.thread, "messages": [message], "trigger": "submit-message"}
        while True:
            whole = False
            try:
                to = ("GET", f"/chat/{self.thread}/stream") if message is None else ("POST", "/chat", body)
                async for _, chunk in self.chunks(*to):
                    message = None
                    self.take(chunk, anew=anew)
                    anew = anew and chunk["type"] != "start"  # it is sent again where the run continues after a pause
                    whole = chunk["type"] == "finish" or (
                        chunk["type"] == "abort" and chunk.get("reason") != "withdrawn"
                    )
            except NothingError:
                await self.load()
                return
            except httpx.TransportError:
                self._counts["streams broken"] += 1
            if whole:
                return
            anew = message is None or message["role"] == "user"
            await asyncio.sleep(PAUSE_S)

    async def load(self) -> None:
        self.messages = (await self.ask("GET", f"/chat/{self.thread}/messages")).json()["messages"]

    def take(self, chunk: dict[str, Any], *, anew: bool) -> None:
        """Add a chunk to the messages, like `useChat` does."""
        if chunk["type"] == "start":
            known = next((one for one in self.messages if one["id"] == chunk["messageId"]), None)
            if known is None:
                self.messages.append({"id": chunk["messageId"], "role": "assistant", "parts": []})
            elif anew:
                known["parts"] = []
        else:
            ui_history._fold(self.messages[-1]["parts"], chunk)  # pyright: ignore[reportPrivateUsage]


class Agent(Client):
    """A front end that speaks AG-UI."""

    kind = "ag-ui"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.events: list[dict[str, Any]] = []

    async def talk(self) -> None:
        for number, text in enumerate(SAID):
            said = {"id": f"m{number}", "role": "user", "content": text}
            await self.read({"messages": [*self.sent(), said]})
            while (end := Page(self.events).end).get("type") != "success":
                if end.get("type") != "interrupt":
                    raise Wrong(f"{self.thread}: {end}")
                (asked,) = end["interrupts"]
                payload = True if asked["reason"] == "approval" else COLOUR
                resume = [{"interruptId": asked["id"], "status": "resolved", "payload": payload}]
                await self.read({"messages": self.sent(), "resume": resume})
        shown = of_page(Page(self.events), self.thread)
        self.events = []
        await self.read(None)
        loaded = of_page(Page(self.events), self.thread)
        self.compare("ag-ui", loaded)
        if sorted(map(str, shown[0])) != sorted(map(str, loaded[0])) or shown[1:] != loaded[1:]:
            raise Wrong(f"{self.thread} (ag-ui): {json.dumps(shown)}\n  instead of {json.dumps(loaded)}")

    def sent(self) -> list[dict[str, Any]]:
        """The messages of the page, as its client sends them."""
        return [as_sent(one) for one in Page(self.events).messages]

    async def read(self, asked: dict[str, Any] | None) -> None:
        body = {"threadId": self.thread, "runId": self.key(), **(asked or {})}
        first = asked is not None
        while True:
            try:
                to = ("POST", "/ag-ui", body) if first else ("GET", f"/ag-ui/{self.thread}/stream")
                begun = not first
                if begun:
                    self.events = []
                async for _, event in self.chunks(*to):
                    first = False
                    self.events.append(event)
                last = self.events[-1]["type"] if self.events else ""
                if last == "RUN_FINISHED":
                    return
            except NothingError:
                first = False
            except httpx.TransportError:
                self._counts["streams broken"] += 1
            await asyncio.sleep(PAUSE_S)


class Reader(Client):
    """A program that follows the journal by `Last-Event-ID`."""

    kind = "reader"

    async def talk(self) -> None:
        path = f"/graphs/desk/threads/{self.thread}"
        seen: list[int] = []
        for number, text in enumerate(SAID):
            given = {"messages": [{"role": "user", "text": text, "id": f"m{number}"}]}
            new = {"input": given, **({} if number else {"thread": self.thread})}
            target = f"{path}/runs" if number else "/graphs/desk/threads"
            done = await self.ask("POST", target, new, self.key())
            if done.status_code >= 400 and done.json()["code"] != "key-outcome-unknown":
                raise Wrong(f"{self.thread}: {done.status_code} {done.text}")
            while True:
                await self.follow(seen)
                found = await self.head()
                if found["status"] == "completed":
                    break
                if found["status"] == "interrupted":
                    await self.answer(found["interrupts"][0])
        if seen != [*range(1, len(seen) + 1)]:
            raise Wrong(f"{self.thread}: entries {seen}")
        self.compare("state", (await self.head())["state"])

    async def follow(self, seen: list[int]) -> None:
        """Read entries until the run ends or pauses."""
        last = str(seen[-1]) if seen else "0"
        while True:
            try:
                headers = {"last-event-id": last} if last != "0" else {}
                async for id_, data in self.chunks("GET", f"/graphs/desk/threads/{self.thread}/events", **headers):
                    if id_ == "end":
                        return
                    last = id_ or last
                    if "event" in data:
                        seen.append(data["seq"])
            except NothingError:
                return
            except httpx.TransportError:
                self._counts["streams broken"] += 1
            await asyncio.sleep(PAUSE_S)


class Browser(Client):
    """A person before the page of a chat."""

    kind = "page"

    def __init__(self, *given: Any, browser: Any) -> None:
        super().__init__(*given)
        self._browser = browser

    async def talk(self) -> None:
        from playwright.async_api import Error

        page = await self._browser.new_page()
        port = random.choice(self._ports)
        address = f"http://127.0.0.1:{port}/chat#chat={self.thread}"
        await self.load(page, address)
        for number, text in enumerate(SAID):
            while await self.taken() <= number:
                if await page.locator("#send").is_enabled():
                    await page.locator("#text").fill(text)
                    await page.locator("#send").click()
                await asyncio.sleep(PAUSE_S)
                if await page.locator("#stop").is_hidden():
                    # Messages that the page shows and the server does not know are withdrawn
                    await self.load(page, address)
            while (await self.head())["status"] != "completed":
                for name in ("Approve", "Answer", "Retry"):
                    button = page.get_by_role("button", name=name, exact=True).first
                    if await button.is_visible():
                        if name == "Answer":
                            await page.get_by_role("textbox", name="Answer").fill(COLOUR)
                        with suppress(Error):  # it was rendered again in the meantime
                            await button.click(timeout=2_000)
                        break
                await asyncio.sleep(PAUSE_S)
                if await page.locator("#stop").is_hidden():
                    await self.load(page, address)
        await page.locator("#stop").wait_for(state="hidden")
        await self.compared(page)
        await self.load(page, address)
        await self.compared(page)
        await page.close()

    async def taken(self) -> int:
        """The number of user messages that the server has; the page also shows one that it could not send."""
        found = (await self.ask("GET", f"/chat/{self.thread}/messages")).json()["messages"]
        return sum(one["role"] == "user" for one in found)

    async def load(self, page: Any, address: str) -> None:
        """Load the page, until a replica responds."""
        from playwright.async_api import Error

        while True:
            try:
                await page.goto("about:blank")
                await page.goto(address)
                await page.locator("#chats option").first.wait_for(state="attached", timeout=5_000)
            except Error:
                self._counts["pages loaded again"] += 1
                await asyncio.sleep(PAUSE_S)
            else:
                return

    async def texts(self, page: Any, selector: str) -> list[str]:
        found: list[str] = await page.locator(f"#messages {selector}").all_inner_texts()
        return found

    async def compared(self, page: Any) -> None:
        """Compare texts, tool calls and pictures with those of the twin."""
        parts = [part for one in twin()["chat"] for part in one["parts"]]
        wanted = [
            [one["text"] for one in parts if one["type"] == "text"],
            [one["toolName"] for one in parts if one["type"] == "dynamic-tool"],
            [one["url"] for one in parts if one["type"] == "file"],
        ]
        for _ in range(30):  # the page may still be loading its messages
            images = await page.locator("#messages img").evaluate_all("all => all.map((one) => one.src)")
            found = [await self.texts(page, ".text"), await self.texts(page, ".card strong"), images]
            if found == wanted:
                return
            await asyncio.sleep(PAUSE_S)
        raise Wrong(f"{self.thread} (page): {found}\n  instead of {wanted}")


# -- the storm ---------------------------------------------------------------------------------------------------------


async def storm(store: str, *, seconds: float, clients: int, pages: int, every_s: float) -> list[str]:
    """Run it, print its figures, and return the problems."""
    fleet, counts, wrong = Fleet(store), Counter[str](), list[str]()
    twin()
    began = time.monotonic()
    await fleet.begin()
    until = 0.0
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)

    async def one(number: int, make: Callable[[str], Client]) -> None:
        turn = 0
        while time.monotonic() < until:
            turn += 1
            client = make(f"c{number}x{turn}x")
            left = until - time.monotonic() + PATIENCE_S
            try:
                await asyncio.wait_for(client.talk(), left)
            except TimeoutError:
                wrong.append(f"{client.kind} {client.thread} did not end: {await client.described()}")
            except Exception as error:  # noqa: BLE001 - shown with the others
                wrong.append(f"{client.kind} {client.thread}: {type(error).__name__}: {error}")
            counts[f"{client.kind} conversations"] += 1

    async with httpx.AsyncClient(timeout=httpx.Timeout(40, connect=10), limits=limits) as http:

        def made(kind: type[Client]) -> Callable[[str], Client]:
            return lambda name: kind(name, fleet.ports, http, counts)

        async def together(ones: list[Awaitable[Any]]) -> list[Any]:
            nonlocal until
            until = time.monotonic() + seconds
            return await asyncio.gather(*ones)

        async def in_browsers(others: list[Awaitable[Any]]) -> list[Any]:
            if not pages:
                return await together(others)
            from playwright.async_api import async_playwright

            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=which("chromium"), args=BROWSER_OPTIONS)

                def page(name: str) -> Client:
                    return Browser(name, fleet.ports, http, counts, browser=browser)

                found = await together([*others, *[one(clients + number, page) for number in range(pages)]])
                await browser.close()
                return found

        kinds = (Chat, Agent, Reader)
        try:
            kills, *_ = await in_browsers(
                [fleet.kill(seconds, every_s), *[one(number, made(kinds[number % 3])) for number in range(clients)]]
            )
        finally:
            await fleet.close()
    figures = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    load = os.getloadavg()[0]
    print(f"{kills} kills; {figures}; {time.monotonic() - began:.0f} s, load {load:.1f}")  # noqa: T201
    return wrong


def main() -> int:
    if sys.argv[1:2] == ["replica"]:
        replica(sys.argv[2], int(sys.argv[3]))
        return 0
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.serve.storm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long processes are killed")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--pages", type=int, default=5, help="further clients that are pages in Chromium")
    parser.add_argument("--every", type=float, default=1.5, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=20261129)
    given = parser.parse_args()
    random.seed(given.seed)
    tools = postgres_server.binaries()
    if tools is None:
        print("There is no PostgreSQL server on this machine.")  # noqa: T201
        return 1
    if find_spec("playwright") is None or which("chromium") is None:
        print("There is no Chromium on this machine: no pages.")  # noqa: T201
        given.pages = 0
    server = postgres_server.Server(tools)
    try:
        store = postgres_server.with_options(server.url, schema="storm")
        words = {"seconds": given.seconds, "clients": given.clients, "pages": given.pages, "every_s": given.every}
        wrong = asyncio.run(storm(store, **words))
    finally:
        server.remove()
    for one in wrong[:20]:
        print(one)  # noqa: T201
    print(f"{len(wrong)} wrong")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
