"""Views and progress fit any width, and show the outcome."""

from __future__ import annotations

import io
from typing import Annotated, Any, TypedDict

import pytest

from graphrt import END, START, Context, GraphBuilder, Limits, NodeError, RetryPolicy, Runtime, Send
from graphrt.console import MODES, LiveView, PlainScreen, RunProgress, cells, open_screen, renderable, views, watched
from graphrt.events import Usage
from graphrt.harness import Budget, MockHarness
from graphrt.reducers import append


class State(TypedDict, total=False):
    text: str
    notes: Annotated[list[str], append]


def plain(lines: Any) -> list[str]:
    out = io.StringIO()
    screen = PlainScreen(out, 0)
    screen._translate = {}
    for line in lines:
        screen.line(*line)
    return [line.removeprefix("  ") for line in out.getvalue().splitlines()]


async def say(state: State, ctx: Context) -> State:
    return {"text": (await ctx.harness.run(f"about {ctx.arg}")).text}


async def note(state: State, ctx: Context) -> State:
    return {"notes": [(await ctx.harness.run("a note")).text]}


def graph():
    g = GraphBuilder(State, name="notes")
    g.add_node("note", note)
    g.add_node("end", lambda state: {"text": "done"})
    g.set_conditional_entry(lambda state: [Send("note", n) for n in range(3)], ["note"])
    g.add_edge("note", "end")
    g.add_edge("end", END)
    return g.compile()


@pytest.mark.parametrize("width", [20, 38, 78, 198])
def test_no_view_is_wider_than_requested(width: int) -> None:
    limits, budget = Limits(deadline_s=60), Budget(tokens=1_000, calls=9, usd=1.0, seconds=50)
    with Runtime(graph(), store="memory:", harness=MockHarness(["漢字 yes " * 30] * 3)) as runtime:
        progress = RunProgress(runtime.graph, limits, budget)
        result = watched(runtime.stream({}, thread="a-thread-with-quite-a-long-name", modes=MODES), progress)
        thread = str(result.thread)
        shown = [
            views.run(result, width, elapsed_s=1.5),
            views.snapshot(runtime.state(thread), width),
            views.history(runtime.history(thread), width),
            views.threads(runtime.threads(), width),
            views.log(runtime.entries(thread), width),
            views.usage({"node": progress.tracker.by_node()}, progress.tracker.total, width),
            views.why(runtime.why(thread, "text"), width),
            views.divergence(runtime.diff(thread, thread), width),
            progress.lines(width, 1.5),
        ]

    assert [max(map(cells, plain(lines))) <= max(width, 20) for lines in shown] == [True] * len(shown)


def test_progress_counts_tasks_calls_and_the_rest_of_the_budget() -> None:
    limits, budget = Limits(deadline_s=60, max_steps=10), Budget(calls=9)
    run = graph()
    progress = RunProgress(run, limits, budget)
    stream = run.stream({}, harness=MockHarness(["yes"] * 3), budget=budget, modes=MODES)
    seen = []
    for mode, item in stream:
        progress.take(mode, item)
        seen.append("\n".join(plain(progress.lines(78, 2.0))))

    assert any("████" in text and "2/3" in text for text in seen)
    assert "✓ note  3 times" in seen[-1]
    assert "3 calls" in seen[-1]
    assert "left: 8 supersteps, 58.0 s, 6 calls" in seen[-1]
    assert progress.status == "completed"


def test_progress_shows_retries_and_failures() -> None:
    def fail(state: State) -> State:
        raise ConnectionError("gone")

    g = GraphBuilder(State, name="fails")
    g.add_node("fail", fail, retry=RetryPolicy(2, wait_initial_s=0.0, jitter=False))
    g.add_sequence([START, "fail", END])
    run = g.compile()
    progress = RunProgress(run, run.limits)
    seen = []

    def watch() -> None:
        for mode, item in run.stream({}, modes=MODES):
            progress.take(mode, item)
            seen.append("\n".join(plain(progress.lines(78, 0.0))))

    with pytest.raises(NodeError):
        watch()

    assert any("retry 2: ConnectionError" in text for text in seen)
    assert "✗ fail" in seen[-1]
    assert progress.status == "failed"


@pytest.mark.needs("rich")
def test_live_view_is_redrawn_during_the_run() -> None:
    from rich.console import Console

    out = io.StringIO()
    run = graph()
    progress = RunProgress(run, run.limits)
    console = Console(file=out, force_terminal=True, width=60)
    with LiveView(progress, console, clock=lambda: 0.0) as view:
        result = view.watch(run.stream({}, harness=MockHarness(["yes"] * 3), modes=MODES))

    assert result.status == "completed"
    assert "notes" in out.getvalue()


@pytest.mark.needs("rich")
def test_view_is_a_renderable_of_rich_without_markup() -> None:
    from rich.console import Console

    console = Console(file=io.StringIO(), record=True, width=60)
    console.print(renderable(lambda width: views.state({"text": "[bold]\x1b[31m :smile:"}, width)))

    shown = console.export_text()

    assert "[bold]\\x1b[31m :smile:" in shown
    assert "\x1b" not in shown


def test_screen_without_unicode_gets_ascii() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    screen = open_screen(out, colour=False)
    screen.line("✓ naïve 漢")
    out.flush()

    assert out.buffer.getvalue() == b"  + na\\xefve \\u6f22\n"  # type: ignore[attr-defined]


def test_usage_names_unknown_values() -> None:
    lines = plain(views.usage({"model": {"m": Usage(calls=1, input_tokens=5)}}, Usage(calls=1, input_tokens=5), 78))

    assert lines[1].split() == ["m", "1", "5", "0", "not", "known"]


def test_usage_names_calls_without_a_report_and_their_missing_price() -> None:
    used = Usage(calls=1, input_tokens=5, cost_usd=0.25) + Usage(calls=2, unreported_calls=2, reserved_tokens=90)
    lines = plain(views.usage({"model": {"m": used}}, used, 78))

    assert " ".join(lines[1].split()) == "m 3 (2 unreported) 5 0 at least $0.2500"
    assert lines[-1] == "3 calls (2 unreported), 5 tokens in, 0 out, at least $0.2500"
