"""Pauses between polls of a store: short after an event, and shared by all idle readers."""

from __future__ import annotations

import pytest

from graphrt._runs.watching import Pauses


def rested() -> Pauses:
    """A reader that has seen no event for a while."""
    pauses = Pauses()
    for _ in range(100):
        pauses.next_s()
    return pauses


def test_single_idle_reader_polls_eight_times_a_second() -> None:
    assert rested().next_s() == pytest.approx(0.125)


def test_idle_readers_share_the_polls_of_the_process() -> None:
    many = [rested() for _ in range(1_000)]
    assert many[0].next_s() == pytest.approx(2.5, rel=0.1)

    many[0].again()
    assert many[0].next_s() < 0.01

    del many
    assert rested().next_s() == pytest.approx(0.125)
