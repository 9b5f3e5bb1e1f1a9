"""Values that are not erased are unchanged, and the state is the fold of the remaining entries (decision 0129)."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrt import START, Erased, GraphBuilder, Overwrite, Runtime, reducers
from graphrt.reducers import add, append, first, merge, messages, union

GONE = Erased()


def joined(current: list[Any], incoming: list[Any]) -> list[Any]:
    """A reducer of the user, which is never called with an erased value."""
    assert current is not GONE
    assert incoming is not GONE
    assert GONE not in [*current, *incoming]
    return [*current, *incoming]


class State(TypedDict, total=False):
    last: Any
    items: Annotated[list[Any], append]
    row: Annotated[tuple[Any, ...], append]
    bag: Annotated[set[Any], union]
    talk: Annotated[list[Any], messages]
    listed: Annotated[list[Any], operator.add]
    total: Annotated[int, add]
    top: Annotated[int, reducers.max]
    once: Annotated[int, first]
    table: Annotated[dict[str, int], merge]
    mine: Annotated[list[Any], joined]


EMPTY: dict[str, Any] = {"items": [], "row": (), "bag": set(), "talk": [], "listed": [], "total": 0, "table": {}}
small = st.integers(0, 3)
lists = st.lists(small, min_size=1, max_size=2)
WRITES: dict[str, st.SearchStrategy[Any]] = {
    "last": small,
    "items": lists,
    "row": lists.map(tuple),
    "bag": lists.map(set),
    "talk": st.lists(st.builds(lambda key, text: {"id": key, "text": text}, small, small), min_size=1, max_size=2),
    "listed": lists,
    "total": small,
    "top": small,
    "once": small,
    "table": st.dictionaries(st.sampled_from("ab"), small, min_size=1),
    "mine": lists,
}
ITEMS = {"items", "row", "bag", "talk", "listed"}
one_write = st.sampled_from(sorted(WRITES)).flatmap(
    lambda name: st.tuples(st.just(name), WRITES[name], st.booleans(), st.integers(0, 9).map(lambda n: n == 0))
)
"""Field, value, whether it is erased, and whether it replaces earlier values."""


def graph() -> Any:
    g: Any = GraphBuilder(State, name="folds")
    g.add_node("rest", lambda _: None).add_edge(START, "rest")
    return g.compile()


def expected(writes: list[Any]) -> dict[str, Any]:
    """The state after the writes: the rules, one by one."""
    state: dict[str, Any] = {}
    for name, value, gone, whole in writes:
        known, before = name in state or name in EMPTY, state.get(name, EMPTY.get(name))
        if not gone and (whole or name == "last" or not known):
            state[name] = value
        elif name in ITEMS:
            state[name] = items(name, before, [GONE] if gone else value)
        elif name == "once" and name in state:
            pass
        elif gone or before is GONE:
            state[name] = GONE
        else:
            state[name] = {
                "total": lambda a, b: a + b,
                "top": max,
                "table": lambda a, b: {**a, **b},
                "mine": lambda a, b: [*a, *b],
            }[name](before, value)
    return state


def items(name: str, before: Any, more: Any) -> Any:
    match name:
        case "row":
            return (*before, *more)
        case "bag":
            return before | set(more)
        case "talk":
            found = list(before)
            for one in more:
                same = [n for n, old in enumerate(found) if GONE not in (old, one) and old["id"] == one["id"]]
                if same:
                    found[same[0]] = one
                else:
                    found.append(one)
            return found
        case _:
            return [*before, *more]


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(one_write, min_size=1, max_size=12), st.booleans())
def test_state_is_the_fold_of_the_remaining_entries(writes: list[Any], chain: bool) -> None:
    with Runtime(graph(), store="memory:", chain=chain) as runtime:
        runtime.run({}, thread="t")
        begin = runtime.store.head("t").seq  # type: ignore[union-attr]
        for name, value, _, whole in writes:
            runtime.update("t", {name: Overwrite(value) if whole else value})
        chosen = {begin + 1 + at for at, (_, _, gone, _) in enumerate(writes) if gone}
        before = list(runtime.entries("t"))
        report = runtime.erase(lambda _t, seq, field, _v: field is not None and seq in chosen)
        state = runtime.state("t").values

        assert report.lines == len(chosen)
        assert {name: state[name] for name in {name for name, *_ in writes}} == expected(writes)
        for entry, now in zip(before, runtime.entries("t"), strict=False):
            if now.seq in chosen:
                assert list(now.event.values.values()) == [GONE]  # type: ignore[union-attr]
            else:
                assert now.to_dict() == entry.to_dict()
        assert runtime.verify(replay=True).findings == ()
        assert runtime.state(runtime.fork("t")).values == state
        assert runtime.state(runtime.copy_thread("t")).values == state
        assert runtime.erase(lambda _t, seq, field, _v: field is not None and seq in chosen, threads=["t"]).lines == 0


@pytest.mark.parametrize("name", sorted(WRITES))
def test_write_of_the_whole_value_replaces_an_erased_one(name: str) -> None:
    value = {"row": (1,), "bag": {1}, "table": {"a": 1}}.get(name, [1] if name in ITEMS | {"mine"} else 1)
    with Runtime(graph(), store="memory:", chain=True) as runtime:
        runtime.update("t", {name: value})
        runtime.erase(("t", name))
        assert runtime.state("t").values[name] is GONE
        runtime.update("t", {name: Overwrite(value)})

        assert runtime.state("t").values[name] == value
