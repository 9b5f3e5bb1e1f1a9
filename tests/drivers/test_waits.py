"""Sliced waits end like unsliced ones; `test_ctrl_c` shows that Ctrl-C ends them too."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import pytest

from graphrt import _waits


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_waits, "SLICE_S", 0.01)


@pytest.mark.parametrize("error", [TimeoutError("of the node"), ValueError("of the node")])
def test_error_of_a_future_after_several_slices_is_raised(error: Exception) -> None:
    future: Future[Any] = Future()
    threading.Timer(0.05, future.set_exception, (error,)).start()

    with pytest.raises(type(error)) as caught:
        _waits.result_of(future)

    assert caught.value is error


def test_results_and_items_are_waited_for_over_several_slices() -> None:
    future: Future[str] = Future()
    items: SimpleQueue[str] = SimpleQueue()
    threading.Timer(0.05, future.set_result, ("result",)).start()
    threading.Timer(0.05, items.put, ("item",)).start()

    assert (_waits.result_of(future), _waits.item_of(items)) == ("result", "item")


@pytest.mark.parametrize(("left_s", "slice_s"), [(None, 0.01), (0.004, 0.004), (5.0, 0.01)])
def test_slice_is_no_longer_than_the_remaining_time(left_s: float | None, slice_s: float) -> None:
    assert _waits.slice_s(left_s) == slice_s
