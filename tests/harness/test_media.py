from __future__ import annotations

import pickle
from base64 import b64encode
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from graphrt.errors import InputError
from graphrt.harness import (
    Agent,
    AgentReply,
    AssistantMessage,
    Audio,
    Document,
    Image,
    Message,
    ModelProfile,
    ScriptedModel,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from graphrt.harness.agent._digest import of_request
from graphrt.harness.media import MAX_MEDIA, OUTLINES
from graphrt.harness.request import ModelRequest
from graphrt.harness.tools.mcp._tool import _content as content_of  # pyright: ignore[reportPrivateUsage]
from graphrt.wires.plain_data import plain

from .pictures import JPEG, LINK, PAPER, PDF, PICTURE, PNG, SOUND, WAV

MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


@pytest.mark.parametrize(
    ("cls", "data", "media_type"),
    [
        (Image, PNG, "image/png"),
        (Image, JPEG, "image/jpeg"),
        (Image, b"GIF89a...", "image/gif"),
        (Image, b"RIFF....WEBPVP8 ", "image/webp"),
        (Image, b"\0\0\0\x18ftypheic", "image/heic"),
        (Audio, WAV, "audio/wav"),
        (Audio, b"ID3\x04", "audio/mpeg"),
        (Audio, b"\xff\xfb\x90", "audio/mpeg"),
        (Audio, b"OggS", "audio/ogg"),
        (Audio, b"fLaC", "audio/flac"),
        (Audio, b"\0\0\0\x18ftypM4A ", "audio/mp4"),
        (Document, PDF, "application/pdf"),
        (Document, "Grüße".encode(), "text/plain"),
    ],
)
def test_media_type_is_detected_from_the_first_bytes(cls: Any, data: bytes, media_type: str) -> None:
    assert cls.from_bytes(data).media_type == media_type


def test_name_of_a_document_selects_its_kind_of_text_or_zip_file() -> None:
    assert Document.from_bytes(b"a,b\n1,2", name="table.csv").media_type == "text/csv"
    assert Document.from_bytes(b"PK\x03\x04", name="letter.docx").media_type.endswith("wordprocessingml.document")  # type: ignore[union-attr]


def test_undetectable_media_type_is_taken_from_the_caller() -> None:
    assert Image.from_bytes(b"II*\0", media_type="image/tiff").media_type == "image/tiff"
    assert Audio.from_bytes(WAV, media_type="audio/x-wav").media_type == "audio/wav"


def test_file_is_read_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "photo.PNG"
    file.write_bytes(PNG)

    image = Image.from_path(file)

    assert (image.data, image.name, image.media_type, image.size) == (PNG, "photo.PNG", "image/png", len(PNG))
    assert Image.from_path("photo.PNG", root=tmp_path) == image


def test_data_url_is_parsed() -> None:
    url = f"data:image/png;base64,{b64encode(PNG).decode()}"

    assert Image(url=url) == PICTURE
    assert PICTURE.data_url() == url
    assert Document(url="data:,a%20b").data == b"a b"


def test_url_is_kept_and_its_suffix_gives_the_media_type() -> None:
    assert (LINK.url, LINK.data, LINK.media_type) == ("https://example.org/a.png", None, "image/png")
    assert Image(url="https://example.org/a").media_type is None


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Image.from_bytes(b""), "is empty"),
        (lambda: Image.from_bytes(PDF), "Use Document"),
        (lambda: Image.from_bytes(b"\0\1\2"), "no file that graphrt knows"),
        (lambda: Image.from_bytes(JPEG, media_type="image/png"), "image/jpeg"),
        (lambda: Image.from_bytes(PNG, media_type="audio/wav"), "Use Audio"),
        (lambda: Document.from_bytes(b"PK\x03\x04"), "ZIP"),
        (lambda: Image.from_bytes(PNG, max_bytes=5), "17 bytes, and 5"),
        (lambda: Image.from_bytes("text"), "a str"),  # type: ignore[arg-type]
        (lambda: Image.from_path("/no/such/file.png"), "No such file"),
        (lambda: Image.from_path("a\0b"), "null"),
        (lambda: Image(url="file:///etc/passwd"), "http or https"),
        (lambda: Image(url="//example.org/a.png"), "http or https"),
        (lambda: Image(url="https://user:secret@example.org/a.png"), "credentials"),
        (lambda: Image(url="https://example.org/a b.png"), "spaces"),
        (lambda: Image(url="data:image/png;base64,!"), "base64"),
        (lambda: Image(url="data:image/png"), "comma"),
        (lambda: Image(url=b"https://example.org"), "a bytes"),  # type: ignore[arg-type]
        (lambda: Image(url="https://example.org/a", media_type="png"), "media type such as"),
    ],
)
def test_invalid_part_is_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        make()

    assert caught.value.code == "bad-media"
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)


def test_size_of_a_file_is_checked_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.png"
    with file.open("wb") as opened:
        opened.truncate(2 * 1024**3)  # sparse: it takes no space

    with pytest.raises(InputError, match="2,147,483,648 bytes, and 20,971,520 are allowed"):
        Image.from_path(file)


@pytest.mark.parametrize("path", [".", "/dev/zero"])
def test_path_that_is_not_a_file_is_refused(path: str) -> None:
    with pytest.raises(InputError) as caught:
        Image.from_path(path)

    assert caught.value.code == "bad-media"


def test_path_outside_its_root_is_also_refused_through_links(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    (inside / "link.png").symlink_to(tmp_path / "secret.png")

    for path in ("../secret.png", "link.png", tmp_path / "secret.png"):
        with pytest.raises(InputError, match="outside"):
            Image.from_path(path, root=inside)


def test_values_are_immutable_equal_by_content_and_shown_without_bytes() -> None:
    assert Image.from_bytes(PNG) == PICTURE
    assert len({Image.from_bytes(PNG), PICTURE, SOUND}) == 2
    assert pickle.loads(pickle.dumps(PAPER)) == PAPER
    assert deepcopy(PAPER) is PAPER
    assert repr(PICTURE).startswith("<Image image/png, 17 bytes, sha256 ")
    assert "a picture" not in repr(UserMessage(content=[PICTURE]))
    assert "signature" not in repr(Image(url="https://example.org/a.png?signature=1"))
    with pytest.raises(AttributeError):
        PICTURE._data = b""  # type: ignore[misc]


def test_message_has_its_parts_in_order_and_their_texts() -> None:
    message = UserMessage(content=["What is this?", PICTURE, "And this?", SOUND])

    assert message.text == "What is this?\nAnd this?"
    assert message.parts == (TextPart(text="What is this?"), PICTURE, TextPart(text="And this?"), SOUND)
    assert message.media == (PICTURE, SOUND)


def test_bare_string_is_not_valid_content() -> None:
    assert UserMessage(content=["Hello"]) == UserMessage(text="Hello")


def test_replaced_text_keeps_the_media() -> None:
    message = ToolMessage(tool_call_id="1", content=["secret", PICTURE])

    assert replace(message, text="[redacted]").parts == (TextPart(text="[redacted]"), PICTURE)


@pytest.mark.parametrize("content", ["text", 3, ["a", b"bytes"], [UserMessage(text="a")]])
def test_content_that_is_not_a_text_or_part_is_refused(content: Any) -> None:
    with pytest.raises(InputError, match="content of a message"):
        UserMessage(content=content)


def test_number_of_parts_in_a_message_is_bounded() -> None:
    with pytest.raises(InputError, match="101 images"):
        UserMessage(content=[PICTURE] * (MAX_MEDIA + 1))


def test_list_of_texts_and_media_is_one_user_message() -> None:
    request = ModelRequest.build(["What is this?", PICTURE], {})

    assert request.messages == (UserMessage(content=["What is this?", PICTURE]),)


def test_prompt_of_messages_and_media_is_refused() -> None:
    with pytest.raises(InputError, match="which is one message"):
        ModelRequest.build([UserMessage(text="a"), PICTURE], {})  # type: ignore[list-item]


def test_item_that_is_neither_text_nor_media_is_the_one_that_the_error_names() -> None:
    with pytest.raises(InputError, match=r"cannot be PurePosixPath\('cat.png'\)"):
        ModelRequest.build(["What is this?", PurePosixPath("cat.png")], {})  # type: ignore[list-item]


def test_messages_with_media_survive_json() -> None:
    said: list[Message] = [
        UserMessage(content=["What is this?", PICTURE, LINK]),
        ToolMessage(tool_call_id="1", content=[PAPER]),
        AssistantMessage(media=(SOUND,)),
    ]

    assert MESSAGES.validate_json(MESSAGES.dump_json(said)) == said
    assert MESSAGES.validate_python(said) == said


def test_outline_in_json_has_type_size_and_hash_instead_of_bytes() -> None:
    data = MESSAGES.dump_python([UserMessage(content=[PICTURE])], mode="json", context=OUTLINES)

    assert data[0]["content"] == [PICTURE.outline()]
    assert PICTURE.outline() == {"kind": "image", "media_type": "image/png", "size": 17, "sha256": PICTURE.sha256}


@pytest.mark.parametrize(
    "part",
    [
        {"kind": "image"},
        {"kind": "image", "data": "!"},
        {"kind": "image", "data": b64encode(PDF).decode()},
        {"kind": "image", "url": "file:///etc/passwd"},
        {"kind": "image", "data": b64encode(PNG).decode(), "url": "https://example.org"},
        {"kind": "image", "data": b64encode(PNG).decode(), "more": 1},
    ],
)
def test_json_that_is_not_a_part_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MESSAGES.validate_python([{"role": "user", "content": [part]}])


def test_schema_of_messages_describes_media() -> None:
    schema = str(MESSAGES.json_schema())

    assert "'contentEncoding': 'base64'" in schema


def test_digest_of_a_request_depends_on_the_bytes() -> None:
    digests = {
        of_request(ModelRequest.build([part], {}))
        for part in (PICTURE, Image.from_bytes(PNG + b"!"), LINK, Image(url="https://example.org/b.png"))
    }

    assert len(digests) == 4
    assert of_request(ModelRequest.build([Image.from_bytes(PNG)], {})) in digests


def test_media_of_a_reply_are_parts_of_its_message() -> None:
    reply = AgentReply(text="Here.", media=(PICTURE,))

    assert reply.message == AssistantMessage(text="Here.", media=(PICTURE,))
    assert reply.parts == (TextPart(text="Here."), PICTURE)


def test_data_for_logs_and_golden_files_has_outlines_of_media() -> None:
    class State(BaseModel):
        said: list[Message]

    state = State(said=[UserMessage(content=[PICTURE])])

    assert plain(state)["said"][0]["content"] == [PICTURE.outline()]
    assert b64encode(PNG).decode() in state.model_dump_json()


def test_double_takes_media_and_answers_with_them() -> None:
    model = ScriptedModel([AgentReply(text="Here.", media=(PICTURE,))])

    reply = Agent(model).run_sync(["Draw this.", SOUND])

    assert reply.media == (PICTURE,)
    assert reply.messages[-1] == AssistantMessage(text="Here.", media=(PICTURE,))
    assert model.calls[0].messages[0].media == (SOUND,)


def test_fallback_is_called_if_the_first_model_does_not_accept_the_media() -> None:
    blind = ScriptedModel([], profile=ModelProfile(name="blind", images=False))

    assert Agent(blind, fallbacks=[ScriptedModel(["A cat."])]).run_sync([PICTURE]).text == "A cat."


def test_tool_returns_texts_and_media() -> None:
    @tool
    def scan() -> list[str | Image | Document]:
        """Scan."""
        return ["Page 1:", PICTURE, PAPER]

    model = ScriptedModel([ToolCall(id="1", name="scan", arguments={}), "Seen."])
    reply = Agent(model, tools=[scan]).run_sync("Scan.")

    assert reply.messages[2] == ToolMessage(tool_call_id="1", content=["Page 1:", PICTURE, PAPER])


@pytest.mark.parametrize(
    ("block", "content"),
    [
        ({"type": "image", "mime_type": "image/png", "data": b64encode(PNG).decode()}, PICTURE),
        ({"type": "audio", "mime_type": "audio/wav", "data": b64encode(WAV).decode()}, SOUND),
        (
            {
                "type": "resource",
                "resource": SimpleNamespace(
                    blob=b64encode(PDF).decode(), mime_type="application/pdf", uri="file:///a/paper.pdf"
                ),
            },
            PAPER,
        ),
        ({"type": "image", "mime_type": "image/png", "data": "AAAA"}, "[image: image/png, 3 bytes]"),
        ({"type": "resource_link", "uri": "http://169.254.169.254/"}, "[resource: http://169.254.169.254/]"),
    ],
)
def test_blocks_of_mcp_servers_are_media_and_links_are_not_followed(block: dict[str, Any], content: object) -> None:
    assert content_of(SimpleNamespace(**block)) == content
