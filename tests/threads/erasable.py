"""A graph whose threads repeat their input in every kind of place, and a search of a store for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from graphrt import START, Command, Context, GraphBuilder, RetryPolicy, Runtime, Send
from graphrt.harness import MockHarness
from graphrt.reducers import append, ephemeral, union

PERSON = "Canary-Anna-7731"
OTHER = "somebody else"


def joined(current: list[Any], incoming: list[Any]) -> list[Any]:
    """A user's reducer, which must be called only with lists of texts."""
    assert all(isinstance(one, str) for one in (*current, *incoming)), (current, incoming)
    return [*current, *incoming]


class State(BaseModel):
    name: str = ""
    large: str = ""
    notes: Annotated[list[str], append] = Field(default_factory=list)
    tags: Annotated[set[str], union] = Field(default_factory=set)
    mine: Annotated[list[str], joined] = Field(default_factory=list)
    seen: Annotated[int, ephemeral] = 0
    answer: str = ""
    count: int = 0


def graph(*, ask: bool = False) -> Any:
    """Write, send, call a model and an effect, fail once, and then ask if requested."""

    async def greet(state: State, ctx: Context) -> Any:
        said = await ctx.bind(MockHarness([f"hello {state.name}"])).run(state.name)
        kept = ctx.effect("look", lambda: {"found": state.name})
        return Command(
            update={
                "notes": [str(said.text)],
                "mine": [kept["found"]],
                "tags": {state.name},
                "large": state.name * 5_000,
            },
            goto=[Send("part", {"of": state.name})],
        )

    def part(_: State, ctx: Context) -> Any:
        arg: Any = ctx.arg
        if ctx.attempt == 1:
            raise ConnectionError(f"not {arg['of']} yet")
        return {"notes": [f"part of {arg['of']}"], "count": 1}

    def last(state: State, ctx: Context) -> Any:
        answer = ctx.interrupt({"about": state.name}) if ask else "none"
        return {"answer": answer, "name": OTHER, "large": ""}

    g: Any = GraphBuilder(State, name="erasable")
    g.add_node("greet", greet, goto=["part"])
    g.add_node("part", part, retry=RetryPolicy(2, wait_initial_s=0.0))
    g.add_node("last", last)
    g.add_edge(START, "greet").add_edge("part", "last")
    return g.compile()


def files_with(folder: Path, text: str = PERSON) -> list[str]:
    """The files below *folder* that contain *text*."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [str(path.relative_to(folder)) for path in found if text.encode() in path.read_bytes()]


def filled(runtime: Runtime[Any], *, fork: bool = True) -> None:
    runtime.run({"name": PERSON}, thread="t")
    if fork:
        runtime.fork("t", to="forked", at=5)
        runtime.copy_thread("t", "copied")
        runtime.retry("forked")
    runtime.run({"name": OTHER}, thread="u")


def told(runtime: Runtime[Any], thread: str) -> list[Any]:
    return [(one.seq, one.to_dict()) for one in runtime.entries(thread)]
