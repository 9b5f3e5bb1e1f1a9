"""What the tests of the harness room share: litellm's connections are closed when they are done."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def closed_connections() -> Iterator[None]:
    """Close what litellm keeps open: left to the garbage collector, it would warn in somebody else's test."""
    yield
    adapter = sys.modules.get("graphrt.harness.litellm._client")
    if adapter is not None and "litellm" in sys.modules:
        adapter.close()
