"""Rule R10, the answers: one, several, some, wrong ones; and which verb a thread requires."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import GraphBuilder, InputError, NodeError, Runtime

from .support import Face, general, get, note, parallel, sequence


def ask(payload: Any, field: str = "x") -> Any:
    return lambda s, ctx: {field: ctx.interrupt(payload)}


def one() -> Runtime[Any]:
    return Runtime(sequence(("ask", ask("?"))), store="memory:")


def two() -> Runtime[Any]:
    return Runtime(parallel(("a", ask("a?")), ("b", ask("b?", "y"))), store="memory:")


@pytest.mark.parametrize("answer", ["yes", 0, False, None, [1], ("a",), 3.5, ""], ids=repr)
def test_value_that_is_not_a_mapping_answers_the_only_open_interrupt(face: Face, answer: Any) -> None:
    runtime = one()
    face.run(runtime, {}, thread="t")

    assert get(face.resume(runtime, "t", answer).state, "x", "missing") == answer


@pytest.mark.parametrize("answer", [{"approved": True}, {}, None, "text"], ids=repr)
def test_answer_takes_any_value_including_mappings(face: Face, answer: Any) -> None:
    runtime = one()
    face.run(runtime, {}, thread="t")

    assert get(face.resume(runtime, "t", answer=answer).state, "x", "missing") == answer


def test_a_mapping_is_always_an_id_map(face: Face) -> None:
    runtime = one()
    [question] = face.run(runtime, {}, thread="t").interrupts

    with pytest.raises(InputError) as caught:
        face.resume(runtime, "t", {"approved": True})

    assert caught.value.code == "unknown-interrupt"
    assert question.id in str(caught.value)
    assert "answer=" in str(caught.value)
    assert get(face.resume(runtime, "t", {question.id: {"approved": True}}).state, "x") == {"approved": True}


def test_wrong_id_is_refused_with_a_list_of_the_open_ones(face: Face) -> None:
    runtime = two()
    a, b = face.run(runtime, {}, thread="t").interrupts

    with pytest.raises(InputError) as caught:
        face.resume(runtime, "t", {a.id: 1, "t/1.0:nobody#0": 2})

    text = str(caught.value)
    assert "t/1.0:nobody#0" in text
    assert a.id in text
    assert b.id in text
    assert [q.id for q in runtime.state("t").interrupts] == [a.id, b.id]
    assert runtime.state("t").status == "interrupted"


def test_a_stale_id_is_refused(face: Face) -> None:
    runtime = two()
    a, b = face.run(runtime, {}, thread="t").interrupts
    face.resume(runtime, "t", {a.id: 1})

    with pytest.raises(InputError) as caught:
        face.resume(runtime, "t", {a.id: 2, b.id: 3})

    assert caught.value.code == "unknown-interrupt"
    done = face.resume(runtime, "t", {b.id: 3})
    assert (get(done.state, "x"), get(done.state, "y")) == (1, 3)


def test_one_answer_for_several_questions_is_ambiguous(face: Face) -> None:
    runtime = two()
    a, b = face.run(runtime, {}, thread="t").interrupts

    for options in ({"answer": "x"}, {}):
        with pytest.raises(InputError) as caught:
            face.resume(runtime, "t", *([] if options else ["x"]), **options)
        assert caught.value.code == "ambiguous-answer"
        assert a.id in str(caught.value)
        assert b.id in str(caught.value)


def test_resume_without_an_answer_is_refused(face: Face) -> None:
    runtime = one()
    [question] = face.run(runtime, {}, thread="t").interrupts

    for answers in ((), ({},)):
        with pytest.raises(InputError) as caught:
            face.resume(runtime, "t", *answers)
        assert caught.value.code == "no-answer"
        assert question.id in str(caught.value)


def test_answers_are_not_aliased(face: Face) -> None:
    def node(state: Any, ctx: Any) -> Any:
        return {"x": [ctx.interrupt("1"), ctx.interrupt("2")]}

    runtime = Runtime(sequence(("node", node)), store="memory:")
    face.run(runtime, {}, thread="t")
    answer = [1]
    face.resume(runtime, "t", answer)
    answer.append("spoilt")

    assert get(face.resume(runtime, "t", 2).state, "x") == [[1], 2]


def test_payloads_are_not_aliased(face: Face) -> None:
    runtime = Runtime(sequence(("node", ask({"list": [1]}))), store="memory:")
    [question] = face.run(runtime, {}, thread="t").interrupts
    question.payload["list"].append("spoilt")

    assert runtime.state("t").interrupts[0].payload == {"list": [1]}
    assert face.resume(runtime, "t", "fine").status == "completed"


def test_journal_has_questions_and_answers(face: Face) -> None:
    entries: list[Any] = []
    runtime = Runtime(sequence(("ask", ask("?"))), store="memory:", sinks=[entries.append])
    [question] = face.run(runtime, {}, thread="t").interrupts
    face.resume(runtime, "t", "yes")

    told = [(type(e.event).__name__, e.event) for e in entries]
    raised = next(event for name, event in told if name == "InterruptRaised")
    answered = next(event for name, event in told if name == "InterruptAnswered")
    assert (raised.id, raised.payload, answered.id, answered.answer) == (question.id, "?", question.id, "yes")


# -- which verb a thread requires ------------------------------------------------------------------------------------


def failed() -> Runtime[Any]:
    def bad(state: Any) -> Any:
        raise ValueError

    return Runtime(sequence(("bad", bad)), store="memory:")


def test_an_interrupted_thread_takes_no_new_input_and_no_retry(face: Face) -> None:
    runtime = one()
    face.run(runtime, {}, thread="t")

    for wrong in (lambda: face.run(runtime, {}, thread="t"), lambda: face.retry(runtime, "t")):
        with pytest.raises(InputError) as caught:
            wrong()
        assert caught.value.code == "wrong-verb"
        assert "resume" in str(caught.value)
    assert runtime.state("t").status == "interrupted"


def test_failed_thread_requires_retry(face: Face) -> None:
    runtime = failed()
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")

    for wrong in (lambda: face.run(runtime, {}, thread="t"), lambda: face.resume(runtime, "t", 1)):
        with pytest.raises(InputError) as caught:
            wrong()
        assert caught.value.code == "wrong-verb"
        assert "retry" in str(caught.value)
    assert runtime.state("t").status == "failed"


def test_completed_thread_requires_run(face: Face) -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")
    face.run(runtime, {}, thread="t")

    for wrong in (lambda: face.retry(runtime, "t"), lambda: face.resume(runtime, "t", 1)):
        with pytest.raises(InputError) as caught:
            wrong()
        assert caught.value.code == "wrong-verb"
        assert "run" in caught.value.fix
    assert runtime.state("t").status == "completed"


def test_unknown_thread_is_an_input_error_that_names_no_other_thread(face: Face) -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")
    face.run(runtime, {}, thread="of-somebody")

    for verb in (lambda: face.retry(runtime, "t"), lambda: face.resume(runtime, "t", 1), lambda: runtime.state("t")):
        with pytest.raises(InputError) as caught:
            verb()
        assert (caught.value.code, caught.value.thread) == ("unknown-thread", "t")
        assert "of-somebody" not in f"{caught.value} {vars(caught.value)}"


def test_without_a_store_threads_are_refused(face: Face) -> None:
    runtime = Runtime(sequence(("a", note("a"))))

    verbs: list[Any] = [
        lambda: face.run(runtime, {}, thread="t"),
        lambda: face.resume(runtime, "t", 1),
        lambda: face.retry(runtime, "t"),
        lambda: runtime.state("t"),
        runtime.threads,
        lambda: runtime.delete_thread("t"),
    ]
    for verb in verbs:
        with pytest.raises(InputError) as caught:
            verb()
        assert caught.value.code == "thread-without-store"


@pytest.mark.parametrize("thread", ["", 3, b"t", ("t",)], ids=repr)
def test_thread_id_is_a_non_empty_string(face: Face, thread: Any) -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")

    with pytest.raises(InputError) as caught:
        face.run(runtime, {}, thread=thread)

    assert caught.value.code == "bad-thread"


def test_thread_id_is_generated_with_a_store(face: Face) -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")

    result = face.run(runtime, {})

    assert result.thread
    assert runtime.state(result.thread).status == "completed"
    assert [snapshot.thread for snapshot in runtime.threads()] == [result.thread]


def test_deleted_thread_is_gone_and_its_id_can_be_reused(face: Face) -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")
    face.run(runtime, {}, thread="t")
    runtime.delete_thread("t")

    with pytest.raises(InputError):
        runtime.state("t")
    assert get(face.run(runtime, {}, thread="t").state, "notes") == ["a"]


def test_refused_input_leaves_no_thread(face: Face) -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:")

    with pytest.raises(InputError):
        face.run(runtime, {"nope": 1}, thread="t")

    assert runtime.threads() == ()
    assert face.run(runtime, {}, thread="t").status == "completed"


def test_memory_stores_are_private_unless_shared() -> None:
    graph = sequence(("a", note("a")))
    first, second = Runtime(graph, store="memory:"), Runtime(graph, store="memory:")
    first.run({}, thread="t")
    shared = Runtime(graph, store=first.store)

    assert second.threads() == ()
    assert shared.state("t").status == "completed"


def test_a_thread_of_another_graph_is_refused() -> None:
    first = Runtime(sequence(("a", note("a"))), store="memory:")
    first.run({}, thread="t")
    second = Runtime(sequence(("b", note("b"))), store=first.store)

    with pytest.raises(InputError) as caught:
        second.run({}, thread="t")

    assert caught.value.code == "other-graph"


def test_paused_thread_of_another_graph_refuses_an_input_with_the_name_of_that_graph() -> None:
    first = one()
    first.run({}, thread="t")
    other = GraphBuilder(general(), name="billing").add_node("a", note("a")).set_entry("a").compile()

    with pytest.raises(InputError, match="belongs to graph 'graph', this one is 'billing'") as caught:
        Runtime(other, store=first.store).run({}, thread="t")

    assert caught.value.code == "other-graph"


def test_wrong_answer_names_the_class_that_is_wanted() -> None:
    def node(state: Any, ctx: Any) -> Any:
        return {"x": ctx.interrupt("?", answer_type=Verdict).publish}

    runtime = Runtime(sequence(("ask", node), state=Reviewed), store="memory:")
    runtime.run({}, thread="t")

    with pytest.raises(InputError) as caught:
        runtime.resume("t", "yes")

    assert caught.value.known == "asked by 'ask': '?'; wanted Verdict"


class Verdict(BaseModel):
    publish: bool


class Reviewed(BaseModel):
    x: bool = False
    verdict: Verdict | None = None
