"""`-> Command[Literal["b"]]`, the notation of other libraries for targets, is a finding that names ours."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, DefinitionError, GraphBuilder


class State(BaseModel):
    n: int = 0


def to_b(state: State) -> Command[Literal["b"]]:
    return Command(goto="b")


def to_two(state: State) -> Command[Literal["b", "c"]] | None:
    return Command(goto="b")


def compiled(fn: Any, **policy: Any) -> Any:
    g: Any = GraphBuilder(State, name="g")
    g.add_node("a", fn, **policy).add_node("b", lambda state: None).add_node("c", lambda state: None)
    return g.add_edge(START, "a").add_edge("b", END).add_edge("c", END).compile(allow=["unreachable-node"])


@pytest.mark.parametrize(("fn", "text"), [(to_b, "'b'"), (to_two, "'b', 'c'")])
def test_targets_in_the_type_are_a_finding(fn: Any, text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        compiled(fn)

    [problem] = caught.value.problems
    assert (problem.code, problem.message, problem.hint) == (
        "bad-signature",
        (
            f"Node 'a' is annotated as Command[Literal[{text}]], but the parameter of a Command is the update, not "
            "its targets."
        ),
        f"Declare the targets where the node is added: goto=[{text}]; and annotate it as Command.",
    )


def test_updates_in_the_type_are_unaffected() -> None:
    def plain(state: State) -> Command[dict[str, int]]:
        return Command(goto="b")

    def bare(state: State) -> Command:
        return Command(goto="b")

    for fn in (plain, bare):
        assert compiled(fn, goto=["b", "c"]).run({}).status == "completed"
