"""A thread with everything that a chat shows, and both protocols as folds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Protocol

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.events import Entry
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel, Image, Message, ModelRequest, ToolCall, UserMessage, tool
from graphrt.harness.protocol import AgentReply
from graphrt.reducers import append
from graphrt.stores import Store
from graphrt.wires import ag_ui, ui_messages
from graphrt.wires.conversation import line

LABEL = Image.from_bytes(b"\x89PNG\r\n\x1a\nlabel")
"""The value that a tool returns besides its text."""
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\npicture")
"""The file that a model generates."""
MODES = ("events", "messages", "live", "custom")


class Desk(BaseModel):
    messages: Annotated[list[Message], append]
    notes: Annotated[list[str], append] = []
    colour: str = ""
    secret: str = ""


@tool(approval=True, effect="idempotent")
def book(item: str) -> list[str | Image]:
    """Put something aside: repeatable, and a crash raises no question about its outcome."""
    return [f"{item} is put aside", LABEL]


def rules(request: ModelRequest) -> str | ToolCall:
    """Answer according to the conversation, which makes repeated model calls possible: ask the expert, book, and report
    it.
    """
    given = [one.text for one in request.messages if one.role == "tool"]
    if not given:
        return ToolCall(id="c1", name="expert", arguments={"question": "which kettle?"})
    return ToolCall(id="c2", name="book", arguments={"item": "kettle"}) if len(given) == 1 else f"Done: {given[-1]}."


def desk() -> CompiledGraph[Any, Any, Any]:
    """An agent with a sub-agent and an approval, a nested graph with a question, and a parallel note."""
    expert = Agent("none", name="expert")
    clerk = Agent("none", name="clerk", tools=[expert.as_tool(description="Knows kettles."), book])
    inner = GraphBuilder(Desk, name="inner")

    @inner.node
    async def ask(state: Desk, ctx: Context) -> dict[str, Any]:
        reply = await ctx.bind(Agent("none", name="painter")).run("Which colours are there?")
        colour = str(ctx.interrupt("Which colour?", key="colour", answer_type=str))
        return {"colour": colour, "notes": [reply.text]}

    inner.add_sequence([START, ask, END])
    g = GraphBuilder(Desk, name="desk")

    @g.node
    async def talk(state: Desk, ctx: Context) -> dict[str, Any]:
        ctx.emit({"at": "the desk"})
        reply = await ctx.bind(clerk).run(state.messages)
        return {"messages": list(reply.new_messages), "notes": ["talked"], "secret": "sesame"}

    g.add_node("paint", inner.compile())
    g.add_sequence([START, talk, "paint", END])
    return g.compile()


def opened(store: Store | str = "memory:") -> Runtime[Any, Any]:
    """A runtime of `desk` whose models answer by rules."""
    models: dict[str, Any] = {
        "clerk": FunctionModel(rules),
        "expert": FunctionModel(lambda _: "The blue one."),
        "painter": FunctionModel(lambda _: AgentReply(text="Red and blue.", media=(PICTURE,))),
    }
    return Runtime(desk(), store=store, models=models)


GIVEN: dict[str, Any] = {"messages": [UserMessage(text="A kettle", id="m1")]}
ANSWERS: tuple[Any, ...] = (True, "red")


class Fold(Protocol):
    """A projection, as the server uses it."""

    over: bool

    def entry(self, entry: Entry) -> list[dict[str, Any]]: ...

    def known(self, entry: Entry) -> None: ...

    def live(self, mode: str, item: Any, missed: int = 0) -> list[dict[str, Any]]: ...


def fold(protocol: str, runtime: Runtime[Any, Any] | None = None, thread: str = "t") -> Any:
    """A new projection of a protocol; AG-UI shows states if it has a runtime that reads them."""
    if protocol == "ai-sdk":
        return ui_messages.UiMessages()
    if runtime is None:
        return ag_ui.AgUi()
    return ag_ui.AgUi(state_at=lambda seq: runtime.state(thread, at=seq), shows={"notes", "colour"})


def wired(made: Any, entries: Iterable[Entry]) -> str:
    """The committed wire of entries."""
    return "".join(line(one) for entry in entries for one in made.entry(entry))
