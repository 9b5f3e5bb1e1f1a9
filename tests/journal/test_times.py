"""A time that fits in no header is refused on write, with the name of the clock, and is damage on read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypedDict

import pytest

from graphrt import END, START, GraphBuilder, Runtime
from graphrt._journal import thread_meta
from graphrt._journal.batch import LATEST_S
from graphrt._journal.chain import Chain
from graphrt.errors import InputError, StoreError

LINES = [b"[1]", b"2"]
WRITTEN = [("n", 1)]
NO_TIMES: list[Any] = [1e13, -1e13, 1e300, -1e308, math.nan, math.inf, -math.inf, 10**400, None, "1"]


class State(TypedDict, total=False):
    n: int


def graph() -> Any:
    g = GraphBuilder(State, name="clocked")
    g.add_node("first", lambda _: {"n": 1})
    g.add_node("second", lambda state: {"n": state["n"] + 1})
    g.add_edge(START, "first").add_edge("first", "second").add_edge("second", END)
    return g.compile()


@pytest.mark.parametrize("at", NO_TIMES)
def test_time_that_fits_in_no_header_is_not_sealed(at: Any) -> None:
    chain = Chain("t")
    chain.seal(1, 1, 1.5, LINES, WRITTEN, 7)
    before = chain.saved()
    with pytest.raises(InputError) as caught:
        chain.seal(2, 1, at, LINES, WRITTEN, 7)

    assert caught.value.code == "input"
    assert "The time that the clock returned" in str(caught.value)
    assert chain.saved() == before


@pytest.mark.parametrize("at", [at for at in NO_TIMES if isinstance(at, float)])
def test_time_that_fits_in_no_header_is_damage(at: float) -> None:
    seal = Chain("t").seal(1, 1, 1.5, LINES, WRITTEN, 7)
    with pytest.raises(StoreError) as caught:
        Chain("t").check(1, 1, at, LINES, WRITTEN, seal)
    assert (caught.value.code, caught.value.seq) == ("store-damaged", 1)


@pytest.mark.parametrize(("seq", "count"), [(-1, 1), (1 << 64, 1), (1, -1), (1, 1 << 32)])
def test_number_that_fits_in_no_header_is_damage(seq: int, count: int) -> None:
    seal = Chain("t").seal(1, 1, 1.5, LINES, WRITTEN, 7)
    with pytest.raises(StoreError) as caught:
        Chain("t").check(seq, count, 1.5, LINES, WRITTEN, seal)
    assert caught.value.code == "store-damaged"


@pytest.mark.parametrize("at", [LATEST_S, -LATEST_S, 0, -0.5, 1.75e9])
def test_other_times_are_sealed_to_the_microsecond(at: float) -> None:
    seal = Chain("t").seal(1, 1, at, LINES, WRITTEN, 7)

    Chain("t").check(1, 1, at, LINES, WRITTEN, seal)
    with pytest.raises(StoreError):
        Chain("t").check(1, 1, at + 2e-6 if abs(at) < 1e12 else -at, LINES, WRITTEN, seal)


@pytest.mark.parametrize("sinks", [[], [lambda _entry: None]], ids=["straight", "events"])
@pytest.mark.parametrize("then", [1e13, 1.75e9], ids=["for good", "once"])
@pytest.mark.parametrize("good", range(1, 3))
def test_run_with_a_broken_clock_fails_with_its_name_and_continues_once_it_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: int, then: float, sinks: Any
) -> None:
    """Earlier writes are kept; names that were only in the failed write do not count as written."""
    monkeypatch.setattr(thread_meta, "PRELOADED_NAMES", 0)
    path, left = f"sqlite:///{tmp_path / 'runs.db'}", iter([*[1.75e9] * good, 1e13])
    with (
        Runtime(graph(), store=path, clock=lambda: next(left, then), sinks=sinks) as runtime,
        pytest.raises(InputError, match=r"the clock returned cannot be 10000000000000\.0"),
    ):
        runtime.run({"n": 0}, thread="t")
    with Runtime(graph(), store=path) as runtime:
        if runtime.threads()[0].seq == 0:
            runtime.run({"n": 0}, thread="t")
        elif runtime.state("t").status != "completed":
            runtime.retry("t")

        assert runtime.state("t").values == runtime.replay("t").values == {"n": 2}


@pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("good", [0, 1, 2])
def test_clock_with_an_invalid_time_stores_no_unreadable_data(
    odd: float, chain: bool, good: int, tmp_path: Path
) -> None:
    times = iter([1.5] * good + [odd] * 100)
    with (
        Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db", chain=chain, clock=lambda: next(times)) as runtime,
        pytest.raises(InputError, match="the clock returned cannot be"),
    ):
        runtime.run({}, thread="t")
    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        left = [info.thread for info in runtime.threads()]
        assert left in ([], ["t"])
        for thread in left:
            runtime.history(thread)
            assert runtime.retry(thread).state == {"n": 2}
