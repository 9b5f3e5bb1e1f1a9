"""The fast path: it takes what is plain, leaves for the general path before the first odd thing, and changes nothing."""

from __future__ import annotations

import copy
from typing import Annotated, Any, TypedDict

import pytest

from graphrt import DELETE, START, Command, GraphBuilder, Interrupt, Limits, Overwrite, Send
from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.fast_path import advance, begin, park, take_back
from graphrt._engine.steps import StepChain
from graphrt._engine.task import DUE, Due, Failed
from graphrt._flows.verbs import drive
from graphrt.errors import GraphrtError, RouteError
from graphrt.reducers import append

from .support import engine

GIVEN = {"log": [1], "n": 1, "last": 0}


def line(**options: Any) -> Engine:
    """a -> b -> c, none of which takes a context."""
    edges = [(START, "a"), ("a", "b"), ("b", "c")]
    return engine("abc", edges, plain="abc", given=options.pop("given", GIVEN), **options)


def branching(router: Any, **options: Any) -> Engine:
    """a, then what *router* says: b or c; c is the default."""

    def more(g: GraphBuilder[Any, Any]) -> None:
        g.add_edge(START, "a").add_conditional_edges("a", router, {"b": "b", "c": "c"}, default="c")

    return engine("abc", more=more, plain="ab", given=GIVEN, **options)


def watch(run: Engine) -> Any:
    """What must not change before the fast path leaves."""
    return copy.deepcopy((run.values, run.sizes, run.visits, run.steps, run.superstep))


def due(run: Engine) -> list[str]:
    return [item.node.name for item in run.due]


def test_plain_supersteps_follow_one_another_with_one_task_object() -> None:
    run = line()
    call = begin(run)
    assert call is not None
    assert (call.node.name, call.id, call.state) == ("a", "1.0:a", {**GIVEN, "pair": (), "seen": []})
    assert advance(run, {"log": [2], "n": 2, "last": "x", "seen": [1, 1]}) is call
    assert (call.node.name, call.id) == ("b", "2.0:b")
    assert call.state["log"] == [1, 2]
    assert advance(run, None) is call
    assert advance(run, {"seen": [2], "pair": (1,)}) is None

    assert (run.values, run.steps, run.visits) == (
        {"log": [1, 2], "n": 3, "last": "x", "seen": [1, 2], "pair": (1,)},
        3,
        [1, 1, 1],
    )
    assert (run.due, run.tasks, run.call) == ([], [], None)


@pytest.mark.parametrize(
    "reply",
    [
        {"unknown": 1},
        {"log": [2], "n": "x"},
        {"log": [2], "n": Overwrite(5)},
        {"log": [2], "last": DELETE},
        {"log": [2], "other": 1, "n": None},
        {1: 1},
        Command(update={"n": 1}, goto="c"),
        Interrupt("?"),
        Failed(ValueError()),
        [Send("b")],
        7,
    ],
    ids=repr,
)
@pytest.mark.parametrize("watched", [False, True])
def test_an_odd_reply_changes_nothing_and_leaves_the_task_open(reply: Any, watched: bool) -> None:
    run = line()
    run.watch(commits=watched)
    call = begin(run)
    before = watch(run)
    assert advance(run, reply) is None

    assert watch(run) == before
    assert (run.tasks, run.call, run.due) == ([call], None, [])
    assert (call.status, call.state) == (DUE, run.values)
    assert begin(run) is None
    if watched:
        assert run.recorder.take(run) is None


def test_an_absent_value_is_left_to_the_general_path() -> None:
    run = line()
    run.start({"log": [1]})
    begin(run)

    assert advance(run, {"n": 1}) is None
    assert run.report(run.tasks[0], 1, {"n": 1})
    run.commit()
    assert run.values["n"] == 1


@pytest.mark.parametrize(
    ("said", "then"),
    [("x", ["c"]), (3, ["c"]), (("b", "c"), ["b", "c"]), (None, None), ([Send("b")], None), ([None], None)],
)
def test_an_odd_route_takes_back_what_was_extended_and_is_asked_once(said: Any, then: list[str] | None) -> None:
    asked: list[Any] = []

    def router(state: Any) -> Any:
        asked.append(state["log"])
        return said

    run = branching(router)
    begin(run)
    before = watch(run)
    assert advance(run, {"log": [2]}) is None
    assert watch(run) == before

    assert run.report(run.tasks[0], 1, {"log": [2]})
    if then is None:
        with pytest.raises(RouteError):
            run.commit()
        assert run.values["log"] == [1]
    else:
        run.commit()
        assert (due(run), run.values["log"]) == (then, [1, 2])
    assert len(asked) == 1


def test_a_router_that_raises_takes_back_what_was_extended_and_is_asked_again() -> None:
    errors = [ValueError(), None]

    def router(state: Any) -> Any:
        error = errors.pop(0)
        if error is not None:
            raise error
        return "b"

    run = branching(router)
    begin(run)
    assert advance(run, {"log": [2]}) is None
    assert run.values["log"] == [1]

    run.report(run.tasks[0], 1, {"log": [2]})
    run.commit()
    assert (due(run), run.values["log"]) == (["b"], [1, 2])


@pytest.mark.parametrize(("said", "then"), [("b", ["b"]), ([], []), (["c", "b"], ["b", "c"]), ([Send("c", 1)], ["c"])])
def test_labels_and_lists_of_them_are_followed(said: Any, then: list[str]) -> None:
    run = branching(lambda state: said)
    begin(run)
    call = advance(run, {"last": 1})

    assert ([call.node.name] if call is not None else due(run)) == then


def test_a_state_that_was_changed_in_place_is_left_to_the_general_path() -> None:
    run = line()
    call = begin(run)
    call.state["log"].append(5)
    assert advance(run, None) is None

    run.report(call, 1, None)
    with pytest.raises(GraphrtError, match="changed a value of the state in place"):
        drive(run)
    assert run.values["log"] == [1]


def test_a_source_of_a_join_is_left_to_the_general_path() -> None:
    run = engine("abz", [(START, "a"), ("a", "b")], more=lambda g: g.add_join(["a", "b"], "z"), plain="abz")
    call = begin(run)
    assert advance(run, {"n": 1}) is None

    run.report(call, 1, {"n": 1})
    run.commit()
    assert due(run) == ["b"]
    assert run.joins[0].arrived == {0}


def test_a_task_object_that_is_used_again_forgets_what_it_wrote_before() -> None:
    """Else a source of a join that returns nothing would fold the update of the node before it once more."""
    run = line(more=lambda g: g.add_join(["b", "c"], "a", starved="ignore"))
    run.watch(commits=True, undo=True)
    call = begin(run)
    assert call is not None
    assert advance(run, {"log": [2]}) is call

    assert advance(run, None) is None
    assert [(task.node.name, task.updates) for task in run.tasks] == [("b", ())]


def refused(run: Engine) -> bool:
    """Whether the fast path does not take what is due, and leaves it as it is."""
    before = watch(run), list(run.due)
    return begin(run) is None and (watch(run), list(run.due)) == before


def test_only_one_plain_task_takes_the_fast_path() -> None:
    assert not refused(line())
    assert refused(engine("ab", [(START, "a"), (START, "b")]))
    assert refused(line(check_state=True))
    assert refused(line(limits=Limits(timeout_s=1)))
    assert refused(line(limits=Limits(deadline_s=1)))
    assert refused(line(a={"timeout_s": 1}))
    assert refused(line(a={"interrupt_before": True}, thread="t"))
    run = line(a={"max_visits": 1})
    run.visits[0] = 1
    assert refused(run)
    run = line(limits=Limits(max_steps=1))
    run.steps = 1
    assert refused(run)
    for items in ([], [(1, None, True)], [(None, ValueError(), False)]):
        run = line()
        run.due = [Due(run.plan.nodes[0], *item) for item in items]
        assert refused(run)
    run = line()
    drive(run)
    assert refused(run)


@pytest.mark.parametrize(
    ("limits", "policies"),
    [(Limits(max_steps=1), {}), (Limits(), {"b": {"max_visits": 3}}), (Limits(), {"b": {"timeout_s": 1}})],
)
def test_the_next_task_is_left_in_what_is_due_where_it_may_not_take_it(limits: Limits, policies: Any) -> None:
    run = line(limits=limits, **policies)
    run.visits[1] = 3
    begin(run)

    assert advance(run, {"n": 1}) is None
    assert (due(run), run.steps, run.visits, run.values["n"]) == (["b"], 1, [1, 3, 0], 2)


def test_a_task_with_a_context_has_an_object_of_its_own() -> None:
    run = engine("abc", [(START, "a"), ("a", "b"), ("b", "c")], plain="b", given=GIVEN)
    run.watch(commits=True, undo=True)
    chain = StepChain(run, lambda: None)
    tasks, steps = [begin(run)], []
    for reply in ({"n": 1}, None, {"n": 1}):
        tasks.append(advance(run, reply))
        steps += chain.of(run.recorder.take(run))

    assert len({id(task) for task in tasks[:3]}) == 3
    assert [step.task_id for step in steps] == ["1.0:a", "2.0:b", "3.0:c"]


def test_parking_opens_the_superstep_whose_call_was_not_made() -> None:
    run = line()
    park(run)
    assert run.tasks == []
    begin(run)
    advance(run, {"n": 1})
    park(run)

    assert [task.id for task in run.tasks] == ["2.0:b"]
    assert run.begin()


def test_a_call_that_nobody_made_is_taken_back() -> None:
    """A cancelled run has not made the superstep that it was cancelled before."""
    run = line()
    take_back(run)
    assert due(run) == ["a"]
    begin(run)
    advance(run, {"n": 1})
    take_back(run)

    assert (due(run), run.tasks, run.steps, run.superstep, run.visits) == (["b"], [], 1, 1, [1, 0, 0])
    assert run.begin()


def test_lists_that_are_no_longer_lists_are_no_longer_measured() -> None:
    run = line()
    begin(run)
    advance(run, {"last": [1, 2]})
    assert run.sizes["last"] == 2
    advance(run, {"last": 5})
    assert "last" not in run.sizes
    assert emit_events.take(run) == []


def test_several_lists_grow_at_once() -> None:
    class Lists(TypedDict):
        one: Annotated[list[int], append]
        two: Annotated[list[int], append]

    run = engine("a", [(START, "a")], given={"one": [1]}, state=Lists)
    begin(run)
    advance(run, {"one": [2], "two": [3]})

    assert run.values == {"one": [1, 2], "two": [3]}
    assert run.sizes == {"one": 2, "two": 1}
