"""Shared fixtures of the tests of tools: a context for calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphrt.harness.messages import ToolCall
from graphrt.harness.tools.protocol import ToolContext


@pytest.fixture
def context() -> Callable[..., ToolContext]:
    """Makes contexts: `context(deps=...)`."""

    def make(**known: Any) -> ToolContext:
        return ToolContext(call=ToolCall(id="call-1", name="a-tool"), **known)

    return make
