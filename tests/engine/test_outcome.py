"""Results of nodes: errors about values that are not updates, pauses with several questions, assigned states."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypedDict

import pydantic
import pytest

from graphrt import END, START, Command, Context, GraphBuilder, Interrupt, NodeError, Send
from graphrt._engine.engine import Engine
from graphrt._engine.open_interrupt import OpenInterrupt
from graphrt._engine.steps import StepChain
from graphrt._engine.storability import with_untracked
from graphrt._engine.task import DONE, DUE, FAILED, PAUSED, Asked, Failed
from graphrt._flows.verbs import Decision, drive
from graphrt.errors import GraphrtError, UpdateError
from graphrt.reducers import add, append, untracked

from .support import engine, never


class Model(pydantic.BaseModel):
    n: int = 0


def refused(run: Engine, reply: Any) -> UpdateError:
    (task,) = drive(run).tasks
    assert run.report(task, 1, reply)
    with pytest.raises(UpdateError) as caught:
        drive(run)
    return caught.value


class Later:
    def __await__(self) -> Any:
        yield


@pytest.mark.parametrize(
    ("reply", "what", "how"),
    [
        (Later(), "a coroutine that was never awaited", "async def"),
        (Send("a"), "an instance of Send", "goto=[Send"),
        ([Send("a")], "a list with an instance of Send", "goto=[Send"),
        ([{"n": 1}, Command(goto="a")], "a list with an instance of Command", "one Command(update=[...]"),
        ([[]], "a list with a list", "Return a mapping"),
        (7, "an int", "Return a mapping"),
        (Model(), "an instance of Model", "Return only what changes"),
    ],
    ids=["awaitable", "send", "sends", "commands", "lists", "number", "state"],
)
def test_value_that_is_not_an_update_is_refused_with_an_alternative(reply: Any, what: str, how: str) -> None:
    error = refused(engine("a", [(START, "a")], state=Model), reply)

    assert error.code == "bad-update"
    assert what in str(error)
    assert how in str(error)


def test_error_mentions_a_graph_of_whole_states() -> None:
    g: GraphBuilder[Any, Any] = GraphBuilder.overwrite(Model)
    plan = g.add_node("a", never).add_edge(START, "a").compile().__graphrt_plan__
    run = Engine(plan, plan.limits)
    run.start({"n": 1})

    assert "Return the full next state" in str(refused(run, 7))


def test_task_with_several_questions_waits_for_all_answers() -> None:
    run = engine("a", [(START, "a")], thread="t")
    (task,) = drive(run).tasks
    questions = [OpenInterrupt(f"t/1.0:a#{key}", key, "a", key) for key in ("x", "y")]
    run.report(task, 1, Asked(questions))
    assert [question.key for question in run.open_interrupts()] == ["x", "y"]
    run.answer({"t/1.0:a#x": 1})
    assert (task.status, drive(run)) == (PAUSED, Decision("interrupted"))
    run.answer({"t/1.0:a#x": 3, "t/1.0:a#y": 2})

    assert task.status == DUE
    run.report(task, task.execution, Asked(questions[:1]))
    assert len(task.more().interrupts) == 2
    assert [question.answer for question in questions] == [1, 2]


def test_interrupt_without_a_thread_fails_permanently_under_any_policy() -> None:
    run = engine("ab", [(START, "a")], a={"on_error": "b"})
    (task,) = drive(run).tasks
    run.report(task, 1, Interrupt("?"))

    assert task.status == FAILED
    assert run.failed() is task
    with pytest.raises(GraphrtError) as caught:
        drive(run)
    assert caught.value.code == "interrupt-needs-thread"


def test_base_exception_is_raised_unchanged() -> None:
    run = engine("a", [(START, "a")])
    (task,) = drive(run).tasks
    run.report(task, 1, Failed(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        drive(run)


def test_error_of_a_task_names_its_place_and_fix() -> None:
    run = engine("a", [(START, "a")], thread="t")
    run.run_id = "r"
    (task,) = drive(run).tasks
    run.report(task, 1, Failed(ValueError("bad")))

    with pytest.raises(NodeError) as caught:
        drive(run)
    assert re.search(r"graph 'test', node 'a' at .+?:\d+, task 1.0:a, thread 't', run r\n", str(caught.value))
    assert "retry('t')" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("state", [None, Model])
@pytest.mark.parametrize("beside", [False, True])
def test_a_node_that_assigned_to_its_state_is_reported_and_may_run_again(state: Any, beside: bool) -> None:
    options = {} if state is None else {"state": state}
    run = engine("ab", [(START, "a"), *([(START, "b")] if beside else [])], given={"n": 1}, check_state=True, **options)
    tasks = drive(run).tasks
    if state is None:
        tasks[0].state["n"] = 5
    else:
        tasks[0].state.n = 5
    for task in tasks:
        run.report(task, 1, None)

    with pytest.raises(UpdateError) as caught:
        drive(run)
    assert (caught.value.code, caught.value.field) == ("mutated-state", "n")
    run.retry()
    for task in drive(run).tasks:
        run.report(task, task.execution, None)
    assert (drive(run).status, run.values["n"]) == ("completed", 1)


def test_pending_lists_open_and_due_tasks() -> None:
    run = engine("ab", [(START, "a"), (START, "b"), ("b", "a")])
    a, b = drive(run).tasks
    assert run.pending() == ("a", "b")
    run.report(a, 1, None)
    assert (a.status, run.pending()) == (DONE, ("b",))
    run.report(b, 1, None)
    run.commit()

    assert run.pending() == ("a",)


def test_steps_and_diffs_have_a_readable_repr() -> None:
    run = engine("a", [(START, "a")], given={"n": 1})
    run.watch(commits=True, undo=True)
    run.begin()
    run.open_superstep()
    run.report(run.tasks[0], 1, {"n": 1, "last": 2})
    run.commit()
    (step,) = StepChain(run, lambda: None).of(run.take_committed())

    assert repr(step) == "Step(0, 'a', 'success', superstep=1)"
    assert repr(step.diff) == "Diff(added={'last': 2}, removed={}, updated={'n': 2})"
    assert step.diff == step.diff
    assert step.diff == {"added": {"last": 2}, "removed": {}, "updated": {"n": 2}}
    assert step.to_dict()["state_after"]["n"] == 2


def test_command_that_names_a_function_is_refused_with_a_hint() -> None:
    from graphrt import Command

    def other(state: Any, ctx: Context) -> None: ...

    run = engine("a", [(START, "a")])
    (task,) = drive(run).tasks
    run.report(task, 1, Command(goto=other))  # type: ignore[arg-type]
    with pytest.raises(GraphrtError, match="names a node that does not exist: the function other"):
        drive(run)


def test_a_failure_may_be_routed_to_the_end() -> None:
    run = engine("ab", [(START, "a"), ("a", "b")], a={"on_error": END})
    (task,) = drive(run).tasks
    run.report(task, 1, Failed(ValueError()))

    assert drive(run) == Decision("completed")


def test_nested_graph_continues_when_one_of_its_own_tasks_can() -> None:
    run = engine("ab", [(START, "a"), (START, "b")], thread="t")
    outer, other = drive(run).tasks
    plan = engine("a", [(START, "a")]).plan
    inner = Engine(plan, plan.limits, thread="t", path=f"{outer.id}/")
    inner.nest_in(run, run.plan.nodes[0], {}, designed=False)
    inner.start({})
    (asking,) = drive(inner).tasks
    inner.report(asking, 1, Interrupt("?"))
    run.report(outer, 1, Asked(inner.open_interrupts(), inner))
    run.report(other, 1, Interrupt("!"))
    run.answer({"t/1.1:b#returned0": 1})
    assert (outer.status, other.status) == (PAUSED, DUE)
    run.answer({"t/1.0:a/1.0:a#returned0": 2})

    assert (outer.status, asking.status) == (DUE, DUE)


class Untracked(TypedDict, total=False):
    kept: Annotated[int, add]
    cache: Annotated[list[int], append, untracked]
    gone: Annotated[int, untracked]


def test_loaded_values_have_defaults_for_untracked_fields() -> None:
    run = engine("a", [(START, "a")], given={"kept": 1, "cache": [1], "gone": 2}, state=Untracked)

    assert with_untracked(run, dict(run.values)) == {"kept": 1, "cache": []}
