"""Tools that read and write the state of their graph, and route to other nodes: validated first, folded once, in order."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, Context, GraphBuilder, Overwrite, Runtime, Send
from graphrt.errors import DefinitionError, InputError, NodeError, RouteError, ToolStateError, UpdateError
from graphrt.harness import Agent, Cassette, ToolCall, ToolContext, ToolResult, tool, tool_from_model
from graphrt.reducers import append, untracked
from graphrt.stores import MemoryStore

from .fakes import Model, call, says
from .graphs import every_way


class Shop(BaseModel):
    question: str = "go"
    cart: Annotated[list[str], append] = []
    last: str = ""
    answer: str = ""
    secret: Annotated[str, untracked] = ""


Shown = ToolContext[None, Shop]


@tool(reads=["cart"], writes=["cart", "last"])
def add(item: str, context: Shown) -> Command[Any]:
    """Put an item into the cart."""
    return Command(update={"cart": [item], "last": item}, result=f"{len(context.state.cart)} before {item}")


@tool(goto=["pay", "ask"])
def lead(to: str) -> Command[Any]:
    """Go to another node."""
    return Command(goto=to)


def builder(agent: Any, **policy: Any) -> GraphBuilder[Any, Any]:
    """A graph whose node `ask` runs *agent*, and may route to `pay`."""
    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", agent, input="question", output="answer", **policy)
    g.add_node("pay", lambda state: {"answer": f"paid {'+'.join(state.cart)}"})
    g.add_edge(START, "ask")
    g.add_edge("ask", END)
    return g


def problems(agent: Any, **policy: Any) -> list[tuple[str, str]]:
    with pytest.raises(DefinitionError) as caught:
        builder(agent, **policy).compile()
    return [(problem.code, problem.message) for problem in caught.value.problems]


def cause(agent: Any) -> Any:
    """The error with which the node of *agent* fails."""
    with pytest.raises(NodeError) as caught:
        builder(agent).compile(allow=("unreachable-node",)).run({})
    return caught.value.__cause__


def alone(agent: Agent[Any], **more: Any) -> Any:
    """The final state of a run of *agent* in its node."""
    return builder(agent).compile(allow=("unreachable-node",)).run(more).state


# ------------------------------------------------------------------------------------------------------------ updates


@every_way
def test_tool_updates_fold_in_the_order_of_the_calls_before_that_of_the_node(way):
    async def slow_then_fast(item: str) -> Command[Any]:
        for _ in range(5 if item == "a" else 0):
            await asyncio.sleep(0)  # the first call ends last
        return Command(update={"cart": [item], "last": item})

    agent = Agent(
        Model(says(call("put", "1", item="a"), call("put", "2", item="b")), call("put", "3", item="c"), "done"),
        tools=[tool(name="put", writes=["cart", "last"])(slow_then_fast)],
    )
    g = GraphBuilder(Shop, name="shop")

    async def body(state: Any, ctx: Any) -> Any:
        return {"cart": [(await ctx.harness.run("go")).text]}

    g.add_node("ask", way.node(body))
    g.set_entry("ask")
    with way.runtime(g.compile(), harness=agent) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert (result.state.cart, result.state.last) == (["a", "b", "c", "done"], "c")


def test_markers_and_reducers_apply_to_updates_of_tools():
    @tool(writes="cart")
    def clear() -> Command[Any]:
        return Command(update={"cart": Overwrite([])})

    agent = Agent(Model(call("clear"), call("add", item="x"), "done"), tools=[clear, add])

    assert alone(agent, cart=["old"]).cart == ["x"]


def test_concurrent_runs_in_a_node_fold_in_the_order_in_which_they_were_started():
    def agent(item: str, turns: int) -> Agent[Any]:
        calls = [call("add", item=f"{item}{n}") for n in range(turns)]
        return Agent(Model(*calls, "done"), name=item, tools=[add])

    slow, fast = agent("a", 3), agent("b", 1)

    async def ask(state: Shop, ctx: Context) -> None:
        await asyncio.gather(ctx.bind(slow).run("go"), ctx.bind(fast).run("go"))

    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", ask)
    g.set_entry("ask")

    assert g.compile().run({}).state.cart == ["a0", "a1", "a2", "b0"]


class Gone(BaseException):
    """Simulates the end of the process."""


@every_way
@pytest.mark.parametrize("broken", [Gone(), ValueError("no"), None], ids=["killed", "failed", "paused"])
def test_update_of_a_tool_folds_once_after_the_task_runs_again(way, broken):
    """The call is recorded with its update, and not repeated."""
    made: list[str] = []

    @tool(reads=["cart"], writes=["cart"], goto=["pay"])
    def take(item: str, context: Shown) -> Command[Any]:
        made.append(item)
        return Command(
            update={"cart": [item]}, result=f"after {context.state.cart}", goto="pay" if item == "b" else None
        )

    answers = iter([call("take", item="a"), call("take", item="b"), call("take", item="b")])
    agent = Agent(Model(fn=lambda request: next(answers)), tools=[take])
    breaks = [broken]

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.bind(agent).run("go")
        answer = ctx.interrupt("well?") if broken is None else ""
        if breaks.pop() is not None:
            breaks.append(None)
            raise broken
        breaks.append(None)
        return {"answer": f"{reply.stopped} {answer}"}

    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", way.node(body), tools=[take])
    g.add_node("pay", lambda state: {"last": "paid"})
    g.set_entry("ask")
    store = MemoryStore()
    if isinstance(broken, ValueError):  # models are called again, tools are not
        answers = iter([call("take", item="a"), call("take", item="b"), call("take", item="a"), call("take", item="b")])
    with way.runtime(g.compile(), store=store) as runtime:
        if broken is None:
            assert way(runtime, "run", {"cart": ["x"]}, thread="t").state.cart == ["x"]
        else:
            with pytest.raises((Gone, NodeError)):
                way(runtime, "run", {"cart": ["x"]}, thread="t")
    with way.runtime(g.compile(), store=store) as runtime:
        result = way(runtime, "retry", "t") if broken is not None else way(runtime, "resume", "t", "yes")

    assert result.state.cart == ["x", "a", "b"]
    assert result.state.last == "paid"
    assert result.state.answer.startswith("goto")
    assert made == ["a", "b"]


def test_replay_and_history_include_writes_of_tools(tmp_path):
    agent = Agent(Model(call("add", item="a"), "done"), tools=[add])
    with Runtime(builder(agent).compile(allow=("unreachable-node",)), store=f"sqlite:///{tmp_path}/x.db") as runtime:
        (step,) = runtime.steps({}, thread="t")

        assert runtime.replay("t").values == runtime.state("t").values == Shop(cart=["a"], last="a", answer="done")
    assert step.update == {"cart": ["a"], "last": "a", "answer": "done"}


def test_update_of_a_sub_agents_tool_folds_in_call_order():
    below = Agent(Model(call("add", item="below"), "found"), name="helper", tools=[add])
    model = Model(
        says(call("add", "1", item="a"), call("helper", "2", question="?"), call("add", "3", item="c")), "done"
    )
    agent = Agent(model, tools=[add, below.as_tool(description="Helps.")])

    assert alone(agent).cart == ["a", "below", "c"]


def test_update_of_a_tool_counts_when_its_sub_agent_fails_later():
    """The call was made and recorded: its outside effect would have happened, too."""
    below = Agent(Model(call("add", item="below"), ValueError("no")), name="helper", retry=None, tools=[add])
    agent = Agent(Model(call("helper", question="?"), "done"), tools=[below.as_tool(description="Helps.")])

    assert alone(agent).cart == ["below"]


# ------------------------------------------------------------------------------------------------------------- reading


def test_tool_reads_the_state_with_the_writes_of_earlier_replies():
    model = Model(says(call("add", "1", item="a"), call("add", "2", item="b")), call("add", "3", item="c"), "done")
    alone(Agent(model, tools=[add]), cart=["x"])

    heard = [said.text for said in model.asked[-1].messages if said.role == "tool"]
    assert heard == ["1 before a", "1 before b", "3 before c"]


def test_state_of_a_typed_dict_is_read_by_its_keys():
    class Plain(TypedDict, total=False):
        cart: Annotated[list[str], append]
        last: str

    seen: list[Any] = []

    @tool(reads=["cart", "last"], writes=["last"])
    def look(context: ToolContext[None, Plain]) -> Command[Any]:
        state = context.state
        seen.append((state["cart"], "last" in state, state.get("last", "none"), dict(state)))
        return Command(update={"last": "seen"})

    g = GraphBuilder(Plain, name="plain")

    async def ask(state: Plain, ctx: Context) -> None:
        await ctx.bind(Agent(Model(call("look"), call("look", "2"), "done"), tools=[look])).run("go")

    g.add_node("ask", ask)
    g.set_entry("ask")
    g.compile().run({"cart": ["a"]})

    assert seen == [(["a"], False, "none", {"cart": ["a"]}), (["a"], True, "seen", {"cart": ["a"], "last": "seen"})]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (lambda state: state.answer, "read 'answer'"),
        (lambda state: setattr(state, "cart", []), "assigned field 'cart'"),
    ],
)
def test_tool_that_misuses_the_state_fails_the_run_without_a_report_to_the_model(body, what):
    @tool(reads=["cart"])
    def look(context: Shown) -> Any:
        return body(context.state)

    model = Model(call("look"), "done")
    error = cause(Agent(model, tools=[look]))

    assert isinstance(error, ToolStateError)
    assert what in error.what
    assert len(model.asked) == 1


def test_unit_test_may_call_a_tool_as_a_function():
    context = ToolContext(call=ToolCall(id="1", name="add"), state=Shop(cart=["x"]))

    assert add("tea", context) == Command(update={"cart": ["tea"], "last": "tea"}, result="1 before tea")


# ------------------------------------------------------------------------------------------------------------- routing


@every_way
def test_goto_ends_the_run_after_the_calls_of_the_reply_and_replaces_the_edges(way):
    replies: list[Any] = []
    model = Model(says("I pay now.", call("lead", "1", to="pay"), call("add", "2", item="a")), "never")
    agent = Agent(model, tools=[add, lead])

    async def body(state: Any, ctx: Any) -> Any:
        replies.append(await ctx.harness.run("go"))

    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", way.node(body), tools=[add, lead])
    g.add_node("pay", lambda state: {"answer": f"paid {'+'.join(state.cart)}"})
    g.add_sequence([START, "ask", END])
    with way.runtime(g.compile(), harness=agent) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert result.state.answer == "paid a"
    assert result.visited == {"ask": 1, "pay": 1}
    assert (replies[0].stopped, replies[0].text, replies[0].tool_calls) == ("goto", "I pay now.", ())
    assert [said.role for said in replies[0].new_messages] == ["assistant", "tool", "tool"]
    assert len(model.asked) == 1


def test_agent_node_writes_no_answer_when_a_tool_routes_elsewhere():
    class Chat(BaseModel):
        question: str = "go"
        answer: int = 0

    g = GraphBuilder(Chat, name="chat")
    g.add_node("ask", Agent(Model(call("lead", to="pay")), output=int, tools=[lead]), input="question", output="answer")
    g.add_node("pay", lambda state: None)
    g.set_entry("ask")

    assert g.compile().run({}).state.answer == 0


def test_goto_of_a_tool_may_be_a_send_or_several_targets():
    @tool(goto=["pay", END])
    def fan() -> Command[Any]:
        return Command(goto=[Send("pay", "a"), Send("pay", "b")])

    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", Agent(Model(call("fan")), tools=[fan]), input="question", output="answer")
    g.add_node("pay", lambda state, ctx: {"cart": [ctx.arg]})
    g.set_entry("ask")

    assert g.compile().run({}).state.cart == ["a", "b"]


@pytest.mark.parametrize("calls", [("pay", "ask"), ("ask", "pay")])
def test_different_gotos_of_one_reply_are_an_error(calls):
    model = Model(says(call("lead", "1", to=calls[0]), call("lead", "2", to=calls[1])))
    with pytest.raises(NodeError) as caught:
        builder(Agent(model, tools=[lead])).compile().run({})

    assert isinstance(caught.value.__cause__, RouteError)
    assert caught.value.__cause__.code == "different-gotos"


def test_equal_gotos_of_one_reply_are_one():
    model = Model(says(call("lead", "1", to="pay"), call("lead", "2", to="pay")))

    assert builder(Agent(model, tools=[lead])).compile().run({}).visited == {"ask": 1, "pay": 1}


@pytest.mark.parametrize(("own", "good"), [("pay", True), ("ask", False)])
def test_goto_of_the_node_itself_must_equal_that_of_its_tools(own, good):
    agent = Agent(Model(call("lead", to="pay")), tools=[lead])

    async def ask(state: Shop, ctx: Context) -> Command[Any]:
        await ctx.bind(agent).run("go")
        return Command(update={"last": "x"}, goto=own)

    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", ask, goto=["ask", "pay", END])
    g.add_node("pay", lambda state: None)
    g.set_entry("ask")
    graph = g.compile()

    if good:
        assert graph.run({}).visited == {"ask": 1, "pay": 1}
        return
    with pytest.raises(RouteError, match="different targets"):
        graph.run({})


# ------------------------------------------------------------------------------------------------------------ declared


def test_compile_reports_wrong_declarations_of_the_tools_of_a_node():
    @tool(reads=["crat"], writes=["tolal", "secret"], goto=["bye"])
    def bad() -> Command[Any]:
        return Command()

    found = problems(Agent(Model(), tools=[bad]))

    assert [code for code, _ in found] == ["tool-state", "tool-state", "tool-state", "unknown-node"]
    assert "reads 'crat'" in found[0][1]
    assert "writes 'tolal'" in found[1][1]
    assert "'secret', which is untracked" in found[2][1]
    assert "goto= of tool 'bad'" in found[3][1]


def test_compile_checks_tools_that_a_function_node_lists():
    @tool(writes=["tolal"])
    def bad() -> Command[Any]:
        return Command()

    async def ask(state: Shop, ctx: Context) -> None:
        """Never runs."""

    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", ask, tools=[bad, "other"])
    g.set_entry("ask")
    with pytest.raises(DefinitionError) as caught:
        g.compile()

    assert [problem.code for problem in caught.value.problems] == ["tool-state"]


def test_compile_checks_only_tools_that_the_node_offers():
    @tool(writes=["tolal"])
    def bad() -> Command[Any]:
        return Command()

    builder(Agent(Model(), tools=[add, lead, bad]), tools=["add", lead]).compile()


def test_targets_of_tools_are_edges_of_the_graph():
    edges = builder(Agent(Model(), tools=[lead])).compile().topology()["edges"]

    assert [(edge["from"], edge["to"]) for edge in edges if edge["kind"] == "goto"] == [("ask", "ask"), ("ask", "pay")]


def test_writes_of_tools_count_as_writes_of_their_node():
    g = GraphBuilder(Shop, name="shop")
    for name in ("one", "two"):
        g.add_node(name, Agent(Model(), tools=[add]), input="question", output={name_of[name]: "text"})
        g.add_edge(START, name)
    with pytest.raises(DefinitionError) as caught:
        g.compile()

    assert [(problem.code, problem.message.count("last")) for problem in caught.value.problems] == [
        ("write-conflict", 1)
    ]


name_of = {"one": "answer", "two": "question"}


def test_route_of_a_sub_agents_tool_is_refused_before_any_cost():
    below = Agent(Model("never"), name="helper", tools=[lead]).as_tool(description="Helps.")
    model = Model(call("helper", question="?"))
    agent = Agent(model, tools=[below])

    assert "only the agent of the node may route" in problems(agent)[0][1]

    async def ask(state: Shop, ctx: Context) -> None:
        await ctx.bind(agent).run("go")

    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", ask)
    g.set_entry("ask")
    with pytest.raises(NodeError) as caught:
        g.compile().run({})
    assert isinstance(caught.value.__cause__, ToolStateError)
    assert model.asked == []


@pytest.mark.parametrize(
    ("made", "kind", "code"),
    [
        (Command(update={"answer": "x"}), UpdateError, "undeclared-write"),
        (Command(update={"cart": "tea"}), UpdateError, "wrong-type"),
        (Command(update="tea"), UpdateError, "bad-update"),
        (Command(goto="ask"), RouteError, "undeclared-goto"),
    ],
)
def test_invalid_command_fails_the_run_without_a_report_to_the_model(made, kind, code):
    @tool(writes=["cart"], goto=["pay"])
    def bad() -> Command[Any]:
        return made

    model = Model(call("bad"), "done")
    error = cause(Agent(model, tools=[bad]))

    assert isinstance(error, kind)
    assert error.code == code
    assert len(model.asked) == 1


@pytest.mark.parametrize("kind", ["overwrite", "reducer"])
def test_tools_do_not_write_in_graphs_whose_nodes_return_whole_states(kind):
    if kind == "overwrite":
        g: Any = GraphBuilder.overwrite(Shop, name="shop")
    else:
        g = GraphBuilder(Shop, Shop, reducer=lambda state, update: update, name="shop")

    async def ask(state: Shop, ctx: Context) -> Shop:
        return state

    g.add_node("ask", ask, tools=[add])
    g.set_entry("ask")
    with pytest.raises(DefinitionError, match="return whole states"):
        g.compile()


# ------------------------------------------------------------------------------------------ where it cannot be stored


def test_agent_outside_a_graph_refuses_the_tool_before_any_cost():
    model = Model("never")
    with pytest.raises(ToolStateError) as caught:
        asyncio.run(Agent(model, tools=[add]).run("go"))

    assert "does not run in a node" in caught.value.what
    assert "ToolContext(call=..., state=...)" in caught.value.fix
    assert model.asked == []


def test_agent_inside_an_effect_or_another_harness_refuses_the_tool():
    """The effect, or the reply, is recorded as a whole: the next execution would not write again."""
    agent = Agent(Model(), tools=[add])

    class Wrapped:
        async def run(self, prompt: Any, **options: Any) -> Any:
            return await agent.run(prompt)

    async def by_effect(state: Shop, ctx: Context) -> None:
        async def ask() -> str:
            return (await ctx.bind(agent).run("go")).text

        await ctx.effect("ask", ask)

    async def by_harness(state: Shop, ctx: Context) -> None:
        await ctx.harness.run("go")

    def by_sync_effect(state: Shop, ctx: Context) -> None:
        ctx.effect("ask", lambda: ctx.bind(agent).run_sync("go").text)

    for body in (by_effect, by_harness, by_sync_effect):
        g = GraphBuilder(Shop, name="shop")
        g.add_node("ask", body)
        g.set_entry("ask")
        runtime = Runtime(g.compile(), store=MemoryStore(), harness=Wrapped())
        with runtime, pytest.raises(NodeError) as caught:
            runtime.run({})
        assert "recorded without that" in str(caught.value.__cause__)


def test_cached_node_and_cassette_refuse_the_tool(tmp_path):
    agent = Agent(Model(), tools=[add])

    assert "cache=" in problems(agent, cache=True)[0][1]
    with pytest.raises(InputError, match="tool 'add' uses the state"), Cassette(tmp_path / "x", mode="record") as tape:
        tape.harness(agent)


def test_node_may_not_return_a_result_for_a_model():
    g = GraphBuilder(Shop, name="shop")
    g.add_node("ask", lambda state: Command(update={"last": "x"}, result="x"))
    g.set_entry("ask")

    with pytest.raises(UpdateError, match="which only tools have"):
        g.compile().run({})


def test_tool_of_a_model_class_and_a_double_may_also_write():
    class Put(BaseModel):
        item: str

    def put(asked: Put) -> Command[Any]:
        return Command(update={"cart": [asked.item]}, result=ToolResult(text="ok", value=1))

    made = tool_from_model(Put, put, writes=["cart"])
    model = Model(call("put", "1", item="a"), call("add", "2", item="b"), "done")
    graph = builder(Agent(model, tools=[made, add])).compile(allow=("unreachable-node",))

    result = graph.run({}, tools={"add": lambda item: Command(update={"cart": [f"double {item}"]})})

    assert result.state.cart == ["a", "double b"]
    assert [said.text for said in model.asked[-1].messages if said.role == "tool"] == ["ok", "Done."]


@pytest.mark.parametrize("option", [{"reads": [1]}, {"writes": [None]}, {"goto": [3]}])
def test_invalid_names_are_refused(option):
    with pytest.raises(InputError, match="of a tool"):
        tool(**option)(lambda: None)
