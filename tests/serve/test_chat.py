"""A chat over the UI message stream: the requests of `useChat` and their responses, over real HTTP."""

from __future__ import annotations

import json
import threading
from typing import Annotated, Any, TypedDict

import pytest
from tests.patience import eventually

from graphrt import END, START, Context, GraphBuilder, InputError, Runtime
from graphrt.harness import Agent, AssistantMessage, Message, ModelResponse, ScriptedModel, ToolCall, UserMessage, tool
from graphrt.reducers import append
from graphrt.serve import AgUiAgent, Bounds, Caller, UiMessageChat, anyone, app
from graphrt.stores import MemoryStore
from graphrt.testing import VirtualClock
from graphrt.wires.conversation import inputs


class Chat(TypedDict):
    messages: Annotated[list[Message], append]


@tool(approval=True, effect="once")
def order(item: str) -> str:
    """Order something."""
    return f"ordered: {item}"


RESPONDED = {"state": "approval-responded"}
CLERK = Agent("none", name="clerk", tools=[order])


def chats(*script: Any, gate: threading.Event | None = None, name: str = "chat") -> Runtime:
    """A chat; before it ends, a node waits for *gate*."""
    g = GraphBuilder(Chat, name=name)

    @g.node
    async def talk(state: Chat, ctx: Context) -> Chat:
        reply = await ctx.bind(CLERK).run(state["messages"])
        return {"messages": list(reply.new_messages)}

    @g.node
    def close(state: Chat) -> None:
        if gate is not None:
            gate.wait(20)

    g.add_sequence([START, talk, close, END])
    return Runtime(g.compile(), store="memory:", models={"clerk": ScriptedModel(script)})


def request(text: str, *, id: str = "m1", chat: str = "c1") -> dict[str, Any]:
    message = {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": chat, "messages": [message], "trigger": "submit-message"}


def decision(asked: dict[str, Any], *, approved: bool) -> dict[str, Any]:
    """The request of `useChat` after the user has decided about a tool call."""
    approval = {"id": asked["approvalId"], "approved": approved}
    part = {
        "type": "dynamic-tool",
        "toolCallId": asked["toolCallId"],
        "state": "approval-responded",
        "approval": approval,
    }
    return {"id": "c1", "messages": [{"id": "c1:1", "role": "assistant", "parts": [part]}]}


def chunks(answer: Any) -> list[dict[str, Any]]:
    assert (answer.status_code, answer.headers["x-vercel-ai-ui-message-stream"]) == (200, "v1"), answer.text
    *lines, last, end = answer.text.split("\n\n")
    assert (last, end) == ("data: [DONE]", "")
    return [json.loads(one.removeprefix("data: ")) for one in lines if not one.startswith(":")]


def text(found: list[dict[str, Any]]) -> str:
    return "".join(one["delta"] for one in found if one["type"] == "text-delta")


@pytest.fixture
def chat(serve):
    """Serve a chat, and post to it."""

    def start(*script: Any, gate: threading.Event | None = None, **options: Any) -> Any:
        served = serve(chats(*script, gate=gate), mounts={"/chat": UiMessageChat("chat")}, **options)
        return lambda body, **headers: served.http.post("/chat", json=body, headers=headers), served

    return start


def test_messages_are_answered_in_order(chat):
    post, served = chat("Hello!", "Still here.")

    first = chunks(post(request("Hi")))
    second = chunks(post(request("And now?", id="m2")))

    assert (first[0]["messageId"], text(first), first[-1]["type"]) == ("c1:1", "Hello!", "finish")
    assert (text(second), second[0]["messageId"] != first[0]["messageId"]) == ("Still here.", True)
    state = served("GET", "/threads/c1", graph="chat").json()["state"]
    assert [one["text"] for one in state["messages"]] == ["Hi", "Hello!", "And now?", "Still here."]


def test_repeated_message_is_answered_once(chat):
    post, served = chat("Hello!")

    first, again = chunks(post(request("Hi"))), chunks(post(request("Hi")))

    assert text(first) == text(again) == "Hello!"
    assert first[0] == again[0]
    assert len(served("GET", "/threads/c1", graph="chat").json()["state"]["messages"]) == 2


@pytest.mark.parametrize(("approved", "last"), [(True, "tool-output-available"), (False, "tool-output-denied")])
def test_tool_call_is_decided_and_the_message_continues_under_its_id(chat, approved, last):
    post, _ = chat(ToolCall(id="1", name="order", arguments={"item": "tea"}), "Done.")

    paused = chunks(post(request("Tea, please")))
    asked = next(one for one in paused if one["type"] == "tool-approval-request")
    rest = chunks(post(decision(asked, approved=approved)))

    assert paused[-1] == {"type": "finish", "finishReason": "tool-calls"}
    assert rest[0] == paused[0]
    assert [one["type"] for one in rest if one["type"].startswith("tool-")] == ["tool-approval-response", last]
    assert text(rest) == "Done."


def test_reloaded_page_gets_the_message_from_its_beginning(chat):
    gate = threading.Event()
    post, served = chat("Hello!", gate=gate)
    answers: list[Any] = []
    posting = threading.Thread(target=lambda: answers.append(post(request("Hi"))))
    posting.start()
    eventually(lambda: "superstep-committed" in served("GET", "/threads/c1/entries?limit=50", graph="chat").text)

    with served.http.stream("GET", "/chat/c1/stream") as answer:
        gate.set()
        answer.read()
    again = chunks(answer)
    posting.join()

    assert text(again) == text(chunks(answers[0])) == "Hello!"
    assert again[0] == chunks(answers[0])[0]
    assert served.http.get("/chat/c1/stream").status_code == 204
    assert served.http.get("/chat/none/stream").status_code == 204


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": "c1", "messages": []},
        {**request("Hi"), "nothing": float("nan")},
        {"id": "c1", "messages": [{"id": "a", "role": "assistant", "parts": [{"type": "text", "text": "x"}]}]},
        {"id": "c1", "messages": [{"id": "a", "role": "assistant", "parts": [{**RESPONDED, "approval": "id"}]}]},
        {"id": "c1", "messages": [{"id": "a", "role": "assistant", "parts": [{**RESPONDED, "approval": 5}]}]},
        {**request("Hi"), "trigger": "summarize"},
        request(""),
        {"id": "c1", "messages": [{"id": "a", "role": "user", "parts": []}]},
        {"id": "c1", "messages": [{"id": "a", "role": "user", "parts": [{"type": "text"}]}]},
        {"id": "c1", "messages": [{"id": "a", "role": "user", "parts": [{"type": "text", "text": 5}]}]},
        {
            "id": "c1",
            "messages": [{"id": "a", "role": "user", "parts": [{"type": "text", "text": "Hi"}, {"type": "video"}]}],
        },
    ],
)
def test_invalid_message_for_the_thread_is_a_problem(chat, body):
    _, served = chat()

    answer = served.http.post("/chat", content=json.dumps(body), headers={"content-type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request-part")
    assert served.http.get("/graphs/chat/threads").json()["threads"] == []


def test_message_without_credentials_is_refused_unread(chat):
    post, _ = chat(authorize=lambda _request: None)

    assert post({"nonsense": True}).status_code == 401


def test_chat_requires_the_rights_of_its_actions(chat):
    def who(request: Any) -> Caller:
        return Caller(user="ada", rights=frozenset(request.headers["rights"].split()))

    post, served = chat(ToolCall(id="1", name="order", arguments={"item": "tea"}), "Done.", authorize=who)

    assert post(request("Hi"), rights="read answer").status_code == 403
    asked = next(one for one in chunks(post(request("Hi"), rights="run")) if "approvalId" in one)
    assert post(decision(asked, approved=True), rights="read run").status_code == 403
    assert served.http.get("/chat/c1/stream", headers={"rights": "run"}).status_code == 403
    assert text(chunks(post(decision(asked, approved=True), rights="answer"))) == "Done."


def test_failed_message_is_generated_again_and_a_finished_one_is_not(chat):
    broken = threading.Event()
    post, served = chat("Hello!", gate=broken)
    broken.wait = lambda _s: broken.set() or 1 / 0 if not broken.is_set() else None  # type: ignore[method-assign]

    failed = chunks(post(request("Hi")))
    shown = {"id": "m1", "role": "user", "parts": [{"type": "data-input", "data": {}}]}  # of a page with another input
    again = chunks(post({"id": "c1", "messages": [shown], "trigger": "regenerate-message"}))
    loaded = served.http.get("/chat/c1/messages").json()["messages"][-1]

    assert [one["type"] for one in failed[-2:]] == ["error", "finish"]
    assert (again[0], text(again)) == (failed[0], "Hello!")
    assert "error" not in [one["type"] for one in again]  # useChat would stop there
    assert [part["type"] for part in loaded["parts"]] == ["step-start", "text"]
    assert again[-1] == {"type": "finish", "finishReason": "stop"}
    assert post({**request("Hi"), "trigger": "regenerate-message"}).status_code == 409


def test_new_message_after_a_failure_gives_up_the_failed_answer(chat):
    broken = threading.Event()
    post, served = chat("Hello!", "I am.", gate=broken)
    broken.wait = lambda _s: broken.set() or 1 / 0 if not broken.is_set() else None  # type: ignore[method-assign]
    post(request("Hi"))

    answered = chunks(post(request("Are you there?", id="m2")))

    assert text(answered) == text(chunks(post(request("Are you there?", id="m2")))) == "I am."
    loaded = served.http.get("/chat/c1/messages").json()["messages"]
    assert [message["role"] for message in loaded] == ["user", "assistant", "user", "assistant"]
    assert "error" not in str(loaded[-1])


def test_message_while_the_chat_waits_is_refused(chat):
    post, _ = chat(ToolCall(id="1", name="order", arguments={"item": "tea"}), "Done.")
    post(request("Tea"))

    answer = post(request("Hello?", id="m2"))

    assert (answer.status_code, answer.json()["code"]) == (409, "wrong-verb")


def test_beginning_of_a_message_is_found_in_a_long_thread():
    from graphrt.serve._chat import begin_of_turn

    with chats(*["Hello!"] * 30) as runtime:
        for _ in range(30):
            runtime.run({"messages": [UserMessage(text="Hi")]}, thread="t")
        entries = list(runtime.entries("t"))

        for at in (1, 40, len(entries)):
            assert begin_of_turn(runtime, "t", at) == inputs(entries[:at])[-1]


def test_chat_must_name_a_served_graph():
    with pytest.raises(InputError):
        app(chats(), authorize=anyone, mounts={"/chat": UiMessageChat("other")})


def test_request_whose_stream_is_refused_starts_no_run(chat):
    post, served = chat("Hello!", bounds=Bounds(streams_per_caller=1))
    with served.application.slot(Caller()):
        refused = post(request("Hi"))
    served.application._draining = True
    stopped = post(request("Hi"))

    assert (refused.json()["code"], stopped.json()["code"]) == ("too-many-requests", "server-stopping")
    assert (stopped.status_code, stopped.headers["retry-after"]) == (503, "5")
    assert served("GET", "/threads", graph="chat").json()["threads"] == []
    served.application._draining = False
    assert text(chunks(post(request("Hi")))) == "Hello!"


def test_repeated_decision_of_a_page_is_not_answered_twice(chat):
    """A message of the AI SDK has all decisions about its tool calls, including those that were already sent."""
    calls = tuple(ToolCall(id=one, name="order", arguments={"item": one}) for one in ("tea", "milk"))
    post, _ = chat(ModelResponse(tool_calls=calls), "Done.")
    paused = chunks(post(request("Both")))
    first, second = (decision(one, approved=True) for one in paused if one["type"] == "tool-approval-request")
    assert chunks(post(first))[-1]["finishReason"] == "tool-calls"

    [own], [new] = first["messages"][0]["parts"], second["messages"][0]["parts"]
    changed = {**own, "approval": {**own["approval"], "approved": False}}
    second["messages"][0]["parts"] = [changed, new]
    assert post(second).json()["code"] == "unknown-interrupt"
    second["messages"][0]["parts"] = [own, new]
    assert text(chunks(post(second))) == text(chunks(post(second))) == "Done."


def test_thread_of_another_graph_does_not_exist_for_an_agent(serve):
    """Both graphs have the same nodes: only their names separate their threads."""
    store = MemoryStore()
    graphs = [chats().graph, chats(name="other").graph]
    call = ToolCall(id="1", name="order", arguments={"item": "tea"})
    runtimes = [Runtime(one, store=store, models={"clerk": ScriptedModel([call])}) for one in graphs]
    served = serve(*runtimes, mounts={"/other": UiMessageChat("other"), "/agent": AgUiAgent("chat")})
    asked = next(one for one in chunks(served.http.post("/other", json=request("Tea"))) if "approvalId" in one)
    resume = [{"interruptId": asked["approvalId"], "status": "cancelled"}]
    said = [{"id": "m1", "role": "user", "content": "Hi"}]

    answers = [
        served.http.post("/agent", json={"threadId": "c1", "runId": "r", "messages": said, **more})
        for more in ({}, {"resume": resume})
    ]

    assert [one.json()["code"] for one in answers] == ["thread-exists", "unknown-thread"]
    assert served("GET", "/threads/c1", graph="other").json()["status"] == "interrupted"


def test_page_that_is_loaded_while_the_run_sleeps_gets_later_items(serve):
    g = GraphBuilder(Chat, name="chat")

    @g.node
    def sleep(state: Chat, ctx: Context) -> None:
        ctx.sleep(1.5)

    @g.node
    def greet(state: Chat) -> Chat:
        return {"messages": [AssistantMessage(text="Good morning.")]}

    g.add_sequence([START, sleep, greet, END])
    clock = VirtualClock()
    served = serve(Runtime(g.compile(), store="memory:", clock=clock), mounts={"/chat": UiMessageChat("chat")})
    served("POST", "/threads", {"thread": "c1", "input": {"messages": []}}, graph="chat")
    eventually(lambda: served("GET", "/threads/c1", graph="chat").json()["status"] == "interrupted")

    with served.http.stream("GET", "/chat/c1/stream") as answer:
        clock.advance(2)
        answer.read()

    assert text(chunks(answer)) == "Good morning."
