"""`execute` of node objects: of subclasses in a run, and of ready-made nodes in a unit test."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import Budget
from graphrt.compat.lar import (
    AdaptiveNode,
    AddValueNode,
    BaseNode,
    BatchNode,
    ClearErrorNode,
    FunctionalNode,
    GraphExecutor,
    GraphState,
    HumanJuryNode,
    LLMNode,
    ReduceNode,
    RouterNode,
    TokenTracker,
    ToolNode,
    TopologyValidator,
)
from graphrt.errors import NodeError, RouteError

from .support import asking, broken, echo, model, path, run


async def later(value: str) -> str:
    return value


@pytest.mark.parametrize(
    ("node", "written"),
    [
        (AddValueNode("a", 1), {"a": 1}),
        (AddValueNode("a", "{t}"), {"a": "tea"}),
        (ToolNode(str.upper, ["t"], "a"), {"a": "TEA"}),
        (ToolNode(later, ["t"], "a"), {"a": "tea"}),
        (ToolNode(lambda state: {"a": len(state)}, ["__state__"], None), {"a": 1}),
        (FunctionalNode(lambda state: state["t"] + "!", "a"), {"a": "tea!"}),
        (BatchNode([AddValueNode("a", 1), AddValueNode("b", 2)]), {"a": 1, "b": 2}),
        (RouterNode(lambda state: state["t"], {"tea": AddValueNode("a", 1)}), {"_router_decision": "tea"}),
        (ClearErrorNode(), {}),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, BaseNode) else "",
)
def test_ready_made_node_accepts_a_state_of_a_unit_test(node: BaseNode, written: dict[str, Any]) -> None:
    state = GraphState({"t": "tea"})

    node.execute(state)

    assert state.get_all() == {"t": "tea", **written}


def test_person_is_asked_with_input_outside_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda question: " NO ")
    after, state = AddValueNode("a", 1), GraphState()

    assert HumanJuryNode("ok?", ["yes", "no"], "verdict", next_node=after).execute(state) is after
    assert state["verdict"] == "no"


@pytest.mark.parametrize("node_class", [LLMNode, AdaptiveNode])
def test_node_that_calls_a_model_calls_it_in_a_separate_run(
    node_class: type[BaseNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    design = '{"nodes": [{"id": "a", "type": "LLMNode", "prompt": "hello", "output_key": "x"}], "entry_point": "a"}'
    real = model(lambda request: "TEXT" if request.messages[-1].text == "hello" else design, prompt_tokens=5)
    monkeypatch.setattr("graphrt.compat.lar._models.LiteLLMModel", lambda name: real)
    state = GraphState({"token_budget": 100})
    node: Any = asking("hello", "x") if node_class is LLMNode else AdaptiveNode("m", "Plan it.", TopologyValidator())

    node.execute(state)

    assert state.get_all() == {"token_budget": 100 - 6 * len(real.calls), "x": "TEXT"}


def test_errors_lead_to_the_error_node_or_are_raised() -> None:
    state, handler = GraphState({"list": [1]}), AddValueNode("handled", True)

    def work(given: GraphState) -> None:
        given["list"].append(2)
        raise ValueError("no")

    assert ToolNode(work, ["__state__"], None, error_node=handler).execute(state) is handler
    assert state.get_all() == {"list": [1], "last_error": "no"}
    assert BatchNode([ToolNode(broken, [], None)], error_node=handler).execute(state) is handler
    with pytest.raises(ValueError, match="no route to host"):
        ToolNode(broken, [], None).execute(state)
    with pytest.raises(NodeError):
        AddValueNode("a", "{missing}").execute(state)
    with pytest.raises(RouteError):
        RouterNode(lambda given: "a", {"b": handler}).execute(state)


# -- subclasses ------------------------------------------------------------------------------------------------------


def subclass(base: type[BaseNode], *arguments: Any) -> BaseNode:
    """An object of a subclass whose own `execute` marks the state, calls that of *base*, and goes to `held`."""

    class Own(base):  # type: ignore[misc, valid-type]  # the base is an argument
        def execute(self, state: GraphState) -> BaseNode | None:
            state.set("own", True)
            super().execute(state)
            after: BaseNode = self.held
            return after

    own: Any = Own(*arguments)
    own.held = AddValueNode("held", True)
    return own


SUBCLASSES: list[tuple[Any, ...]] = [
    (AddValueNode, "a", 1),
    (LLMNode, "m", "hello", "a"),
    (ReduceNode, "m", "hello {t}", ["t"], "a"),
    (RouterNode, lambda state: "a", {"a": AddValueNode("a", 1)}),
    (ToolNode, later, ["t"], "a"),
    (ClearErrorNode,),
    (BatchNode, [AddValueNode("a", 1), asking("hello", "b")]),
    (FunctionalNode, lambda state: {"a": 1}),
    (HumanJuryNode, "ok?", ["yes"], "a"),
]


@pytest.mark.parametrize("made", SUBCLASSES, ids=[made[0].__name__ for made in SUBCLASSES])
def test_execute_of_a_subclass_runs(made: tuple[Any, ...]) -> None:
    outcome = run(subclass(*made), {"t": "tea"}, model=echo(), ask=lambda question: "yes")

    assert path(outcome) == [("Own", "success"), ("AddValueNode", "success")]
    assert outcome.state["own"] is outcome.state["held"] is True
    assert made[0] in (ClearErrorNode, RouterNode) or "a" in outcome.state
    assert ("t" in outcome.state) is (made[0] is not ReduceNode)


def test_model_calls_of_a_subclass_count_in_the_run() -> None:
    """A call made by `super().execute(state)` belongs to the run: its tokens, its budget, its prompt."""
    tracker = TokenTracker()
    asks = model(prompt_tokens=10, output_tokens=1)
    start = subclass(LLMNode, "m", "hello", "a")

    outcome = run(start, {"token_budget": 100}, model=asks, tracker=tracker)

    assert outcome.state["token_budget"] == 89
    assert outcome.records[0]["prompt"] == "hello"
    assert outcome.records[0]["run_metadata"]["total_tokens"] == tracker.total_tokens == 11
    assert run(start, {"token_budget": 5}, model=asks).records[-1]["error_type"] == "BudgetExceededError"


def test_model_calls_of_a_batch_of_a_subclass_count_in_the_run() -> None:
    tracker = TokenTracker()
    start = subclass(BatchNode, [asking("a", "a"), asking("b", "b")])

    outcome = run(start, {"token_budget": 100}, model=model(prompt_tokens=10), tracker=tracker)

    assert outcome.state["token_budget"] == 100 - 2 * 11
    assert tracker.total_tokens == 2 * 11


def test_batch_of_a_subclass_respects_the_budgets_of_the_run() -> None:
    asks = model(prompt_tokens=10)
    again = subclass(BatchNode, [asking("c", "c"), asking("d", "d")])
    start: Any = subclass(BatchNode, [asking("a", "a"), asking("b", "b")])
    start.held = again

    outcome = run(start, model=asks, budget=Budget(calls=3))

    assert len(asks.calls) == 2 + 1
    assert outcome.outcome == "error"


def test_class_may_call_execute_of_its_inner_node() -> None:
    class Timed(BaseNode):
        def __init__(self, inner: BaseNode) -> None:
            self.inner = inner

        def execute(self, state: GraphState) -> BaseNode | None:
            state.set("timed", state.get("timed", 0) + 1)
            return self.inner.execute(state)

    start = Timed(Timed(asking("hello", "said", AddValueNode("done", True))))

    outcome = run(start, model=echo())

    assert path(outcome) == [("Timed", "success"), ("AddValueNode", "success")]
    assert outcome.state == {"timed": 2, "said": "HELLO", "done": True}


def test_class_that_asks_a_person_pauses_and_continues() -> None:
    start = subclass(HumanJuryNode, "ok?", ["yes", "no"], "verdict")
    executor = GraphExecutor()

    assert executor.run(start, {}).outcome == "interrupted"
    assert executor.resume("no").state == {"own": True, "verdict": "no", "held": True}
