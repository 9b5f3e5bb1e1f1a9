"""Fixtures of the tests of the test kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graphrt.graph import observe
from graphrt.testing.route_coverage import Summary, load, summarise
from graphrt.testing.route_coverage.collecting import Collector


@pytest.fixture
def collect(tmp_path: Path) -> Iterator[Callable[..., Summary]]:
    """Collects into a folder; the result is called with targets and returns the summary."""
    collector = Collector(tmp_path / "data")
    stop = observe(collector)

    def summary(*targets: str) -> Summary:
        collector.flush()
        return summarise(load(tmp_path / "data"), targets or ("every",))

    yield summary
    stop()
