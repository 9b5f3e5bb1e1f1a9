"""The text for a person: one block per message, the argument of a Send, the line of the user's code, few frames."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import graphrt
from graphrt import (
    END,
    START,
    Command,
    Context,
    GraphBuilder,
    LimitError,
    NodeError,
    RouteError,
    Runtime,
    Send,
    UpdateError,
)
from graphrt.errors import (
    AgentLimitError,
    InputError,
    RateLimitError,
    a,
    brief,
    count,
    describe_error,
)
from graphrt.harness import Agent, AgentLimits, ScriptedModel, ToolCall, tool
from graphrt.reducers import append, untracked

VERBS = pytest.mark.parametrize("asynchronous", [False, True])


class State(BaseModel):
    text: str = ""
    notes: Annotated[list[str], append] = []


def graph(node: Callable[..., Any], **policy: Any) -> GraphBuilder[State, Any]:
    return GraphBuilder(State, name="g").add_node("n", node, **policy).add_edge(START, "n")


def fan(node: Callable[..., Any], *arguments: Any) -> GraphBuilder[State, Any]:
    g = GraphBuilder(State, name="g").add_node("n", node)
    return g.set_conditional_entry(lambda state: [Send("n", argument) for argument in arguments], ["n"])


def failed(builder: GraphBuilder[State, Any], kind: type[BaseException] = NodeError, **options: Any) -> Any:
    with pytest.raises(kind) as caught:
        builder.compile().run({}, **options)
    return caught.value


def raising(error: Exception, *, asynchronous: bool = False) -> Callable[..., Any]:
    def node(state: State, ctx: Context) -> None:
        raise error

    async def anode(state: State, ctx: Context) -> None:
        raise error

    return anode if asynchronous else node


def test_nested_graphrt_error_has_no_separate_block() -> None:
    inner = RateLimitError("The model is busy.", where="model 'm'", known="3 tries", fix="Wait a while.")

    error = failed(graph(raising(inner)))

    assert error.what == "Node 'n' failed: RateLimitError: The model is busy."
    assert (error.known, error.fix) == ("3 tries", "Wait a while.")
    text = str(error)
    assert [text.count(label) for label in ("Where:", "Known:", "Fix:", "See:")] == [1, 1, 1, 1]


@VERBS
def test_error_of_a_node_names_the_sections_of_its_inner_errors(asynchronous: bool) -> None:
    inner = failed(graph(raising(RateLimitError("The model is busy."), asynchronous=asynchronous)))

    error = failed(graph(raising(inner)))

    assert (inner.inner_codes, error.inner_codes) == (("rate-limit",), ("node-failed", "rate-limit"))
    for one in (inner, error, pickle.loads(pickle.dumps(error))):
        assert str(one).splitlines()[-1] == "  See: python -m graphrt.errors node-failed rate-limit"
    assert str(failed(graph(raising(ValueError("no"))))).endswith("\n  See: python -m graphrt.errors node-failed")


def test_multiline_text_stays_inside_the_first_part() -> None:
    error = failed(graph(raising(ValueError("first\nsecond"))))

    lines = str(error).splitlines()
    assert lines[:2] == ["Node 'n' failed: ValueError: first", "    second"]
    assert lines[2].startswith("  Where: ")


def test_routers_reducers_and_tools_quote_an_error_in_one_line() -> None:
    inner = InputError("It is wrong.", fix="Repair it.")

    def router(state: State) -> str:
        raise inner

    error = failed(graph(lambda state: None).add_conditional_edges("n", router, [END]), RouteError)

    assert error.what == "Router router() after node 'n' raised InputError: It is wrong."
    assert describe_error(inner) == "InputError: It is wrong."


@VERBS
def test_exception_of_a_node_has_a_note_with_its_place_and_argument(asynchronous: bool) -> None:
    error = failed(fan(raising(ValueError("no"), asynchronous=asynchronous), {"page": 3}))

    (note,) = error.__cause__.__notes__
    assert note == f"In node 'n' at {error.declared_at}, task 1.0:n, argument {{'page': 3}}"
    assert "argument {'page': 3}" in error.where
    assert error.arg == {"page": 3}


def test_error_that_is_raised_again_by_the_next_attempt_has_one_note() -> None:
    same = ConnectionError("gone")

    error = failed(graph(raising(same), retry=3), sleep=lambda seconds: None)

    assert len(error.__cause__.__notes__) == 1


@pytest.mark.parametrize("kind", [UpdateError, RouteError])
def test_invalid_outcome_of_a_send_names_its_argument(kind: type[Any]) -> None:
    error = failed(fan(lambda s, ctx: {"txet": 1} if kind is UpdateError else Command(goto="x"), "page-3"), kind)

    assert error.arg == "page-3"
    assert "argument 'page-3'" in error.where


def test_long_argument_is_truncated() -> None:
    error = failed(fan(raising(ValueError("no")), "x" * 10_000))

    assert len(error.where) < 400
    assert error.arg == "x" * 10_000


def later() -> None: ...


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("a\nb", r"'a\nb'"),
        (Broken(), "<Broken instance>"),
        ([later], "[<function later>]"),
        ({"a": [1] * 99}, "{'a': [1, 1, 1, 1, 1, 1, ...]}"),
    ],
    ids=["number", "lines", "broken", "function", "long"],
)
def test_value_is_quoted_in_one_short_line(value: Any, text: str) -> None:
    assert brief(value).startswith(text)
    assert "\n" not in brief(value)
    assert len(brief(value)) <= 200


def test_argument_that_reveals_an_untracked_field_is_not_reported() -> None:
    class Secret(BaseModel):
        key: Annotated[str, untracked] = ""

    g = GraphBuilder(Secret).add_node("n", raising(ValueError("no")))
    g.set_conditional_entry(lambda state: [Send("n", {"key": state.key})], ["n"])
    with pytest.raises(NodeError) as caught:
        g.compile().run({"key": "hunter2"})

    assert caught.value.arg is None
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__.__notes__}"


@VERBS
def test_a_traceback_shows_the_node_and_few_frames_of_graphrt(asynchronous: bool) -> None:
    error = failed(graph(raising(ValueError("no"), asynchronous=asynchronous)))

    cause = traceback.extract_tb(error.__cause__.__traceback__)
    assert [frame.name for frame in cause] == ["anode" if asynchronous else "node"]
    package = str(Path(graphrt.__file__).parent)
    ours = [frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(package)]
    assert len(ours) <= 2


def test_traceback_of_an_agent_error_in_a_node_has_no_frames_of_graphrt() -> None:
    async def node(state: State, ctx: Context) -> Any:
        return {"text": (await ctx.bind(Agent(ScriptedModel([]))).run("x")).text}

    error = failed(graph(node))

    assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)] == ["node"]


def test_traceback_of_an_error_that_is_raised_unchanged_keeps_the_line_of_the_node() -> None:
    def node(state: State, ctx: Context) -> Any:
        return {"text": ctx.harness}

    error = failed(graph(node), InputError)

    assert "node" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_no_message_refers_to_the_cause_below() -> None:
    assert "below" not in str(failed(graph(raising(ValueError("no")))))


@VERBS
@pytest.mark.parametrize("use", [lambda deps: deps["key"], lambda deps: deps.key], ids=["item", "attribute"])
def test_missing_deps_are_named_where_the_node_uses_them(use: Any, asynchronous: bool) -> None:
    def node(state: State, ctx: Context) -> Any:
        return {"text": use(ctx.deps)}

    async def anode(state: State, ctx: Context) -> Any:
        return node(state, ctx)

    error = failed(graph(anode if asynchronous else node))

    assert error.fix == (
        "Pass deps= to the run or the Runtime: the node used ctx.deps, which is None because none were passed."
    )


def test_other_none_values_are_not_reported_as_missing_deps() -> None:
    def node(state: State, ctx: Context) -> Any:
        return {"text": {}.get("key").upper()}

    assert "deps" not in failed(graph(node)).fix
    assert "deps" not in failed(graph(lambda s, ctx: {"text": ctx.deps.text + None}), deps=State()).fix


def test_missing_route_names_the_line_of_its_conditional_edge() -> None:
    g = graph(lambda state: None)
    g.add_conditional_edges("n", lambda state: "z", {"x": END})

    error = failed(g, RouteError)

    line = test_missing_route_names_the_line_of_its_conditional_edge.__code__.co_firstlineno + 2
    assert error.declared_at == f"test_messages.py:{line}"
    assert f"node 'n' at test_messages.py:{line}" in error.where


@pytest.mark.parametrize("name", ["END", "__end__"])
def test_goto_with_the_name_of_end_names_the_object(name: str) -> None:
    error = failed(graph(lambda state: Command(goto=name)), RouteError)

    assert error.fix == f"Pass END itself (from graphrt import END), not {name!r}."


def test_wrong_type_names_the_valid_return_values() -> None:
    error = failed(graph(lambda state: {"notes": "abc"}), UpdateError)

    assert error.fix == "Return 'notes' as list[str], for one item as a list of one: {'notes': [...]}."
    assert failed(graph(lambda state: {"text": 5}), UpdateError).fix == "Return 'text' as str."


def test_missing_answer_names_the_way_to_answer() -> None:
    g = graph(lambda s, ctx: {"text": ctx.interrupt("a?")})
    with Runtime(g.compile(), store="memory:") as runtime:
        (asked,) = runtime.run({}, thread="t").interrupts
        with pytest.raises(InputError) as caught:
            runtime.resume("t")

    assert caught.value.fix == f"Write resume(thread, answer=...), or by id: resume(thread, {{{asked.id!r}: ...}})."


def looping_agent() -> Agent[Any]:
    @tool
    def note(x: int) -> str:
        """Note x."""
        return "noted"

    calls = [ToolCall(id=str(n), name="note", arguments={"x": n}) for n in range(3)]
    return Agent(ScriptedModel(calls), tools=[note], limits=AgentLimits(model_calls=1))


def test_every_limit_is_caught_by_one_class() -> None:
    async def asks(state: State, ctx: Context) -> Any:
        return {"text": (await looping_agent().run("go")).text}

    error = failed(graph(asks), LimitError)

    assert isinstance(error, AgentLimitError)
    assert (error.graph, error.node, error.task_id) == ("g", "n", "1.0:n")


@pytest.mark.parametrize(
    ("noun", "text"), [("int", "an int"), ("State", "a State"), ("UUID", "a UUID"), ("object", "an object")]
)
def test_article_matches_the_noun(noun: str, text: str) -> None:
    assert a(noun) == text


@pytest.mark.parametrize(("number", "text"), [(1, "1 call"), (0, "0 calls"), (12_000, "12,000 calls")])
def test_plural_matches_the_number(number: int, text: str) -> None:
    assert count(number, "call") == text
