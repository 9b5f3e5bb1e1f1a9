"""Every operation on threads, in any order, on every store at once: they agree with each other and with the model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from graphrt._engine import storability

from . import replicas
from .editing import Threads

FULL = bool(os.environ.get("GRAPHRT_FULL"))
PARTS, EXAMPLES, STEPS = (4, 250, 100) if FULL else (1, 8, 60)
"""About 480 steps, 80,000 in full. Each rule is drawn several times, but for `replace_answer`.

The parts of a full search run side by side."""
LARGE_BYTES = 1
"""Longer values count as large here."""


@pytest.fixture
def places(request: pytest.FixtureRequest) -> Iterator[replicas.Places]:
    """A server, and a folder in memory if possible: power loss is not tested here."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        made = replicas.places(request.config, Path(folder))
        yield made
        replicas.forget(made)


@pytest.mark.needs("psycopg", "cryptography")
@pytest.mark.parametrize("part", range(PARTS))
def test_threads_equal_the_model_on_every_store(
    part: int, places: replicas.Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every list of a few numbers is stored apart, like values of more than 64 KiB: the model copies its data at every
    # step, and cannot hold as many large values.
    monkeypatch.setattr(storability, "BLOB_BYTES", LARGE_BYTES)
    Threads.places = places
    run_state_machine_as_test(
        Threads,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=not FULL,
            suppress_health_check=list(HealthCheck),
        ),
    )
