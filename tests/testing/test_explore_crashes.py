"""Planted bugs that `explore_crashes` and `explore_forks` must find, and correct graphs without findings."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from typing import Annotated, Any

import pytest
import typing_extensions as te
from tests.testing import crash_bugs
from tests.testing.crash_bugs import (
    PLANTED,
    LogStore,
    State,
    World,
    asking_in_turn,
    bare_send,
    chain,
    explored,
    lossy,
    quiet,
    sent_once,
)

from examples import approval
from graphrt import END, START, Context, GraphBuilder, InputError, MockHarness
from graphrt.errors import ScriptError
from graphrt.harness import Agent, FunctionModel, Image, Message, UserMessage
from graphrt.reducers import append
from graphrt.testing import Exploration, explore_crashes, explore_forks, explore_routes, explore_schedules

FULL = os.environ.get("GRAPHRT_FULL") == "1"
ANSWERS = [{"approved": False, "remark": "shorter"}, {"approved": True, "remark": "fine"}]


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found_and_its_line_replays_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search, kind = PLANTED[name]
    found = search()
    assert kind in {one.kind for one in found.findings}, str(found)

    def replayed(graph: Any, input: Any, **line: Any) -> set[str]:
        monkeypatch.setattr(
            crash_bugs, "explore_crashes", lambda *given, **more: explore_crashes(*given, **{**more, **line})
        )
        return {one.kind for one in search().findings}

    line = next(one.replay for one in found.findings if one.kind == kind)
    assert kind in eval(line, {"explore_crashes": replayed, "graph": None, "input": None})


def test_replay_line_shows_the_same_finding_alone() -> None:
    graph = chain(bare_send, quiet)
    [finding] = explored(graph).findings
    at = int(finding.replay.rpartition("=")[2].rstrip(")"))
    again = explored(graph, at=at)
    assert again.tried == 1
    assert again.findings == (finding,)


@pytest.mark.parametrize("store", ["memory:", pytest.param("sqlite:", marks=pytest.mark.full)])
def test_once_effect_for_the_mail_has_no_finding(store: str) -> None:
    found = explored(chain(sent_once, quiet), store=store).check()
    assert found.tried > 10


class Chat(te.TypedDict):
    messages: Annotated[list[Message], append]


def test_computed_digest_of_a_picture_is_not_a_difference() -> None:
    """`Media` caches its digest; edits of a field with pictures are compared before and after."""
    g = GraphBuilder(Chat, name="pictures")
    g.add_node("look", Agent(FunctionModel(lambda request: "a cat"), name="eye"))
    g.add_sequence([START, "look", END])
    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n a cat")

    explore_crashes(g.compile(), {"messages": [UserMessage(content=[picture])]}, at="edit 1").check()


@pytest.mark.slow
def test_approval_has_no_finding() -> None:
    explore_crashes(approval.graph, {"topic": "graphs"}, answers=ANSWERS).check()
    explore_forks(approval.graph, {"topic": "graphs"}, answers=ANSWERS).check()


def test_fork_that_restarts_is_found() -> None:
    """The position in the book is kept outside the state, and a fork reads its first page again."""

    def read(_: Any, ctx: Context[World]) -> Any:
        ctx.deps.executions += 1
        return {"notes": [f"page {ctx.deps.executions}"]}

    found = explore_forks(chain(read, read, quiet), {"notes": []}, options=lambda: {"deps": World()})
    (finding,) = found.findings
    assert finding.kind == "state-differs"
    assert finding.replay == "explore_forks(graph, input, at=3)"


@pytest.mark.slow
def test_all_kinds_of_cases_are_tried() -> None:
    def ask(_: Any, ctx: Context[World]) -> Any:
        return {"notes": [ctx.interrupt("which?", key="which"), ctx.interrupt("how many?")]}

    def explore(at: str) -> Exploration:
        return explored(chain(quiet, ask), answers=["tea", "two"], store="sqlite:", at=at).check()

    for at in ("interrupt 1", "edit 2", "edit question 2", "reworded 1", "renamed 1", "inserted 2", "torn 3"):
        assert explore(at).tried == 1
    with pytest.raises(InputError, match="'interrupt 3', which is not a case"):
        explore("interrupt 3")


def test_lost_edit_is_found() -> None:
    """The store raises nothing, and keeps every entry except those of edits."""

    def ask(_: Any, ctx: Context[World]) -> Any:
        return {"notes": [ctx.interrupt("which?")]}

    found = explored(chain(ask), answers=["tea"], store=lossy("edits"), at="edit question 1")
    assert "lost-edit" in {finding.kind for finding in found.findings}, str(found)


def test_store_that_keeps_complete_commits_passes_torn_writes() -> None:
    found = explored(chain(sent_once, quiet), store=lambda folder: LogStore(folder, careful=True)).check()
    assert found.left_out == ()


def test_torn_writes_of_a_store_in_memory_are_skipped() -> None:
    assert explored(chain(quiet)).left_out == ("torn writes: the store has no files",)


@pytest.mark.slow
def test_parallel_async_nodes_are_interleaved_by_seed_and_reach_the_same_end() -> None:
    g = GraphBuilder(State, name="parallel")

    async def node(_: Any, ctx: Context[World]) -> Any:
        await asyncio.sleep(1)
        return {"notes": [ctx.effect("send", ctx.deps.send, ctx.node, kind="once")]}

    for name in "abc":
        g.add_node(name, node)
        g.add_edge(START, name)
        g.add_edge(name, END)
    for seed in (0, 2) if FULL else (2,):  # 0 runs the tasks in their order
        explored(g.compile(), store="sqlite:", seed=seed).check()


def test_unrepeatable_actions_of_nodes_are_noted() -> None:
    def slow(_: Any) -> None:
        time.sleep(0.001)

    found = explored(chain(slow)).check()
    assert found.noted == ("node 'n0' sleeps for real (time.sleep), and nothing else runs meanwhile",)


def test_node_with_io_skips_all_cases() -> None:
    async def connects(_: Any) -> None:
        await asyncio.open_connection("localhost", 1)

    found = explored(chain(connects))
    assert (found.ok, found.tried) == (True, 0)
    assert "does I/O" in found.noted[0]
    assert found.left_out[0].startswith("everything")


@pytest.mark.parametrize("given", ["once", "options", "answers"])
def test_function_of_the_user_that_raises_is_reported(given: str) -> None:
    def fails(*_: Any) -> Any:
        raise LookupError("not here")

    def ask(_: Any, ctx: Context[Any]) -> Any:
        return {"notes": [ctx.interrupt("which?")]}

    more: dict[str, Any] = {"answers": ["tea"], given: fails}
    (finding,) = explore_crashes(chain(ask), {"notes": []}, **more).findings
    assert (finding.kind, finding.text) == ("function-failed", f"{given}= raised LookupError: not here")


def test_missing_answer_is_a_finding() -> None:
    found = explored(chain(asking_in_turn))
    assert [one.kind for one in found.findings] == ["not-resumable"]
    assert "answers= has no answer" in found.findings[0].text


def test_input_that_fails_at_once_is_reported() -> None:
    def fails(_: Any) -> None:
        raise ValueError("no")

    found = explored(chain(fails)).check()
    assert "the undisturbed run failed" in found.left_out[-1]


@pytest.mark.parametrize("search", [explore_crashes, explore_forks, explore_schedules, explore_routes])
@pytest.mark.parametrize("options", [5, lambda: None, lambda: ["deps"]])
def test_options_that_are_no_function_to_a_mapping_are_refused(search: Any, options: Any) -> None:
    with pytest.raises(InputError, match=r"(?s)options= .*cannot be .*lambda: \{'deps': Desk"):
        search(chain(quiet), {"notes": []}, options=options)


async def answer(_: Any) -> str:
    return "yes"


@pytest.mark.parametrize("search", [explore_crashes, explore_forks, explore_schedules, explore_routes])
@pytest.mark.parametrize("answers", ["yes", {"go?": "yes"}, True, answer])
def test_answers_that_are_neither_a_list_nor_a_sync_function_are_refused(search: Any, answers: Any) -> None:
    with pytest.raises(InputError, match=r"answers= cannot be .*\n.*answers=\['yes'\], or a sync function"):
        search(chain(quiet), {"notes": []}, answers=answers)


@pytest.mark.parametrize("search", [explore_crashes, explore_forks, explore_schedules])
def test_model_call_without_a_reply_is_an_error_and_no_case_is_tried(search: Any) -> None:
    async def asks(_: Any, ctx: Context) -> Any:
        return {"log": [(await ctx.harness.run("Please write.")).text]}

    with pytest.raises(ScriptError, match="Please write"):
        search(chain(asks), {}, options=lambda: {"harness": MockHarness({"Write": "a text"})})


def test_node_that_differs_in_two_plain_runs_is_named_and_no_other_case_is_tried() -> None:
    numbers = itertools.count()

    def draws(_: Any) -> Any:
        return {"notes": [str(next(numbers))]}

    found = explored(chain(quiet, draws))
    assert [one.kind for one in found.findings] == ["not-deterministic"]
    assert found.findings[0].text.startswith("Two runs in the same order differ: node 'n1' ")
    assert found.left_out


def test_graph_that_never_ends_is_bounded_by_its_limits() -> None:
    g = GraphBuilder(State, name="endless")
    g.add_node("again", lambda _: None)
    g.add_edge(START, "again")
    g.add_conditional_edges("again", lambda state: "on" if not state["notes"] else "off", {"on": "again", "off": END})
    found = explore_crashes(g.compile(), {"notes": []}, max_cases=6)
    assert found.ok
    assert any("failed" in reason for reason in found.left_out)
    assert any("max_cases=6" in reason for reason in found.left_out)


def test_ctrl_c_keeps_the_findings_so_far() -> None:
    runs = itertools.count()

    def pressed(_: Any, ctx: Context[World]) -> Any:
        if next(runs) > 13:
            raise KeyboardInterrupt
        return bare_send(None, ctx)

    found = explored(chain(pressed, quiet))
    assert found.interrupted
    assert [one.kind for one in found.findings] == ["double-effect"]


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(InputError, match=r"max_cases= of explore_crashes\(\) must be at least 1"):
        explore_crashes(chain(quiet), {}, max_cases=0)
    for once, text in ((3, "once= cannot be 3"), (lambda _deps: 3, "What once= returned cannot be 3")):
        with pytest.raises(InputError, match=text):
            explore_crashes(chain(quiet), {}, once=once)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="for explore_crashes"):
        explore_crashes(GraphBuilder(State), {})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="each case needs its own"):
        explored(chain(quiet), store="sqlite:///runs.db")
    with pytest.raises(InputError, match="999, which is not a case"):
        explored(chain(quiet), at=999)
