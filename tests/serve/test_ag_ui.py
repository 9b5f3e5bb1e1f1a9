"""An agent over AG-UI: the requests of a front end and their responses, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.patience import eventually
from tests.wires.chats import PICTURE, Desk, opened
from tests.wires.test_ag_ui import Event, Page, ends, image

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.harness import Agent as HarnessAgent
from graphrt.harness import ScriptedModel
from graphrt.serve import AgUiAgent, Caller, anyone

from .conftest import Served

Serve = Callable[..., Served]


def as_sent(one: dict[str, Any]) -> dict[str, Any]:
    """A message of a page as its client sends it with the next request."""
    if "file" in one:
        return {"id": one["id"], "role": "activity", "activityType": "file", "content": one["file"]}
    calls = [
        {"id": id_, "function": {"name": name, "arguments": text}} for id_, (name, text) in one.get("calls", {}).items()
    ]
    told = {"toolCalls": calls} if calls else {"toolCallId": one["call"]} if "call" in one else {}
    return {"id": one["id"], "role": one["role"], "content": one.get("text", ""), **told}


class Agent:
    """A client of an agent: a page that sends its messages, and assembles the response."""

    def __init__(self, served: Served, path: str = "/ag-ui/desk") -> None:
        self.served = served
        self.path = path
        self.events: list[Event] = []
        self.runs = 0

    def post(self, *, run: str = "", user: str = "ada", **asked: Any) -> Any:
        self.runs += 1
        body: dict[str, Any] = {"threadId": "t", "runId": run or f"r{self.runs}", "messages": [], **asked}
        return self.served.http.post(self.path, json=body, headers={"user": user})

    def taken(self, answer: Any) -> Page:
        """The state of the page after a response."""
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream"), answer.text
        lines = [one for one in answer.text.split("\n\n") if one and not one.startswith(":")]
        self.events += [json.loads(one.removeprefix("data: ")) for one in lines]
        return self.page

    @property
    def page(self) -> Page:
        return Page(self.events)

    def say(self, text: str, id: str, **more: Any) -> Page:
        return self.taken(self.post(messages=[{"id": id, "role": "user", "content": text}], **more))

    def resume(self, *, cancelled: bool = False, payload: Any = None, **more: Any) -> Page:
        (asked,) = self.page.end["interrupts"]
        status = {"status": "cancelled"} if cancelled else {"status": "resolved", "payload": payload}
        history = [as_sent(one) for one in self.page.messages]
        return self.taken(self.post(messages=history, resume=[{"interruptId": asked["id"], **status}], **more))


def waiting(gate: threading.Event) -> Runtime[Any, Any]:
    """A runtime whose second node waits for *gate*."""
    g = GraphBuilder(Desk, name="desk")

    @g.node
    async def talk(state: Desk, ctx: Context) -> dict[str, Any]:
        reply = await ctx.bind(HarnessAgent("none", name="clerk")).run(state.messages)
        return {"notes": [reply.text]}

    @g.node
    def close(state: Desk) -> None:
        gate.wait(20)

    g.add_sequence([START, talk, close, END])
    return Runtime(g.compile(), store="memory:", models={"clerk": ScriptedModel(["Hello!"])})


@pytest.fixture
def agent(serve: Serve) -> Callable[..., Agent]:
    """Serve the desk as an agent, and return a client of it."""

    def start(runtime: Runtime[Any, Any] | None = None, **options: Any) -> Agent:
        shows = options.pop("shows", ("notes", "colour"))
        options.setdefault("authorize", anyone)
        served = serve(runtime or opened(), mounts={"/ag-ui/desk": AgUiAgent("desk", shows=shows)}, **options)
        return Agent(served)

    return start


def test_page_talks_approves_and_answers_until_the_run_is_done(agent: Callable[..., Agent]) -> None:
    front = agent()

    approval = front.say("A kettle", "m1")
    question = front.resume(payload=True)
    done = front.resume(payload="red")

    assert [one.end["type"] for one in (approval, question, done)] == ["interrupt", "interrupt", "success"]
    assert done.state == {"notes": ["talked", "Red and blue."], "colour": "red"}
    assert "Done: kettle is put aside." in [one.get("text") for one in done.messages]
    again = Agent(front.served)
    loaded = again.taken(front.served.http.get("/ag-ui/desk/t/stream"))
    assert {one["id"]: one for one in loaded.messages} == {one["id"]: one for one in done.messages}
    assert loaded.state == done.state


def test_repeated_request_is_processed_once(agent: Callable[..., Agent]) -> None:
    front = agent()

    first = front.say("A kettle", "m1", run="same")
    again = Agent(front.served).say("A kettle", "m1", run="same")

    assert again.end == first.end
    entries = front.served("GET", "/threads/t/entries?limit=50", graph="desk").json()["entries"]
    assert [one["event"] for one in entries].count("run-started") == 1


def test_page_that_is_loaded_during_a_run_gets_the_thread_and_later_items(agent: Callable[..., Agent]) -> None:
    gate = threading.Event()
    front = agent(waiting(gate))
    answers: list[Any] = []

    def post() -> None:
        answers.append(front.post(messages=[{"id": "m1", "role": "user", "content": "Hi"}]))

    posting = threading.Thread(target=post)
    posting.start()
    eventually(lambda: "superstep-committed" in front.served("GET", "/threads/t/entries", graph="desk").text)
    with front.served.http.stream("GET", "/ag-ui/desk/t/stream") as answer:
        gate.set()
        answer.read()
    loaded = Agent(front.served).taken(answer)
    posting.join(20)

    assert loaded.end == front.taken(answers[0]).end == {"type": "success"}
    assert [one["text"] for one in loaded.messages] == ["Hi", "Hello!"]
    assert front.served.http.get("/ag-ui/desk/none/stream").status_code == 204


def test_a_page_that_is_loaded_while_a_question_is_open_has_the_words_before_it(agent: Callable[..., Agent]) -> None:
    front = agent()
    front.say("A kettle", "m1")
    asked = front.resume(payload=True)

    loaded = Agent(front.served).taken(front.served.http.get("/ag-ui/desk/t/stream"))
    assert loaded.end == asked.end
    assert "Red and blue." in [one.get("text") for one in loaded.messages]
    assert {one["id"]: one for one in loaded.messages} == {one["id"]: one for one in asked.messages}


def test_dropped_question_refuses_a_tool_and_cancels_other_runs(agent: Callable[..., Agent]) -> None:
    front = agent()
    front.say("A kettle", "m1")

    refused = front.resume(cancelled=True)
    dropped = front.resume(cancelled=True)
    later = front.say("Another kettle", "m2")

    assert "The call was denied." in [one.get("text") for one in refused.messages]
    assert (refused.end["interrupts"][0]["reason"], dropped.end) == ("question", {"type": "cancelled"})
    assert later.end["type"] == "interrupt"


def test_same_messages_after_a_failure_retry_the_thread(agent: Callable[..., Agent]) -> None:
    front = agent(ends())

    failed = front.say("Hi", "m1")
    done = front.say("Hi", "m1")

    assert (failed.end["code"], done.end) == ("NodeError", {"type": "success"})
    assert [one["text"] for one in done.messages] == ["Hi", "First words.", "Second words."]


def test_invalid_request_for_the_thread_is_a_problem(agent: Callable[..., Agent]) -> None:
    front = agent()
    image = [{"type": "image", "source": {"type": "url", "value": "x"}}]

    refused = [
        front.post(messages=[{"id": "a", "role": "assistant", "content": "x"}]),
        front.post(messages=[{"id": "a", "role": "user", "content": image}]),
        front.post(messages=[{"id": "a", "role": "user", "content": ""}]),
        front.post(messages=[{"id": "a", "role": "user", "content": [{"type": "text", "text": 5}]}]),
        front.post(messages=5),
        front.post(resume=[{"interruptId": "a", "status": "maybe"}]),
    ]

    assert [(one.status_code, one.json()["code"]) for one in refused] == [(400, "bad-request-part")] * 6
    assert front.served("GET", "/threads", graph="desk").json()["threads"] == []


def test_page_sends_files_with_its_text(agent: Callable[..., Agent]) -> None:
    front = agent()
    content = [{"type": "text", "text": "A kettle"}, image(PICTURE)]

    page = front.taken(front.post(messages=[{"id": "m1", "role": "user", "content": content}]))

    assert page.messages[0]["text"] == content
    (said, *_) = front.served("GET", "/threads/t", graph="desk").json()["state"]["messages"]
    assert said["content"][1].startswith("<Image image/png, ")


def test_caller_sees_and_does_only_what_their_rights_allow(agent: Callable[..., Agent]) -> None:
    rights = {"ada": {"run", "answer"}, "ben": {"run"}, "eve": {"read"}}

    def who(request: Any) -> Caller:
        user = request.headers["user"]
        return Caller(user=user, rights=frozenset(rights[user]))  # type: ignore[arg-type]  # as a program writes it

    def shows(caller: Caller) -> set[str]:
        return {"notes"} if caller.user == "ada" else set()

    front = agent(authorize=who, shows=shows)

    assert front.say("A kettle", "m1").state == {"notes": []}
    (asked,) = front.page.end["interrupts"]
    answer = [{"interruptId": asked["id"], "status": "resolved", "payload": True}]
    assert front.post(user="ben", resume=answer).status_code == 403
    assert front.served.http.get("/ag-ui/desk/t/stream", headers={"user": "ben"}).status_code == 403
    seen = Agent(front.served).taken(front.served.http.get("/ag-ui/desk/t/stream", headers={"user": "eve"}))
    assert (seen.state, seen.end["type"]) == (None, "interrupt")
