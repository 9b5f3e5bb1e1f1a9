"""No credential is written to a cassette, from any part of a call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graphrt.errors import AuthenticationError, InputError, ScriptError
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    FunctionModel,
    ProviderPart,
    SystemMessage,
    TextDelta,
    ThinkingBlock,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.cassette import Cassette
from graphrt.harness.protocol import ModelProfile
from graphrt.harness.request import ModelRequest, OutputSpec

SECRETS = [
    "sk-ant-api03-abcdefghijkl",
    "AIzaSyA1234567890abcdefgh",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghijkl",
    "hf_abcdefghijklmnopqrstuvwx",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
    "Bearer abcdef123456",
    "Basic dXNlcjpwYXNzd29yZA==",
    "https://user:hunter2hunter2@example.org/",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    'password: "hunter2hunter2"',
    "from-the-environment-1234",
]
CORES = [secret for secret in SECRETS if "user:" not in secret and "password" not in secret] + [
    "hunter2hunter2",
    "MIIEp",
]


def req(text: str, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(text=text),), **fields)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment-1234")


def item(secret: str) -> ThinkingBlock:
    return ThinkingBlock(provider="openai", id=secret, data={"summary": [{"text": secret}]})


def full(secret: str) -> ModelRequest:
    call = ToolCall(id="c1", name="t", arguments={"x": [secret]})
    return ModelRequest(
        messages=(
            SystemMessage(text=secret),
            UserMessage(text=f"a {secret} b"),
            AssistantMessage(
                text=secret,
                tool_calls=(call, ToolCall(id="c2", name="t", arguments_text=f"{{ {secret}")),
                thinking=(ThinkingBlock(text=secret, signature="s"), item(secret)),
                provider_parts=(ProviderPart(provider="openai", type="call", data={"x": [secret]}),),
            ),
            ToolMessage(tool_call_id="c1", text=secret),
        ),
        tools=(ToolSpec(name="t", description=secret, parameters={"default": secret}),),
        output=OutputSpec(name="o", schema={"const": secret}),
        stop=(secret,),
        options={"deep": [{secret: secret, "token": "plain-1", "headers": {"x": "plain-2"}}], "api_key": "plain-3"},
    )


def answer(request: ModelRequest) -> AgentReply:
    secret = request.messages[0].text
    call = ToolCall(id="c3", name="t", arguments={"x": secret})
    return AgentReply(
        text=f"{secret} and {secret}",
        thinking=secret,
        thinking_blocks=(ThinkingBlock(text=secret, signature=secret), ThinkingBlock(redacted=secret), item(secret)),
        provider_parts=(ProviderPart(provider="openai", type="call", data={secret: secret}),),
        tool_calls=(call, ToolCall(id="c4", name="t", arguments_text=f"[{secret}")),
        output={"x": [secret]},
        messages=(UserMessage(text=secret),),
    )


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12])
def test_secret_is_in_no_file_error_or_replayed_reply(tmp_path: Path, secret: str) -> None:
    path = tmp_path / "x"
    model = FunctionModel(answer)
    recorded = asyncio.run(Cassette(path, mode="record").model(model).invoke(full(secret)))
    replayed = asyncio.run(Cassette(path).model(model).invoke(full(secret)))
    with pytest.raises(ScriptError) as caught:
        asyncio.run(Cassette(path).model(model).invoke(full(secret + " x")))
    seen = path.read_text() + repr(replayed) + str(caught.value) + repr(vars(caught.value))

    assert recorded == replayed
    assert [core for core in [*CORES, "plain-1", "plain-2", "plain-3"] if core in seen] == []
    assert "[redacted]" in seen


def test_secret_of_an_error_is_not_written(tmp_path: Path) -> None:
    error = AuthenticationError("bad key sk-abcdefghijkl12", known="Bearer abcdef12", provider="sk-abcdefghijkl12")
    model = Cassette(tmp_path / "x", mode="record").model(FunctionModel(lambda _: error))
    with pytest.raises(AuthenticationError) as caught:
        asyncio.run(model.invoke(req("a")))

    assert "abcdef" not in (tmp_path / "x").read_text() + str(caught.value) + repr(vars(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT pk_customer_identifier, sk_x FROM task-list",
        "the bearer of news; Basic understanding",
        'set "password": "required", password: string',
        "see https://example.org:80/a@b and user@example.org",
    ],
)
def test_ordinary_text_is_unchanged(tmp_path: Path, text: str) -> None:
    """While recording, a run continues with the written text, which must not lose a word."""
    model = Cassette(tmp_path / "x", mode="record").model(FunctionModel(lambda request: request.text))

    assert asyncio.run(model.invoke(req(text))).text == text


class Torn:
    """Streams a secret that is split over deltas."""

    profile = ModelProfile(name="torn")

    async def invoke(self, request: ModelRequest) -> AgentReply:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> Any:
        for text in ("the key is sk-", "abcdef", "ghijkl12"):
            yield TextDelta(text=text)
        yield AgentReply(text="the key is sk-abcdefghijkl12")


def test_secret_that_is_split_over_deltas_is_redacted(tmp_path: Path) -> None:
    async def read(mode: Any) -> list[Any]:
        return [item async for item in Cassette(tmp_path / "x", mode=mode).model(Torn()).stream(req("a"))]

    asyncio.run(read("record"))

    assert "ghijkl12" not in (tmp_path / "x").read_text()
    assert [item.text for item in asyncio.run(read("replay"))] == ["the key is [redacted]"] * 2


def test_hook_is_called_after_the_built_in_redaction_and_wins(tmp_path: Path) -> None:
    def hide(text: str) -> str:
        return text.replace("Ada", "[name]")

    def ask(text: str, mode: Any) -> str:
        model = Cassette(tmp_path / "x", mode=mode, redact=hide).model(FunctionModel(lambda r: f"Hello {r.text}"))
        return asyncio.run(model.invoke(req(text))).text

    assert ask("Ada", "record") == "Hello [name]"
    assert "Ada" not in (tmp_path / "x").read_text()
    assert ask("Ada", "replay") == ask("[name]", "replay") == "Hello [name]"


def test_hook_that_does_not_return_a_string_is_refused_before_the_call(tmp_path: Path) -> None:
    live = FunctionModel(lambda _: "x")
    with pytest.raises(InputError, match="NoneType"):
        asyncio.run(Cassette(tmp_path / "x", mode="record", redact=lambda _: None).model(live).invoke(req("a")))  # type: ignore[arg-type,return-value]

    assert live.calls == []


def test_environment_of_the_replaying_machine_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose SECRET_KEY is an ordinary word still matches foreign recordings."""
    request = req("a story of development")
    asyncio.run(Cassette(tmp_path / "x", mode="record").model(FunctionModel(lambda _: "x")).invoke(request))
    monkeypatch.setenv("SECRET_KEY", "development")

    assert asyncio.run(Cassette(tmp_path / "x").model(FunctionModel(lambda _: "y")).invoke(request)).text == "x"
