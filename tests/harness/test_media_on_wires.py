"""Images, audio and documents on the wire: each provider gets them in its documented form, or nothing is sent."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

import pytest

from graphrt.errors import BadRequestError, HarnessError
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    Audio,
    Document,
    Image,
    LiteLLMModel,
    ModelProfile,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.litellm._media import taken_out
from graphrt.harness.messages import Prompt, ProviderPart

from .pictures import LINK, PAPER, PDF, PICTURE, PNG, SOUND, WAV
from .raw_server import RawServer, raw_server
from .wires import request

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

AWS: Final = {"aws_access_key_id": "a", "aws_secret_access_key": "s", "aws_region_name": "us-east-1"}
IMAGE64, PDF64, WAV64 = (b64encode(one).decode() for one in (PNG, PDF, WAV))
LOOK: Final = ToolCall(id="call_1", name="look", arguments={})
SEEN: Final = [
    UserMessage(text="go"),
    AssistantMessage(tool_calls=(LOOK,)),
    ToolMessage(tool_call_id="call_1", content=["seen:", PICTURE, PAPER]),
]


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


def model(name: str, server: RawServer) -> LiteLLMModel:
    base = (
        server.url
        if name.partition("/")[0] in ("anthropic", "gemini", "bedrock", "ollama_chat")
        else f"{server.url}/v1"
    )
    if name.startswith("bedrock/"):
        return LiteLLMModel(name, api_base=base, timeout_s=10, options=AWS)
    return LiteLLMModel(name, api_base=base, api_key="k", timeout_s=10)


def sent(name: str, server: RawServer, prompt: Prompt, **options: Any) -> Any:
    """Return the conversation in the body that the server received; its answer does not matter."""
    server.requests.clear()
    server.answers(b"{}")
    try:
        asyncio.run(model(name, server).invoke(request(prompt, **options)))
    except HarnessError:
        if not server.requests:
            raise
    body = server.requests[0]["body"]
    return body.get("messages") or body.get("contents") or body.get("input")


CLAUDE: Final = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE64}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64}},
]
GOOGLE: Final = [
    {"inline_data": {"data": IMAGE64, "mime_type": "image/png"}},
    {"inline_data": {"data": PDF64, "mime_type": "application/pdf"}},
]
CHAT: Final = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE64}"}},
    {"type": "file", "file": {"filename": "paper.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"}},
]
RESPONSES: Final = [
    {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE64}", "detail": "auto"},
    {"type": "input_file", "filename": "paper.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"},
]


@pytest.mark.parametrize(
    ("name", "where", "parts"),
    [
        ("openai/gpt-4o", "content", CHAT),
        ("openai/responses/gpt-5", "content", RESPONSES),
        ("anthropic/claude-sonnet-4-5", "content", CLAUDE),
        ("gemini/gemini-2.5-flash", "parts", GOOGLE),
    ],
)
def test_prompt_with_a_picture_and_a_pdf_has_the_form_of_the_provider(
    server: RawServer, name: str, where: str, parts: list[Any]
) -> None:
    (message,) = sent(name, server, ["What?", PICTURE, PAPER])

    assert message["role"] == "user"
    assert message[where][0]["text"] == "What?"
    assert message[where][1:] == parts


def test_bedrock_gets_blocks_in_prompts_and_in_results_of_tools(server: RawServer) -> None:
    name = "bedrock/converse/us.amazon.nova-pro-v1:0"
    blocks = sent(name, server, ["What?", PICTURE, PAPER])[0]["content"]
    results = sent(name, server, SEEN, tools=[ToolSpec(name="look")])[-1]["content"][0]["toolResult"]["content"]

    for given in (blocks[1:], results[1:]):
        assert given[0] == {"image": {"format": "png", "source": {"bytes": IMAGE64}}}
        assert (given[1]["document"]["format"], given[1]["document"]["source"]) == ("pdf", {"bytes": PDF64})


def test_results_of_tools_contain_media_if_the_api_supports_it(server: RawServer) -> None:
    tools = [ToolSpec(name="look")]
    claude = sent("anthropic/claude-sonnet-4-5", server, SEEN, tools=tools)[-1]["content"][0]
    responses = sent("openai/responses/gpt-5", server, SEEN, tools=tools)[-1]
    google = sent("gemini/gemini-2.5-flash", server, SEEN, tools=tools)[-1]["parts"]

    assert (claude["type"], claude["content"]) == ("tool_result", [{"type": "text", "text": "seen:"}, *CLAUDE])
    assert (responses["type"], responses["output"]) == (
        "function_call_output",
        [{"type": "input_text", "text": "seen:"}, *RESPONSES],
    )
    assert google[1:] == GOOGLE


def test_result_in_chat_completions_announces_its_media_in_a_following_user_message(server: RawServer) -> None:
    said = [*SEEN, AssistantMessage(text="A picture."), UserMessage(text="Sure?")]
    _, _, result, following, *rest = sent("openai/gpt-4o", server, said, tools=[ToolSpec(name="look")])

    assert (result["role"], result["content"]) == (
        "tool",
        "seen:\n[image 1 follows in the next message]\n[document 2 follows in the next message]",
    )
    assert following["role"] == "user"
    assert following["content"][1::2] == CHAT
    assert following["content"][0]["text"] == "[image 1, from the result of call call_1]"
    assert [one["content"] for one in rest] == ["A picture.", "Sure?"]


def test_media_follow_after_all_results_of_one_reply(server: RawServer) -> None:
    other = ToolCall(id="call_2", name="look", arguments={})
    said = [
        UserMessage(text="go"),
        AssistantMessage(tool_calls=(LOOK, other)),
        ToolMessage(tool_call_id="call_1", content=[PICTURE]),
        ToolMessage(tool_call_id="call_2", content=[PICTURE]),
    ]

    assert [one["role"] for one in sent("openai/gpt-4o", server, said, tools=[ToolSpec(name="look")])] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]


@pytest.mark.parametrize("name", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"])
def test_text_document_is_sent_as_text(server: RawServer, name: str) -> None:
    table = Document.from_bytes(b"a,b\n1,2", name="t.csv")
    (message,) = sent(name, server, ["Sum?", table])

    text = message.get("content", message.get("parts"))[1]["text"]
    assert text == '<document name="t.csv" type="text/csv">\na,b\n1,2\n</document>'


def test_audio_has_the_form_of_the_provider(server: RawServer) -> None:
    chat = sent("hosted_vllm/any", server, ["Hear:", SOUND])[0]["content"][1]
    google = sent("gemini/gemini-2.5-flash", server, ["Hear:", SOUND])[0]["parts"][1]

    assert chat == {"type": "input_audio", "input_audio": {"data": WAV64, "format": "wav"}}
    assert google == {"inline_data": {"data": WAV64, "mime_type": "audio/wav"}}


@pytest.mark.parametrize("name", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5"])
def test_url_is_passed_to_providers_that_fetch_it(server: RawServer, name: str) -> None:
    assert "https://example.org/a.png" in json.dumps(sent(name, server, ["What?", LINK]))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("gemini/gemini-2.5-flash", LINK),
        ("bedrock/converse/us.amazon.nova-pro-v1:0", LINK),
        ("ollama_chat/any", LINK),
        ("anthropic/claude-sonnet-4-5", Image(url="http://127.0.0.1:9/a.png")),
        ("openai/gpt-4o", Document(url="https://example.org/a.pdf")),
        ("hosted_vllm/any", Audio(url="https://example.org/a.wav")),
    ],
)
def test_url_is_not_fetched_for_a_provider_that_does_not_fetch_it(server: RawServer, name: str, part: Any) -> None:
    with pytest.raises(BadRequestError) as caught:
        sent(name, server, ["What?", part])

    assert caught.value.code == "media-not-taken"
    assert server.requests == []


def test_url_that_a_model_wrote_is_never_fetched(server: RawServer) -> None:
    """A URL of this machine, as a redirect to a metadata address would be, gets no request: the provider has it."""
    link = Image(url=f"{server.url}/latest/meta-data")

    said = sent("openai/gpt-4o", server, ["What?", link])

    assert said[0]["content"][1]["image_url"]["url"] == link.url
    assert [one["path"] for one in server.requests] == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("name", "part", "kinds"),
    [
        ("deepseek/deepseek-chat", PICTURE, "images"),
        ("openai/gpt-4o", SOUND, "audio"),
        ("mistral/mistral-large-latest", PAPER, "documents"),
    ],
)
def test_model_that_does_not_accept_a_part_is_not_called(server: RawServer, name: str, part: Any, kinds: str) -> None:
    with pytest.raises(BadRequestError, match=f"takes no {kinds}") as caught:
        sent(name, server, ["What?", part])

    assert caught.value.code == "media-not-taken"
    assert server.requests == []


@pytest.mark.parametrize("name", ["bedrock/converse/us.unlisted-model", "ollama_chat/any"])
def test_part_that_litellm_would_drop_is_refused_before_the_request_is_sent(server: RawServer, name: str) -> None:
    with pytest.raises(BadRequestError, match="leave out <Audio"):
        sent(name, server, ["Hear:", SOUND])

    assert server.requests == []


def test_configured_profile_decides_which_media_the_model_accepts(server: RawServer) -> None:
    server.requests.clear()
    server.answers(b"{}")
    profile = ModelProfile(name="openai/gpt-3.5-turbo")
    asked = LiteLLMModel("openai/gpt-3.5-turbo", api_base=f"{server.url}/v1", api_key="k", profile=profile)

    with pytest.raises(HarnessError):
        asyncio.run(asked.invoke(request(["What?", PICTURE])))

    assert len(server.requests) == 1


def test_picture_of_the_model_is_sent_back_as_one_of_the_model_or_of_the_user(server: RawServer) -> None:
    said = [UserMessage(text="draw"), AssistantMessage(text="here", media=(PICTURE,)), UserMessage(text="bigger")]

    google = sent("gemini/gemini-2.5-flash", server, said)
    chat = sent("openai/gpt-4o", server, said)
    blind = sent("deepseek/deepseek-chat", server, said)

    assert (google[1]["role"], google[1]["parts"][1]) == ("model", GOOGLE[0])
    assert (chat[2]["role"], chat[2]["content"][1]) == ("user", CHAT[0])
    assert "cannot be shown" in json.dumps(blind)


@pytest.mark.parametrize(
    ("part", "media", "others"),
    [
        (ProviderPart(provider="x", type="image_url", data={"image_url": {"url": PICTURE.data_url()}}), PICTURE, 0),
        (ProviderPart(provider="x", type="audio", data={"data": WAV64, "transcript": "hi"}), SOUND, 1),
        (
            ProviderPart(provider="google", type="inline_data", data={"data": IMAGE64, "mimeType": "image/png"}),
            PICTURE,
            0,
        ),
        (
            ProviderPart(provider="openai", type="image_generation_call", data={"result": IMAGE64, "id": "i"}),
            PICTURE,
            1,
        ),
    ],
)
def test_media_of_a_model_are_media_of_the_reply(part: ProviderPart, media: Any, others: int) -> None:
    made, rest = taken_out([part])

    assert made == (media,)
    assert len(rest) == others
    assert "data" not in json.dumps([dict(one.data) for one in rest])


def test_part_that_is_not_a_file_is_kept_as_the_provider_sent_it() -> None:
    parts = [
        ProviderPart(provider="openai", type="image_generation_call", data={"result": "aGk="}),
        ProviderPart(provider="google", type="grounding", data={"chunks": []}),
    ]

    assert taken_out(parts) == ((), tuple(parts))


def test_picture_in_an_answer_is_read_from_the_wire(server: RawServer) -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": IMAGE64}}
    content = {"role": "model", "parts": [{"text": "Here."}, part]}
    body = {
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1},
    }
    server.answers(json.dumps(body).encode())

    reply = asyncio.run(model("gemini/gemini-2.5-flash", server).invoke(request("Draw.")))

    assert (reply.text, reply.media, reply.provider_parts) == ("Here.", (PICTURE,), ())
    assert AgentReply(media=reply.media).message.media == (PICTURE,)
