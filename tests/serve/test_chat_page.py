"""The page of a chat, and the messages of a reloaded page."""

from __future__ import annotations

from typing import Any

import pytest
from tests.serve.test_chat import chats, chunks, decision, request

from graphrt import Runtime
from graphrt.harness import UserMessage
from graphrt.serve import UiMessageChat, _chat


@pytest.fixture
def served(serve):
    def start(*runtimes: Any, **options: Any) -> Any:
        return serve(*runtimes, mounts={"/chat": UiMessageChat("chat", page=True)}, **options)

    return start


def test_page_loads_only_its_own_files_and_needs_no_credentials(served):
    http = served(chats(), authorize=lambda _request: None).http

    page = http.get("/chat")
    files = [http.get(f"/chat/page/{name}") for name in ("chat.js", "chat.css")]

    assert page.headers["content-type"].startswith("text/html")
    assert [one.headers["content-type"].partition(";")[0] for one in files] == ["text/javascript", "text/css"]
    for one in (page, *files):
        assert one.status_code == 200
        assert "default-src 'none'; script-src 'self'" in one.headers["content-security-policy"]
    assert "<script>" not in page.text
    assert http.get("/chat/page/index.html").status_code == 404
    assert http.get("/chat/c1/messages").status_code == 401


def test_page_exists_only_on_request(serve):
    http = serve(chats(), mounts={"/chat": UiMessageChat("chat")}).http

    assert http.get("/chat").status_code == 405


def test_reloaded_page_gets_the_messages_so_far(served):
    from graphrt.harness import ToolCall

    server = served(chats(ToolCall(id="1", name="order", arguments={"item": "tea"}), "Done."))

    def messages() -> Any:
        return server.http.get("/chat/c1/messages").json()["messages"]

    assert messages() == []
    paused = chunks(server.http.post("/chat", json=request("Tea, please")))
    asked = next(one for one in paused if one["type"] == "tool-approval-request")
    [user, answer] = messages()
    assert user == {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Tea, please"}]}
    tool = answer["parts"][-1]
    assert (answer["id"], tool["state"], tool["approval"]) == (
        "c1:1",
        "approval-requested",
        {"id": asked["approvalId"]},
    )

    chunks(server.http.post("/chat", json=decision(asked, approved=True)))
    [_, answer] = messages()
    states = [one.get("state") or one["type"] for one in answer["parts"]]
    assert states == ["step-start", "output-available", "step-start", "done"]
    assert (answer["parts"][1]["output"], answer["parts"][-1]["text"]) == ("ordered: tea", "Done.")


def test_a_page_that_is_loaded_while_a_question_is_open_has_the_words_before_it(served):
    """Its answer then continues the message, and the text before the question is not repeated."""
    from graphrt.harness import ModelResponse, ToolCall

    calls = (ToolCall(id="1", name="order", arguments={"item": "tea"}),)
    said = ModelResponse(text="I shall order it.", thinking="Hm.", tool_calls=calls)
    http = served(chats(said, "It is ordered.")).http
    posted = chunks(http.post("/chat", json=request("Tea, please")))
    again = chunks(http.post("/chat", json=request("Tea, please")))  # the first answer was lost

    [_, answer] = http.get("/chat/c1/messages").json()["messages"]
    kinds = [one["type"] for one in answer["parts"] if one["type"] != "step-start"]
    tool = answer["parts"][-1]
    assert kinds == ["reasoning", "text", "dynamic-tool"]
    assert "".join(one.get("delta", "") for one in posted) == "Hm.I shall order it."
    assert [one for one in again if one["type"] != "text-delta"] == [
        one for one in posted if one["type"] != "text-delta"
    ]

    tool |= {"state": "approval-responded", "approval": {**tool["approval"], "approved": True}}
    rest = chunks(http.post("/chat", json={"id": "c1", "messages": [answer]}))
    [_, whole] = http.get("/chat/c1/messages").json()["messages"]
    assert "".join(one["delta"] for one in rest if one["type"].endswith("-delta")) == "It is ordered."
    shown = [one.get("text") or one.get("output") for one in whole["parts"] if one["type"] != "step-start"]
    assert shown == ["Hm.", "I shall order it.", "ordered: tea", "It is ordered."]
    assert (rest[0]["messageId"], whole["id"]) == (answer["id"], answer["id"])


def long_chat(turns: int) -> Runtime[Any, Any]:
    runtime = chats(*(f"Answer {number}." for number in range(turns)))
    for number in range(turns):
        runtime.run({"messages": [UserMessage(text=f"Question {number}?", id=f"m{number}")]}, thread="c1")
    return runtime


def test_messages_of_a_long_chat_are_paged(served):
    http = served(long_chat(5)).http
    pages: list[list[str]] = []
    before: Any = ""
    while before is not None:
        found = http.get(f"/chat/c1/messages?limit=2{before and f'&before={before}'}").json()
        pages.append([one["parts"][-1]["text"] for one in found["messages"]])
        before = found["before"]

    assert [len(one) for one in pages] == [4, 4, 2]
    whole = [text for page in reversed(pages) for text in page]
    assert whole == [text for number in range(5) for text in (f"Question {number}?", f"Answer {number}.")]
    assert http.get("/chat/c1/messages?limit=2000").status_code == 400


def test_page_of_messages_has_few_entries(served, monkeypatch):
    """Turns are as long as their runs: a limit on their number bounds nothing."""
    monkeypatch.setattr(_chat, "_MOST_ENTRIES", 12)
    http = served(long_chat(5)).http

    found = http.get("/chat/c1/messages").json()

    assert 2 <= len(found["messages"]) < 10
    assert found["before"] > 1


@pytest.mark.parametrize(
    ("first", "title"),
    [("Hi", "Hi"), ("A list:\n\t- tea\n- \x07", "A list: - tea -"), ("\n", None), ("tea " * 30, ("tea " * 15).strip())],
)
def test_new_chat_is_found_by_its_first_message(served, first, title):
    server = served(chats("Hello!", "Still here."))

    for id_, text in (("m1", first), ("m2", "And now?")):
        assert chunks(server.http.post("/chat", json=request(text, id=id_)))[-1]["type"] == "finish"

    assert server("GET", "/threads/c1", graph="chat").json()["title"] == title


def test_page_finds_its_files_below_a_path_with_a_space(serve):
    http = serve(chats(name="my chat"), mounts={"/chat/my chat": UiMessageChat("my chat", page=True)}).http

    page = http.get("/chat/my%20chat").text

    assert 'content="/chat/my%20chat"' in page
    assert http.get("/chat/my%20chat/page/chat.js").status_code == 200


# ------------------------------------------------------------------------------------------------------- a browser

BROWSER_OPTIONS = [
    "--no-sandbox",  # root in a container
    *["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
    *["--disable-component-update", "--disable-sync"],
]


@pytest.fixture
def page():
    """A page of a real browser, whose console must be empty at the end."""
    import shutil

    from playwright.sync_api import sync_playwright

    noticed: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=BROWSER_OPTIONS)
        opened = browser.new_page()
        opened.on("console", lambda message: noticed.append(message.text))
        opened.on("pageerror", lambda error: noticed.append(str(error)))
        yield opened
        browser.close()
    assert noticed == []


@pytest.mark.slow
@pytest.mark.needs("playwright", "chromium")
def test_person_sends_a_picture_and_receives_one(served, page):
    import json

    from graphrt.harness import Image
    from graphrt.harness.protocol import AgentReply
    from graphrt.serve import Bounds

    cat = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
    )
    server = served(
        chats(AgentReply(text="A cat, too.", media=(Image.from_bytes(cat),))), bounds=Bounds(file_bytes=200, files=1)
    )

    page.goto(f"{server.url}/chat")
    chooser = page.locator("#files")
    chooser.set_input_files({"name": "large.txt", "mimeType": "text/plain", "buffer": b"x" * 201})
    page.get_by_text("large.txt has more than 200 bytes.").wait_for()
    chooser.set_input_files({"name": "cat.png", "mimeType": "image/png", "buffer": cat})
    page.get_by_role("button", name="Remove cat.png").wait_for()
    chooser.set_input_files({"name": "dog.png", "mimeType": "image/png", "buffer": cat})
    page.get_by_text("A message takes at most 1 files.").wait_for()
    page.get_by_role("button", name="Send").click()
    page.get_by_text("A cat, too.").wait_for()
    page.get_by_role("button", name="Stop").wait_for(state="hidden")
    page.reload()
    page.get_by_role("img", name="An image").wait_for()

    log = page.get_by_role("log")
    assert log.get_by_role("img").count() == 2
    assert log.locator("img").evaluate_all("all => all.every((one) => one.naturalWidth === 1)")
    thread = page.url.partition("chat=")[2]
    said = server("GET", f"/threads/{thread}", graph="chat").json()["state"]["messages"]
    assert "cat.png" in json.dumps(said[0])


@pytest.mark.slow
@pytest.mark.needs("playwright", "chromium")
def test_person_chats_approves_answers_and_reloads_the_page(served, page):
    import threading
    from typing import Annotated, NotRequired, TypedDict

    from tests.serve.test_chat import CLERK

    from graphrt import END, START, Context, GraphBuilder
    from graphrt.harness import Message, ScriptedModel, ToolCall
    from graphrt.reducers import append

    class State(TypedDict):
        messages: Annotated[list[Message], append]
        large: NotRequired[bool]

    gate = threading.Event()
    g = GraphBuilder(State, name="chat")

    @g.node
    async def talk(state: State, ctx: Context) -> State:
        reply = await ctx.bind(CLERK).run(state["messages"])
        return {"messages": list(reply.new_messages)}

    @g.node
    def close(state: State, ctx: Context) -> Any:
        gate.wait(20)
        return {"large": ctx.interrupt("A large one?", key="large", answer_type=bool)}

    g.add_sequence([START, talk, close, END])
    script = [ToolCall(id="1", name="order", arguments={"item": "<b>tea</b>"}), "It <i>is</i> ordered."]
    server = served(Runtime(g.compile(), store="memory:", models={"clerk": ScriptedModel(script)}))

    page.goto(f"{server.url}/chat")
    page.get_by_label("Message", exact=True).fill("Tea, please")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("It <i>is</i> ordered.").wait_for()
    page.reload()  # in the middle of the run
    page.get_by_text("It <i>is</i> ordered.").wait_for()
    page.get_by_role("button", name="Stop").wait_for()
    gate.set()
    question = page.get_by_label("Question of close")
    question.get_by_role("combobox").select_option(label="No")
    question.get_by_role("button", name="Answer").click()
    question.wait_for(state="detached")
    page.get_by_role("button", name="Stop").wait_for(state="hidden")

    thread = page.url.partition("chat=")[2]
    found = server("GET", f"/threads/{thread}", graph="chat").json()
    assert (found["status"], found["state"]["large"], found["title"]) == ("completed", False, "Tea, please")
    assert page.get_by_role("log").inner_text().count("Tea, please") == 1


@pytest.mark.slow
@pytest.mark.needs("playwright", "chromium")
def test_person_scrolls_to_the_beginning_of_a_long_chat(served, page):
    server = served(long_chat(52))

    page.goto(f"{server.url}/chat#chat=c1")
    page.get_by_text("Answer 51.").wait_for()
    log = page.get_by_role("log")
    assert log.get_by_text("Answer 1.", exact=True).count() == 0
    page.get_by_role("button", name="Show earlier messages").click()
    log.get_by_text("Question 0?", exact=True).wait_for()
    page.get_by_role("button", name="Show earlier messages").wait_for(state="hidden")

    assert log.get_by_role("article").count() == 104


@pytest.mark.slow
@pytest.mark.needs("playwright", "chromium")
def test_page_whose_first_request_is_lost_tries_again(served, page):
    lost = """() => {
        const [own, lost] = [window.fetch, new Set()];
        window.fetch = (url, ...rest) => {
            const isLost = String(url).endsWith("/messages") && !lost.has(url);
            return isLost ? (lost.add(url), Promise.reject(new TypeError("lost"))) : own(url, ...rest);
        };
    }"""
    page.add_init_script(f"({lost})()")
    server = served(long_chat(2))

    page.goto(f"{server.url}/chat#chat=c1")

    page.get_by_text("Answer 1.").wait_for()
    page.get_by_text("Trying again").wait_for(state="detached")


@pytest.mark.slow
@pytest.mark.needs("playwright", "chromium")
def test_two_pages_show_one_chat(served, page):
    """The second one opens later, and repeats a decision of the first."""
    from tests.serve.test_chat import CLERK, Chat

    from graphrt import END, START, Context, GraphBuilder
    from graphrt.harness import ModelResponse, ScriptedModel, ToolCall

    g = GraphBuilder(Chat, name="chat")

    @g.node
    async def talk(state: Chat, ctx: Context) -> Chat:
        reply = await ctx.bind(CLERK).run(state["messages"])
        return {"messages": list(reply.new_messages)}

    @g.node(interrupt_before=True)
    def close(state: Chat) -> None: ...

    g.add_sequence([START, talk, close, END])
    calls = (ToolCall(id="1", name="order", arguments={"item": "tea"}),)
    script = [ModelResponse(text="I shall order it.", tool_calls=calls), "It is ordered."]
    server = served(Runtime(g.compile(), store="memory:", models={"clerk": ScriptedModel(script)}))

    page.goto(f"{server.url}/chat")
    page.get_by_label("Message", exact=True).fill("Tea,\nplease")
    page.keyboard.press("Enter")
    approve = page.get_by_role("button", name="Approve")
    approve.wait_for()
    page.get_by_text("The run waits for your answer.").wait_for()
    page.get_by_text("I shall order it.").wait_for()
    second = page.context.browser.new_page()
    second.goto(page.url)
    second.get_by_role("button", name="Approve").wait_for()
    page.reload()
    approve.wait_for()
    for one in (page, second):
        log = one.get_by_role("log").inner_text()
        assert log.index("I shall order it.") < log.index("order waits for approval")

    approve.click()
    page.get_by_role("button", name="Continue").wait_for()
    second.get_by_role("button", name="Refuse").click()
    second.get_by_text("takes no answer any more").wait_for()
    second.get_by_text("It is ordered.").wait_for()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Stop").wait_for(state="hidden")
    second.get_by_role("button", name="Continue").click()
    second.get_by_role("button", name="Continue").wait_for(state="detached")

    for one in (page, second):
        texts = ["Tea, please", "I shall order it.", "ordered: tea", "It is ordered."]
        for text in texts:
            one.get_by_role("log").get_by_text(text, exact=True).wait_for()  # fails if there are two
        one.reload()
        one.get_by_text("It is ordered.").wait_for()
        log = " ".join(one.get_by_role("log").inner_text().split())
        assert sorted(texts, key=log.index) == texts
    thread = page.url.partition("chat=")[2]
    assert server("GET", f"/threads/{thread}", graph="chat").json()["status"] == "completed"


@pytest.mark.slow
@pytest.mark.needs("playwright", "chromium")
def test_person_whose_run_failed_writes_something_else(served, page):
    server = served(chats(RuntimeError("The provider is down."), "I am back."))

    page.goto(f"{server.url}/chat")
    page.get_by_label("Message", exact=True).fill("Hi")
    page.keyboard.press("Enter")
    page.get_by_text("The run failed. Retry it, or write something else.").wait_for()
    page.get_by_label("Message", exact=True).fill("Are you there?")
    page.keyboard.press("Enter")

    page.get_by_text("I am back.").wait_for()
    page.get_by_role("button", name="Retry").wait_for(state="hidden")
