"""Shared fixtures of the tests of harnesses: litellm is imported at the start, and its connections are closed."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Iterator

import pytest

from graphrt.testing import FakeChatServer

from . import wires


@pytest.fixture(scope="session", autouse=True)
def closed_connections() -> Iterator[None]:
    """Close the connections of litellm: collected later, they would warn in another test."""
    yield
    adapter = sys.modules.get("graphrt.harness.litellm._client")
    if adapter is not None and "litellm" in sys.modules:
        adapter.close()


@pytest.fixture(params=wires.CROSSED)
def crossed(request: pytest.FixtureRequest) -> tuple[str, str]:
    wire, way = request.param
    return wire, way


@pytest.fixture
def wire(crossed: tuple[str, str]) -> str:
    """A wire format, crossed with `way`; some modules have their own fixture of this name."""
    return crossed[0]


@pytest.fixture
def way(crossed: tuple[str, str]) -> str:
    """How a model is called: whole or streamed."""
    return crossed[1]


@pytest.fixture(autouse=True)
def loaded_litellm(request: pytest.FixtureRequest) -> None:
    """Import litellm before a test that needs it.

    Real requests are forbidden in tests, and then a profile reads litellm's tables only if they are already loaded
    (decision 0041). Without this, such a test would depend on the tests that ran before it in its process.
    """
    if any("litellm" in mark.args for mark in request.node.iter_markers("needs")):
        from graphrt.harness.litellm import _client

        _client.on_loop(_client.load)
        first_calls()


@functools.cache
def first_calls() -> None:
    """Make a call over each wire: the first one imports more modules, which can exceed the time limits of tests."""
    for wire in wires.WIRES:
        with FakeChatServer(["hello"]) as server:
            asyncio.run(wires.ask(wires.model_for(wire, server, timeout_s=60), "stream", wires.request()))
