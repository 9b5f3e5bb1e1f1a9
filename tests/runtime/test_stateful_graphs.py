"""`stateful="field"`: a nested graph keeps its state from task to task, in a field of its parent (R17)."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import (
    END,
    START,
    ConcurrentUpdateError,
    Context,
    DefinitionError,
    Erased,
    GraphBuilder,
    Overwrite,
    Runtime,
    Send,
)
from graphrt.errors import NodeError
from graphrt.reducers import add, append, ephemeral, untracked
from graphrt.specs import GraphSpec
from graphrt.stores import MemoryStore

from .support import Face


class Chat(BaseModel):
    """The nested state: `question` is shared, `said` and `turns` are its own."""

    question: str = ""
    said: Annotated[list[str], append] = []
    turns: Annotated[int, add] = 0
    flash: Annotated[str, ephemeral] = ""
    secret: Annotated[str, untracked] = "default"


class Desk(BaseModel):
    question: str = ""
    answer: str = ""
    chat: Chat | None = None


def chat() -> GraphBuilder[Any, Any]:
    g = GraphBuilder(Chat, name="chat")

    @g.node
    def reply(state: Chat) -> dict[str, Any]:
        seen = f"{state.question}{state.flash}{state.secret}"
        return {"said": [seen], "turns": 1, "flash": "!", "secret": "changed"}

    return g.add_edge(START, reply)


def desk(inner: Any = None, **policy: Any) -> Any:
    g = GraphBuilder(Desk, name="desk")
    g.add_node("chat", chat().compile() if inner is None else inner, stateful="chat", **policy)
    return g.add_edge(START, "chat")


def test_later_tasks_start_with_the_last_state_and_the_shared_fields_of_the_parent(face: Face) -> None:
    with Runtime(desk().compile(), store="memory:") as runtime:
        face.run(runtime, {"question": "a"}, thread="t")
        state = face.run(runtime, {"question": "b"}, thread="t").state

    assert (state.chat.said, state.chat.turns, state.chat.question) == (["adefault", "bdefault"], 2, "b")
    assert (state.chat.flash, state.chat.secret) == ("", "default")


def test_state_is_also_kept_within_one_run(face: Face) -> None:
    g = desk()
    g.add_conditional_edges("chat", lambda state: "chat" if state.chat.turns < 3 else END, ["chat", END])

    assert face.run(g.compile(), {"question": "a"}).state.chat.turns == 3


def test_result_of_an_input_function_folds_as_an_update(face: Face) -> None:
    graph = desk(input=lambda state: {"said": [f"user: {state.question}"]}).compile()
    with Runtime(graph, store="memory:") as runtime:
        face.run(runtime, {"question": "a"}, thread="t")
        state = face.run(runtime, {"question": "b"}, thread="t").state

    assert state.chat.said == ["user: a", "default", "user: b", "default"]


def test_input_function_may_overwrite(face: Face) -> None:
    graph = desk(input=lambda state: {"said": [] if state.chat is None else Overwrite([]), "turns": 10}).compile()
    with Runtime(graph, store="memory:") as runtime:
        face.run(runtime, {"question": "a"}, thread="t")

        assert face.run(runtime, {"question": "b"}, thread="t").state.chat.said == ["default"]
        assert runtime.state("t").values.chat.turns == 10 + 1 + 10 + 1


def test_argument_of_a_send_folds_as_an_update(face: Face) -> None:
    g = GraphBuilder(Desk, name="desk").add_node("chat", chat().compile(), stateful="chat")
    g.set_conditional_entry(lambda state: [Send("chat", {"question": "sent", "turns": 5})], ["chat"])
    with Runtime(g.compile(), store="memory:") as runtime:
        face.run(runtime, {"question": "a"}, thread="t")
        state = face.run(runtime, {"question": "b"}, thread="t").state

    assert (state.chat.said, state.chat.turns) == (["sentdefault", "sentdefault"], 5 + 1 + 5 + 1)


def test_typed_dict_state_folds_updates_of_shared_fields(face: Face) -> None:
    class Inner(TypedDict, total=False):
        notes: Annotated[list[str], append]
        mine: Annotated[list[int], append]

    class Outer(TypedDict, total=False):
        notes: Annotated[list[str], append]
        memory: Inner

    inner = GraphBuilder(Inner, name="inner")
    inner.add_node("a", lambda state: {"notes": ["n"], "mine": [len(state.get("mine", []))]}).add_edge(START, "a")
    g = GraphBuilder(Outer, name="outer").add_node("inner", inner.compile(), stateful="memory", writes=["notes"])
    with Runtime(g.add_edge(START, "inner").compile(), store="memory:") as runtime:
        face.run(runtime, {"notes": ["first"]}, thread="t")
        state = face.run(runtime, {"notes": ["second"]}, thread="t").state

    assert state["notes"] == ["first", "n", "second", "n"]
    assert state["memory"] == {"notes": ["first", "n", "second", "n"], "mine": [0, 1]}


def test_failed_or_paused_task_keeps_no_state_until_it_ends(face: Face) -> None:
    inner = chat()

    @inner.node
    def ask(state: Chat, ctx: Context) -> dict[str, Any]:
        return {"said": [ctx.interrupt(state.turns)]}

    inner.add_edge("reply", ask)
    store = MemoryStore()
    graph = desk(inner.compile()).compile()
    with Runtime(graph, store=store) as runtime:
        face.run(runtime, {"question": "a"}, thread="t")
        face.resume(runtime, "t", "yes")
        paused = face.run(runtime, {"question": "b"}, thread="t")
        assert [question.payload for question in paused.interrupts] == [2]
        assert runtime.state("t").values.chat.said == ["adefault", "yes"]
    with Runtime(graph, store=store) as runtime:
        state = face.resume(runtime, "t", "no").state

    assert state.chat.said == ["adefault", "yes", "bdefault", "no"]


def test_two_tasks_of_a_superstep_conflict(face: Face) -> None:
    g = GraphBuilder(Desk, name="desk").add_node("chat", chat().compile(), stateful="chat")
    g.set_conditional_entry(lambda state: [Send("chat", {}), Send("chat", {})], ["chat"])

    with pytest.raises(ConcurrentUpdateError, match=r"(?s)each continued the state .*leave out stateful="):
        face.run(g.compile(), {})


def test_history_forks_edits_provenance_prunes_and_replays_include_the_state(face: Face) -> None:
    graph, store = desk().compile(), MemoryStore()
    with Runtime(graph, store=store) as runtime:
        for question in "abc":
            face.run(runtime, {"question": question}, thread="t")
        turns = [snapshot.values.chat.turns for snapshot in runtime.history("t") if snapshot.values.chat is not None]
        assert sorted(set(turns)) == [1, 2, 3]
        known = [snapshot for snapshot in runtime.history("t") if snapshot.values.chat is not None]
        fork = runtime.fork("t", at=known[-1].seq)
        assert runtime.state(fork).values.chat.turns == 1
        assert face.run(runtime, {"question": "x"}, thread=fork).state.chat.said == ["adefault", "xdefault"]
        assert runtime.why("t", "chat").writes[-1].node == "chat"
        runtime.update("t", {"chat": Chat(said=["edited"])})
        runtime.prune("t")
    with Runtime(graph, store=store) as runtime:
        assert face.run(runtime, {"question": "d"}, thread="t").state.chat.said == ["edited", "ddefault"]
        runtime.replay("t")
        assert runtime.reexecute(fork).same


class Forgetful(BaseModel):
    question: str = ""
    chat: Chat | Erased | None = None


def test_erased_state_starts_over(face: Face) -> None:
    g = GraphBuilder(Forgetful, name="desk").add_node("chat", chat().compile(), stateful="chat")
    with Runtime(g.add_edge(START, "chat").compile(), store="memory:") as runtime:
        face.run(runtime, {"question": "a"}, thread="t")
        runtime.erase(("t", "chat"))

        assert face.run(runtime, {"question": "b"}, thread="t").state.chat.said == ["bdefault"]


def test_failed_nested_graph_leaves_the_state_unchanged(face: Face) -> None:
    inner = chat()

    @inner.node
    def fails(state: Chat) -> None:
        if state.question == "bad":
            raise ValueError("bad")

    inner.add_edge("reply", fails)
    with Runtime(desk(inner.compile()).compile(), store="memory:") as runtime:
        face.run(runtime, {"question": "a"}, thread="t")
        with pytest.raises(NodeError):
            face.run(runtime, {"question": "bad"}, thread="t")

        assert runtime.state("t").values.chat.turns == 1


class Counted(BaseModel):
    chat: Annotated[list[str], append] = []
    number: int = 0
    gone: Annotated[Chat | None, ephemeral] = None


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("nothing", "is not a field of the state"),
        ("chat", "has the reducer 'append'"),
        ("gone", "is ephemeral"),
        ("number", "the type Chat | None, not int"),
        (3, "is not a field"),
    ],
)
def test_field_that_cannot_hold_the_state_is_refused_by_compile(field: Any, problem: str) -> None:
    g = GraphBuilder(Counted, name="wrong").add_node("chat", chat().compile(), stateful=field).add_edge(START, "chat")

    with pytest.raises(DefinitionError, match=problem):
        g.compile()


def test_function_cannot_be_stateful() -> None:
    g: Any = GraphBuilder(Desk, name="wrong")
    g.add_node("a", lambda state: None, stateful="chat").add_edge(START, "a")

    with pytest.raises(DefinitionError, match="stateful= is for nested graphs"):
        g.compile()


def test_stateful_is_part_of_the_fingerprint_and_the_manifest() -> None:
    graph = desk().compile()
    plain = GraphBuilder(Desk, name="desk").add_node("chat", chat().compile()).add_edge(START, "chat").compile()

    assert graph.fingerprint != plain.fingerprint
    assert graph.topology()["nodes"][0]["stateful"] == "chat"
    again = GraphSpec.model_validate_json(graph.to_spec().model_dump_json(exclude_unset=True))
    assert again.nodes[0].policy.stateful == "chat"
