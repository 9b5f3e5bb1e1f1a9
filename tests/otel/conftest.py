"""Shared fixtures of the tests of telemetry."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "otel":
            item.add_marker(pytest.mark.needs("opentelemetry.sdk", "opentelemetry.proto"))


@pytest.fixture
def world():
    from tests.otel.support import World

    made = World()
    yield made
    made.close()
