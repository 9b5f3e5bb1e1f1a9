"""The ways to run a graph that hosts agents."""

from __future__ import annotations

import pytest

from .graphs import Way


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def place(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def way(request, place):
    nodes, verbs = getattr(request, "param", ("async", "async"))
    return Way(nodes=nodes, verbs=verbs, store=place)
