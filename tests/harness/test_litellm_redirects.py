"""LiteLLMModel and an address that redirects, over real HTTP: redirects are not followed, and the error names the
target.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from tests.harness.wires import address, ask, model_for, request

from graphrt.errors import BadRequestError, InputError
from graphrt.harness import Agent, LiteLLMModel
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

STATUSES = (301, 302, 303, 307, 308)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every host that is looked up or connected to."""
    hosts: list[str] = []
    look_up, connect = socket.getaddrinfo, socket.socket.connect

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        hosts.append(str(host))
        return look_up(host, *args, **options)

    def connected(self: Any, to: Any) -> Any:
        hosts.append(str(to[0]))
        return connect(self, to)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket.socket, "connect", connected)
    return hosts


def redirected(wire: str, way: str, status: int, location: str | None, **arguments: Any) -> BadRequestError:
    headers = {} if location is None else {"Location": location}
    with FakeChatServer([ChatAnswer(status=status, raw=b"", headers=headers)]) as server:
        model = model_for(wire, server, **arguments)
        with pytest.raises(BadRequestError) as caught:
            asyncio.run(ask(model, way, request("a secret prompt")))
        assert len(server.requests) == 1
    return caught.value


@pytest.mark.parametrize("status", STATUSES)
def test_redirect_to_another_server_is_not_followed(wire: str, way: str, status: int) -> None:
    with FakeChatServer(["from elsewhere"]) as elsewhere:
        error = redirected(wire, way, status, f"{address(wire, elsewhere)}/v1/chat/completions?code=abcdef")
        asked, origin = elsewhere.requests, elsewhere.anthropic_url
        asyncio.run(ask(model_for(wire, elsewhere), way, request()))

    assert not asked
    assert (error.code, error.status_code, error.target) == ("redirected", status, origin)
    assert f"status {status}, a redirect to {origin}." in error.what
    assert "api_base" in error.fix


@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ("http://169.254.169.254/latest/meta-data", "http://169.254.169.254"),
        ("http://[::ffff:a9fe:a9fe]:81/latest", "http://[::ffff:a9fe:a9fe]:81"),
        ("https://canary.invalid./x", "https://canary.invalid."),
        ("https://user:hunter22@canary.invalid:8443/x?token=abcdefgh#frag", "https://canary.invalid:8443"),
        ("//canary.invalid/x", "http://canary.invalid"),
        ("file:///etc/passwd", None),
        ("gopher://canary.invalid/", None),
        ("http://[::bad", None),
        ("http://canary.invalid:99999/", None),
        ("http://canary .invalid/", None),
        ("", None),
        (None, None),
    ],
)
def test_target_is_named_by_its_origin_and_never_looked_up(
    wire: str, way: str, location: str | None, origin: str | None, looked_up: list[str]
) -> None:
    error = redirected(wire, way, 307, location)

    assert error.target == origin
    assert (origin or "It was not followed") in error.what
    assert not any(secret in str(error) for secret in ("hunter22", "abcdefgh", "frag", "latest"))
    assert set(looked_up) <= {"127.0.0.1"}
    assert "127.0.0.1" in looked_up


def test_redirect_to_a_path_of_the_same_server_is_not_followed_either(wire: str, way: str) -> None:
    error = redirected(wire, way, 308, "/elsewhere")

    assert str(error.target).startswith("http://127.0.0.1:")


def test_other_unexpected_statuses_are_refused_alike(wire: str, way: str) -> None:
    assert redirected(wire, way, 304, None).code == "redirected"


def test_agent_does_not_retry_after_a_redirect() -> None:
    with FakeChatServer([ChatAnswer(status=302, raw=b"", headers={"Location": "http://canary.invalid"})]) as server:
        agent = Agent(model_for("openai", server), retry=3)
        with pytest.raises(BadRequestError, match="canary"):
            asyncio.run(agent.run("q"))
        assert len(server.requests) == 1


def test_redirect_is_not_followed_by_the_transport_of_httpx(
    wire: str, way: str, monkeypatch: pytest.MonkeyPatch, looked_up: list[str]
) -> None:
    """Where litellm is configured not to use aiohttp."""
    litellm: Any = pytest.importorskip("litellm")
    monkeypatch.setattr(litellm, "disable_aiohttp_transport", True)
    monkeypatch.setattr(litellm, "in_memory_llm_clients_cache", type(litellm.in_memory_llm_clients_cache)())

    error = redirected(wire, way, 307, "http://canary.invalid/")

    assert (error.code, error.target) == ("redirected", "http://canary.invalid")
    assert "canary.invalid" not in looked_up


def test_provider_with_its_own_http_client_is_refused() -> None:
    with pytest.raises(InputError, match="aiohttp_openai"):
        LiteLLMModel("aiohttp_openai/gpt")
    with pytest.raises(InputError, match="aiohttp_openai"):
        asyncio.run(LiteLLMModel("openai/gpt", api_key="k").invoke(request(model="aiohttp_openai/gpt")))
    with pytest.raises(InputError, match="aiohttp_openai"):
        LiteLLMModel("gpt", options={"custom_llm_provider": "aiohttp_openai"})
