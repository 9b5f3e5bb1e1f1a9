"""Every rule is tested through `run` and `arun`, and most with sync and async nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .support import Face, as_kind


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> Face:
    """The verbs, through the sync methods or their async twins."""
    return Face(request.param)


@pytest.fixture(params=["sync", "async"])
def made(request: pytest.FixtureRequest) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Builds a node from a sync function: sync, or async."""
    return lambda fn: as_kind(request.param, fn)


@pytest.fixture(params=["typeddict", "pydantic", "dataclass"])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of the state class."""
    return request.param
