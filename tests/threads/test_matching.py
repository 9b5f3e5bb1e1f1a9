"""Which answer belongs to which question after the asking code has changed (rule R10, matching)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from graphrt import Context
from graphrt.errors import InputError, NodeError
from graphrt.events import AnswerDiscarded, AnswerUsed, InterruptRaised, InterruptWithdrawn

from .support import Fails, ask, fan, kinds, line, note, refused


def asking(*questions: str, key: str | None = None, **options: Any) -> Any:
    """A graph whose node asks *questions* one after another, and notes the answers."""

    def node(state: Any, ctx: Context) -> Any:
        return {"notes": [f"{one}={ctx.interrupt({'text': one}, key=key, **options)}" for one in questions]}

    return line(("a", note("a")), ("ask", node))


def of_kind(runtime: Any, kind: type) -> list[Any]:
    return [entry.event for entry in runtime.entries("t") if isinstance(entry.event, kind)]


def test_reworded_question_with_a_key_takes_the_answer_and_the_journal_has_both_wordings(world):
    world.runtime(asking("Publish?", key="ok")).run({"notes": []}, thread="t")
    runtime = world.runtime(asking("Do you want to publish?", key="ok"))

    assert runtime.resume("t", "yes").state["notes"] == ["a", "Do you want to publish?=yes"]
    (raised,), (used,) = of_kind(runtime, InterruptRaised), of_kind(runtime, AnswerUsed)
    assert raised.payload == {"text": "Publish?"}
    assert (used.id, used.reworded, used.payload) == (raised.id, True, {"text": "Do you want to publish?"})
    runtime.replay("t")


def test_reworded_question_without_a_key_is_asked_again_under_another_id(world):
    first = world.runtime(asking("Publish?")).run({"notes": []}, thread="t").interrupts[0]
    runtime = world.runtime(asking("Do you want to publish?"))
    paused = runtime.resume("t", "yes")

    assert paused.status == "interrupted"
    assert [(i.id, i.payload) for i in paused.interrupts] == [(f"{first.id}:2", {"text": "Do you want to publish?"})]
    assert of_kind(runtime, AnswerDiscarded) == [AnswerDiscarded(id=first.id, nth=1, reason="reworded")]
    refused("unknown-interrupt", lambda: runtime.resume("t", {first.id: "yes"}), "answered already", f"{first.id}:2")
    third = world.runtime(asking("Really?")).resume("t", "yes")
    assert [i.id for i in third.interrupts] == [f"{first.id}:3"]
    assert world.runtime(asking("Really?")).resume("t", "yes").state["notes"] == ["a", "Really?=yes"]
    assert world.runtime(asking("Really?")).replay("t").values["notes"] == ["a", "Really?=yes"]


def test_inserted_question_never_gets_the_answer_of_another(world):
    world.runtime(asking("Publish?")).run({"notes": []}, thread="t")
    runtime = world.runtime(asking("Delete the old one?", "Publish?"))
    paused = runtime.resume("t", "yes")

    assert [i.payload["text"] for i in paused.interrupts] == ["Delete the old one?"]
    paused = runtime.resume("t", "no")
    assert [i.payload["text"] for i in paused.interrupts] == ["Publish?"]
    assert runtime.resume("t", "yes").state["notes"] == ["a", "Delete the old one?=no", "Publish?=yes"]


def test_answer_to_a_removed_question_is_journalled_as_discarded(world):
    question = world.runtime(asking("Publish?")).run({"notes": []}, thread="t").interrupts[0]
    runtime = world.runtime(asking())

    assert runtime.resume("t", "yes").state["notes"] == ["a"]
    assert of_kind(runtime, AnswerDiscarded) == [AnswerDiscarded(id=question.id, nth=1, reason="not-asked")]
    runtime.replay("t")


@pytest.mark.parametrize("key", [None, "ok"])
def test_question_with_a_changed_answer_type_is_asked_again(world, key):
    first = world.runtime(asking("Publish?", key=key, answer_type=bool)).run({"notes": []}, thread="t").interrupts[0]
    runtime = world.runtime(asking("Publish?", key=key, answer_type=int))
    paused = runtime.resume("t", True)

    assert paused.interrupts[0].id == f"{first.id}:2"
    assert paused.interrupts[0].answer_schema == {"type": "integer"}
    assert of_kind(runtime, AnswerDiscarded) == [AnswerDiscarded(id=first.id, nth=1, reason="retyped")]
    assert runtime.resume("t", 3).state["notes"] == ["a", "Publish?=3"]


@pytest.mark.parametrize("payload", [math.nan, [math.nan, {1, 2}], {"a": {"b", "c"}}])
def test_question_whose_payload_never_compares_equal_is_the_same_question(world, payload):
    graph = line(("q", lambda state, ctx: {"x": ctx.interrupt(payload)}))
    world.runtime(graph).run({"notes": []}, thread="t")

    assert world.runtime(graph).resume("t", 1).state["x"] == 1


def test_question_that_changes_each_time_without_a_key_is_asked_again_and_fails_nothing(world):
    turns: list[int] = []

    def node(state: Any, ctx: Context) -> Any:
        turns.append(1)
        return {"x": ctx.interrupt(f"turn {len(turns)}")}

    runtime = world.runtime(line(("q", node)))
    runtime.run({"notes": []}, thread="t")
    for _ in range(3):
        assert runtime.resume("t", "yes").status == "interrupted"

    assert runtime.state("t").interrupts[0].payload == "turn 4"
    assert runtime.state("t").interrupts[0].id.endswith("#0:4")


def test_key_that_looks_like_a_version_of_another_key_is_a_separate_question(world):
    def graph(text: str) -> Any:
        def node(state: Any, ctx: Context) -> Any:
            one = ctx.interrupt(text, key="a", answer_type=str if text == "first" else int)
            other = ctx.interrupt("other", key="a:2")
            return {"x": [one, other]}

        return line(("q", node))

    world.runtime(graph("first")).run({"notes": []}, thread="t")
    runtime = world.runtime(graph("second"))
    paused = runtime.resume("t", "text")
    assert [i.payload for i in paused.interrupts] == ["second"]
    paused = runtime.resume("t", 1)
    assert [i.payload for i in paused.interrupts] == ["other"]

    assert runtime.resume("t", "done").state["x"] == [1, "done"]


@pytest.mark.parametrize("key", ["two", None])
def test_question_of_a_failed_attempt_is_asked_in_its_newest_wording(world, key):
    """One branch of the node asked while the other failed: the next release words the question differently."""
    broken = [True]

    def graph(text: str) -> Any:
        async def node(state: Any, ctx: Context) -> Any:
            async def asks() -> None:
                ctx.interrupt(text, key=key)

            async def fails() -> None:
                if broken[0]:
                    raise RuntimeError("broken")

            async with asyncio.TaskGroup() as group:
                group.create_task(asks())
                group.create_task(fails())
            return {"notes": ["done"]}

        return line(("q", node))

    with pytest.raises(NodeError):
        world.runtime(graph("old")).run({"notes": []}, thread="t")
    broken[0] = False
    runtime = world.runtime(graph("new"))
    (again,) = runtime.retry("t").interrupts

    assert again.payload == "new"
    assert again.id.endswith("#key=two" if key else "#0")
    assert runtime.resume("t", 2).state["notes"] == ["done"]


def test_a_nested_graph_matches_its_own_questions(world):
    def graph(text: str) -> Any:
        inner = asking(text)
        return line(("outer", inner), ("end", note("end")))

    first = world.runtime(graph("Publish?")).run({"notes": []}, thread="t").interrupts[0]
    runtime = world.runtime(graph("Really publish?"))
    paused = runtime.resume("t", "yes")

    assert [i.id for i in paused.interrupts] == [f"{first.id}:2"]
    assert paused.interrupts[0].task_id == first.task_id == "1.0:outer/2.0:ask"
    assert runtime.resume("t", "no").state["notes"] == ["a", "Really publish?=no", "end"]
    runtime.replay("t")


def test_returned_question_takes_its_answer_in_any_wording(world):
    from graphrt import Interrupt

    def graph(text: str) -> Any:
        def node(state: Any, ctx: Context) -> Any:
            return Interrupt(text) if ctx.answer is None else {"x": ctx.answer}

        return line(("q", node))

    world.runtime(graph("old")).run({"notes": []}, thread="t")
    runtime = world.runtime(graph("new"))

    assert runtime.resume("t", "yes").state["x"] == "yes"
    assert len(of_kind(runtime, AnswerUsed)) == 1


# -- edits -------------------------------------------------------------------------------------------------------------


def letter() -> Any:
    """A node that shows the draft and asks, like a review."""

    def approve(state: Any, ctx: Context) -> Any:
        return {"notes": [f"{state['x']}: {ctx.interrupt({'draft': state['x']})}"]}

    return line(("draft", lambda state: {"x": "a draft"}), ("approve", approve))


def test_answer_after_an_edit_of_the_draft_is_taken_unchanged(world):
    runtime = world.runtime(letter())
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"x": "a better letter"})
    (question,) = runtime.state("t").interrupts
    assert (question.stale, question.payload) == (True, {"draft": "a draft"})

    assert world.runtime(letter()).resume("t", "approved").state["notes"] == ["a better letter: approved"]
    (used,) = of_kind(runtime, AnswerUsed)
    assert (used.reworded, used.payload) == (True, {"draft": "a better letter"})
    runtime.replay("t")


def test_retry_after_an_edit_asks_again_with_the_edited_draft(world):
    runtime = world.runtime(letter())
    first = runtime.run({"notes": []}, thread="t").interrupts[0]
    runtime.update("t", {"x": "a better letter"})
    again = world.runtime(letter()).retry("t").interrupts[0]

    assert (again.payload, again.stale) == ({"draft": "a better letter"}, False)
    assert again.id == f"{first.id}:2"
    assert of_kind(runtime, InterruptWithdrawn) == [InterruptWithdrawn(id=first.id, reason="stale")]
    refused("unknown-interrupt", lambda: runtime.resume("t", {first.id: "approved"}), "withdrawn", again.id)
    assert runtime.resume("t", "approved").state["notes"] == ["a better letter: approved"]


def test_a_question_that_is_not_stale_cannot_be_retried(world):
    runtime = world.runtime(letter())
    runtime.run({"notes": []}, thread="t")

    refused("wrong-verb", lambda: runtime.retry("t"), "resume", error=InputError)


def test_an_edit_makes_only_the_questions_of_unfinished_tasks_stale(world):
    runtime = world.runtime(fan(("p", ask("p")), ("q", ask("q"))))
    p, q = runtime.run({"notes": []}, thread="t").interrupts
    runtime.resume("t", {p.id: "one"})
    runtime.update("t", {"x": 1})
    open_ = runtime.state("t").interrupts

    assert [(i.id, i.stale) for i in open_] == [(q.id, True)]
    assert runtime.resume("t", "two").state["notes"] == ["split", "p=one", "q=two", "last"]


def test_an_edit_makes_the_questions_of_a_nested_graph_stale(world):
    runtime = world.runtime(line(("outer", letter())))
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"x": "from outside"})

    assert [i.stale for i in runtime.state("t").interrupts] == [True]
    assert runtime.resume("t", "ok").state["notes"] == ["a draft: ok"]


def quoting() -> Any:
    """A nested graph whose question shows a field that it shares with its parent."""

    def ask_about(state: Any, ctx: Any) -> Any:
        return {"notes": [f"{state['x']}: {ctx.interrupt({'x': state['x']})}"]}

    return line(("ask", ask_about))


def test_answer_to_a_nested_question_counts_although_an_edit_changed_its_payload(world):
    runtime = world.runtime(line(("outer", quoting())))
    runtime.run({"notes": [], "x": "old"}, thread="t")
    runtime.update("t", {"x": "new"})
    result = runtime.resume("t", "ok")

    assert result.status == "completed"
    assert result.state["notes"] == ["new: ok"]


def test_retry_asks_a_nested_question_again_after_an_edit(world):
    runtime = world.runtime(line(("outer", quoting())))
    runtime.run({"notes": [], "x": "old"}, thread="t")
    runtime.update("t", {"x": "new"})
    (question,) = runtime.retry("t").interrupts

    assert (question.payload, question.stale) == ({"x": "new"}, False)
    assert runtime.resume("t", "ok").state["notes"] == ["new: ok"]


def test_failing_sibling_leaves_the_question_unchanged(world):
    fails = Fails()
    runtime = world.runtime(fan(("p", ask("p")), ("f", fails)))
    with pytest.raises(Exception, match="broken"):
        runtime.run({"notes": []}, thread="t")
    fails.broken = False
    paused = runtime.retry("t")

    assert [i.payload for i in paused.interrupts] == [{"q": "p"}]
    assert runtime.resume("t", "yes").state["notes"] == ["split", "p=yes", "mended", "last"]


def test_equal_questions_compare_by_value_and_show_their_kind(world):
    runtime = world.runtime(asking("Publish?", answer_type=bool))
    told = runtime.run({"notes": []}, thread="t").interrupts[0]
    looked = runtime.state("t").interrupts[0]

    assert told == looked
    assert hash(told) == hash(looked)
    assert (told.kind, told.node, told.task_id) == ("question", "ask", "2.0:ask")
    assert told.answer_schema == {"type": "boolean"}
    assert "interrupt-raised" in kinds(runtime.entries("t"))
