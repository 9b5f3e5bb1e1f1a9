"""`on_error`: after the retries of a failed node, another node takes over, with the error in its context."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import END, START, GraphBuilder, Interrupt, NodeError, RetryPolicy, Runtime, Send, UpdateError, events

from .support import Face, general, get, note, parallel


def handled(bad: Any, *, handler: Any = None, **policy: Any) -> Any:
    """bad with mend as its on_error node, then end."""

    def mend(state: Any, ctx: Any) -> Any:
        return {"notes": [f"{type(ctx.error).__name__}: {ctx.error}".split("\n")[0]]}

    g = GraphBuilder(general())
    g.add_node("bad", bad, on_error="mend", **policy).add_node("next", note("next"))
    g.add_node("mend", handler or mend)
    g.add_edge(START, "bad").add_edge("bad", "next").add_edge("next", END).add_edge("mend", END)
    return g.compile()


def test_handler_gets_the_error_and_replaces_the_edges(face: Face, made: Any) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("broken")

    result = face.run(handled(made(bad)), {})

    assert get(result.state, "notes") == ["ValueError: broken"]
    assert result.status == "completed"


def test_handler_does_not_run_without_a_failure(face: Face, made: Any) -> None:
    assert get(face.run(handled(made(note("fine"))), {}).state, "notes") == ["fine", "next"]


def test_ctx_error_is_none_on_any_other_activation(face: Face) -> None:
    seen: list[Any] = []
    g = GraphBuilder(general())
    g.add_node("a", lambda s, ctx: seen.append(ctx.error)).add_edge(START, "a").add_edge("a", END)
    face.run(g.compile(), {})

    assert seen == [None]


def test_on_error_comes_after_the_retries(face: Face, made: Any) -> None:
    seen: list[int] = []

    def bad(state: Any, ctx: Any) -> Any:
        seen.append(ctx.attempt)
        raise ConnectionError(ctx.attempt)

    result = face.run(handled(made(bad), retry=RetryPolicy(2, wait_initial_s=0)), {})

    assert seen == [1, 2]
    assert get(result.state, "notes") == ["ConnectionError: 2"]


@pytest.mark.parametrize("returned", [{"nope": 1}, {"n": "x"}, [1], 7, "text"], ids=repr)
def test_refused_update_is_also_handled(face: Face, made: Any, returned: Any) -> None:
    errors: list[Any] = []

    result = face.run(handled(made(lambda s: returned), handler=lambda s, ctx: errors.append(ctx.error)), {})

    assert result.status == "completed"
    assert isinstance(errors[0], UpdateError)


def test_on_error_end_ends_the_branch_and_the_run_continues(face: Face, made: Any) -> None:
    def bad(state: Any) -> Any:
        raise ValueError

    graph = parallel(("bad", made(bad)), ("good", made(note("good"))), bad={"on_error": END})

    result = face.run(graph, {})

    assert (result.status, get(result.state, "notes")) == ("completed", ["good"])


def test_siblings_of_a_handled_failure_finish_and_fold(face: Face, made: Any) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("x")

    g = GraphBuilder(general())
    g.add_node("good", made(note("good"))).add_node("bad", made(bad), on_error="mend").add_node("mend", note("mend"))
    g.add_edge(START, "good").add_edge(START, "bad")
    for name in ("good", "bad", "mend"):
        g.add_edge(name, END)

    assert get(face.run(g.compile(), {}).state, "notes") == ["good", "mend"]


def test_several_failures_for_one_handler_come_as_a_group_in_task_order(face: Face, made: Any) -> None:
    seen: list[Any] = []

    def bad(text: str) -> Any:
        def run(state: Any) -> Any:
            raise ValueError(text)

        return made(run)

    g = GraphBuilder(general())
    g.add_node("one", bad("1"), on_error="mend").add_node("two", bad("2"), on_error="mend")
    g.add_node("mend", lambda s, ctx: seen.append(ctx.error))
    g.add_edge(START, "one").add_edge(START, "two")
    for name in ("one", "two", "mend"):
        g.add_edge(name, END)
    face.run(g.compile(), {})

    assert isinstance(seen[0], BaseExceptionGroup)
    assert [str(e) for e in seen[0].exceptions] == ["1", "2"]


def mapping(handler: Any, *, at: Any = None) -> Any:
    """A fan-out over three arguments, of which the even ones fail."""

    def work(state: Any, ctx: Any) -> Any:
        if ctx.arg["n"] % 2 == 0:
            raise ValueError(f"bad {ctx.arg['n']}")

    g = GraphBuilder(general())
    g.add_node("work", work, on_error="mend").add_node("mend", handler, **(at or {}))
    g.set_conditional_entry(lambda s: [Send("work", {"n": n}) for n in (1, 2, 4)], ["work"])
    return g.add_edge("work", END).add_edge("mend", END).compile()


def told(ctx: Any) -> list[Any]:
    return [(one.node, one.task_id, one.arg, str(one.error)) for one in ctx.failures]


BOTH = [("work", "1.1:work", {"n": 2}, "bad 2"), ("work", "1.2:work", {"n": 4}, "bad 4")]


def test_handler_gets_the_failed_tasks_with_their_arguments(face: Face) -> None:
    seen: list[Any] = []

    face.run(mapping(lambda s, ctx: seen.extend([*told(ctx), list(ctx.error.exceptions) == errors(ctx)])), {})

    assert seen == [*BOTH, True]


def errors(ctx: Any) -> list[BaseException]:
    return [one.error for one in ctx.failures]


def test_single_failure_is_the_error_itself(face: Face, made: Any) -> None:
    seen: list[Any] = []

    def bad(state: Any) -> Any:
        raise ValueError("1")

    handler = lambda s, ctx: seen.append((*told(ctx), ctx.failures[0].error is ctx.error))
    face.run(handled(made(bad), handler=handler), {})

    assert seen == [(("bad", "1.0:bad", None, "1"), True)]


def test_failures_are_empty_on_any_other_activation(face: Face) -> None:
    seen: list[Any] = []
    g = GraphBuilder(general())
    g.add_node("a", lambda s, ctx: seen.append(ctx.failures)).add_edge(START, "a").add_edge("a", END)
    face.run(g.compile(), {})

    assert seen == [()]


def test_argument_that_a_handler_gets_is_a_copy(face: Face) -> None:
    tried: list[Any] = []

    def handler(state: Any, ctx: Any) -> Any:
        tried.append(told(ctx))
        ctx.failures[0].arg["n"] = "changed"
        return Interrupt("what now?") if ctx.answer is None else None

    runtime = Runtime(mapping(handler), store="memory:")
    face.run(runtime, {}, thread="t")
    face.resume(runtime, "t", "go on")

    assert tried == [BOTH, BOTH]


@pytest.mark.parametrize("way", ["retry", "fork", "fork-at", "prune"])
def test_handler_gets_the_same_failures_after_a_restart(face: Face, tmp_path: Any, way: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    tried: list[Any] = []

    def fails_once(state: Any, ctx: Any) -> Any:
        tried.append(told(ctx))
        if len(tried) == 1:
            raise LookupError("again")

    graph = mapping(fails_once)
    with Runtime(graph, store=url) as runtime, pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    with Runtime(graph, store=url) as runtime:
        thread = "t"
        if way == "prune":
            runtime.prune("t")
        elif way != "retry":
            committed = [e.seq for e in runtime.entries("t") if isinstance(e.event, events.SuperstepCommitted)]
            thread = runtime.fork("t", at=committed[0] if way == "fork-at" else runtime.state("t").seq, to="copy")
        runtime.retry(thread)

    assert tried == [BOTH, BOTH]


def test_handler_gets_a_failure_before_and_after_an_edit(face: Face) -> None:
    """An edit as a node that has not run yet keeps the failure that another node handles."""
    tried: list[Any] = []
    runtime = Runtime(mapping(lambda s, ctx: tried.append(told(ctx)), at={"interrupt_before": True}), store="memory:")
    face.run(runtime, {}, thread="t")
    runtime.update("t", {"x": 5})
    face.resume(runtime, "t", answer=True)

    assert tried == [BOTH]


def test_a_handler_that_fails_fails_the_run(face: Face) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("first")

    def worse(state: Any) -> Any:
        raise KeyError("second")

    with pytest.raises(NodeError) as caught:
        face.run(handled(bad, handler=worse), {})

    assert caught.value.node == "mend"


def test_handler_that_asks_still_has_the_error_after_the_answer(face: Face) -> None:
    seen: list[str] = []

    def bad(state: Any) -> Any:
        raise ValueError("broken")

    def mend(state: Any, ctx: Any) -> Any:
        seen.append(str(ctx.error))
        return Interrupt("what now?") if ctx.answer is None else {"notes": [ctx.answer]}

    runtime = Runtime(handled(bad, handler=mend), store="memory:")
    face.run(runtime, {}, thread="t")

    result = face.resume(runtime, "t", "go on")

    assert get(result.state, "notes") == ["go on"]
    assert seen == ["broken", "broken"]


def test_node_may_be_its_own_handler_until_it_is_exhausted(face: Face) -> None:
    def bad(state: Any, ctx: Any) -> Any:
        if get(state, "n") < 2:
            raise ValueError
        return {"notes": ["done"]}

    from graphrt.errors import NodeFatigueError

    g = GraphBuilder(general())
    g.add_node("bad", bad, on_error="bad", max_visits=5).add_edge(START, "bad").add_edge("bad", END)

    with pytest.raises(NodeFatigueError):
        face.run(g.compile(allow=["endless-loop"]), {})


def test_limit_or_missing_thread_is_not_handled(face: Face) -> None:
    """on_error is for errors of the node; a pause without a thread is the caller's mistake."""
    from graphrt import InputError

    with pytest.raises(InputError) as caught:
        face.run(handled(lambda s, ctx: ctx.interrupt("?")), {})

    assert caught.value.code == "interrupt-needs-thread"
