"""Every operation on threads, in any order, on every store at once: they agree with each other and with the model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from . import replicas
from .editing import Threads

FULL = bool(os.environ.get("GRAPHRT_FULL"))
EXAMPLES, STEPS = (1_000, 100) if FULL else (100, 50)
"""About 5,000 steps, 100,000 in full."""


@pytest.fixture
def places(request: pytest.FixtureRequest) -> Iterator[replicas.Places]:
    """A server, and a folder in memory if there is one: what a disk can lose is not tested here."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        made = replicas.places(request.config, Path(folder))
        yield made
        replicas.forget(made)


@pytest.mark.needs("psycopg", "cryptography")
def test_threads_are_what_the_model_says_on_every_store(places: replicas.Places) -> None:
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
