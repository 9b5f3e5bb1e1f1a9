"""LiteLLMHarness without an installed litellm."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pytest

from graphrt.errors import MissingExtraError
from graphrt.harness import LiteLLMHarness, LiteLLMModel
from graphrt.harness.litellm import _client as adapter


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    adapter.load.cache_clear()
    monkeypatch.setitem(sys.modules, "litellm", None)
    monkeypatch.setenv("GRAPHRT_ALLOW_MODEL_REQUESTS", "1")  # the first call is refused before litellm is imported
    yield
    adapter.load.cache_clear()


@pytest.mark.usefixtures("absent")
def test_first_call_names_the_extra_to_install() -> None:
    harness = LiteLLMHarness("openai/fake")

    with pytest.raises(MissingExtraError) as caught:
        asyncio.run(harness.run("hi"))

    assert 'pip install "graphrt[litellm]"' in str(caught.value)
    assert caught.value.value == "litellm"


@pytest.mark.usefixtures("absent")
def test_profile_imports_litellm_at_its_first_access_and_not_before() -> None:
    model = LiteLLMModel("openai/gpt-4o-mini", api_key="k")
    assert adapter.load.cache_info().misses == 0

    assert model.profile.max_output_tokens is None
    assert adapter.load.cache_info().misses == 1


@pytest.mark.usefixtures("absent")
def test_stream_names_the_extra_to_install() -> None:
    async def first() -> None:
        await anext(LiteLLMHarness("openai/fake").stream("hi"))

    with pytest.raises(MissingExtraError):
        asyncio.run(first())
