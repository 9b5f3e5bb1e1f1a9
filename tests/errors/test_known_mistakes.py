"""Well-known mistakes in nodes, and their messages, word for word."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import START, Context, GraphBuilder, GraphrtError, InputError, MockHarness, Runtime, Send
from graphrt.errors import DefinitionError
from graphrt.harness import ScriptedModel
from graphrt.reducers import append


class State(BaseModel):
    q: str = ""
    n: int = 0
    notes: Annotated[list[str], append] = []


class Keys(TypedDict, total=False):
    q: str
    n: int


def graph(fn: Callable[..., Any], state: Any = State, *, sends: Any = None) -> Any:
    made: Any = GraphBuilder(state, name="g")
    made.add_node("a", fn)
    if sends is None:
        return made.add_edge(START, "a").compile()
    return made.add_conditional_edges(START, lambda state: [Send("a", sends)], ["a"]).compile()


def steady(error: BaseException) -> str:
    """The text without its varying parts: line, run and address."""
    text = re.sub(r"\.py:\d+", ".py:1", str(error))
    return re.sub(r", run \w+", "", re.sub(r" at 0x\w+…?>?", ">", text))


def message(call: Callable[[], Any], kind: type[GraphrtError] = GraphrtError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return steady(caught.value)


AT = "graph 'g', node 'a' at test_known_mistakes.py:1, task 1.0:a"


def failed(what: str, fix: str, more: str = "") -> str:
    return f"Node 'a' failed: {what}\n  Where: {AT}{more}\n  Fix: {fix}\n  See: python -m graphrt.errors node-failed"


def test_context_mistaken_for_a_config() -> None:
    assert message(lambda: graph(lambda s, config: {"q": config["configurable"]["x"]}).run({})) == failed(
        "TypeError: 'Context' object is not subscriptable",
        "The node's second parameter is the Context, not a config: the thread is ctx.thread, what the caller passed is "
        "ctx.deps, and the argument of a Send is ctx.arg.",
    )


def test_context_mistaken_for_the_holder_of_the_state() -> None:
    def node(state: Any, ctx: Any) -> None:
        ctx.state.n = 5

    assert message(lambda: graph(node).run({})) == failed(
        "AttributeError: 'Context' object has no attribute 'state'",
        "The Context has no 'state': the state is the node's first parameter, and a node returns what changes.",
    )


def test_await_of_a_call_that_is_not_async() -> None:
    async def node(state: State, ctx: Any) -> None:
        await ctx.emit("half")

    text = message(lambda: graph(node).run({}))

    assert "  Fix: The node awaits a call that returns a plain value: ctx.interrupt(...) and ctx.emit(...) are " in text


@pytest.mark.parametrize("update", [lambda reply: {"notes": [reply]}, lambda reply: {"q": reply}])
def test_whole_reply_of_a_model_in_an_update(update: Callable[[Any], Any]) -> None:
    async def node(state: State, ctx: Any) -> Any:
        return update(await ctx.harness.run("?"))

    text = message(lambda: graph(node).run({}, harness=MockHarness(["Tea."])))

    assert (
        "  Fix: A value is the reply of a model: return reply.text, reply.output or list(reply.new_messages).\n" in text
    )


def test_context_before_the_state() -> None:
    def node(ctx: Context[Any], state: State) -> None: ...

    assert "): its first parameter is annotated as the context." in message(lambda: graph(node), DefinitionError)


def test_misspelt_attribute_of_the_context() -> None:
    assert message(lambda: graph(lambda s, ctx: {"q": ctx.thread_id}).run({})) == failed(
        "AttributeError: 'Context' object has no attribute 'thread_id'",
        "The Context has no 'thread_id': did you mean ctx.thread?",
    )


def test_store_expected_on_the_context() -> None:
    assert message(lambda: graph(lambda s, ctx: ctx.store.get("k")).run({})) == failed(
        "AttributeError: 'Context' object has no attribute 'store'",
        "The Context has no 'store': the memory across threads is ctx.memory.",
    )


def test_interrupt_of_langgraph_in_a_node() -> None:
    pytest.importorskip("langgraph")
    from langgraph.types import interrupt

    assert message(lambda: graph(lambda s: {"q": interrupt("?")}).run({})) == failed(
        "RuntimeError: Called get_config outside of a runnable context",
        "interrupt(), get_stream_writer() and get_store() of LangGraph work only in converted graphs: use "
        "ctx.interrupt(payload), ctx.emit(value) and ctx.memory.",
    )


def test_command_of_langgraph_returned_by_a_node() -> None:
    pytest.importorskip("langgraph")
    from langgraph.types import Command

    text = message(lambda: graph(lambda s: Command(goto="a")).run({}))

    assert "  Fix: It is an object of LangGraph: return a Command of graphrt (from graphrt import Command).\n" in text


def test_graph_of_langgraph_given_to_a_runtime() -> None:
    pytest.importorskip("langgraph")
    from langgraph.graph import StateGraph

    text = message(lambda: Runtime(StateGraph(Keys)), InputError)  # type: ignore[arg-type, type-var]

    assert "  Fix: Convert it first: graph, report = graphrt.compat.langgraph.convert(graph).\n" in text


def test_argument_of_a_send_expected_in_the_state() -> None:
    assert message(lambda: graph(lambda s, ctx: {"q": s["page"]}, sends={"page": "p"}).run({})) == failed(
        "TypeError: 'State' object is not subscriptable",
        "A field of the state is an attribute: state.q. The argument of the Send is ctx.arg, not the state.",
        ", argument {'page': 'p'}",
    )
    assert message(lambda: graph(lambda s, ctx: {"q": s["page"]}, Keys, sends={"page": "p"}).run({})) == failed(
        "KeyError: 'page'",
        "The key is in the argument of the Send, not in the state: ctx.arg['page'].",
        ", argument {'page': 'p'}",
    )


class Page(BaseModel):
    page: str | None = None


@pytest.mark.parametrize("state", [State, Keys])
@pytest.mark.parametrize(("sent", "there"), [(Page(), "ctx.arg.page"), ({"page": "p"}, "ctx.arg['page']")])
def test_argument_of_a_send_expected_among_the_attributes_of_the_state(state: Any, sent: Any, there: str) -> None:
    said = message(lambda: graph(lambda s, ctx: {"q": s.page}, state, sends=sent).run({}))

    assert f"  Fix: The attribute is in the argument of the Send, not in the state: {there}.\n" in said


def test_sent_object_expected_among_the_keys_of_the_state() -> None:
    said = message(lambda: graph(lambda s, ctx: {"q": s["page"]}, Keys, sends=Page()).run({}))

    assert "  Fix: The key is in the argument of the Send, not in the state: ctx.arg.page.\n" in said


def test_sent_plain_value_expected_in_the_state() -> None:
    assert message(lambda: graph(lambda s, ctx: {"q": s.page}, sends="p").run({})) == failed(
        "AttributeError: 'State' object has no attribute 'page'",
        "The state has no 'page'. The argument of the Send is ctx.arg, not the state.",
        ", argument 'p'",
    )


@pytest.mark.parametrize(
    ("name", "fix"), [("note", "did you mean 'notes'?"), ("step", "its fields are 'q', 'n', 'notes'.")]
)
def test_attribute_that_the_state_does_not_have(name: str, fix: str) -> None:
    assert message(lambda: graph(lambda s: {"q": getattr(s, name)}).run({})) == failed(
        f"AttributeError: 'State' object has no attribute {name!r}", f"The state has no {name!r}: {fix}"
    )


def test_attribute_access_on_a_state_with_keys() -> None:
    assert message(lambda: graph(lambda s: {"q": s.n}, Keys).run({"n": 1})) == failed(
        "AttributeError: 'dict' object has no attribute 'n'", "The state is a dictionary: state['n']."
    )


@pytest.mark.parametrize("wrong", ["attribute", "index", "call"])
def test_deps_that_were_not_passed(wrong: str) -> None:
    nodes = {
        "attribute": (lambda s, ctx: ctx.deps.db, "AttributeError: 'NoneType' object has no attribute 'db'"),
        "index": (lambda s, ctx: ctx.deps["db"], "TypeError: 'NoneType' object is not subscriptable"),
        "call": (lambda s, ctx: ctx.deps(), "TypeError: 'NoneType' object is not callable"),
    }
    node, what = nodes[wrong]
    assert message(lambda: graph(node).run({})) == failed(
        what, "Pass deps= to the run or the Runtime: the node used ctx.deps, which is None because none were passed."
    )


def test_call_that_was_not_awaited() -> None:
    async def ask() -> str:
        return "x"

    made: list[Any] = []

    def value() -> Any:
        made.append(ask())
        return made[-1]

    async def attribute(state: Any) -> Any:
        return {"q": value().text}

    where = f"  Where: {AT}\n"
    see = "  See: python -m graphrt.errors wrong-type"
    fix = "  Fix: A value is a coroutine: await the call that makes it.\n"
    name = "<coroutine object test_call_that_was_not_awaited.<locals>.ask>"
    wrong = "Node 'a' returned an update of a wrong type: "
    assert message(lambda: graph(lambda s: {"q": value()}).run({})) == (
        f"{wrong}q: Input should be a valid string, got {name}.\n{where}  Known: q: str\n{fix}{see}"
    )
    assert message(lambda: graph(lambda s: {"notes": [value()]}).run({})) == (
        f"{wrong}notes[0]: Input should be a valid string, got {name}.\n{where}  Known: notes: list[str]\n{fix}{see}"
    )
    assert message(lambda: graph(attribute).run({})) == failed(
        "AttributeError: 'coroutine' object has no attribute 'text'",
        "The node uses a coroutine as if it were its result: await the call.",
    )
    for coroutine in made:
        coroutine.close()


def paused(node: Callable[..., Any]) -> Runtime[Any]:
    runtime: Runtime[Any] = Runtime(graph(node), store="memory:")
    runtime.run({}, thread="t")
    return runtime


def test_answer_that_breaks_the_node_names_the_fix() -> None:
    runtime = paused(lambda s, ctx: {"n": int(ctx.interrupt("?"))})
    assert message(lambda: runtime.resume("t", "x")) == failed(
        "ValueError: invalid literal for int() with base 10: 'x'",
        "Correct the node. The exception that it raised is this error's __cause__; a traceback shows it above. Then "
        "retry('t'): finished tasks do not run again. If the answer was wrong, replace it: resume('t', answer).",
        ", thread 't', entry 8",
    )
    assert runtime.resume("t", 5).state.n == 5


def test_answer_of_a_type_that_the_update_cannot_have_names_the_fix() -> None:
    runtime = paused(lambda s, ctx: {"n": ctx.interrupt("?")})
    assert message(lambda: runtime.resume("t", "x")) == (
        "Node 'a' returned an update of a wrong type: n: Input should be a valid integer, unable to parse string as an "
        f"integer, got 'x'.\n  Where: {AT}, thread 't', entry 8\n  Known: n: int\n  Fix: Return 'n' as int. If the "
        "answer was wrong, replace it: resume('t', answer).\n  See: python -m graphrt.errors wrong-type"
    )
    assert runtime.resume("t", 5).state.n == 5


def test_several_answers_are_replaced_by_id_and_none_if_an_effect_followed() -> None:
    two = paused(lambda s, ctx: {"n": int(ctx.interrupt("?", key="b") + ctx.interrupt("?", key="a"))})
    two.resume("t", "x")
    assert "replace it: resume('t', {id: answer})." in message(lambda: two.resume("t", "y"))

    def sends(state: Any, ctx: Any) -> Any:
        answer = ctx.interrupt("?")
        ctx.effect("mail", lambda: "sent")
        return {"n": int(answer)}

    mailed = paused(sends)
    assert "replace it" not in message(lambda: mailed.resume("t", "x"))
    never: Any = graph(lambda s: 1 / 0)
    assert "replace it" not in message(lambda: Runtime(never, store="memory:").run({}, thread="t"))


def test_graph_of_langgraph_and_runnable_given_as_nodes() -> None:
    pytest.importorskip("langgraph")
    from langchain_core.runnables import RunnableLambda
    from langgraph.graph import StateGraph

    theirs = StateGraph(Keys).add_node("k", lambda state: {"q": "k"}).set_entry_point("k").compile()
    hints = []
    for wrong in (theirs, RunnableLambda(lambda state: state)):
        with pytest.raises(DefinitionError) as caught:
            graph(wrong)  # type: ignore[arg-type]
        hints.append(caught.value.problems[0].hint)

    assert hints == [
        "Convert the graph of LangGraph first: add_node('sub', graphrt.compat.langgraph.convert(graph)[0]).",
        "Call it in a function: def work(state): return {'answer': runnable.invoke(state['question'])}.",
    ]


@pytest.mark.parametrize("given", ["model", "builder", "runtime", "none"])
def test_value_that_is_not_a_node(given: str) -> None:
    nodes: dict[str, tuple[Any, str]] = {
        "model": (
            ScriptedModel(["x"]),
            "Put the model into an agent: add_node('ask', Agent(model), input='question', output='answer').",
        ),
        "builder": (
            GraphBuilder(State),
            "A graph is a node once it is compiled: add_node('sub', builder.compile()).",
        ),
        "runtime": (
            Runtime(graph(lambda s: None)),
            "Pass the graph, not what drives it: add_node('sub', runtime.graph).",
        ),
        "none": (None, "Pass the function itself: add_node('work', work), not what a call of it returned."),
    }
    wrong, fix = nodes[given]
    with pytest.raises(DefinitionError) as caught:
        graph(wrong)
    [problem] = caught.value.problems
    assert (problem.code, problem.hint) == ("bad-signature", fix)


def test_node_that_returns_the_whole_state() -> None:
    assert message(lambda: graph(lambda s: s).run({})) == (
        "Node 'a' returned an instance of State, State(q='', n=0, notes=[]); expected an update (a mapping of fields)."
        f"\n  Where: {AT}\n  Known: fields 'q', 'n', 'notes'\n  Fix: Return only what changes, as a mapping; a graph "
        "made by GraphBuilder.overwrite() takes whole states.\n  See: python -m graphrt.errors bad-update"
    )


def test_failed_send_names_its_argument() -> None:
    def node(state: Any, ctx: Any) -> None:
        raise ValueError("no")

    text = message(lambda: graph(node, sends={"item": 7}).run({}))
    assert text == failed(
        "ValueError: no",
        "Correct the node. The exception that it raised is this error's __cause__; a traceback shows it above.",
        ", argument {'item': 7}",
    )


def test_path_of_an_input_value_that_cannot_be_stored_is_not_that_of_a_nested_graph() -> None:
    class Anything(TypedDict):
        a: Any

    runtime = Runtime(graph(lambda s: None, Anything), store="memory:")
    text = message(lambda: runtime.run({"a": {"x": object()}}, thread="t"), InputError)

    assert text.startswith("The input holds a value that cannot be stored at a.x: ")
    assert "\n  Where: graph 'g', thread 't'\n" in text


def test_threads_of_others_are_not_named() -> None:
    runtime = Runtime(graph(lambda s: None), store="memory:")
    runtime.run({}, thread="w-1")
    for call in (runtime.state, runtime.history, runtime.retry, runtime.cancel, lambda t: runtime.resume(t, 1)):
        try:
            told = str(call("w-2"))
        except InputError as error:
            told = str(error)
        assert "w-1" not in told
