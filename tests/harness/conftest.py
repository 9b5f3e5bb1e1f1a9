"""What the tests of the harness room share: litellm is there from the beginning, and its connections are closed."""

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
    """Close what litellm keeps open: left to the garbage collector, it would warn in somebody else's test."""
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
    """A wire format, crossed with `way`; some modules have a fixture of this name of their own."""
    return crossed[0]


@pytest.fixture
def way(crossed: tuple[str, str]) -> str:
    """How a model is asked: whole or streamed."""
    return crossed[1]


@pytest.fixture(autouse=True)
def loaded_litellm(request: pytest.FixtureRequest) -> None:
    """Import litellm before a test that needs it.

    Real requests are forbidden in tests, and then a profile reads litellm's tables only if they are loaded already
    (decision 0041). Without this, what such a test sees would depend on the tests that ran before it in its process.
    """
    if any("litellm" in mark.args for mark in request.node.iter_markers("needs")):
        from graphrt.harness.litellm import _client

        _client.on_loop(_client.load)
        first_calls()


@functools.cache
def first_calls() -> None:
    """Make a call over each wire: the first imports more, for longer than tests of time limits allow on a slow machine."""
    for wire in wires.WIRES:
        with FakeChatServer(["hello"]) as server:
            asyncio.run(wires.ask(wires.model_for(wire, server, timeout_s=60), "stream", wires.request()))
