"""Node objects with unusual arguments, results and links, beyond the examples of Lár's documents."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt.compat.lar import (
    AddValueNode,
    AuditLogger,
    BaseNode,
    BatchNode,
    ClearErrorNode,
    FunctionalNode,
    GraphExecutor,
    HumanJuryNode,
    LLMNode,
    ReduceNode,
    RouterNode,
    ToolNode,
    node,
)
from graphrt.errors import InputError, RouteError

from .support import asking, broken, path, run

WRONG: list[Any] = [
    lambda: AddValueNode("", 1),
    lambda: AddValueNode("a", 1, "next"),
    lambda: LLMNode("", "prompt", "key"),
    lambda: LLMNode("m", "prompt", "key", max_retries=-1),
    lambda: LLMNode("m", "prompt", "key", generation_config="hot"),
    lambda: LLMNode("m", "prompt", "key", fallbacks="m2"),
    lambda: ReduceNode("m", "prompt", [], "key"),
    lambda: RouterNode("done", {"done": AddValueNode("a", 1)}),
    lambda: RouterNode(lambda state: "done", {}),
    lambda: RouterNode(lambda state: "done", {"done": "node"}),
    lambda: RouterNode(lambda state: "done", {1: AddValueNode("a", 1)}),
    lambda: ToolNode(None, [], "key"),
    lambda: ToolNode(broken, "key", "key"),
    lambda: BatchNode("nodes"),
    lambda: BatchNode([1]),
    lambda: HumanJuryNode("ok?", [], "key"),
    lambda: FunctionalNode(None),
    lambda: ClearErrorNode("next"),
    lambda: GraphExecutor(logger="log"),
    lambda: GraphExecutor(tracker=print),
    lambda: GraphExecutor(max_node_fatigue=0),
    lambda: GraphExecutor(logger=AuditLogger(), log_dir="logs"),
    lambda: GraphExecutor().run("node", {}),
    lambda: GraphExecutor().run(AddValueNode("a", 1), [1]),
    lambda: GraphExecutor().run(AddValueNode("a", 1), {1: 2}),
    lambda: GraphExecutor().run(AddValueNode("a", 1), {}, max_steps=0),
    lambda: GraphExecutor().resume("approve"),
    lambda: GraphExecutor().resume("approve", run_id="r", start_node=AddValueNode("a", 1)),
    lambda: GraphExecutor(logger=AuditLogger(), document=True),
    lambda: GraphExecutor(versioner=1),
    lambda: AuditLogger(pii_redactor=1),
    lambda: ToolNode(broken, [], None, credential_vault=1),
    lambda: ToolNode(broken, [], None, transparency_engine=1),
    lambda: HumanJuryNode("ok?", ["yes"], "key", authority_ledger=1),
]


@pytest.mark.parametrize("make", WRONG, ids=range(len(WRONG)))
def test_invalid_argument_is_refused_where_it_is_passed(make: Any) -> None:
    with pytest.raises(InputError) as caught:
        make()

    assert caught.value.code == "input"


@pytest.mark.parametrize("template", ["{user.name}", "{0}", "{x!r}", "{t.__class__.__mro__}"])
def test_template_that_accesses_attributes_is_refused_when_it_is_built(template: str) -> None:
    with pytest.raises(InputError) as caught:
        LLMNode("m", template, "key")

    assert caught.value.code == "template-field"


@pytest.mark.parametrize("budget", ["many", 1.5, [1]])
def test_budget_that_is_not_a_number_is_refused_before_a_node_runs(budget: Any) -> None:
    ran: list[int] = []

    with pytest.raises(InputError):
        GraphExecutor().run_step_by_step(FunctionalNode(lambda state: ran.append(1)), {"token_budget": budget})
    assert ran == []


# -- links -----------------------------------------------------------------------------------------------------------


def test_branch_that_leads_back_to_its_batch_is_refused() -> None:
    batch = BatchNode([])
    batch.nodes.append(AddValueNode("a", 1, RouterNode(lambda state: "back", {"back": batch})))

    with pytest.raises(InputError, match="leads back"):
        GraphExecutor().run(batch, {})


def test_batches_that_lead_to_each_other_are_refused() -> None:
    one, two = BatchNode([]), BatchNode([])
    one.nodes.append(two)
    two.nodes.append(asking("a", "b", one))

    with pytest.raises(InputError, match="leads back"):
        GraphExecutor().run(one, {"token_budget": 10})


def test_branch_ends_where_the_batch_continues() -> None:
    ran: list[str] = []
    join = FunctionalNode(lambda state: ran.append("join"))
    batch = BatchNode([AddValueNode("a", 1, join), AddValueNode("b", 2, join)], join)

    assert path(run(batch)) == [("BatchNode", "success"), ("FunctionalNode", "success")]
    assert ran == ["join"]


def test_nested_batch_keeps_the_writes_of_all_branches() -> None:
    inner = BatchNode([AddValueNode("b", 2), AddValueNode("c", 3)], AddValueNode("d", 4))

    assert run(BatchNode([AddValueNode("a", 1), inner])).state == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_empty_batch_continues() -> None:
    assert run(BatchNode([], AddValueNode("after", True))).state == {"after": True}


def test_batch_with_an_error_node_routes_there() -> None:
    batch = BatchNode(
        [AddValueNode("fine", 1), ToolNode(broken, [], "x")],
        AddValueNode("after", True),
        error_node=AddValueNode("told", "{last_error}"),
    )

    outcome = run(batch)

    assert path(outcome) == [("BatchNode", "error"), ("AddValueNode", "success")]
    assert outcome.outcome == "success"
    assert outcome.state["told"] == "1 of 2 branches failed: ToolNode of branch 1: no route to host."
    assert "fine" not in outcome.state


def test_two_branches_may_write_an_equal_value_but_not_write_and_delete_one() -> None:
    assert run(BatchNode([AddValueNode("a", [1]), AddValueNode("a", [1])])).state == {"a": [1]}

    gone = FunctionalNode(lambda state: state.delete("a"))
    outcome = run(BatchNode([AddValueNode("a", 2), gone]), {"a": 1})

    assert outcome.records[0]["outcome"] == "error"
    assert "nothing (it deleted the key)" in outcome.records[0]["error"]


class Countdown(BaseNode):
    """A node class of a program."""

    def __init__(self, done: Any) -> None:
        self.done = done
        self.again: Any = None

    def execute(self, state: Any) -> Any:
        state.set("left", state.get("left") - 1)
        return self.done if state.get("left") == 0 else self.again


def test_custom_class_chooses_the_next_node() -> None:
    countdown = Countdown(AddValueNode("done", True))
    countdown.again = AddValueNode("beat", 1, countdown)

    outcome = run(countdown, {"left": 2})

    assert [node for node, _ in path(outcome)] == ["Countdown", "AddValueNode", "Countdown", "AddValueNode"]
    assert outcome.state == {"left": 0, "beat": 1, "done": True}


def test_custom_class_cannot_return_a_node_that_is_not_one_of_its_own() -> None:
    class Lost(BaseNode):
        def execute(self, state: Any) -> Any:
            return AddValueNode("a", 1)

    with pytest.raises(RouteError) as caught:
        run(Lost()).raise_for_error()
    assert caught.value.code == "no-path"


def test_router_without_a_path_fails_and_one_with_a_default_does_not() -> None:
    paths = {"a": AddValueNode("went", "a")}

    with pytest.raises(RouteError):
        run(RouterNode(lambda state: "b", paths)).raise_for_error()
    for decision in ("b", None, ["unhashable"], "any other"):
        router = RouterNode(lambda state, said=decision: said, paths, default_node=AddValueNode("went", "default"))
        outcome = run(router)
        assert outcome.state == {"went": "default", "_router_decision": decision}
        assert outcome.records[0]["decision"] == decision


def test_choice_of_a_router_is_in_the_state() -> None:
    deeper = RouterNode(lambda state: "b", {"b": None})
    start = RouterNode(lambda state: "a", {"a": AddValueNode("x", "{_router_decision}", deeper)})

    records = run(start).records

    assert [record["state_after"]["_router_decision"] for record in records] == ["a", "a", "b"]
    assert records[0]["state_diff"]["added"] == {"_router_decision": "a"}
    assert run(BatchNode([start, deeper])).state == {"x": "a", "_router_decision": "b"}


# -- functions -------------------------------------------------------------------------------------------------------


def test_decorator_works_with_and_without_arguments() -> None:
    @node
    def merge(state: Any) -> dict[str, int]:
        return {"a": 1, "b": 2}

    @node(output_key="c", next_node=merge)
    async def first(state: Any) -> int:
        return 3

    assert run(first).state == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    "start", [FunctionalNode(lambda state: 7), ToolNode(lambda: "text", [], None)], ids=["function", "tool"]
)
def test_result_without_a_key_is_an_error(start: Any) -> None:
    outcome = run(start)

    assert outcome.records[0]["outcome"] == "error"
    assert "no key takes it" in outcome.records[0]["error"]


def test_writes_of_a_tool_before_its_failure_are_dropped() -> None:
    def work(state: Any) -> None:
        state.set("half", True)
        raise ValueError("no")

    async def work_async(state: Any) -> None:
        work(state)

    for fn in (work, work_async):
        outcome = run(ToolNode(fn, ["__state__"], None, None, error_node=ClearErrorNode()))
        assert outcome.state == {"last_error": None}


def test_clearing_a_missing_error_changes_nothing() -> None:
    assert run(ClearErrorNode(AddValueNode("a", 1))).state == {"a": 1}


def test_graph_of_node_objects_can_be_drawn() -> None:
    router = RouterNode(lambda state: "a", {"a": AddValueNode("x", 1), "any other": AddValueNode("x", 2)})
    router.default_node = router.path_map["a"]
    graph = GraphExecutor().to_graph(AddValueNode("start", True, router))

    assert list(graph.nodes) == ["AddValueNode", "RouterNode", "AddValueNode_2", "AddValueNode_3"]
    assert graph.route("RouterNode", {"values": {}, "note": {"decision": "other"}}) == ("AddValueNode_2",)


def test_value_that_copies_a_missing_key_is_an_error() -> None:
    assert run(AddValueNode("a", "{b}")).records[0]["outcome"] == "error"
    assert run(AddValueNode("a", "{b}"), {"b": [1]}).state == {"a": [1], "b": [1]}
    assert run(AddValueNode("a", "{}")).state == {"a": "{}"}


def test_unstorable_values_are_unchanged() -> None:
    thing = object()

    assert run(AddValueNode("copy", "{thing}"), {"thing": thing}).state == {"thing": thing, "copy": thing}
