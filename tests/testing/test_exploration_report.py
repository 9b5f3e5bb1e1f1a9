"""The reports of searches, and their progress."""

from __future__ import annotations

import pytest

from graphrt.testing import Counterexample, Exploration
from graphrt.testing.exploring import report

FOUND = Counterexample(
    kind="order-dependent-result",
    text="Field 'notes' depends on the order.\nexpected ['a', 'b'], found ['b', 'a']",
    case="b ends before a\nin superstep 2",
    replay="explore_schedules(graph, {}, seed=7)",
)


def test_report_without_findings() -> None:
    made = Exploration(graph="shop", what="schedules", tried=1_200, left_out=("orders of more than 6 tasks",))
    assert made.ok
    assert made.check() is made
    assert str(made) == "shop: 1,200 schedules tried, no finding.\nNot searched: orders of more than 6 tasks"


def test_report_with_findings() -> None:
    made = Exploration(graph="shop", what="schedules", tried=7, findings=(FOUND,), interrupted=True)
    assert not made.ok
    with pytest.raises(AssertionError) as caught:
        made.check()
    assert str(caught.value).splitlines() == [
        "shop: 7 schedules tried, 1 finding.",
        "1. order-dependent-result: Field 'notes' depends on the order.",
        "expected ['a', 'b'], found ['b', 'a']",
        "  case: b ends before a",
        "  in superstep 2",
        "  replay: explore_schedules(graph, {}, seed=7)",
        "The search was interrupted.",
    ]


def test_progress_is_reported_at_most_once_a_second(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(report, "monotonic", lambda: now[0])
    lines: list[str] = []
    progress = report.Progress("crashes", lines.append)
    for second in (0.5, 1.0, 1.2, 2.0):
        now[0] = second
        progress.at(int(second * 1_000), 0, of=9_000)
    assert lines == ["1,000 of 9,000 crashes tried, 0 found", "2,000 of 9,000 crashes tried, 0 found"]


@pytest.mark.parametrize(("tell", "told"), [(True, "1 crashes tried, 0 found\n"), (False, ""), (None, "")])
def test_progress_goes_to_stderr_on_request_and_is_silent_otherwise(tell, told, capsys, monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(report, "monotonic", lambda: now[0])
    progress = report.Progress("crashes", tell)
    now[0] = 2.0
    progress.at(1, 0)
    assert capsys.readouterr().err == told
