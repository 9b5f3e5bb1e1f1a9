"""Pauses between looks at a store: short after something happened, and shared by all readers that rest."""

from __future__ import annotations

import pytest

from graphrt._runs.watching import Pauses


def rested() -> Pauses:
    """A reader for which nothing has happened for a while."""
    pauses = Pauses()
    for _ in range(100):
        pauses.next_s()
    return pauses


def test_a_reader_that_rests_alone_looks_ten_times_a_second() -> None:
    assert rested().next_s() == pytest.approx(0.1)


def test_readers_that_rest_share_the_looks_of_the_process() -> None:
    many = [rested() for _ in range(1_000)]
    assert many[0].next_s() == pytest.approx(2.5, rel=0.1)

    many[0].again()
    assert many[0].next_s() < 0.01

    del many
    assert rested().next_s() == pytest.approx(0.1)
