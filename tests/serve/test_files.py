"""Images and documents in a chat: attachments of a page, displayed files, and refused ones."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any

import pytest
from tests.serve.test_chat import chats, chunks, decision, request

from graphrt.harness import Image, ToolCall
from graphrt.harness.protocol import AgentReply
from graphrt.serve import Bounds, UiMessageChat

PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = Image.from_bytes(PNG + b"drawn")


def part(data: bytes, media_type: str = "image/png", name: str = "cat.png") -> dict[str, Any]:
    """A file of a message, as `useChat` sends it."""
    url = f"data:{media_type};base64,{b64encode(data).decode()}"
    return {"type": "file", "mediaType": media_type, "filename": name, "url": url}


@pytest.fixture
def chat(serve):
    """Serve a chat, and post messages with files to it."""

    def start(*script: Any, **options: Any) -> Any:
        served = serve(chats(*script), mounts={"/chat": UiMessageChat("chat")}, **options)

        def post(*files: dict[str, Any], text: str = "") -> Any:
            body = request(text)
            body["messages"][0]["parts"] = [*([{"type": "text", "text": text}] if text else []), *files]
            return served.http.post("/chat", json=body)

        return post, served

    return start


def test_files_of_a_message_reach_the_model_and_a_reloaded_page(chat):
    post, served = chat("A cat.")
    files = [part(PNG), part(b"tea,3\n", "text/csv", "stock.csv"), part(b"# Hi\n", "application/octet-stream", "a.md")]

    assert chunks(post(*files, text="What is this?"))[-1]["finishReason"] == "stop"

    thread = served("GET", "/threads/c1", graph="chat").json()
    content = thread["state"]["messages"][0]["content"]
    told = [re.sub(r", [0-9].*name=", " ", one) for one in content[1:]]
    assert told == ["<Image image/png 'cat.png'>", "<Document text/csv 'stock.csv'>", "<Document text/markdown 'a.md'>"]
    shown = served.http.get("/chat/c1/messages").json()["messages"][0]["parts"]
    assert shown[:3] == [{"type": "text", "text": "What is this?"}, *files[:2]]


def test_message_may_be_a_file_alone_and_names_the_chat(chat):
    post, served = chat("A cat.")

    chunks(post(part(PNG)))

    assert served("GET", "/threads/c1", graph="chat").json()["title"] == "cat.png"


def test_file_of_a_model_is_shown_once_also_after_an_approval(chat):
    script = AgentReply(
        text="Look.", media=(PICTURE,), tool_calls=(ToolCall(id="1", name="order", arguments={"item": "tea"}),)
    )
    post, served = chat(script, "Done.")

    paused = chunks(post(text="Draw"))
    asked = next(one for one in paused if one["type"] == "tool-approval-request")
    answer = decision(asked, approved=True)
    file = {"type": "file", "mediaType": "image/png", "url": PICTURE.data_url()}
    answer["messages"][0]["parts"] = [{"type": "text", "text": "Look."}, file, *answer["messages"][0]["parts"]]
    rest = chunks(served.http.post("/chat", json=answer))

    assert [one for one in paused if one["type"] == "file"] == [file]
    assert [one for one in rest if one["type"] == "file"] == []
    parts = served.http.get("/chat/c1/messages").json()["messages"][1]["parts"]
    assert parts.count(file) == 1


@pytest.mark.parametrize(
    ("files", "status", "code"),
    [
        ([{**part(PNG), "url": "https://intranet.example/cat.png"}], 400, "bad-request-part"),
        ([{**part(PNG), "url": 5}], 400, "bad-request-part"),
        ([part(b"no picture")], 422, "bad-media"),
        ([part(b"\x00\x01", "application/octet-stream", "x")], 422, "bad-media"),
        ([{**part(PNG), "url": "data:image/png;base64,%%"}], 422, "bad-media"),
        ([part(PNG + b"x" * 1_000)], 413, "request-too-large"),
        ([part(PNG)] * 3, 413, "request-too-large"),
        ([part(PNG + b"x" * 500)] * 2 + [{"type": "text", "text": "x" * 3_000}], 413, "request-too-large"),
    ],
    ids=["url", "number", "other bytes", "unknown bytes", "no base64", "too large", "too many", "body"],
)
def test_invalid_file_is_refused_and_starts_nothing(chat, files, status, code):
    post, served = chat(bounds=Bounds(file_bytes=600, files=2, chat_body_bytes=3_000, body_bytes=100))

    answer = post(*files)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert served("GET", "/threads", graph="chat").json()["threads"] == []
