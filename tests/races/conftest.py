"""Shared fixtures of the tests of races: a printer for figures, and stores that several processes may use."""

from __future__ import annotations

import os
import sys

import pytest
from tests.stores import postgres_support


@pytest.fixture
def told(capfd):
    """Prints a figure, in a full run."""

    def tell(text: str) -> None:
        if os.environ.get("GRAPHRT_FULL") == "1":
            with capfd.disabled():
                sys.stdout.write(f"\n{text}\n")

    return tell


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("psycopg"))])
def url(request, tmp_path):
    """A fresh store, by its URL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/runs.db"
    else:
        yield from postgres_support.fresh(request.config)
