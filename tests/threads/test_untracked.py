"""Rule R16: with any store the value of an untracked field is visible to the caller and to nodes only."""

from __future__ import annotations

import dataclasses
import logging
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NotRequired

import pydantic
import pytest
from typing_extensions import TypedDict

from graphrt import END, START, CompiledGraph, Context, GraphBuilder, Limits, Runtime, Send
from graphrt.commands import Command
from graphrt.errors import GraphrtError
from graphrt.migrations import Migration
from graphrt.reducers import add, append, untracked
from graphrt.stores import EncryptedStore, SqliteStore
from graphrt.stores.filters import ThreadFilter

from .support import World

CANARY = "sk-canary-7Yq2"


def refuse(current: str, incoming: str) -> str:
    if incoming.endswith("!"):
        raise KeyError(incoming)
    return incoming


def not_blue(value: str) -> str:
    if "blue" in value:
        raise ValueError(f"{value} is blue")
    return value


class State(pydantic.BaseModel):
    tok: Annotated[str, untracked] = ""
    alias: Annotated[str, untracked] = pydantic.Field("", validation_alias="given_as")
    guarded: Annotated[str, refuse, untracked] = ""
    checked: Annotated[str, pydantic.AfterValidator(not_blue), untracked] = ""
    bag: Annotated[list[str], untracked] = []
    n: Annotated[int, add] = 0
    notes: Annotated[list[str], append] = []


class Plain(TypedDict):
    tok: Annotated[NotRequired[str], untracked]
    n: NotRequired[Annotated[int, add]]


@dataclasses.dataclass
class Data:
    tok: Annotated[str, untracked] = ""
    n: Annotated[int, add] = 0


def tell(found: Any, seen: set[int] | None = None) -> Iterator[str]:
    """All texts that can be read from *found*: what a log, a sink or an error tracker could write."""
    seen = set() if seen is None else seen
    if id(found) in seen or isinstance(found, (type, logging.Logger)):
        return
    seen.add(id(found))
    yield repr(found)
    if isinstance(found, BaseException):
        yield str(found)
        yield from tell(vars(found), seen)
        for other in (found.__cause__, *(() if found.__suppress_context__ else (found.__context__,))):
            yield from tell(other, seen)
    if dataclasses.is_dataclass(found) or hasattr(found, "__slots__"):
        for name in {n for cls in type(found).__mro__ for n in getattr(cls, "__slots__", ())} | set(vars_of(found)):
            if hasattr(found, name):
                yield from tell(getattr(found, name), seen)
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from tell(key, seen)
            yield from tell(value, seen)
    elif isinstance(found, (list, tuple, set, frozenset)):
        for value in found:
            yield from tell(value, seen)


def vars_of(found: Any) -> Any:
    return getattr(found, "__dict__", ())


class Ear:
    """Runs graphs on a store, and records the output of a sink, the mode `events`, the store and errors."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: list[Any] = []

    def runtime(self, graph: Any, **options: Any) -> Runtime[Any]:
        return self.world.runtime(graph, sinks=[self.heard.append], **options)

    def run(self, graph: Any, given: Any, *, thread: str = "t", **options: Any) -> Any:
        """Run with the mode `events`, then read everything that the thread has."""
        runtime = self.runtime(graph, **options)
        try:
            self.heard += runtime.stream(given, thread=thread, modes="events")
        except GraphrtError as error:
            self.take(error)
        self.read(runtime, thread)
        return runtime

    def take(self, error: BaseException) -> None:
        self.heard += ["".join(traceback.format_exception(error)), error]

    def read(self, runtime: Runtime[Any], *threads: str) -> None:
        for head in self.world.store.query(ThreadFilter()):
            loaded = self.world.store.load(head.thread)
            self.heard += [loaded.snapshot, loaded.staged, loaded.meta, *self.world.store.records(head.thread)]
        known = {head.thread for head in self.world.store.query(ThreadFilter())}
        for thread in known.intersection(threads):
            self.heard += runtime.entries(thread)


def graph(*nodes: tuple[str, Any], state: Any = State, limits: Limits | None = None, **policy: Any) -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(state)
    for name, fn in nodes:
        g.add_node(name, fn, **policy)
    return g.add_sequence([START, *[name for name, _ in nodes], END]).compile(limits=limits)


def parallel(*nodes: tuple[str, Any], **policies: Any) -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(State)
    for name, fn in nodes:
        g.add_node(name, fn, **policies.get(name, {})).add_edge(START, name)
    return g.compile(allow=["write-conflict"])


def routed(router: Callable[[Any], Any]) -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(State)
    g.add_node("a", lambda s: {"tok": CANARY}).add_edge(START, "a")
    return g.add_conditional_edges("a", router, {"x": END}).compile()


def writes(state: Any) -> Any:
    return {"tok": CANARY, "bag": [CANARY], "n": 1}


def asks(state: Any, ctx: Context) -> Any:
    ctx.interrupt("?")
    return {"n": 1}


def changes(state: Any) -> Any:
    state.bag.append(CANARY)


def swaps(state: Any) -> Any:
    state.bag[0] = CANARY


def assigns(state: Any) -> Any:
    state.tok = CANARY


GIVEN = {"tok": CANARY, "bag": [CANARY], "notes": ["x"]}
BAD_INPUTS: dict[str, Any] = {
    "input of a wrong type": {"tok": {CANARY: 1}},
    "input with a wrong field beside it": {"tok": CANARY, "n": "many"},
    "input under an alias": {"given_as": [CANARY]},
    "input that a validator refuses": {"checked": f"{CANARY} blue"},
    "input of a wrong kind": [CANARY],
    "input with an unknown key": {"tok": CANARY, "m": 1},
}
BAD_UPDATES: dict[str, Any] = {
    "update of a wrong type": {"tok": {CANARY: 1}},
    "update that a validator refuses": {"checked": f"{CANARY} blue"},
    "update that a reducer refuses": {"guarded": f"{CANARY}!"},
    "update that is a state": State(tok=CANARY),
    "update that is a text": CANARY,
    "update with an unknown key": {"tok": CANARY, "m": 1},
    "goto that does not exist": Command(update={"tok": CANARY}, goto="nowhere"),
}


def mixed() -> Any:
    """A superstep that stays open with a staged outcome, and updates of a nested graph."""
    child = graph(("c", writes), state=State)
    g: GraphBuilder[Any, Any] = GraphBuilder(State)
    g.add_node("w", lambda s: {"tok": "", "bag": [*s.bag]}).add_node("ask", asks).add_node("sub", child)
    g.add_node("many", lambda s, ctx: {"n": 1})
    g.add_edge(START, "w").add_conditional_edges("w", lambda s: ["ask", Send("many", 1), Send("many", 2)], ["ask"])
    g.add_edge("ask", "sub").add_edge("sub", END)
    return g.compile(allow=["write-conflict", "unreachable-node"])


def whole_life(ear: Ear) -> None:
    runtime = ear.run(mixed(), GIVEN)
    fork = runtime.fork("t", at=runtime.state("t").seq)
    runtime.update("t", {"tok": CANARY, "n": 1})
    runtime.resume("t", "yes")
    runtime.resume(fork, "yes")
    ear.run(mixed(), {"tok": CANARY}, thread="t")
    runtime.prune("t")
    ear.read(runtime, "t", fork)


def bad_edit(ear: Ear) -> None:
    runtime = ear.run(graph(("a", writes)), GIVEN)
    for values in ({"tok": {CANARY: 1}}, {"checked": f"{CANARY} blue"}, {"guarded": f"{CANARY}!"}, [CANARY]):
        try:
            runtime.update("t", values)
        except GraphrtError as error:
            ear.take(error)
    ear.read(runtime, "t")


def migrated(ear: Ear) -> None:
    old = ear.run(graph(("a", writes)), GIVEN).graph
    newer = graph(("a", writes), ("b", writes))
    for made in ({"tok": CANARY, "n": 1}, {"tok": {CANARY: 1}}, CANARY):
        step = Migration(source=old.fingerprint, values=lambda values, made=made: made)
        ear.run(newer, {"n": 1}, migrations=[step])


def retried(ear: Ear) -> None:
    g: GraphBuilder[Any, Any] = GraphBuilder(State)
    g.add_node("a", lambda s: {"tok": {CANARY: 1}}, on_error="b", retry=2)
    g.add_node("b", lambda s, ctx: {"notes": [str(ctx.error)]}).add_edge(START, "a")
    ear.run(g.compile(), GIVEN)


def limited(ear: Ear) -> None:
    ear.run(graph(("a", writes), ("b", writes), limits=Limits(max_steps=1)), GIVEN)
    child: CompiledGraph[Any, Any] = graph(("c", writes), ("d", writes), limits=Limits(max_steps=1), state=Plain)
    for state in (Plain, Data):
        g: GraphBuilder[Any, Any] = GraphBuilder(state)
        g.add_node("sub", child, on_error="after").add_node("after", lambda s: None).add_edge(START, "sub")
        ear.run(g.compile(), {"tok": CANARY}, thread=state.__name__)


def mapped(ear: Ear) -> None:
    child = graph(("c", writes))
    for option in ("input", "output"):
        g: GraphBuilder[Any, Any] = GraphBuilder(State)
        g.add_node("sub", child, **{option: lambda s: [s]}).add_edge(START, "sub")  # type: ignore[call-overload]
        ear.run(g.compile(), GIVEN, thread=option)


SCENES: dict[str, Callable[[Ear], Any]] = {
    **{name: lambda ear, given=given: ear.run(graph(("a", writes)), given) for name, given in BAD_INPUTS.items()},
    **{name: lambda ear, said=said: ear.run(graph(("a", lambda s: said)), GIVEN) for name, said in BAD_UPDATES.items()},
    "a run": lambda ear: ear.run(graph(("a", writes), ("b", lambda s: {"tok": s.tok + "2"})), GIVEN),
    "a run over a dataclass": lambda ear: ear.run(graph(("a", lambda s: {"tok": CANARY}), state=Data), {"tok": CANARY}),
    "a run over a TypedDict": lambda ear: ear.run(
        graph(("a", lambda s: {"tok": CANARY}), state=Plain), {"tok": CANARY}
    ),
    "a pause, a fork, an edit, a second run": whole_life,
    "a conflict": lambda ear: ear.run(parallel(("a", writes), ("b", writes)), GIVEN),
    "a failure beside a staged outcome": lambda ear: ear.run(parallel(("a", writes), ("b", lambda s: {"m": 1})), {}),
    "a change in place": lambda ear: ear.run(graph(("a", changes)), GIVEN),
    "a change of the same length": lambda ear: ear.run(graph(("a", swaps)), {"bag": ["x"]}, check_state=True),
    "an assignment": lambda ear: ear.run(graph(("a", assigns)), {}, check_state=True),
    "a router that returns the value": lambda ear: ear.run(routed(lambda s: s.tok), {}),
    "a router that returns the state": lambda ear: ear.run(routed(lambda s: s), {}),
    "a router that returns a list of it": lambda ear: ear.run(routed(lambda s: ["x", s.tok]), {}),
    "a limit": limited,
    "an edit that does not fit": bad_edit,
    "a migration": migrated,
    "a failure that is handled": retried,
    "a mapping of a nested graph": mapped,
}


@pytest.mark.parametrize("scene", SCENES)
def test_untracked_value_is_visible_nowhere_else(scene: str, world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ear = Ear(world)

    SCENES[scene](ear)

    assert ear.heard
    assert [text for found in ear.heard for text in tell(found) if CANARY in text] == []
    assert CANARY not in caplog.text


@pytest.mark.parametrize("scene", SCENES)
def test_untracked_value_is_in_no_file(scene: str, lite: World) -> None:
    SCENES[scene](Ear(lite))
    lite.store.close()

    left = b"".join(path.read_bytes() for path in lite.path.parent.iterdir())
    assert b"SQLite format 3" in left
    assert CANARY.encode() not in left


@pytest.mark.needs("cryptography")
@pytest.mark.parametrize("scene", SCENES)
def test_encrypted_store_receives_no_untracked_value(scene: str, lite: World) -> None:
    lite.store.close()
    lite.store = EncryptedStore(SqliteStore(lite.path), {"k": os.urandom(32)})
    ear = Ear(lite)

    SCENES[scene](ear)

    assert [text for found in ear.heard for text in tell(found) if CANARY in text] == []


def test_caller_and_nodes_have_the_untracked_value(world: World) -> None:
    seen: list[str] = []
    made = graph(("a", writes), ("b", lambda s: seen.append(s.tok)))
    runtime = world.runtime(made)

    items = list(runtime.stream({"tok": "first"}, modes=("updates", "values"), thread="t"))
    steps = list(runtime.steps({"tok": "second"}, thread="u"))
    result = runtime.run({"tok": "third"}, thread="v")

    assert ("updates", {"a": {"tok": CANARY, "bag": [CANARY], "n": 1}}) in items
    assert [item.tok for mode, item in items if mode == "values"][-1] == CANARY
    assert (steps[0].update or {})["tok"] == CANARY
    assert steps[0].before.tok == "second"
    assert result.state.tok == CANARY
    assert seen == [CANARY] * 3
