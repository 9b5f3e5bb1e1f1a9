"""Steps: one for each finished task, after its commit; before and after are correct whenever they are read."""

from __future__ import annotations

import itertools
import json
from typing import Annotated, Any

import pytest

from graphrt import DELETE, END, START, Command, GraphBuilder, NodeError, Overwrite, Runtime, Send, UpdateError
from graphrt.reducers import append, merge

from .support import Face, general, get, note, only_mutated, parallel, sequence, state_class

KEYS = {"step", "node", "state_before", "state_diff", "state_after", "outcome", "error", "run_metadata"}


def busy(kind: str) -> Any:
    """A graph that writes every kind of field, in sequence, in parallel and by Sends."""
    state = state_class(
        kind,
        notes=(Annotated[list[Any], append], []),
        table=(Annotated[dict[str, int], merge], {}),
        x=(Any, None),
        y=(Any, None),
    )
    g: Any = GraphBuilder(state)
    g.add_node("a", lambda s: {"notes": ["a"], "x": 1})
    g.add_node("b", lambda s: {"notes": ["b1", "b2"], "table": {"b": 1}})
    g.add_node("c", lambda s: {"notes": ["c"], "y": {"deep": [1]}})
    g.add_node("work", lambda s, ctx: {"notes": [ctx.arg], "table": {str(ctx.arg): 2}})
    g.add_node("d", lambda s: {"x": DELETE, "table": {"b": 3}})
    g.add_node("e", lambda s: {"notes": Overwrite(["new"]), "y": [get(s, "y")]})
    g.add_node("f", lambda s: None)
    g.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
    g.add_conditional_edges("b", lambda s: [Send("work", 1), Send("work", 2)], ["work"])
    g.add_edge("work", "d").add_edge("d", "e").add_edge("e", "f").add_edge("f", END).add_edge("c", END)
    return g.compile()


def plain(state: Any) -> dict[str, Any]:
    """A copy of a state as a dict."""
    fields = dict(state) if isinstance(state, dict) else dict(vars(state))
    return json.loads(json.dumps(fields))


def applied(before: dict[str, Any], diff: Any) -> dict[str, Any]:
    """*before* with *diff* applied."""
    after = {**before, **diff.added, **diff.updated}
    for name in diff.removed:
        del after[name]
    return json.loads(json.dumps(after))


@pytest.mark.parametrize("store", [None, "memory:"])
def test_diffs_chain_from_the_input_to_the_result(face: Face, kind: str, store: Any) -> None:
    graph = busy(kind)
    given = {"notes": ["in"], "x": 0}
    steps = face.steps(Runtime(graph, store=store), given)
    result = face.run(graph, given)

    assert [step.node for step in steps] == ["a", "b", "c", "work", "work", "d", "e", "f"]
    assert [step.index for step in steps] == list(range(8))
    assert [step.superstep for step in steps] == [1, 2, 2, 3, 3, 4, 5, 6]
    for earlier, later in itertools.pairwise(steps):
        assert plain(earlier.after) == plain(later.before)
    for step in steps:
        assert applied(plain(step.before), step.diff) == plain(step.after)
        assert not set(step.diff.added) & set(plain(step.before))
        assert all(plain(step.before)[name] == json.loads(json.dumps(old)) for name, old in step.diff.removed.items())
    assert plain(steps[-1].after) == plain(result.state)
    assert get(steps[0].before, "notes") == ["in"]


def test_before_and_after_are_equal_when_read_at_once_or_later(face: Face, kind: str) -> None:
    at_once: list[Any] = []

    def look(step: Any) -> None:
        at_once.append((plain(step.before), plain(step.after), step.diff.to_dict()))
        at_once[-1] = json.loads(json.dumps(at_once[-1]))

    steps = face.each_step(busy(kind), {"notes": ["in"]}, look)

    later = [json.loads(json.dumps([plain(s.before), plain(s.after), s.diff.to_dict()])) for s in steps]
    assert later == at_once


def test_steps_of_a_thread_are_unchanged_when_the_thread_runs_again(face: Face, kind: str) -> None:
    runtime = Runtime(busy(kind), store="memory:")
    steps = face.steps(runtime, {"notes": ["in"]}, thread="t")
    told = [step.to_dict() for step in steps]
    more = face.steps(runtime, {"notes": ["again"]}, thread="t")
    told_more = [step.to_dict() for step in more]
    face.run(runtime, {"x": "third"}, thread="t")

    assert [step.to_dict() for step in steps] == told
    assert [step.to_dict() for step in more] == told_more


def test_steps_yields_steps_only(face: Face) -> None:
    from graphrt import Step

    for options in ({}, {"store": "memory:"}, {"sinks": [lambda entry: None]}):
        items = face.steps(Runtime(sequence(("a", note("a"))), **options), {})
        assert [type(item) for item in items] == [Step]


def test_to_dict_is_json_ready_and_has_the_documented_keys(face: Face, kind: str) -> None:
    state = state_class(kind, x=(Any, None), notes=(Annotated[list[Any], append], []))
    graph = sequence(("a", lambda s: {"x": {1, 2}, "notes": [object(), b"bytes"]}), state=state)

    [step] = face.steps(Runtime(graph, ids=lambda: "run-1"), {})
    told = step.to_dict()

    assert set(told) >= KEYS
    assert json.loads(json.dumps(told))["node"] == "a"
    assert told["step"] == 0
    assert told["outcome"] == "success"
    assert told["error"] is None
    assert set(told["state_diff"]) == {"added", "removed", "updated"}
    assert {"total_tokens", "prompt_tokens", "output_tokens"} <= set(told["run_metadata"])


def test_failed_task_yields_its_step_and_then_raises(face: Face, made: Any) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("broken")

    seen: list[Any] = []
    with pytest.raises(NodeError):
        face.each_step(sequence(("a", made(note("a"))), ("bad", made(bad))), {}, seen.append)

    assert [(s.node, s.outcome) for s in seen] == [("a", "success"), ("bad", "error")]
    failed = seen[-1]
    assert isinstance(failed.error, ValueError)
    assert "broken" in failed.to_dict()["error"]
    assert plain(failed.before) == plain(failed.after)
    assert failed.diff == {"added": {}, "removed": {}, "updated": {}}


@pytest.mark.parametrize("update", [{"nope": 1}, {"n": "x"}], ids=repr)
def test_refused_update_is_also_a_failed_step(face: Face, update: Any) -> None:
    seen: list[Any] = []
    with pytest.raises(UpdateError):
        face.each_step(sequence(("bad", lambda s: update)), {}, seen.append)

    assert [(s.node, s.outcome, type(s.error)) for s in seen] == [("bad", "error", UpdateError)]


def test_conflict_yields_the_steps_of_the_conflicting_tasks(face: Face) -> None:
    from graphrt import ConcurrentUpdateError

    seen: list[Any] = []
    graph = parallel(("a", lambda s: {"x": 1}), ("b", lambda s: {"x": 2}), ("c", note("c")), allow=["write-conflict"])
    with pytest.raises(ConcurrentUpdateError):
        face.each_step(graph, {}, seen.append)

    assert [(s.node, s.outcome) for s in seen] == [("a", "error"), ("b", "error")]


def test_an_interrupted_task_yields_its_step(face: Face) -> None:
    runtime = Runtime(parallel(("ask", lambda s, ctx: ctx.interrupt("?")), ("b", note("b"))), store="memory:")

    steps = face.steps(runtime, {}, thread="t")

    assert [(s.node, s.outcome) for s in steps] == [("ask", "interrupted")]
    assert runtime.state("t").status == "interrupted"


def test_a_handled_failure_is_a_step_with_its_error(face: Face) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("broken")

    steps = face.steps(sequence(("bad", bad), bad={"on_error": END}), {})

    assert [(s.node, s.outcome, str(s.error)) for s in steps] == [("bad", "error", "broken")]


def test_step_has_its_update_and_goto(face: Face) -> None:
    g: Any = GraphBuilder(general())
    g.add_node("a", lambda s: Command(update={"n": "3"}, goto=["b", Send("c", 1), END]))
    g.add_node("b", lambda s: None).add_node("c", lambda s, ctx: None)
    g.add_edge(START, "a").add_edge("b", END).add_edge("c", END)
    steps = face.steps(g.compile(allow=["unreachable-node"]), {})

    assert steps[0].update == {"n": 3}
    assert steps[0].goto == ("b", "c", "END")
    assert steps[1].update is None
    assert steps[1].goto is None


def test_durations_are_seconds_and_metadata_names_the_run(face: Face, made: Any) -> None:
    runtime = Runtime(sequence(("a", made(note("a")))), store="memory:", ids=lambda: "run-1")
    [step] = face.steps(runtime, {}, thread="t")

    assert 0 <= step.duration_s < 5
    assert step.task_id == "1.0:a"
    assert step.run_metadata["thread"] == "t"
    assert step.run_metadata["run_id"] == "run-1"
    assert step.run_metadata["graph"] == "graph"
    assert step.run_metadata["attempt"] == 1


def test_caller_that_changes_a_step_does_not_change_the_thread(face: Face, kind: str) -> None:
    graph = sequence(("a", note("a")), ("b", note("b")), state=general(kind))
    runtime = Runtime(graph, store="memory:")

    def spoil(step: Any) -> None:
        get(step.after, "notes").append("SPOILT")

    try:
        face.each_step(runtime, {}, spoil, thread="t")
    except UpdateError as error:
        only_mutated(error)
    else:
        assert get(runtime.state("t").values, "notes") == ["a", "b"]
