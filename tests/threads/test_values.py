"""Values of every storable kind through a real run, and back in another process; fields that are not stored."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions as te
from pydantic import BaseModel, ConfigDict

from graphrt import END, START, Limits, Overwrite, Runtime
from graphrt.errors import InputError, UpdateError
from graphrt.reducers import append, ephemeral, untracked
from graphrt.stores import open_store

from . import values_app
from .support import ask, builder, line, note, refused

HERE = Path(__file__).parent


def elsewhere(script: str, *arguments: str) -> str:
    """The output of *script* in another process."""
    path = os.pathsep.join([str(HERE), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(value: Any) -> str:
    """*value* as text; sets are sorted, because their order differs between processes."""
    return repr(sorted(value) if isinstance(value, (set, frozenset)) else value)


def test_values_of_every_kind_survive_the_process(lite):
    """Another process writes them and pauses; this one reads equal values and resumes."""
    script = """
import sys
import values_app
from graphrt import Runtime
with Runtime(values_app.graph(), store=sys.argv[1]) as runtime:
    print(runtime.run(values_app.INPUT, thread="t").status)
"""
    lite.store.close()
    assert elsewhere(script, lite.url).strip() == "interrupted"
    lite.store = open_store(lite.url)
    runtime = lite.runtime(values_app.graph())
    stored = runtime.state("t").values

    local = values_app.graph().run(values_app.INPUT, store="memory:").state
    for name in values_app.VALUES:
        theirs, ours = getattr(stored, name), getattr(local, name)
        # the classes of the other process are from its own module: their contents must be equal
        assert shown(theirs) == shown(ours), name
        assert type(theirs).__name__ == type(ours).__name__, name
    assert runtime.resume("t", "go").status == "completed"
    assert runtime.state("t").values.seen == sorted(values_app.VALUES)


def test_values_of_every_kind_survive_each_store(durable):
    runtime = durable.runtime(values_app.graph())
    runtime.run(values_app.INPUT, thread="t")
    stored = runtime.state("t").values

    for name, value in values_app.VALUES.items():
        assert getattr(stored, name) == value, name
        assert type(getattr(stored, name)) is type(value), name
    runtime.replay("t")
    assert durable.runtime(values_app.graph()).resume("t", "go").status == "completed"


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -0.0, 2**64, -(2**200), "\u0000", "é\u0301", b"\xff\x00", 1e-320, "", [], {}]
)
def test_unusual_values_are_stored_exactly(durable, value):
    runtime = durable.runtime(line(("a", lambda state: {"x": {"v": value}}), ("q", ask("q"))))
    runtime.run({"notes": [value], "y": (value, [value])}, thread="t")
    values = durable.runtime(runtime.graph).state("t").values

    for stored in (values["x"]["v"], values["notes"][0], values["y"][0], values["y"][1][0]):
        assert repr(stored) == repr(value)
        assert type(stored) is type(value)


class Odd:
    """A class that no store supports."""


class Holds(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    odd: Odd | None = None


def test_field_without_a_storable_value_is_refused_with_the_store():
    """Before any node, and therefore any model, has run."""
    graph = builder("holds", Holds).add_node("a", lambda state: {"odd": Odd()}).set_entry("a").compile()

    error = refused("not-storable", lambda: Runtime(graph, store="memory:"), "'odd' of Holds", "register_type(Odd, ")
    refused("not-storable", lambda: Runtime(graph).with_store("memory:"))

    assert isinstance(error, InputError)
    assert isinstance(graph.run({}).state.odd, Odd)


def test_field_of_a_nested_graph_without_a_storable_value_is_refused():
    inner = builder("inner", Holds).add_node("a", lambda state: None).set_entry("a").compile()
    outer = builder(name="outer").add_node("child", inner, input={}, output={}).set_entry("child").compile()

    refused("not-storable", lambda: Runtime(outer, store="memory:"), "'odd' of Holds")


def test_untracked_field_may_hold_anything():
    class Tracked(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        odd: Annotated[Odd | None, untracked] = None

    graph = builder("free", Tracked).add_node("a", lambda state: {"odd": Odd()}).set_entry("a").compile()

    assert isinstance(Runtime(graph, store="memory:").run({}).state.odd, Odd)


def cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> Any:
    made: Any = 0
    for _ in range(50_000):
        made = [made]
    return made


def unstorable() -> dict[str, Any]:
    import threading

    return {
        "a lone surrogate": "half \ud800",
        "a cycle": cycle(),
        "50,000 levels": deep(),
        "a lock": threading.Lock(),
        "an unknown class": Odd(),
        "a function": unstorable,
        "a class": Odd,
        "a generator": (n for n in ()),
        "a key that is no text": {Odd(): 1},
    }


@pytest.mark.parametrize("name", list(unstorable()))
@pytest.mark.parametrize("through", ["update", "input", "answer", "effect", "interrupt", "edit", "send"])
def test_unstorable_value_is_refused_and_the_thread_continues(local, name, through):
    """It is refused on entry, before the next superstep; none of it is stored, and a good value passes."""
    value = [unstorable()[name]]

    def node(state, ctx):
        given = value[0] if value else "good"
        match through:
            case "update":
                return {"x": {"in": [given]}}
            case "effect":
                return {"y": str(type(ctx.effect("e", lambda: given)))}
            case "interrupt":
                return {"y": str(type(ctx.interrupt(given)))}
            case _:
                return {"y": ctx.interrupt("?")}

    g = builder()
    g.add_node("a", note("a"))
    g.add_node("node", node)
    g.add_node("sent", lambda state, ctx: {"y": "sent"})
    g.add_edge(START, "a")
    g.add_edge("a", "node")
    from graphrt import Send

    g.add_conditional_edges(
        "node", lambda state: [Send("sent", value[0] if value and through == "send" else 1)], ["sent"]
    )
    g.add_edge("sent", END)
    runtime = local.runtime(g.compile())
    if through == "input":
        refused(
            "not-storable", lambda: runtime.run({"notes": [], "x": value[0]}, thread="t"), "x", "nothing was stored"
        )
        assert runtime.threads() == ()
    elif through in ("update", "effect", "interrupt"):
        refused("not-storable", lambda: runtime.run({"notes": []}, thread="t"), "'node'", error=UpdateError)
        assert runtime.state("t").values["notes"] == ["a"]
    else:
        runtime.run({"notes": []}, thread="t")
        seq = runtime.state("t").seq
        if through == "answer":
            refused("not-storable", lambda: runtime.resume("t", answer=value[0]), "nothing was stored")
            assert runtime.state("t").seq == seq
        elif through == "edit":
            refused("not-storable", lambda: runtime.update("t", {"x": value[0]}), "nothing was stored")
            assert runtime.state("t").seq == seq
        else:
            refused("not-storable", lambda: runtime.resume("t", 1), "'sent'", error=UpdateError)
            assert runtime.state("t").values["notes"] == ["a"]
    value.clear()
    match runtime.threads():
        case ():
            result = runtime.run({"notes": []}, thread="t")
        case (info,) if info.status == "failed":
            result = runtime.retry("t")
        case _:
            result = runtime.resume("t", "fine")
    if result.status == "interrupted":
        result = runtime.resume("t", "fine")
    assert result.status == "completed"
    runtime.replay("t")


@pytest.mark.parametrize("name", ["a cycle", "50,000 levels", "a lock", "a lone surrogate"])
def test_untracked_fields_accept_unstorable_values(local, name):
    class State(te.TypedDict, total=False):
        notes: Annotated[list[str], append]
        x: Annotated[Any, untracked]

    runtime = local.runtime(
        line(("a", lambda state: {"x": unstorable()[name]}), ("b", lambda state: {"notes": ["b"]}), state=State)
    )

    assert type(runtime.run({"notes": []}, thread="t").state["x"]) is type(unstorable()[name])
    assert len(runtime.history("t")) == 3
    assert runtime.state(runtime.fork("t")).status == "completed"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([1, {"a": [Odd()]}], "x[1].a[0]"),
        ({"a": {"$t": "list", "v": Odd()}}, "x.a.v"),
        ([*range(30), Odd()], "x[30]"),
        ({"a": "half \ud800"}, "x.a"),
    ],
)
def test_unstorable_value_is_located_at_any_depth(local, value, path):
    """Beside other fields, and with several tasks."""
    g = builder()
    g.add_node("a", lambda state: {"y": "fine", "x": value})
    g.add_node("b", note("b"))
    g.add_edge(START, "a").add_edge(START, "b").add_edge("a", END).add_edge("b", END)
    runtime = local.runtime(g.compile())

    refused("not-storable", lambda: runtime.run({"notes": []}, thread="t"), "'a'", f"at {path}:", error=UpdateError)


@pytest.mark.slow
def test_large_value_is_stored_exactly_and_once(durable):
    """By content: the same 20 MB in two fields, an answer and an edit are stored once."""
    big = "x" * 20_000_000
    graph = line(("a", lambda state: {"x": big}), ("q", ask("q")))
    runtime = durable.runtime(graph, limits=Limits(max_input_bytes=32_000_000))
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"y": big})
    runtime.resume("t", "ok")

    values = durable.runtime(runtime.graph).state("t").values
    assert values["x"] == values["y"] == big
    if durable.path.exists():
        assert sum(file.stat().st_size for file in durable.path.parent.iterdir()) < 85_000_000
    fork = runtime.fork("t")
    runtime.delete_thread("t")
    assert runtime.state(fork).values["x"] == big


class Fading(te.TypedDict, total=False):
    notes: Annotated[list[Any], append]
    brief: Annotated[str, ephemeral]
    secret: Annotated[Any, untracked]


def fading():
    g = builder("fading", Fading)
    g.add_node("a", lambda state: {"brief": "for b", "secret": object(), "notes": ["a"]})
    g.add_node("b", lambda state, ctx: {"notes": [state.get("brief"), "secret" in state, ctx.interrupt("?")]})
    g.add_node("c", lambda state: {"notes": [state.get("brief")]})
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    g.add_edge("b", "c")
    g.add_edge("c", END)
    return g.compile()


def test_appending_to_an_overwritten_list_does_not_change_the_entry(world):
    """Folding extends lists in place: the list of the entry must not be one of them."""
    graph = line(
        ("a", note("a")), ("new", lambda state: {"notes": Overwrite(["new"])}), ("b", note("b")), ("q", ask("q"))
    )
    world.runtime(graph).run({"notes": []}, thread="t")
    for _ in range(3):
        shown = [snapshot.values["notes"] for snapshot in world.runtime(graph).history("t")]

    assert [*dict.fromkeys(map(tuple, shown))] == [("new", "b"), ("new",), ("a",), ()]
    assert world.runtime(graph).replay("t").values["notes"] == ["new", "b"]
    assert world.runtime(graph).resume("t", "c").state["notes"] == ["new", "b", "q=c"]


def test_ephemeral_fields_are_seen_once_also_after_a_resume(world):
    runtime = world.runtime(fading())
    runtime.run({"notes": []}, thread="t")
    assert world.runtime(fading()).state("t").values.get("brief") == "for b"
    result = world.runtime(fading()).resume("t", "yes")

    assert result.state["notes"][1] == "for b"
    assert result.state["notes"][3:] == ["yes", None]
    runtime.replay("t")


def test_untracked_fields_have_their_default_after_a_resume(world):
    runtime = world.runtime(fading())
    runtime.run({"notes": []}, thread="t")
    result = world.runtime(fading()).resume("t", "yes")

    assert result.state["notes"][2] is False
    assert "secret" not in result.state
    assert all("object object" not in str(entry.to_dict()) for entry in runtime.entries("t"))


def test_event_loop_is_not_blocked_by_a_durable_store(durable):
    """Other tasks get their turn while a run with async nodes stores its commits."""

    async def node(state):
        await asyncio.sleep(0)
        return {"notes": [1]}

    async def go():
        turns = 0
        done = asyncio.Event()

        async def other():
            nonlocal turns
            while not done.is_set():
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        await durable.runtime(line(*((name, node) for name in "abcdef"))).arun({"notes": []}, thread="t")
        done.set()
        await beside
        return turns

    assert asyncio.run(go()) > 6
